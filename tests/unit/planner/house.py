"""A planner's worker without services: a scripted policy, tools that count, a bus and a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.bus.base import Bus
from fathom.bus.memory import MemoryBus
from fathom.bus.streams import MAX_DEPTH, topology
from fathom.call import Lane, current_origin
from fathom.clients import Clients
from fathom.obs import Telemetry
from fathom.protocol.hermes import format_tool_call, parse_tool_calls
from fathom.protocol.messages import Completion, FinishReason, Sampling, ToolSpec, Usage
from fathom.store import ObjectStore
from fathom.store.memory import MemoryStore
from services.planner.config import Config
from services.planner.delegation import Allowance, Delegation
from services.planner.engine import Engine
from services.planner.events import follow
from services.planner.model import Kind, Step, Task, ToolState
from services.planner.playing import AnyProtocol
from services.planner.prompting import Prompts
from services.planner.prompts.catalogue import catalogue
from services.planner.protocols import Research
from services.planner.record import Record
from services.planner.runs import Runs
from services.planner.stage import Stage
from services.planner.todo import Todo
from services.planner.tools.delegate import Delegate
from services.planner.tools.registry import Registry
from services.planner.tools.session import Session
from services.planner.tools.think import Finish, Think
from services.planner.tools.todo import TodoList
from services.planner.tools.tool import Finding, Numbered, Reply, Tool, schema
from services.planner.window.view import View
from services.planner.worker import Worker
from tests.support.clock import loop_time


def echo(*texts: str) -> str:
    """A completion with one call per text."""
    return "\n".join(format_tool_call("echo", {"intent": f"to hear {text}", "text": text}) for text in texts)


def finish(answer: str) -> str:
    return format_tool_call("finish", {"intent": "to end", "answer": answer})


@dataclass
class Script:
    """A policy that says line n in round n, whichever worker asks; it counts what was sampled."""

    lines: Sequence[str]
    by_question: dict[str, Sequence[str]] = field(default_factory=dict)
    sampled: list[str] = field(default_factory=list)
    origins: list[dict[str, str]] = field(default_factory=list)
    """For whom and in which trace each was sampled."""
    hold: Mapping[int, asyncio.Event] = field(default_factory=dict)

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        index = int(request_id.removeprefix(f"{task.run_id}-"))
        if index in self.hold:
            await self.hold[index].wait()
        self.sampled.append(request_id)
        self.origins.append(current_origin())
        line = self.by_question.get(task.question, self.lines)[index]
        ids = (200 + index, 201 + index)
        calls = parse_tool_calls(line)[1]
        usage = Usage(10, 5, 0, 1)
        return Completion((100 + index,), ids, (-0.5, -0.25), line, calls, FinishReason.STOP, 1, 1, usage, True, "s")


@dataclass
class Echo:
    """A tool that finds what it is told; "wait…" waits for ``release``. It counts what was done."""

    called: list[str]
    release: asyncio.Event

    name = "echo"
    description = "Says it again."
    reads = False
    parameters = schema(["text"], text={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Numbered:
        text = arguments["text"]
        if text.startswith("wait"):
            await self.release.wait()
        self.called.append(f"{call_id} {text}")
        found = Finding(Kind.MISSING, {"subject": text, "reason": "NO_MATCH"})
        return lambda first: Reply(ToolState.OK, {"material": first, "hits": []}, text, (found,))


class House:
    """Workers over one bus and one store. ``worker`` makes another planner; ``ask`` begins a run."""

    def __init__(
        self,
        *lines: str,
        ack_wait_s: float = 0.3,
        store: ObjectStore | None = None,
        bus: Bus | None = None,
        **settings: Any,
    ) -> None:
        self.store: Any = store or MemoryStore()
        self.bus: Any = bus or MemoryBus(self.store, topology(ack_wait_s=ack_wait_s), loop_time)
        self.record = Record(self.store)
        self.config = Config(heartbeat_s=0.05, **settings)
        self.policy = Script(lines)
        """Says the same in each run, unless ``by_question`` has lines of its own for its question."""
        self.called: list[str] = []
        self.release = asyncio.Event()
        self.telemetry = Telemetry("test", log_level="critical")
        self.clients = Clients({}, self.telemetry)
        self.runs = Runs(self.config, self.worker(), self.record, self.clients)

    def stage(self, task: Task, steps: Sequence[Step], cut_short: Step | None) -> Stage:
        known = [*steps, *([cut_short] if cut_short else [])]
        material = sum(len(result.material) for step in known for result in step.results)
        todo = Todo.rebuilt(known)
        tools: list[Tool] = [Echo(self.called, self.release), Think(), Finish(), TodoList(todo)]
        delegation = Delegation(self.bus, self.record, task, Allowance(runs=2))
        if delegation.allowed:
            tools.append(Delegate(delegation, Session.rebuilt(self.clients, task.run_id, 1.0, [])))
        registry = Registry(tools, material, known=cut_short.results if cut_short else ())
        return Stage(registry, todo=todo)

    def worker(self, make: Callable[[], Engine] | None = None) -> Worker:
        engine = make() if make else Engine(lambda protocol: self.policy, self.stage)
        return Worker(self.config, engine, self.protocols(), self.record, self.clients, self.bus, self.telemetry.log)

    def protocols(self) -> dict[int, AnyProtocol]:
        research = Research(Prompts.of(catalogue(), self.config))
        return {0: research, 1: research}

    async def ask(self, run_id: str = "run_1", **fields: Any) -> None:
        request = pb.RunRequest(request_id=run_id, **{"question": "why?", "model": "s", **fields})
        header = await self.runs.begin(request)
        await self.runs.queue(header, Lane.INTERACTIVE)

    @asynccontextmanager
    async def working(self, worker: Worker | None = None) -> AsyncIterator[list[asyncio.Task[None]]]:
        """A worker at work; what it had begun goes back to the queue at the end."""
        chosen = worker or self.runs.worker
        tasks = [asyncio.create_task(chosen.work(Lane.INTERACTIVE, depth)) for depth in range(MAX_DEPTH + 1)]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def events(self, run_id: str = "run_1", leg: int = 0, until: str = "") -> list[pb.RunEvent]:
        """The run's events to the end of its leg, or to the first one of a kind."""
        found: list[pb.RunEvent] = []
        async with asyncio.timeout(10), aclosing(follow(self.bus, run_id, 0, leg)) as events:
            async for event in events:
                found.append(event)
                if event.WhichOneof("event") == until:
                    break
        return found


def kinds(events: Sequence[pb.RunEvent]) -> list[str]:
    return [event.WhichOneof("event") or "" for event in events]


def numbers(events: Sequence[pb.RunEvent]) -> list[int]:
    return [event.sequence for event in events]
