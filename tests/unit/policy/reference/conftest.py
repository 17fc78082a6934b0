"""A scripted world for the reference policy: synthetic sheets, a handful of documents, cells that really run."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fathom.domain import frames
from fathom.domain.chat.messages import Completion, Message, Role, ToolSpec
from fathom.services.datafetch.programs.wording import describe_steps
from fathom.services.policy.backends.rules.backend import RulesBackend
from fathom.services.policy.config import RulesModel
from fathom.services.policy.model import Request
from fathom.services.sandbox.inside import finance

NAMES = ("think", "search", "fetch", "data", "catalogue", "python", "finish")
Reply = tuple[dict[str, Any], str]


def make_tools(names: Sequence[str]) -> tuple[ToolSpec, ...]:
    """Tools that take anything; ``finish`` says that it takes a reading."""
    taken = {"finish": '{"type": "object", "properties": {"reading": {"type": "object"}}}'}
    return tuple(ToolSpec(name, name, taken.get(name, '{"type": "object"}')) for name in names)


def prices(names: Sequence[str], start: str = "2018-01-01", end: str = "2021-12-31") -> pd.DataFrame:
    """Daily prices that rise, fall and rise, each series in its own rhythm."""
    dates = pd.bdate_range(start, end)
    steps = np.arange(len(dates))
    columns = {
        f"{name}.close_adj": (100 + 50 * index) * np.exp(0.0006 * steps + 0.3 * np.sin(steps / (90 + 40 * index)))
        for index, name in enumerate(names)
    }
    return pd.DataFrame({"date": dates, **columns})


def rates(start: str = "2018-01-31", end: str = "2021-12-31") -> pd.DataFrame:
    """One monthly rate in percent."""
    dates = pd.date_range(start, end, freq="ME")
    return pd.DataFrame({"date": dates, "US.unrate": np.round(4 + np.sin(np.arange(len(dates)) / 5), 1)})


def sheet(frame: pd.DataFrame, title: str, unit: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A frame with the description that ``data`` gives of it."""
    columns = [{"name": "date", "type": "timestamp[us]", "unit": "", "entity": "", "indicator": ""}]
    for name in frame.columns[1:]:
        entity, _, indicator = name.partition(".")
        columns.append(
            {
                "name": name,
                "type": "double",
                "unit": unit,
                "entity": entity,
                "indicator": indicator,
                "as_of": "2022-12-28",
            }
        )
    return frame, {"title": title, "rows": len(frame), "columns": columns}


