"""What the planner's loop and registry add to a step: everything but the model, the tools and the record.

The baseline does the same calls bare: it reads the model's text and calls the tool's function.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fathom.config import load
from fathom.protocol.hermes import format_tool_call, parse_tool_calls
from fathom.protocol.messages import Completion, FinishReason, Sampling, ToolCall, ToolSpec, Usage
from services.planner.config import Config
from services.planner.loop import Loop
from services.planner.model import Episode, Kind, Limits, Step, Task, ToolResult, ToolState
from services.planner.prompting import Prompts
from services.planner.prompts.catalogue import catalogue
from services.planner.protocols import Research
from services.planner.stage import Stage
from services.planner.tools.registry import Registry
from services.planner.tools.think import Finish, Think
from services.planner.tools.tool import Finding, Numbered, Reply, schema
from services.planner.window.record import Compaction
from services.planner.window.view import View

BODY = "A line of a document, as long as such lines are, with a <tag> and 12.5 % in it.\n" * 75
TEXTS = 3


class Document:
    """A tool that answers at once with a page of text."""

    name, description, reads = "read", "Reads.", True
    parameters: Mapping[str, Any] = schema(["n"], n={"type": "integer"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Numbered:
        found = (Finding(Kind.PASSAGE, BODY),)
        return lambda first: Reply(ToolState.OK, {"material": first}, BODY, found)


class Model:
    """A model that answers at once; the time is taken from one answer to the next."""

    def __init__(self, rounds: int, calls: int) -> None:
        self.rounds, self.calls = rounds, calls
        self.times: list[float] = []

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        index = len(self.times)
        text = words(index, self.calls) if index < self.rounds else end()
        made = parse_tool_calls(text)[1]
        completion = Completion((1,), (2,), (0.0,), text, made, FinishReason.STOP, 1, 1, Usage(9, 9, 0, 0), True, "m")
        self.times.append(time.perf_counter())
        return completion


class Nobody:
    """An observer that keeps nothing."""

    async def compacted(self, index: int, compaction: Compaction) -> None: ...

    async def sampled(self, step: Step) -> None: ...

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def tool_done(self, index: int, result: ToolResult) -> None: ...

    async def step_done(self, step: Step) -> None: ...

    def drafted(self, index: int, text: str) -> None: ...

    def dropped(self, index: int, why: str) -> None: ...


def words(index: int, calls: int) -> str:
    return "\n".join(format_tool_call("read", {"intent": "see", "n": index * calls + n}) for n in range(calls))


def end() -> str:
    return format_tool_call("finish", {"intent": "end", "answer": "So it is [1]."})


async def steps(rounds: int, calls: int) -> list[float]:
    """Milliseconds per step."""
    task = Task("run", "why?", "m", Sampling(), Limits(rounds + 5, 10**9, time.monotonic() + 600))
    protocol = Research(Prompts.of(catalogue(), load(Config, "planner", environ={})))
    model = Model(rounds, calls)
    stage = Stage(Registry([Document(), Think(), Finish()]))
    outcome = await Loop(Episode(task, protocol.opening(task)), protocol, model, stage, Nobody()).run()
    assert outcome.answer is not None, outcome
    return [1000 * (late - early) for early, late in zip(model.times, model.times[1:], strict=False)]


async def bare(rounds: int, calls: int) -> list[float]:
    """Milliseconds per step without loop and registry."""
    tool, taken = Document(), []
    for index in range(rounds):
        started = time.perf_counter()
        for call in parse_tool_calls(words(index, calls))[1]:
            numbered = await tool(call.id, json.loads(call.arguments_json))
            json.dumps(numbered(1).head)
        taken.append(1000 * (time.perf_counter() - started))
    return taken


async def run() -> None:
    """Prints medians and tails, and the ratio to the bare calls."""
    print(f"{'per step':<34}{'p50 ms':>9}{'p99 ms':>9}{'/ bare':>9}")
    for rounds, calls in ((25, 1), (25, 4), (200, 1)):
        base = statistics.median([ms for _ in range(TEXTS) for ms in await bare(rounds, calls)])
        ours = sorted([ms for _ in range(TEXTS) for ms in await steps(rounds, calls)])
        name = f"{rounds} rounds, {calls} call{'s' if calls > 1 else ''} of 6,000 chars"
        middle, tail = statistics.median(ours), ours[int(len(ours) * 0.99)]
        print(f"{name:<34}{middle:>9.2f}{tail:>9.2f}{middle / base:>9.1f}")
