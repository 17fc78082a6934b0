"""Tool ``data``: turns a typed query or a question into sheets of the run's Python session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp
from prometheus_client import Histogram

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.domain.programs.resolved import ProgramSeries, ResolvedProgram
from fathom.services.planner.tools.data.sheets import make_sheets_reply
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tool import NumberedReply, Reply, make_schema

FREQUENCIES = {
    "daily": pb.FREQUENCY_DAILY,
    "weekly": pb.FREQUENCY_WEEKLY,
    "monthly": pb.FREQUENCY_MONTHLY,
    "quarterly": pb.FREQUENCY_QUARTERLY,
    "annual": pb.FREQUENCY_ANNUAL,
}
TRANSFORMS = {
    "yoy": pb.TRANSFORM_YOY,
    "qoq": pb.TRANSFORM_QOQ,
    "mom": pb.TRANSFORM_MOM,
    "change": pb.TRANSFORM_CHANGE,
    "ytd": pb.TRANSFORM_YTD,
    "ttm": pb.TRANSFORM_TTM,
    "single": pb.TRANSFORM_SINGLE,
    "running": pb.TRANSFORM_RUNNING,
}
NAMES = {"type": "array", "items": {"type": "string"}, "maxItems": 50}
DAY = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
FILTER = {
    "type": "object",
    "properties": {
        "indicator": {"type": "string"},
        "operator": {"enum": ["<", "<=", "=", "!=", ">=", ">"]},
        "value": {"type": "number"},
    },
    "required": ["indicator", "operator", "value"],
    "additionalProperties": False,
}
# As many earlier questions as datafetch takes, and of what length.
MAX_EARLIER, MAX_QUESTION_CHARS = 3, 2_000
# As many of the user's own tables.
MAX_SHEETS = 16
UPLOAD = "upload"
# How the types of columns of dates begin.
DATES = ("date", "timestamp")
# Arguments that say of what a typed query is; the others only refine it.
SUBJECTS = ("entities", "indicators", "entity_kind")

ReadAsked = Callable[[str, Sequence[pb.Mention]], Awaitable[Sequence[Sequence[str]]]]
ListParts = Callable[[str, Sequence[pb.Mention]], Sequence[str]]


@dataclass(frozen=True)
class Data:
    """Data retrieval; each table becomes a variable ``sheet_n`` of the session."""

    clients: Clients
    session: Session
    as_of: Timestamp | None
    timeout_s: float
    digests: Histogram | None = None
    """Histogram of compression ratios."""
    read_asked: ReadAsked | None = None
    """Says what the clauses of a question ask for, each as measure, words and premise; None leaves that out."""
    turns: Sequence[str] = ()
    """Questions from which the program of the run's question is read, that one last: see ``list_questions``."""
    whole: str = ""
    """The run's question with what it takes from the turns before; other questions stand for themselves."""
    vendors_off: Sequence[str] = ()
    """Vendors that are not asked for what the tables lack."""
    list_parts: ListParts | None = None
    """Says which parts a question for a report has, each as a question; None leaves that out."""

    name: ClassVar[str] = "data"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Fetches numbers as tables: name entities, indicators and dates, with ids from `catalogue`; only if that is not"
        " possible ask a question in words. The whole table is then in Python and in `sql` as sheet_1, sheet_2, …; you"
        " see its first and last rows, its columns with their units, and what is missing."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        [],
        entities={**NAMES, "description": "Names or ids, e.g. AAPL; none for US statistics."},
        indicators={**NAMES, "description": "Names or ids, e.g. close_adj, or a formula of ids, e.g. gs10 - gs2."},
        start_date={**DAY, "description": "First day, YYYY-MM-DD."},
        end_date={**DAY, "description": "Last day, YYYY-MM-DD."},
        frequency={
            "enum": list(FREQUENCIES),
            "description": "Resamples: the last value of each period, sums or means where the indicator is one.",
        },
        include_previous={
            "type": "boolean",
            "description": "Also the last row before start_date: the base of the return of the first period.",
        },
        transform={
            "enum": list(TRANSFORMS),
            "description": "yoy, qoq, mom: rate of change, a fraction unless unit is % or bp; change: difference from"
            " a year before; ytd, ttm, single, running: sums of flows.",
        },
        entity_kind={"type": "string", "description": "All entities of a kind instead of entities, e.g. stock."},
        filters={"type": "array", "items": FILTER, "maxItems": 8, "description": "Only rows that meet all conditions."},
        order_by={"type": "string", "description": "Indicator that rows are ranked by, or date."},
        descending={"type": "boolean", "description": "With order_by: greatest first."},
        limit={
            "type": "integer",
            "minimum": 1,
            "description": "At most this many rows, the latest ones without order_by.",
        },
        unit={"type": "string", "description": "Converts values, e.g. million USD, %, bp."},
        currency={
            "type": "string",
            "pattern": "^[A-Z]{3}$",
            "description": "Converts money, and rates per euro, at each day's ECB rate.",
        },
        vintage={"enum": ["latest", "first"], "description": "Which published value of a period counts."},
        question={
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_QUESTION_CHARS,
            "description": "Instead of all others: what you need, in words.",
        },
        # The calculation of a question, for models that learnt to write one: each word here costs every prompt.
        program={"type": "string"},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        request = pb.QueryRequest(request_id=call_id, as_of=self.as_of, vendors_off=self.vendors_off)
        is_typed = any(name in arguments for name in SUBJECTS)
        if is_typed:
            request.typed.CopyFrom(make_typed_query(arguments))
        elif "question" not in arguments:
            raise InvalidField("data.entities", "name entities or indicators, or ask a question")
        else:
            check_question(arguments)
            request.question = arguments["question"]
        head: dict[str, Any] = {}
        resolved = ResolvedProgram()
        try:
            if is_typed:
                response = await self.clients.datafetch.query(request, timeout_s=self.timeout_s)
            else:
                written = arguments.get("program", "")
                texts = self._list_texts(request.question, written)
                reading = pb.ReadQuestionRequest(question=request.question, as_of=self.as_of)
                response, read, program = await asyncio.gather(
                    self.clients.datafetch.query(request, timeout_s=self.timeout_s),
                    self.clients.datafetch.read_question(reading, timeout_s=self.timeout_s),
                    self._read_program(texts, written),
                )
                # By itself the question was read already where nothing stands before it.
                if len(texts) > 1 and program is not None and is_about_others(program, read):
                    program = await self._read_program([request.question], written)
                # A question is read by rules; a typed query is what the model has written itself.
                head = {"read_as": describe_query(response.understood), "words": describe_words(read)}
                if program is not None:
                    resolved = resolve_program(program, self.session.sheets)
                    head["program"] = resolved.to_json()
                if self.read_asked is not None:
                    head["asked"] = [list(one) for one in await self.read_asked(request.question, read.mentions)]
                if self.list_parts is not None and (parts := self.list_parts(request.question, read.mentions)):
                    head["parts"] = [*parts]
        except InvalidField as error:
            raise name_argument(error) from error
        if is_typed and "question" in arguments:
            head["note"] = "the typed query was run; the question was not read"
        # The words of an own column are unknown to the bundled data, which is nothing that a reader misses.
        missing = [one for one in response.missing if not names_own_column(one.subject, resolved)]

        def make_reply(first: int) -> Reply:
            found = make_sheets_reply(self.session, response.sheets, missing, first, self.digests, **head)
            return replace(found, is_cached=response.is_cached)

        return make_reply

    def _list_texts(self, question: str, written: str) -> Sequence[str]:
        """Return the questions from which a program is read, the question last.

        The run's own question is read behind the turns before it, as whoever made it whole has read it or in the user's
        words: what completes it by rules may have lost something. A ``written`` program needs nothing from before.
        """
        is_own = not written and len(self.turns) > 1 and question == self.whole[:MAX_QUESTION_CHARS]
        return self.turns if is_own else [question]

    async def _read_program(self, texts: Sequence[str], written: str) -> pb.Program | None:
        """Return the calculation that the last of some questions asks for behind the others.

        It is ``written`` by whoever calls, or else by the learned reader; None where that gives none.
        """
        *earlier, last = [text[:MAX_QUESTION_CHARS] for text in texts]
        request = pb.ReadQuestionRequest(
            question=last,
            as_of=self.as_of,
            earlier=earlier[-MAX_EARLIER:],
            with_program=True,
            program=written,
            sheet_ids=[sheet.id for sheet in self.session.sheets.values() if is_upload(sheet)][:MAX_SHEETS],
        )
        response = await self.clients.datafetch.read_question(request, timeout_s=self.timeout_s)
        return response.program if response.HasField("program") else None