@dataclass
class World:
    """Hold what the tools know. ``failures`` are statuses to give instead, by tool, first come first served."""

    sheets: list[tuple[pd.DataFrame, dict[str, Any]]] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, tuple[str, str]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    """Files, with pages, of documents that are the user's own, by their ids."""
    failures: dict[str, list[str]] = field(default_factory=dict)
    words: list[list[str]] = field(default_factory=list)
    """Readings of the question by the data tool: kind, words, value."""
    asked: list[list[str]] = field(default_factory=list)
    """Readings of the question's clauses by the classifier: measure, words, premise."""
    program: dict[str, Any] | None = None
    """The calculation that the data tool makes of the question; None for none."""
    parts: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """The calculations of the parts that the question has, by the part."""
    unmeasured: frozenset[str] = frozenset()
    """Parts whose words the classifier takes for no measure."""
    reads_only: bool = False
    """True where a question gives its reading alone, and only a typed query the sheets."""
    namespace: dict[str, Any] = field(default_factory=lambda: {"pd": pd, "np": np, "finance": finance})
    materials: int = 0
    figures: int = 0

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        if self.failures.get(tool):
            status = self.failures[tool].pop(0)
            return {"tool": tool, "status": status, "error": f"{tool} is down"}, ""
        return getattr(self, tool)(arguments)  # type: ignore[no-any-return]

    def number(self) -> int:
        self.materials += 1
        return self.materials

    def think(self, arguments: Mapping[str, Any]) -> Reply:
        return {"tool": "think", "status": "ok"}, ""

    def data(self, arguments: Mapping[str, Any]) -> Reply:
        described, digests = [], []
        sheets = [] if self.reads_only and "question" in arguments else self.sheets
        for index, (frame, description) in enumerate(sheets, 1):
            variable = f"sheet_{index}"
            # As the sandbox gives it: units and indicators of the columns are known to the finance library.
            frame.attrs = {"units": {column["name"]: column["unit"] for column in description["columns"][1:]}}
            self.namespace[variable] = frame
            described.append({"variable": variable, "material": self.number(), **description})
            digests.append(frames.digest(frame, variable))
        status = "ok" if described else "empty"
        read: dict[str, Any] = (
            {"words": self.words, "asked": self.asked, "read_as": {}} if "question" in arguments else {}
        )
        if read and arguments["question"] in self.unmeasured:
            read["asked"] = []
        program = self.parts.get(arguments.get("question", ""), self.program)
        read |= {"program": program} if read and program is not None else {}
        read |= {"parts": [*self.parts]} if read and arguments["question"] not in self.parts else {}
        missing = self.missing if read else []
        return {"tool": "data", "status": status, "sheets": described, "missing": missing, **read}, "\n\n".join(digests)

    def catalogue(self, arguments: Mapping[str, Any]) -> Reply:
        return {"tool": "catalogue", "status": "empty", "unmatched": arguments["query"].split()}, ""

    def search(self, arguments: Mapping[str, Any]) -> Reply:
        wanted = set(re.findall(r"\w+", arguments["query"].lower()))
        hits = [
            {"id": ident, "time": "2020-01-01", "title": title, "summary": text[:120], **self.name_place(ident)}
            for ident, (title, text) in self.documents.items()
            if wanted & set(re.findall(r"\w+", f"{title} {text}".lower())) or arguments["query"] in text
        ]
        return {"tool": "search", "status": "ok" if hits else "empty", "hits": hits}, ""

    def fetch(self, arguments: Mapping[str, Any]) -> Reply:
        title, text = self.documents[arguments["id"]]
        head = {"tool": "fetch", "status": "ok", "id": arguments["id"], "material": self.number(), "title": title}
        return {**head, **self.name_place(arguments["id"]), "more": ""}, text

    def name_place(self, ident: str) -> dict[str, str]:
        return {"place": self.places[ident]} if ident in self.places else {}

    def python(self, arguments: Mapping[str, Any]) -> Reply:
        """Runs the cell as the sandbox would: prints are caught, figures that it shows are numbered."""
        printed, shown, tables = io.StringIO(), [], list[tuple[Any, str, Mapping[str, str]]]()
        self.namespace["show_table"] = lambda table, title="", units=None: tables.append((table, title, units or {}))
        with contextlib.redirect_stdout(printed):
            if arguments["code"].startswith("finance.chart"):
                shown.append(eval(arguments["code"], self.namespace))
            else:
                exec(compile(arguments["code"], "cell", "exec"), self.namespace)
        figures = [f"fig_{self.figures + index}" for index in range(1, len(shown) + 1)]
        self.figures += len(shown)
        head = {"tool": "python", "status": "ok", "material": self.number(), "figures": figures, "changed": []}
        head |= {"sheets": [self.keep(*table) for table in tables]} if tables else {}
        return {**head, "error": ""}, f"## stdout\n{printed.getvalue()}"

    def keep(self, table: pd.DataFrame, title: str, units: Mapping[str, str]) -> dict[str, Any]:
        """Give a shown table a name as the planner does, and return what its head says of it."""
        variable = f"sheet_{len([name for name in self.namespace if name.startswith('sheet_')]) + 1}"
        table.attrs = {"units": dict(units)}
        self.namespace[variable] = table
        types = {"M": "timestamp[us]", "O": "string"}
        columns = [
            {"name": str(name), "type": types.get(table[name].dtype.kind, "double"), "unit": units.get(name, "")}
            for name in table.columns
        ]
        return {"variable": variable, "material": self.number(), "title": title, "rows": len(table), "columns": columns}


@dataclass
class Talk:
    """A finished conversation."""

    messages: list[Message]
    calls: list[tuple[str, dict[str, Any]]]
    results: list[str]
    token_ids: list[int]
    completions: list[Completion]

    @property
    def tools(self) -> list[str]:
        return [name for name, _ in self.calls]

    @property
    def answer(self) -> str:
        return str(self.calls[-1][1]["answer"])


Drive = Callable[..., Awaitable[Talk]]


