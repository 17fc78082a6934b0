"""Measure what the planner's loop and registry add to a step: everything but the model, the tools and the record.

The baseline does the same calls bare: it reads the model's text and calls the tool's function.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

from fathom.core.config import load
from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.config import Config
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.dialogue import Research
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Episode, Limits, MaterialKind, Task, ToolStatus
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.rollouts.service import NullObserver
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, make_schema
from tests.support.policy import FakePolicy, PolicyRequest

BODY = "A line of a document, as long as such lines are, with a <tag> and 12.5 % in it.\n" * 75
TEXTS = 3


class Document:
    """A tool that answers at once with a page of text."""

    name, description, reads = "read", "Reads.", True
    parameters: Mapping[str, Any] = make_schema(["n"], n={"type": "integer"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        found = (NewMaterial(MaterialKind.PASSAGE, BODY),)
        return lambda first: Reply(ToolStatus.OK, {"material": first}, BODY, found)


class Model(FakePolicy):
    """A model that answers at once; the time is taken from one answer to the next."""

    def __init__(self, rounds: int, calls: int) -> None:
        self.rounds, self.calls = rounds, calls
        self.times: list[float] = []

    async def write(self, request: PolicyRequest) -> str:
        index = len(self.times)
        self.times.append(time.perf_counter())
        return words(index, self.calls) if index < self.rounds else end()


def words(index: int, calls: int) -> str:
    return "\n".join(format_tool_call("read", {"intent": "see", "n": index * calls + n}) for n in range(calls))


def end() -> str:
    return format_tool_call("finish", {"intent": "end", "answer": "So it is [1]."})


async def steps(rounds: int, calls: int) -> list[float]:
    """Milliseconds per step."""
    task = Task("run", "why?", "m", Sampling(), Limits(rounds + 5, 10**9, time.monotonic() + 600))
    protocol = Research(Prompts.of(load_catalogue(), load(Config, "planner", environ={})))
    model = Model(rounds, calls)
    stage = EpisodeResources(Registry([Document(), Think(), Finish()]))
    outcome = await AgentLoop(Episode(task, protocol.opening(task)), protocol, model, stage, NullObserver()).run()
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
