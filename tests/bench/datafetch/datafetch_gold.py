"""Exact-cell accuracy of datafetch on the gold questions, without any model, next to a plain name-and-date lookup.

The service is the real servicer in this process: a question goes in as a ``QueryRequest``, and what is judged are the
Arrow streams that it stored. Needs the bundled tables (``make data``). ``python -m tests.bench.datafetch.datafetch_gold`` runs
it alone.
"""

from __future__ import annotations

import asyncio
import io
import re
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core import errors
from fathom.core.call import Call
from fathom.core.telemetry import Telemetry
from fathom.domain import frames
from fathom.hosting.deps import Deps
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.server import build
from fathom.transport.bus import open_bus
from fathom.transport.store import ObjectStore, open_store
from tests.bench.datafetch.datafetch_scoring import Answer, Given, Lack, Verdict, judge
from tests.golden.datafetch.oracle import Oracle
from tests.golden.datafetch.schema import FRESH, HELD, LATE, Question, load_names, load_questions

TABLES = Path(".fathom/data/tables")
REASON = "MISSING_REASON_"
Ask = Callable[[Question], Awaitable[Answer]]


async def run() -> None:
    """Prints accuracy by class, latency and every fault, of each set. The head of a set's file says what it first had."""
    for path in (None, HELD, LATE, *FRESH):
        questions = load_questions() if path is None else load_questions(path)
        print(f"-- {path.name if path else 'questions.yaml'}")
        await measure(questions)


async def measure(questions: list[Question], faults: bool = True) -> None:
    """One set of questions."""
    oracle, names = Oracle(TABLES), [entity.folded_names for entity in load_names().entities]
    verdicts: dict[str, list[Verdict]] = {}
    taken: dict[str, list[float]] = {}
    async with service(TABLES) as (servicer, store):
        contenders: dict[str, Ask] = {
            "datafetch": lambda question: ask(servicer, store, question),
            "plain lookup": PlainLookup(oracle).ask,
        }
        for name, contender in contenders.items():
            verdicts[name], taken[name] = await grade_questions(contender, questions, oracle, names)
    oracle.close()
    report(questions, verdicts, taken)
    for verdict in verdicts["datafetch"] if faults else ():
        if not verdict.right:
            print(f"  {verdict.question.id}: {verdict.question.ask}\n    {'; '.join(verdict.faults)[:300]}")


async def grade_questions(
    contender: Ask, questions: Iterable[Question], oracle: Oracle, names: list[set[str]]
) -> tuple[list[Verdict], list[float]]:
    """Return a verdict and the seconds taken per question."""
    verdicts, taken = [], []
    for question in questions:
        columns = [[(point.day, point.value) for point in oracle.range(wanted)] for wanted in question.ranges]
        computed = [oracle.compute(made) for made in question.computed]
        started = time.perf_counter()
        answer = await contender(question)
        taken.append(time.perf_counter() - started)
        verdicts.append(judge(question, answer, columns, names, computed))
    return verdicts, taken


def report(questions: list[Question], verdicts: dict[str, list[Verdict]], taken: dict[str, list[float]]) -> None:
    ours, base = verdicts["datafetch"], verdicts["plain lookup"]
    right = {name: Counter(v.question.kind for v in found if v.right) for name, found in verdicts.items()}
    print(f"{'class':<12}{'n':>5}{'datafetch':>11}{'plain lookup':>14}")
    for kind, n in Counter(question.kind for question in questions).items():
        print(f"{kind:<12}{n:>5}{right['datafetch'][kind] / n:>11.1%}{right['plain lookup'][kind] / n:>14.1%}")
    accuracy, floor = (sum(v.right for v in found) / len(found) for found in (ours, base))
    print(f"{'all':<12}{len(questions):>5}{accuracy:>11.1%}{floor:>14.1%}   ratio {accuracy / max(floor, 1e-9):.2f}")
    seconds = sorted(taken["datafetch"])
    print(f"Query p50 {statistics.median(seconds) * 1e3:.1f} ms, p99 {seconds[int(len(seconds) * 0.99)] * 1e3:.1f} ms")