def is_about_others(program: pb.Program, read: pb.ReadQuestionResponse) -> bool:
    """Return whether a program leaves out an entity that a question names and takes one that it does not name.

    That is how the learned reader errs behind several turns: it takes up the name of an older one.
    """
    named = {one.value for one in read.mentions if one.kind == pb.MENTION_KIND_ENTITY and one.value}
    taken = {one.entity for one in program.series if one.entity}
    return bool(named - taken) and bool(taken - named)


def check_question(arguments: Mapping[str, Any]) -> None:
    """Raise ``InvalidField`` for arguments that refine a typed query and would be dropped beside a question."""
    lost = sorted(set(arguments) - {"question", "program"})
    if lost:
        raise InvalidField(
            f"data.{lost[0]}", "needs entities or indicators: name them, or put everything into the question"
        )


def make_typed_query(arguments: Mapping[str, Any]) -> pb.TypedQuery:
    """Convert the arguments to a typed query."""
    return pb.TypedQuery(
        entities=arguments.get("entities", ()),
        indicators=arguments.get("indicators", ()),
        start_date=arguments.get("start_date", ""),
        end_date=arguments.get("end_date", ""),
        frequency=FREQUENCIES.get(arguments.get("frequency", ""), pb.FREQUENCY_UNSPECIFIED),
        include_previous=arguments.get("include_previous", False),
        transform=TRANSFORMS.get(arguments.get("transform", ""), pb.TRANSFORM_UNSPECIFIED),
        entity_kind=arguments.get("entity_kind", ""),
        filters=[pb.ValueFilter(**condition) for condition in arguments.get("filters", ())],
        order_by=arguments.get("order_by", ""),
        descending=arguments.get("descending", False),
        limit=arguments.get("limit", 0),
        unit=arguments.get("unit", ""),
        currency=arguments.get("currency", ""),
        vintage=arguments.get("vintage", ""),
    )


