"""Long runs without services: the real loop, registry and window; a scripted model with real token ids."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from fathom.core.errors import DependencyFailed
from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls
from fathom.domain.chat.messages import Completion, FinishReason, Message, Sampling, Usage
from fathom.services.planner.config import Config
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.dialogue import Research
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.compaction import WindowSettings
from fathom.services.planner.model.episode import Episode, Limits, MaterialKind, Step, Task, ToolStatus
from fathom.services.planner.model.view import View
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.tools.recall import Recall
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, Tool, make_schema
from fathom.services.planner.window.metrics import WindowMetrics
from fathom.services.planner.window.stepwise import CompactingWindow
from fathom.services.planner.window.summariser import Summariser
from fathom.services.policy.backends.chat import render_prompt
from fathom.services.policy.backends.rules.tokenizer import END_ID
from fathom.services.policy.model import Request
from tests.support.observer import RecordingObserver
from tests.support.policy import FakePolicy, PolicyRequest
from tests.support.tokens import TOKENIZER, RulesTokens

PROMPTS = Prompts.of(load_catalogue(), Config.model_validate({}))
Line = tuple[str, dict[str, Any]]


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
class ScriptedModel(FakePolicy):
    """Says the lines of a script in order; renders as policy does, earlier ids verbatim, and refuses what it would."""

    script: Sequence[Line | str]
    views: list[View] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)

    async def write(self, request: PolicyRequest) -> str:
        self.views.append(request.view)
        line = self.script[request.index]
        return line if isinstance(line, str) else format_tool_call(line[0], {"intent": f"{line[0]} it", **line[1]})

    def complete(self, request: PolicyRequest, text: str) -> Completion:
        view = request.view
        prompt = render_prompt(
            TOKENIZER,
            Request(request.request_id, "rules", view.messages, tuple(view.token_ids), view.covered, request.tools),
        )
        whole = len(view.token_ids) + len(prompt.ids)
        self.prompts.append(whole)
        sampled = (*TOKENIZER.encode(text), END_ID)
        usage = Usage(whole, len(sampled), 0, 1)
        log_probs = tuple(-0.5 for _ in sampled)
        calls = parse_tool_calls(text)[1]
        return Completion(
            tuple(prompt.ids), sampled, log_probs, text, calls, FinishReason.STOP, 1, 1, usage, True, "rules"
        )


class Tables:
    """``data``: a sheet with a preview full of numbers, other ones for each question."""

    name, description, reads = "data", "Fetches numbers as tables.", False
    parameters: Mapping[str, Any] = make_schema(["question"], question={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        # By the question, so that a repetition of it finds the same table.
        source = random.Random(arguments["question"])
        variable = f"sheet_{source.randrange(10_000)}"  # the same table keeps its name
        columns = [SimpleNamespace(name="date", type="date", unit=""), SimpleNamespace(name="x", type="f8", unit="USD")]
        sheet = SimpleNamespace(id=call_id, title=arguments["question"], rows=1_250, columns=columns)
        rows = [f"{row:>4} 20{row % 20 + 10}-03-31 {source.uniform(10, 9_000):,.2f}" for row in range(30)]
        finding = NewMaterial(MaterialKind.SHEET, sheet, variable)

        def reply(first: int) -> Reply:
            described = {"variable": variable, "material": first, "rows": 1_250, "columns": [{"name": "x"}]}
            return Reply(ToolStatus.OK, {"sheets": [described], "missing": []}, "\n".join(rows), (finding,))

        return reply


class Cells:
    """``python``: fails where the code says ``bad``, else prints numbers that depend on the code."""

    name, description, reads = "python", "Runs Python.", False
    parameters: Mapping[str, Any] = make_schema(["code"], code={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        code = arguments["code"]
        item = SimpleNamespace(id=call_id, code=code, figures=())
        finding = NewMaterial(MaterialKind.CODE, item)
        if "bad" in code:
            # As long as a real traceback: what makes failed attempts worth dropping.
            trace = "Traceback: " + "frame " * 120
            return lambda first: Reply(ToolStatus.FAILED, {"material": first, "error": "NameError"}, trace, (finding,))
        if "flood" in code:
            return lambda first: Reply(ToolStatus.OK, {"material": first}, "many words " * 6_000, (finding,))
        # By the code: the same cell prints the same numbers in every run of a test.
        source = random.Random(code)
        lines = [f"measure {index}: {source.uniform(-1, 1):.6f}" for index in range(40)]
        return lambda first: Reply(ToolStatus.OK, {"material": first, "figures": []}, "\n".join(lines), (finding,))


class Papers:
    """``search``: hits with long summaries."""

    name, description, reads = "search", "Finds documents.", False
    parameters: Mapping[str, Any] = make_schema(["query"], query={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        source = random.Random(arguments["query"])
        hits = [
            {
                "id": f"d{source.randrange(9_999)}",
                "title": f"On {arguments['query']}",
                "summary": "words and more " * 30,
            }
            # Fixed words, so that lengths are those of real summaries and nothing can be cited.
            for _ in range(5)
        ]
        return Reply(ToolStatus.OK, {"hits": hits})


class Todo:
    """``todo``: says the list back."""

    name, description, reads = "todo", "Keeps the plan.", False
    parameters: Mapping[str, Any] = make_schema(["items"], items={"type": "array", "items": {"type": "string"}})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply:
        listed = [{"n": n, "state": "done", "text": text} for n, text in enumerate(arguments["items"], start=1)]
        return Reply(ToolStatus.OK, {"items": listed})


def stage(window: CompactingWindow, episode: Episode) -> EpisodeResources:
    tools: list[Tool] = [Tables(), Cells(), Papers(), Todo(), Think(), Finish(), Recall(episode.steps)]
    return EpisodeResources(Registry(tools, len(episode.material)), window=window)


@dataclass
class Run:
    """A run that has ended."""

    loop: AgentLoop
    model: ScriptedModel
    notes: RecordingObserver

    @property
    def episode(self) -> Episode:
        return self.loop.episode


def task(question: str = "How did it go?", history: tuple[Message, ...] = (), rounds: int = 60) -> Task:
    # As a trainer's: a script may repeat itself or find nothing for as long as the window's test needs.
    limits = Limits(rounds, 10**9, time.monotonic() + 300)
    return Task("run_1", question, "rules", Sampling(), limits, history=history, is_rollout=True)


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
    window = CompactingWindow(settings, RulesTokens(), summariser, "rules", metrics)
    model, notes = ScriptedModel(script), RecordingObserver()
    loop = AgentLoop(episode, protocol, model, stage(window, episode), notes, cut_short)
    await loop.run()
    window.close()
    return Run(loop, model, notes)


def mix_lines(rounds: int, seed: int = 0) -> list[Line]:
    """Return a long analysis: tables, code that fails and then runs, documents, thoughts, a plan that changes."""
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
            # Two failures and the cell that mends them, as models work.
            lines += [("python", {"code": f"bad({number}, {attempt})"}) for attempt in range(2)]
            lines.append(("python", {"code": f"good({number})"}))
    return [*lines[: rounds - 1], ("finish", {"answer": "So it went."})]
