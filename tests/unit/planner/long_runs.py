"""Long runs without services: the real loop, registry and window; a scripted model with real token ids."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from fathom.errors import DependencyFailed
from fathom.protocol.hermes import format_tool_call, parse_tool_calls
from fathom.protocol.messages import Completion, FinishReason, Message, Sampling, ToolCall, ToolSpec, Usage
from services.planner.config import Config
from services.planner.loop import Loop
from services.planner.model import Episode, Kind, Limits, Step, Task, ToolResult, ToolState
from services.planner.prompting import Prompts
from services.planner.prompts.catalogue import catalogue
from services.planner.protocols import Research
from services.planner.stage import Stage
from services.planner.tools.recall import Recall
from services.planner.tools.registry import Registry
from services.planner.tools.think import Finish, Think
from services.planner.tools.tool import Finding, Numbered, Reply, Tool, schema
from services.planner.window.metrics import WindowMetrics
from services.planner.window.record import Compaction, WindowSettings
from services.planner.window.stepwise import Stepwise
from services.planner.window.summariser import Summariser
from services.planner.window.view import View
from services.policy.backends.chat import rendered
from services.policy.backends.rules.tokenizer import END_ID, RulesTokenizer, load_vocabulary
from services.policy.model import Request

PROMPTS = Prompts.of(catalogue(), Config.model_validate({}))
TOKENIZER = RulesTokenizer(load_vocabulary())
Line = tuple[str, dict[str, Any]]


class RulesTokens:
    """Counts as policy does for the reference policy."""

    async def count(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool) -> int:
        return len(TOKENIZER.encode(TOKENIZER.render(messages, tools, prompt)))

    async def count_text(self, model: str, text: str) -> int:
        return len(TOKENIZER.encode(text))

    async def window(self, model: str) -> int:
        return 131_072


@dataclass
class ScriptedWriter:
    """A summariser that says the next text, fails at ``None``, and is out of reach when there is none left."""

    texts: list[str | None] = field(default_factory=list)
    asked: list[tuple[Message, ...]] = field(default_factory=list)

    async def write(self, request_id: str, messages: Sequence[Message]) -> Completion:
        self.asked.append(tuple(messages))
        text = self.texts.pop(0) if self.texts else None
        if text is None:
            raise DependencyFailed("policy", "the writer is gone")
        usage = Usage(100, 10, 0, 1)
        return Completion((), (), (), text, (), FinishReason.STOP, 0, 0, usage, False, "writer")


@dataclass
class ScriptedModel:
    """Says the lines of a script in order; renders as policy does, earlier ids verbatim, and refuses what it would."""

    script: Sequence[Line | str]
    views: list[View] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        self.views.append(view)
        line = self.script[int(request_id.rsplit("-", 1)[1])]
        text = line if isinstance(line, str) else format_tool_call(line[0], {"intent": f"{line[0]} it", **line[1]})
        request = Request(request_id, "rules", view.messages, tuple(view.token_ids), view.covered, tuple(tools))
        prompt = rendered(TOKENIZER, request)
        whole = len(view.token_ids) + len(prompt.ids)
        self.prompts.append(whole)
        sampled = (*TOKENIZER.encode(text), END_ID)
        usage = Usage(whole, len(sampled), 0, 1)
        log_probs = tuple(-0.5 for _ in sampled)
        calls = parse_tool_calls(text)[1]
        return Completion(
            tuple(prompt.ids), sampled, log_probs, text, calls, FinishReason.STOP, 1, 1, usage, True, "rules"
        )


class Notebook:
    """An observer that keeps steps and compactions."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.compactions: list[tuple[int, Compaction]] = []

    async def sampled(self, step: Step) -> None: ...

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def tool_done(self, index: int, result: ToolResult) -> None: ...

    async def compacted(self, index: int, compaction: Compaction) -> None:
        self.compactions.append((index, compaction))

    async def step_done(self, step: Step) -> None:
        self.steps.append(step)

    def drafted(self, index: int, text: str) -> None: ...

    def dropped(self, index: int, why: str) -> None: ...


