"""Planner worker without services: scripted policy, counting tools, bus and store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Lane, current_origin
from fathom.core.errors import FathomError
from fathom.core.telemetry import Telemetry
from fathom.domain.chat.hermes import format_tool_call
from fathom.services.planner.config import Config
from fathom.services.planner.engine import AnyProtocol, Engine
from fathom.services.planner.episode.dialogue import Research
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import MaterialKind, Step, Task, ToolStatus
from fathom.services.planner.model.todo import Todo
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.questions.routing import Form, Mode, Route, Scene
from fathom.services.planner.runs.api import Runs
from fathom.services.planner.runs.log.events import follow
from fathom.services.planner.runs.playing.ending import EndWriter
from fathom.services.planner.runs.playing.preparation import RunPreparer
from fathom.services.planner.runs.playing.worker import Worker
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.runs.routing import RunRouter
from fathom.services.planner.runs.subruns import Allowance, SubRunClient
from fathom.services.planner.tools.delegate import Delegate
from fathom.services.planner.tools.registry import CallLimits, Registry
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.todo import TodoList
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, Tool, make_schema
from fathom.transport.bus.base import Bus
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.streams import MAX_DEPTH, topology
from fathom.transport.store import ObjectStore
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.tenant import TenantStore
from tests.support.clock import loop_time
from tests.support.policy import FakePolicy, PolicyRequest


def echo(*texts: str) -> str:
    """Return a completion with one call per text."""
    return "\n".join(format_tool_call("echo", {"intent": f"to hear {text}", "text": text}) for text in texts)


async def choose_route(question: str) -> Route:
    """Return the route of a question in these tests: a plan for "How profitable …", the agent for any other."""
    mode = Mode.WORKFLOW if question.startswith("How profitable") else Mode.RESEARCH
    return Route(Scene.QUESTION_ANSWERING, mode, 1.0, "by its first words", form=await choose_form(question))


async def choose_form(question: str) -> Form:
    """Return the form of an answer in these tests: a report for "Write a report …" and 写一份报告…."""
    return Form.REPORT if question.startswith(("Write a report", "写一份报告")) else Form.ANSWER


def finish(answer: str) -> str:
    return format_tool_call("finish", {"intent": "to end", "answer": answer})


@dataclass
class Script(FakePolicy):
    """Policy that returns line n in round n, for any worker; it records the sampled request ids."""

    lines: Sequence[str]
    by_question: dict[str, Sequence[str]] = field(default_factory=dict)
    sampled: list[str] = field(default_factory=list)
    origins: list[dict[str, str]] = field(default_factory=list)
    """For whom and in which trace each was sampled."""
    hold: Mapping[int, asyncio.Event] = field(default_factory=dict)

    model: str = "s"

    async def write(self, request: PolicyRequest) -> str:
        if request.index in self.hold:
            await self.hold[request.index].wait()
        self.sampled.append(request.request_id)
        self.origins.append(current_origin())
        return self.by_question.get(request.task.question, self.lines)[request.index]


@dataclass
class Echo:
    """Tool that returns its argument; "wait…" waits for ``release``. It records its calls.

    It raises the next one of ``failures`` first, if there is one.
    """

    called: list[str]
    release: asyncio.Event
    failures: list[FathomError] = field(default_factory=list)

    name = "echo"
    description = "Says it again."
    reads = False
    parameters = make_schema(["text"], text={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        text = arguments["text"]
        if self.failures:
            raise self.failures.pop(0)
        # Held by the test, not by time: what happens meanwhile is then certain to happen in between.
        if text.startswith("wait"):
            await self.release.wait()
        self.called.append(f"{call_id} {text}")
        found = NewMaterial(MaterialKind.MISSING, {"subject": text, "reason": "NO_MATCH"})
        return lambda first: Reply(ToolStatus.OK, {"material": first, "hits": []}, text, (found,))


class House:
    """Workers over one bus and one store. ``worker`` makes another planner; ``ask`` begins a run.

    A run's lease outlasts any stall of the machine; a test of redelivery asks for a short ``ack_wait_s``.
    """

    def __init__(
        self,
        *lines: str,
        ack_wait_s: float = 60.0,
        store: ObjectStore | None = None,
        bus: Bus | None = None,
        **settings: Any,
    ) -> None:
        self.store: Any = store or MemoryStore()
        self.bus: Any = bus or MemoryBus(self.store, topology(ack_wait_s=ack_wait_s), loop_time)
        self.record = RunRepository(TenantStore(self.store))
        # Several heartbeats within the shortest lease that a test asks for, 0.3 s, as production has.
        self.config = Config(heartbeat_s=0.05, **settings)
        self.policy = Script(lines)
        """Says the same in each run, unless ``by_question`` has lines of its own for its question."""
        self.called: list[str] = []
        self.release = asyncio.Event()
        self.failures: list[FathomError] = []
        """Errors of the services behind the tool, one per call."""
        self.patience_s = 0.0
        self.telemetry = Telemetry("test", log_level="critical")
        self.clients = Clients({}, self.telemetry)
        self.runs = Runs(self.config, self.worker(), self.record, self.clients)

    def stage(self, task: Task, steps: Sequence[Step], cut_short: Step | None) -> EpisodeResources:
        known = [*steps, *([cut_short] if cut_short else [])]
        material = sum(len(result.material) for step in known for result in step.results)
        todo = Todo.from_steps(known)
        tools: list[Tool] = [Echo(self.called, self.release, self.failures), Think(), Finish(), TodoList(todo)]
        # Two, so that a third one shows what is refused.
        delegation = SubRunClient(self.bus, self.record, task, Allowance(runs=2))
        if delegation.is_allowed:
            tools.append(Delegate(delegation, Session.from_material(self.clients, task.run_id, 1.0, [])))
        bounds = CallLimits(patience_s=self.patience_s, is_strict=task.is_rollout)
        registry = Registry(tools, material, bounds, known=cut_short.results if cut_short else ())
        return EpisodeResources(registry, todo=todo)

    def worker(self, make: Callable[[], Engine] | None = None) -> Worker:
        engine = make() if make else Engine(lambda protocol: self.policy, self.stage)
        router, log = RunRouter(choose_route, choose_form), self.telemetry.log
        preparer = RunPreparer(self.config, self.protocols(), self.record, self.clients, router)
        ends = EndWriter(self.config, self.record, self.clients, self.bus, log)
        return Worker(self.config, engine, self.protocols(), self.record, self.bus, log, preparer, ends)

    def protocols(self) -> dict[int, AnyProtocol]:
        research = Research(Prompts.of(load_catalogue(), self.config))
        return {0: research, 1: research}

    async def ask(self, run_id: str = "run_1", **fields: Any) -> None:
        request = pb.RunRequest(request_id=run_id, **{"question": "why?", "model": "s", **fields})
        await self.runs.ask(request, Lane.INTERACTIVE)

    @asynccontextmanager
    async def working(self, worker: Worker | None = None) -> AsyncIterator[list[asyncio.Task[None]]]:
        """Run a worker inside the block; its unfinished runs return to the queue at the end."""
        chosen = worker or self.runs.worker
        # One consumer per depth: a parent that waits for its child must not occupy the child's place.
        tasks = [asyncio.create_task(chosen.work(Lane.INTERACTIVE, depth)) for depth in range(MAX_DEPTH + 1)]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def events(self, run_id: str = "run_1", leg: int = 0, until: str = "") -> list[pb.RunEvent]:
        """Return the run's events to the end of its leg, or to the first one of a kind."""
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