@asynccontextmanager
async def service(tables: Path, **settings: Any) -> AsyncIterator[tuple[Any, ObjectStore]]:
    """The warm servicer of datafetch and the store that it writes to."""
    store = open_store("memory://")
    telemetry = Telemetry("bench", log_level="error", stream=io.StringIO())
    bus = await open_bus("memory://", store)
    made = build(
        Config.model_validate({"data_dir": tables, **settings}), Deps(Clients({}, telemetry), store, bus, telemetry)
    )
    await made.warm_up()
    try:
        yield made.servicer, store
    finally:
        await made.close()
        await bus.close()


async def ask(servicer: Any, store: ObjectStore, question: Question) -> Answer:
    """Asks over the RPC; a refused request is an answer whose missing item has the error's reason."""
    request = pb.QueryRequest(request_id=f"gold-{question.id}", question=question.ask)
    if question.as_of is not None:
        end_of_day = datetime.combine(question.as_of, datetime.min.time(), UTC) + timedelta(days=1)
        request.as_of.FromDatetime(end_of_day.replace(tzinfo=None))
    try:
        response = await servicer.Query(request, Call.new())
    except errors.FathomError as error:
        return Answer(missing=(Lack(error.metadata.get("field", ""), error.reason, error.message),))
    columns = [given for sheet in response.sheets for given in given_columns(sheet, await store.get(sheet.data.key))]
    missing = [Lack(m.subject, reason(m), m.detail) for m in response.missing]
    return Answer(tuple(columns), tuple(missing))


def reason(item: Any) -> str:
    """The reason's name without its prefix."""
    name: str = type(item).DESCRIPTOR.fields_by_name["reason"].enum_type.values_by_number[item.reason].name
    return name.removeprefix(REASON)


def given_columns(sheet: pb.Sheet, data: bytes) -> list[Given]:
    """The columns of a sheet that hold numbers."""
    frame = frames.to_frame(frames.decode_table(data, sheet.data.content_type, sheet.id))
    days = [day.date() for day in frame["date"]] if "date" in frame else [None] * len(frame)
    return [
        Given(
            column.entity,
            column.indicator,
            column.unit,
            column.formula,
            points(days, frame[column.name]),
            inputs=tuple(getattr(column, "inputs", ())),
        )
        for column in sheet.columns
        if column.indicator
    ]


def points(days: list[date | None], values: Any) -> tuple[tuple[date | None, float], ...]:
    return tuple((day, float(value)) for day, value in zip(days, values, strict=True) if value == value)


class PlainLookup:
    """The baseline: the longest entity and indicator names it knows, an ISO day or a year, and the last value."""

    def __init__(self, oracle: Oracle) -> None:
        names = load_names()
        self._oracle = oracle
        self._kinds = {entity.id: entity.kind for entity in names.entities}
        self._entities = {name: entity.id for entity in names.entities for name in entity.folded_names}
        self._indicators = {name: indicator.id for indicator in names.indicators for name in indicator.folded_names}

    async def ask(self, question: Question) -> Answer:
        text = question.ask.casefold()
        entity = longest(self._entities, text)
        indicator = longest(self._indicators, text) or "close_adj"
        if entity is not None and self._kinds[entity] == "currency":
            indicator = "eur_rate"
        owner = entity if indicator in ("close_adj", "eur_rate") else "US"
        if owner is None:
            return Answer(missing=(Lack(question.ask, "NO_MATCH"),))
        series = f"{owner}.{indicator}"
        found = self._oracle.column(series, *plain_period(text))[-1:]
        if not found:
            return Answer(missing=(Lack(owner, "NO_DATA_IN_PERIOD"),))
        points = tuple((point.day, point.value) for point in found)
        return Answer((Given(owner, indicator, self._oracle.unit(series), "", points),))


def longest(names: dict[str, str], text: str) -> str | None:
    return next((names[name] for name in sorted(names, key=len, reverse=True) if name in text), None)


def plain_period(text: str) -> tuple[date, date]:
    """An ISO day, or a year, or everything."""
    if day := re.search(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return date.fromisoformat(day.group()), date.fromisoformat(day.group())
        except ValueError:
            return date.min, date.max
    years = [int(year) for year in re.findall(r"(?<!\d)(?:19|20)\d{2}(?!\d)", text)]
    return (date(min(years), 1, 1), date(max(years), 12, 31)) if years else (date.min, date.max)


if __name__ == "__main__":
    asyncio.run(run())
