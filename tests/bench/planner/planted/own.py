"""The material that a case of claims brings along: tables of the bundled data or of its author, and passages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.core.call import Call
from fathom.domain import frames
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref, to_ref
from tests.golden.blind.schema import ClaimColumn, ClaimItem

DATE = "date"


class OwnMaterial:
    """Maker of material out of a running datafetch and its store."""

    def __init__(self, servicer: Any, store: ObjectStore) -> None:
        self._servicer, self.store = servicer, store

    async def make(self, items: Sequence[ClaimItem], first: int = 1) -> tuple[Material, ...]:
        """Return the items as materials, numbered from 1 as the case cites them, or from another number."""
        return tuple([await self._make_item(number, item) for number, item in enumerate(items, first)])

    async def _make_item(self, number: int, item: ClaimItem) -> Material:
        if item.passage:
            document = Document(id=f"own_{number}", title=item.title, text=item.passage, source="own", type="news")
            if item.published:
                document.publish_time.FromJsonString(f"{item.published}T00:00:00Z")
            return Material(number, MaterialKind.PASSAGE, document)
        made = [await self._make_column(column) for column in item.columns]
        frame = pd.concat([values for _, values, _ in made], axis=1).sort_index()
        table = pa.Table.from_pandas(frame.rename_axis(DATE).reset_index(), preserve_index=False)
        # As datafetch does: names in the order of the columns, then what is measured.
        listed = [list(dict.fromkeys(titles)) for titles in zip(*(title for _, _, title in made), strict=True)]
        title = item.title or f"{', '.join(listed[0])}: {', '.join(listed[1])}"
        columns = [data.Column(name=DATE, type="date"), *(column for column, _, _ in made)]
        content = frames.write_parquet(table)
        key = hashlib.sha256(content).hexdigest()
        stored = to_ref(await self.store.put(f"own/{key}", content, frames.PARQUET))
        digest = frames.digest(frames.to_frame(table), f"sheet_{number}")
        sheet = data.Sheet(id=key, title=title, columns=columns, rows=table.num_rows, data=stored, digest=digest)
        return Material(number, MaterialKind.SHEET, sheet, f"sheet_{number}")

    async def _make_column(self, column: ClaimColumn) -> tuple[data.Column, pd.Series[float], tuple[str, str]]:
        """Return a column with its values by day, and how a title names its entity and its measure."""
        if not column.values:
            return await self._fetch_column(column)
        names, measures = column.entity_names or (column.entity,), column.measure_names or (column.entity,)
        name = f"{column.entity}.{measures[0]}"
        made = data.Column(
            name=name, type="double", unit=column.unit, indicator=measures[0], entity=column.entity,
            entity_names=names, indicator_names=measures, adverse=column.adverse,
        )  # fmt: skip
        return made, pd.Series(column.values, name=name, dtype="float64"), (names[0], measures[0])

    async def _fetch_column(self, column: ClaimColumn) -> tuple[data.Column, pd.Series[float], tuple[str, str]]:
        query = data.TypedQuery(
            entities=[column.entity], indicators=[column.indicator], start_date=column.first, end_date=column.last
        )
        response = await self._servicer.Query(data.QueryRequest(typed=query), Call.new())
        if len(response.sheets) != 1:
            raise ValueError(f"{column.entity} {column.indicator} {column.first}: {len(response.sheets)} sheets")
        sheet = response.sheets[0]
        table = frames.decode_table(await read_ref(self.store, sheet.data), sheet.data.content_type)
        frame = frames.to_frame(table)
        shown = next(one for one in sheet.columns if one.indicator == column.indicator)
        days = [day.date() for day in pd.to_datetime(frame[DATE])]
        # Markets close for days, and a quarter ends up to three months behind the day that an author names.
        pause = max(timedelta(days=6), days[1] - days[0] if len(days) > 1 else timedelta())
        if column.first and days[0] > date.fromisoformat(column.first) + pause:
            raise ValueError(f"{column.entity} {column.indicator} begins on {days[0]}")
        entity, _, measured = sheet.title.partition(":")
        values = pd.Series(frame[shown.name].to_numpy(), index=days, name=shown.name)
        return shown, values, (entity, measured.partition(",")[0].strip())