@pytest.fixture
def drive() -> Drive:
    """Runs the reference policy in a world until it finishes; ids go back verbatim, as the planner does it."""

    async def run(
        question: str,
        world: World,
        *,
        tools: Sequence[str] = NAMES,
        nudge_after: int = 99,
        history: Sequence[Message] = (),
    ) -> Talk:
        backend = RulesBackend("rules", RulesModel())
        talk = Talk(
            [Message(Role.SYSTEM, "You are an analyst."), *history, Message(Role.USER, question)], [], [], [], []
        )
        offered, covered = make_tools(tools), 0
        for index in range(20):
            request = Request(f"r{index}", "rules", tuple(talk.messages), tuple(talk.token_ids), covered, offered)
            items = [item async for item in backend.generate(request)]
            completion = items[-1]
            assert isinstance(completion, Completion)
            assert "".join(item for item in items[:-1] if isinstance(item, str)) == completion.text
            talk.completions.append(completion)
            talk.token_ids += [*completion.prompt_token_ids, *completion.sampled_token_ids]
            talk.messages.append(Message(Role.ASSISTANT, completion.text, completion.tool_calls))
            covered = len(talk.messages)
            for call in completion.tool_calls:
                arguments = json.loads(call.arguments_json)
                talk.calls.append((call.name, arguments))
                if call.name == "finish":
                    return talk
                head, body = world.call(call.name, arguments)
                talk.results.append(json.dumps(head, ensure_ascii=False) + (f"\n\n{body}" if body else ""))
                talk.messages.append(Message(Role.TOOL, talk.results[-1], tool_call_id=call.id))
            if index + 1 == nudge_after:
                talk.messages.append(Message(Role.USER, "This is the last round: call `finish` now."))
        raise AssertionError("did not finish")

    return run


@pytest.fixture
def world() -> type[World]:
    return World


DRAWDOWN = (
    "Maximum drawdown",
    "The maximum drawdown is the largest loss from a peak to a later trough. It is a share of the peak.",
)


TWO = [["entity", "Alpha", "AAA"], ["entity", "Beta", "BBB"], ["period", "2018 to 2021", "2018-01-01/2021-12-31"]]
RATE = [["indicator", "unemployment rate", "unrate"], ["entity", "US", "US"]]


ALPHA = {"name": "s1", "entity": "AAA", "indicator": "close_adj", "words": "Alpha"}
BETA = {"name": "s2", "entity": "BBB", "indicator": "close_adj", "words": "Beta"}


def make_program(steps: Sequence[str], **changed: Any) -> dict[str, Any]:
    """Return a sure program over Alpha's prices."""
    sure = {"kind": "calculation", "confidence": 0.97, "link_confidence": 0.99, "missing": [], "words": ["Alpha"]}
    made = {**sure, "steps": list(steps), "series": [ALPHA], **changed}
    return {"labels": describe_steps(steps, {one["name"]: one["words"] for one in made["series"]}), **made}


def compare(*functions: str) -> dict[str, Any]:
    """Return a program that computes functions of Alpha's and of Beta's prices from 2019 to 2021."""
    steps = [
        f"f.{name}(f.within({one}, f.period('2019-01-01', '2021-12-31')))" for name in functions for one in ("s1", "s2")
    ]
    return make_program(steps, series=[ALPHA, BETA], words=["Alpha", "Beta", "2018 to 2021"])


@pytest.fixture
def two_companies() -> World:
    """Two price series, and documents on the measure and on something else."""
    frame = prices(("AAA", "BBB"))
    return World(
        sheets=[sheet(frame, "Alpha, Beta: adjusted close, daily, 2018-01-01 to 2021-12-31", "USD")],
        documents={
            "m1": DRAWDOWN,
            "zh1": ("最大回撤", "最大回撤是一段时间内从最高点到其后最低点的最大跌幅。应同时给出高点和低点的日期。"),
            "n1": ("Cooking with herbs", "Basil and thyme go well with fish."),
        },
        words=list(TWO),
    )


@pytest.fixture
def one_rate() -> World:
    """One monthly rate."""
    return World(
        sheets=[sheet(rates(), "United States: unemployment rate, monthly, 2018-01-31 to 2021-12-31", "% (SA)")],
        documents={"u": ("Unemployment rate", "The unemployment rate is the share of the labour force without work.")},
        words=list(RATE),
    )