class Tables:
    """``data``: a sheet with a preview full of numbers, other ones for each question."""

    name, description, reads = "data", "Fetches numbers as tables.", False
    parameters: Mapping[str, Any] = schema(["question"], question={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | Numbered:
        source = random.Random(arguments["question"])
        variable = f"sheet_{source.randrange(10_000)}"  # the same table keeps its name
        columns = [SimpleNamespace(name="date", type="date", unit=""), SimpleNamespace(name="x", type="f8", unit="USD")]
        sheet = SimpleNamespace(id=call_id, title=arguments["question"], rows=1_250, columns=columns)
        rows = [f"{row:>4} 20{row % 20 + 10}-03-31 {source.uniform(10, 9_000):,.2f}" for row in range(30)]
        finding = Finding(Kind.SHEET, sheet, variable)

        def reply(first: int) -> Reply:
            described = {"variable": variable, "material": first, "rows": 1_250, "columns": [{"name": "x"}]}
            return Reply(ToolState.OK, {"sheets": [described], "missing": []}, "\n".join(rows), (finding,))

        return reply


class Cells:
    """``python``: fails where the code says ``bad``, else prints numbers that depend on the code."""

    name, description, reads = "python", "Runs Python.", False
    parameters: Mapping[str, Any] = schema(["code"], code={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | Numbered:
        code = arguments["code"]
        item = SimpleNamespace(id=call_id, code=code, figures=())
        finding = Finding(Kind.CODE, item)
        if "bad" in code:
            trace = "Traceback: " + "frame " * 120
            return lambda first: Reply(ToolState.FAILED, {"material": first, "error": "NameError"}, trace, (finding,))
        if "flood" in code:
            return lambda first: Reply(ToolState.OK, {"material": first}, "many words " * 6_000, (finding,))
        source = random.Random(code)
        lines = [f"measure {index}: {source.uniform(-1, 1):.6f}" for index in range(40)]
        return lambda first: Reply(ToolState.OK, {"material": first, "figures": []}, "\n".join(lines), (finding,))


class Papers:
    """``search``: hits with long summaries."""

    name, description, reads = "search", "Finds documents.", False
    parameters: Mapping[str, Any] = schema(["query"], query={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | Numbered:
        source = random.Random(arguments["query"])
        hits = [
            {
                "id": f"d{source.randrange(9_999)}",
                "title": f"On {arguments['query']}",
                "summary": "words and more " * 30,
            }
            for _ in range(5)
        ]
        return Reply(ToolState.OK, {"hits": hits})


class Todo:
    """``todo``: says the list back."""

    name, description, reads = "todo", "Keeps the plan.", False
    parameters: Mapping[str, Any] = schema(["items"], items={"type": "array", "items": {"type": "string"}})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | Numbered:
        listed = [{"n": n, "state": "done", "text": text} for n, text in enumerate(arguments["items"], start=1)]
        return Reply(ToolState.OK, {"items": listed})


def stage(window: Stepwise, episode: Episode) -> Stage:
    tools: list[Tool] = [Tables(), Cells(), Papers(), Todo(), Think(), Finish(), Recall(episode.steps)]
    return Stage(Registry(tools, len(episode.material)), window=window)


@dataclass
class Run:
    """A run that has ended."""

    loop: Loop
    model: ScriptedModel
    notes: Notebook

    @property
    def episode(self) -> Episode:
        return self.loop.episode


def task(question: str = "How did it go?", history: tuple[Message, ...] = (), rounds: int = 60) -> Task:
    return Task("run_1", question, "rules", Sampling(), Limits(rounds, 10**9, time.monotonic() + 300), history=history)


async def play(
    script: Sequence[Line | str],
    settings: WindowSettings,
    *,
    writer: ScriptedWriter | None = None,
    known: Sequence[Step] = (),
    of: Task | None = None,
    metrics: WindowMetrics | None = None,
    cut_short: Step | None = None,
) -> Run:
    """Plays a script to its end, from the steps that are known and the one that was sampled, but not whole."""
    protocol, asked = Research(PROMPTS), of or task()
    episode = Episode(asked, protocol.opening(asked))
    for step in known:
        episode.append(step)
    metrics = metrics or WindowMetrics.register(CollectorRegistry())
    summariser = Summariser(writer or ScriptedWriter(), PROMPTS.catalogue.find("notes", "en").body)
    window = Stepwise(settings, RulesTokens(), summariser, "rules", metrics)
    model, notes = ScriptedModel(script), Notebook()
    loop = Loop(episode, protocol, model, stage(window, episode), notes, cut_short)
    await loop.run()
    window.close()
    return Run(loop, model, notes)


def mixed(rounds: int, seed: int = 0) -> list[Line]:
    """A long analysis: tables, code that fails and then runs, documents, thoughts, a plan that changes."""
    source = random.Random(seed)
    lines: list[Line] = [("todo", {"items": ["get prices", "compute", "read"]})]
    while len(lines) < rounds - 1:
        number = len(lines)
        kind = source.choice(["data", "python", "python", "search", "think", "fix"])
        if kind == "data":
            lines.append(("data", {"question": f"prices {number}"}))
        elif kind == "python":
            lines.append(("python", {"code": f"def run_{number}():\n    return sheet\n" + f"step({number})\n" * 8}))
        elif kind == "search":
            lines.append(("search", {"query": f"topic {number}"}))
        elif kind == "think":
            lines.append(("think", {"content": f"Between {number}.5 and 3: " + "hm, perhaps " * 20}))
        else:
            lines += [("python", {"code": f"bad({number}, {attempt})"}) for attempt in range(2)]
            lines.append(("python", {"code": f"good({number})"}))
    return [*lines[: rounds - 1], ("finish", {"answer": "So it went."})]
