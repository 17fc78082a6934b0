"""The material of the planted set: real sheets of datafetch, real news of the bundle, cells that really ran."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.planner.v1.trajectory_pb2 import CodeRecord
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.core.call import Call
from fathom.domain import frames
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref
from tests.bench.datafetch.datafetch_gold import TABLES, service

CORPUS = Path(".fathom/data/corpus/documents.jsonl")

QUESTIONS = {
    "prices": "Adjusted close of Apple and Microsoft from 2015 to 2020",
    "macro": "US unemployment rate and CPI inflation 2007 to 2009",
    "funds": "federal funds rate 2006 to 2010",
    "gdp": "quarterly US real GDP 2000 to 2010",
    "payrolls": "US nonfarm payrolls 2020",
    "sp500": "S&P 500 2008",
}
CELL = """
import json

def summary(label, s):
    fall = s / s.cummax() - 1
    trough = fall.idxmin()
    return {"label": label, "start": str(s.index[0].date()), "end": str(s.index[-1].date()),
            "first": round(float(s.iloc[0]), 2), "last": round(float(s.iloc[-1]), 2),
            "return_pct": round(float(s.iloc[-1] / s.iloc[0] - 1) * 100, 1),
            "drawdown_pct": round(float(fall[trough]) * 100, 1),
            "peak": str(s[:trough].idxmax().date()), "trough": str(trough.date()),
            "volatility_pct": round(float(s.pct_change().std() * 252 ** 0.5) * 100, 1)}

prices = sheet_1.set_index("date")
for column in prices:
    print(json.dumps(summary(column.split(".")[0], prices[column])))
"""
NEWS = ("news-171", "news-087", "news-180", "news-245", "news-102", "news-261", "news-043")


class Shelf(NamedTuple):
    """All the material of the set: 1 to 6 sheets in the order of ``QUESTIONS``, 7 the cell, 8 on the news."""

    material: tuple[Material, ...]
    store: ObjectStore
    servicer: Any


@asynccontextmanager
async def shelf(tables: Path = TABLES, corpus: Path = CORPUS) -> AsyncIterator[Shelf]:
    """Fetches the sheets, runs the cell on the first, reads the news."""
    async with service(tables) as (servicer, store):
        material: list[Material] = []
        for name, question in QUESTIONS.items():
            response = await servicer.Query(data.QueryRequest(question=question), Call.new())
            assert len(response.sheets) == 1, f"{name}: {len(response.sheets)} sheets"
            number = len(material) + 1
            material.append(Material(number, MaterialKind.SHEET, response.sheets[0], f"sheet_{number}"))
        sheet = material[0].item
        table = frames.decode_table(await read_ref(store, sheet.data), sheet.data.content_type)
        material.append(Material(len(material) + 1, MaterialKind.CODE, ran(CELL, {"sheet_1": frames.to_frame(table)})))
        documents = {record["id"]: record for record in map(json.loads, corpus.read_text("utf-8").splitlines())}  # noqa: ASYNC240
        for name in NEWS:
            material.append(Material(len(material) + 1, MaterialKind.PASSAGE, document(documents[name])))
        yield Shelf(tuple(material), store, servicer)


def ran(code: str, variables: dict[str, Any]) -> CodeRecord:
    """The record of a cell of this file, run here."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "cell", "exec"), dict(variables))
    return CodeRecord(id="call_7", code=code, stdout=printed.getvalue(), ok=True)


def document(record: dict[str, Any]) -> Document:
    """A document of the bundle as ``fetch`` gives it."""
    made = Document(
        id=record["id"], title=record["title"], text=record["text"], source=record["source"], type=record["type"]
    )
    if record["published"]:
        made.publish_time.FromJsonString(f"{record['published'][:10]}T00:00:00Z")
    return made
