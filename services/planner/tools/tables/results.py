"""Tables that a cell showed, stored as sheets with units and sources as far as they are known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.clients import Clients
from fathom.core.errors import FathomError, InvalidField
from fathom.core.ids import sha256
from fathom.domain import frames
from fathom.services.planner.tools.tables.lineage import name_result
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref, to_ref

TABLE = "application/vnd.fathom.table+json"
# As the sandbox limits its tables; a worker that ignores this gets a message instead of a sheet.
MAX_TABLE_BYTES = 5 * 1024 * 1024
# The model reads every sheet's columns in each request of a long run.
MAX_RESULTS = 40
# Columns are compared with those of the sheets they may come from; larger sheets take too long to read.
MAX_COMPARED_CELLS = 1_000_000
# Arrow types by the types of a shown table.
TYPES = {
    "number": "double",
    "integer": "int64",
    "boolean": "bool",
    "date": "date32",
    "time": "timestamp[us]",
    "text": "string",
}


@dataclass(frozen=True)
class ShownTable:
    """A table as a cell showed it: an Arrow table, its title, the units of its columns."""

    table: Any
    title: str
    units: Mapping[str, str]
    is_result: bool
    """True for the value of the cell's last expression, whose text the cell's result has."""
    convention: str = ""
    """Convention by which the finance library computed it, in one sentence."""


@dataclass(frozen=True)
class ResultTables:
    """Import of shown tables through datafetch; equal tables get the same sheet."""

    clients: Clients
    store: ObjectStore
    run_id: str
    timeout_s: float

    async def keep(
        self, events: Sequence[sandbox.ExecuteResponse], call_id: str, code: str, inputs: Sequence[pb.Sheet], room: int
    ) -> tuple[list[tuple[pb.Sheet, bool]], list[str]]:
        """Store the tables among a cell's displays; return (sheet, is the cell's result) and why others are not kept.

        ``inputs`` are the sheets that the cell read, ``room`` is how many sheets the run may still get.
        """
        kept: list[tuple[pb.Sheet, bool]] = []
        refused: list[str] = []
        known: list[tuple[pb.Sheet, Any]] | None = None
        for place, event in enumerate(event for event in events if is_table(event)):
            if len(kept) >= room:
                refused.append(f"a run keeps at most {MAX_RESULTS} tables of results")
                break
            try:
                shown = read_shown_table(event.display.data or await read_ref(self.store, event.display.ref))
                known = await self._load_inputs(inputs) if known is None else known
                title = shown.title or make_title(code, shown)
                kept.append((await self._import(shown, title, f"{call_id}-table-{place}", known), shown.is_result))
            # The cell itself has succeeded, and its printed text is there: the model is told, the call does not fail.
            except FathomError as error:
                refused.append(error.message)
        return kept, refused

    async def _load_inputs(self, inputs: Sequence[pb.Sheet]) -> list[tuple[pb.Sheet, Any]]:
        loaded: list[tuple[pb.Sheet, Any]] = []
        for sheet in inputs:
            table = None
            if sheet.rows * len(sheet.columns) <= MAX_COMPARED_CELLS:
                stored = await read_ref(self.store, sheet.data)
                table = frames.decode_table(stored, sheet.data.content_type, sheet.id)
            loaded.append((sheet, table))
        return loaded

    async def _import(
        self, shown: ShownTable, title: str, request_id: str, inputs: Sequence[tuple[pb.Sheet, Any]]
    ) -> pb.Sheet:
        data = frames.write_table(shown.table)
        key = f"results/{self.run_id}/{sha256(data)}.arrow"
        stored = await self.store.put(key, data, frames.ARROW_STREAM)
        request = pb.ImportTableRequest(request_id=request_id, title=title, data=to_ref(stored))
        response = await self.clients.datafetch.import_table(request, timeout_s=self.timeout_s)
        # Datafetch keeps a copy of its own, under the name of the content.
        await self.store.delete(key)
        sheet = response.sheet
        describe_columns(sheet, shown, inputs)
        return sheet


def is_table(event: sandbox.ExecuteResponse) -> bool:
    """Return whether an event of a cell is a table."""
    return event.HasField("display") and event.display.media_type == TABLE


def read_shown_table(data: bytes) -> ShownTable:
    """Read a shown table; raise ``InvalidField("table")`` for a wrong shape, size or value."""
    if len(data) > MAX_TABLE_BYTES:
        raise InvalidField("table", f"{len(data):,} bytes are over the limit of {MAX_TABLE_BYTES:,}")
    pa = frames.arrow()
    try:
        content = json.loads(data)
        names = [str(column["name"]) for column in content["columns"]]
        arrays = [make_array(pa, column["type"], column["values"]) for column in content["columns"]]
        table = pa.table(arrays, names=names)
        units = {str(name): str(unit) for name, unit in content["units"].items()}
        convention = str(content.get("convention", ""))
        return ShownTable(table, str(content["title"]), units, bool(content["is_result"]), convention)
    # A cell can claim any bytes to be a table, and pyarrow has errors of its own for values of another type.
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise InvalidField("table", f"cannot be read: {type(error).__name__}: {str(error)[:200]}") from error


def make_array(pa: Any, kind: str, values: list[Any]) -> Any:
    """Return a column; raise ``KeyError`` for an unknown type, ``ValueError`` and ``TypeError`` for other values."""
    if kind == "date":
        values = [None if value is None else date.fromisoformat(value) for value in values]
    elif kind == "time":
        values = [None if value is None else datetime.fromisoformat(value) for value in values]
    return pa.array(values, pa.type_for_alias(TYPES[kind]))


def make_title(code: str, shown: ShownTable) -> str:
    """Return a title for a table without one: what the cell calls it, or else its columns."""
    columns = ", ".join(shown.table.column_names[:4]) + (", …" if shown.table.num_columns > 4 else "")
    name = name_result(code)
    return f"{name[:1].upper()}{name[1:]}: {columns}" if name else f"Result: {columns}"


def describe_columns(sheet: pb.Sheet, shown: ShownTable, inputs: Sequence[tuple[pb.Sheet, Any]]) -> None:
    """Fill in the columns' units, entities and sources from what the cell said and from the sheets that it read.

    A column has the unit and the entity of a read one only if it has its name and no other values. Source and last date
    of what was computed are those of all sheets read.
    """
    read = [column for item, _ in inputs for column in item.columns]
    sources = ", ".join(dict.fromkeys(column.source for column in read if column.source))
    vendors = ", ".join(dict.fromkeys(column.vendor for column in read if column.vendor))
    as_of = max((column.as_of for column in read if column.as_of), default="")
    for column in sheet.columns:
        column.source, column.vendor, column.as_of = sources, vendors, as_of
        origin = find_origin(column.name, shown.table, inputs)
        if origin is not None:
            column.unit, column.entity, column.indicator = origin.unit, origin.entity, origin.indicator
        column.unit = shown.units.get(column.name, column.unit)
        if shown.convention and origin is None and column.type in ("double", "int64"):
            column.formula = shown.convention


def find_origin(name: str, table: Any, inputs: Sequence[tuple[pb.Sheet, Any]]) -> pb.Column | None:
    """Return the read column of this name whose values include all of the table's; None when there is none."""
    for sheet, known in inputs:
        fact = next((column for column in sheet.columns if column.name == name), None)
        if fact is None or known is None or name not in known.column_names:
            continue
        values = {value for value in table.column(name).to_pylist() if value is not None}
        if values and values <= set(known.column(name).to_pylist()):
            return fact
    return None
