"""The commands of ``fathom review`` over the real queues, beside doubles of judgements, runs and consent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, RetryPolicy
from fathom.core.call import Call, Lane
from fathom.core.errors import NotFound
from fathom.core.telemetry import Telemetry
from fathom.services.memory.engine import Engine
from fathom.services.memory.reviews.servicer import ReviewServicer
from fathom.trainers.commands.reviews import files, reviews
from fathom.trainers.commands.reviews.deciding import Terminal, decide_all
from fathom.trainers.commands.reviews.queues import KINDS
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from tests.e2e.files.reviews import RPCS

Work = Callable[[Clients], Awaitable[None]]


class Memory:
    """Judgements, beside the real queues."""

    def __init__(self, queues: ReviewServicer, judged: list[memory.Feedback]) -> None:
        self._judged = judged
        for name in RPCS:
            setattr(self, name, partial(self._review, getattr(queues, name)))

    async def _review(self, answer: Callable[..., Awaitable[Any]], request: Any, call: Call) -> Any:
        return await answer(request, call)

    async def ListFeedback(self, request: memory.ListFeedbackRequest, call: Call) -> memory.ListFeedbackResponse:
        return memory.ListFeedbackResponse(feedback=self._judged)


@dataclass
class Planner:
    """Runs with their answers; a question that is asked again gets the next answer of ``again``."""

    runs: dict[str, trajectory.Trajectory] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    again: list[trajectory.Answer] = field(default_factory=list)
    asked: list[tuple[str, Lane]] = field(default_factory=list)

    async def ListRuns(self, request: planner.ListRunsRequest, call: Call) -> planner.ListRunsResponse:
        ended = trajectory.STOP_REASON_FINISHED
        return planner.ListRunsResponse(runs=[planner.RunSummary(run_id=name, stop_reason=ended) for name in self.runs])

    async def GetRun(self, request: planner.GetRunRequest, call: Call) -> planner.GetRunResponse:
        if request.run_id not in self.runs:
            raise NotFound("run", request.run_id)
        return planner.GetRunResponse(trajectory=self.runs[request.run_id])

    async def GetConsent(self, request: planner.GetConsentRequest, call: Call) -> planner.GetConsentResponse:
        is_refused = request.run_id in self.refused
        return planner.GetConsentResponse(
            consent=trajectory.CONSENT_REFUSED if is_refused else trajectory.CONSENT_GIVEN
        )

    async def Run(self, request: planner.RunRequest, call: Call) -> AsyncIterator[planner.RunResponse]:
        self.asked.append((request.question, call.lane))
        if request.request_id not in self.runs:
            found = trajectory.Trajectory(
                run_id=request.request_id, question=request.question, answer=self.again.pop(0)
            )
            self.runs[request.request_id] = found
        yield planner.RunResponse(event=planner.RunEvent(sequence=1, finished=planner.RunFinished()))


@dataclass
class House:
    """A stack in this process; ``run`` calls a command of ``fathom review`` on it."""

    folder: Path
    judged: list[memory.Feedback] = field(default_factory=list)
    planner: Planner = field(default_factory=Planner)

    def run_with_clients(self, home: Path, tenant: str, work: Work, lane: Lane = Lane.INTERACTIVE) -> None:
        asyncio.run(self._work(work, lane))

    async def _work(self, work: Work, lane: Lane) -> None:
        engine, telemetry = Engine(self.folder / "memory.sqlite3"), Telemetry("test", log_level="critical")
        await engine.start()
        servicers = {"memory": Memory(ReviewServicer(engine.reviews), self.judged), "planner": self.planner}
        dispatchers = {name: Dispatcher(Service(name, servicer), telemetry) for name, servicer in servicers.items()}
        for dispatcher in dispatchers.values():
            dispatcher.ready = True
        endpoints = {name: f"inproc://{name}" for name in servicers}
        once = RetryPolicy(attempts=1)
        clients = Clients(endpoints, telemetry, dispatchers=dispatchers, policy=once, lane=lane)
        try:
            await work(clients)
        finally:
            await clients.close()
            await engine.close()

    def run(self, *arguments: str) -> str:
        """Call a command that succeeds and return what it prints."""
        done = CliRunner().invoke(reviews, list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def decide(self, kind: str, ask: Callable[[str, list[str]], str], edited: str = "") -> list[str]:
        """Decide on a queue as a person who answers by ``ask`` from the prompt and what is shown; return all shown."""
        shown: list[str] = []
        terminal = Terminal(lambda prompt: ask(prompt, shown), lambda text: edited, shown.append)

        async def work(clients: Clients) -> None:
            await decide_all(clients, KINDS[kind], terminal)

        self.run_with_clients(self.folder, "", work)
        return shown


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    found = House(tmp_path)
    monkeypatch.setattr(files, "run_with_clients", found.run_with_clients)
    return found