def name_argument(error: InvalidField) -> InvalidField:
    """Return the error of a typed query with the field's name in the arguments of this tool."""
    field = error.field.replace("typed", "data", 1)
    return InvalidField(field, error.message.removeprefix(f"{error.field}: "))


def describe_words(read: pb.ReadQuestionResponse) -> list[list[str]]:
    """Return kind, words and canonical value of each mention of a question, in its order."""
    kinds = {number: name.removeprefix("MENTION_KIND_").lower() for name, number in pb.MentionKind.items()}
    return [[kinds[item.kind], item.text, item.value] for item in read.mentions]


def is_upload(sheet: pb.Sheet) -> bool:
    """Return whether a sheet is a table that the user has given."""
    return any(column.vendor == UPLOAD for column in sheet.columns)


def resolve_program(program: pb.Program, sheets: Mapping[str, pb.Sheet]) -> ResolvedProgram:
    """Return a program as the head of a reply has it.

    ``sheets`` are those of the session by variable; a series of the user's own table has its variable, its column and
    the column of its dates.
    """
    variables = {sheet.id: variable for variable, sheet in sheets.items()}
    return ResolvedProgram(
        program.kind,
        tuple(program.steps),
        tuple((one.english, one.chinese) for one in program.labels),
        tuple(place_series(one, variables, sheets) for one in program.series),
        tuple({"words": one.words, "columns": list(one.columns)} for one in program.assumptions),
        tuple({"words": one.words, "reason": one.reason, "detail": one.detail} for one in program.missing),
        tuple({"words": one.words, "reason": one.reason} for one in program.unused),
        round(program.confidence, 3),
        round(program.link_confidence, 3),
        tuple(program.words),
    )


def names_own_column(subject: str, program: ResolvedProgram) -> bool:
    """Return whether words that no bundled name says name a column of the user's own table in a program."""
    words = [one.words for one in program.series if one.column]
    words += [str(one["words"]) for one in program.assumptions]
    # Words are cut differently by both readers.
    return any(subject in text or text in subject for text in words if text)


def place_series(
    series: pb.ProgramSeries, variables: Mapping[str, str], sheets: Mapping[str, pb.Sheet]
) -> ProgramSeries:
    """Return a series of a program, one of the user's own table with its place there."""
    if not series.sheet_id:
        return ProgramSeries(series.name, series.words, series.entity, series.indicator)
    variable = variables[series.sheet_id]
    columns = sheets[variable].columns
    dates = [one.name for one in columns if one.type.startswith(DATES)]
    # Where it stands in the user's file.
    cells = next((one.source for one in columns if one.name == series.column), "")
    own = {"variable": variable, "column": series.column, "dates": dates[0] if dates else "", "cells": cells}
    if series.is_rows:
        own |= {"dates": "", "rows": "yes"}
    return ProgramSeries(series.name, series.words, **own)


def describe_query(query: pb.TypedQuery) -> dict[str, Any]:
    """Return how a question was read, as arguments of this tool; empty ones are left out."""
    frequencies = {value: name for name, value in FREQUENCIES.items()}
    transforms = {value: name for name, value in TRANSFORMS.items()}
    read = {
        "entities": list(query.entities),
        "indicators": list(query.indicators),
        "start_date": query.start_date,
        "end_date": query.end_date,
        "frequency": frequencies.get(query.frequency, ""),
        "transform": transforms.get(query.transform, ""),
        "entity_kind": query.entity_kind,
        "order_by": query.order_by,
        "limit": query.limit,
        "unit": query.unit,
        "currency": query.currency,
    }
    return {name: value for name, value in read.items() if value}
