"""A planner that replays one realistic run for every question, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call
from fathom.core.errors import Conflict, DependencyFailed, NotFound, Overloaded
from tests.e2e.script import Script
from tests.e2e.settings.sources import ToolSources


@dataclass
class Replayed:
    """A run so far."""

    request: planner.RunRequest
    events: list[planner.RunEvent] = field(default_factory=list)
    grown: asyncio.Condition = field(default_factory=asyncio.Condition)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    leg: int = 0
    todo: list[planner.TodoItem] = field(default_factory=list)
    unseen: planner.TodoChanged | None = None
    """A change of the plan that no event says yet."""

    @property
    def todo_version(self) -> str:
        return self.find_todo().change_id

    def find_todo(self) -> planner.TodoChanged:
        """Return the last change of the plan, one whose event is still on its way included."""
        changes = [event.todo_changed for event in self.events if event.HasField("todo_changed")]
        return self.unseen or (changes[-1] if changes else planner.TodoChanged())

    @property
    def is_finished(self) -> bool:
        return bool(self.events) and self.events[-1].HasField("finished")


class ReplayPlanner(ToolSources):
    """Replays ``script`` for every question; ``break_after`` cuts a stream once after that many events."""

    def __init__(self, script: Script) -> None:
        self.consents: dict[str, Any] = {}
        self.script = script
        self.runs: dict[str, Replayed] = {}
        self.asked: list[planner.RunRequest] = []
        self.watched: list[int] = []
        self.break_after = 0
        self.gone = ""
        self.models: set[str] = set()
        """Models that there are; empty takes any."""
        self.full: Overloaded | None = None
        """Raised for each new run."""
        self.before = 0
        """Runs that each new run finds before it."""
        self.prompts: list[planner.PromptFile] = []
        self.failure: tuple[str, str] | None = None
        """Service and words of a failure that the list says of each run."""
        self._holding: int | None = None
        self._free = asyncio.Event()
        self._free.set()
        self._playing: set[asyncio.Task[None]] = set()

    def hold(self, before: int) -> None:
        """Stops before event number ``before`` until ``release``."""
        self._holding = before
        self._free.clear()

    def release(self) -> None:
        self._holding = None
        self._free.set()

    async def close(self) -> None:
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)

    async def Run(self, request: planner.RunRequest, call: Call) -> AsyncIterator[planner.RunResponse]:
        self.asked.append(request)
        if self.full is not None:
            raise self.full
        if self.models and request.model and request.model not in self.models:
            raise NotFound("model", request.model, sorted(self.models), field="model")
        if request.request_id not in self.runs:
            self.runs[request.request_id] = run = Replayed(request)
            task = asyncio.create_task(self._play(run))
            self._playing.add(task)
        # Known by now: the gateway leaves at the first event, and those who watch the run come after it.
        if self.before:
            waiting = planner.RunWaiting(before=self.before, expected_ms=9_000, conversation_id="conv_1")
            yield planner.RunResponse(event=planner.RunEvent(run_id=request.request_id, waiting=waiting))
        async for event in self._follow(request.request_id, 0):
            yield planner.RunResponse(event=event)

    async def _play(self, run: Replayed, skip: int = 0) -> None:
        for event in self.script.events(run.request):
            if event.sequence <= skip:
                continue
            if self._holding is not None and event.sequence >= self._holding:
                # A held run must still end when it is stopped.
                waits = {asyncio.create_task(self._free.wait()), asyncio.create_task(run.stopped.wait())}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
            if run.stopped.is_set():
                event = self.script.stop_run(run.request, event.sequence)
            async with run.grown:
                # Counted here and not in the script: a test may have told events of its own in between.
                event.sequence = len(run.events) + 1
                run.events.append(event)
                run.grown.notify_all()
            if event.HasField("finished"):
                return

    async def _follow(self, run_id: str, after: int) -> AsyncIterator[planner.RunEvent]:
        run, position = self._run(run_id), after
        while True:
            async with run.grown:
                while len(run.events) <= position:
                    if run.is_finished:  # nothing follows a place beyond its end
                        return
                    await run.grown.wait()
            event = run.events[position]
            position += 1
            if self.break_after and position > self.break_after:
                # Once: the client that takes the stream up again must find it whole.
                self.break_after = 0
                raise DependencyFailed("planner", "the connection broke")
            yield event
            if event.HasField("finished") and position == len(run.events):
                return

    def _run(self, run_id: str) -> Replayed:
        if self.gone:
            raise DependencyFailed("planner", self.gone)
        if run_id not in self.runs:
            raise NotFound("run", run_id)
        return self.runs[run_id]

    async def WatchRun(self, request: planner.WatchRunRequest, call: Call) -> AsyncIterator[planner.WatchRunResponse]:
        self.watched.append(request.after_sequence)
        if self.before:
            waiting = planner.RunWaiting(before=self.before, expected_ms=9_000)
            yield planner.WatchRunResponse(event=planner.RunEvent(run_id=request.run_id, waiting=waiting))
        async for event in self._follow(request.run_id, request.after_sequence):
            yield planner.WatchRunResponse(event=event)

    async def StopRun(self, request: planner.StopRunRequest, call: Call) -> planner.StopRunResponse:
        run = self._run(request.run_id)
        run.stopped.set()
        return planner.StopRunResponse(was_running=not run.is_finished)

    async def ResumeRun(
        self, request: planner.ResumeRunRequest, call: Call
    ) -> AsyncIterator[planner.ResumeRunResponse]:
        """Plays what the stop had cut off."""
        run = self._run(request.run_id)
        if not run.is_finished or run.events[-1].finished.HasField("answer"):
            raise Conflict("it is running, or it has its answer")
        run.leg, position = run.leg + 1, len(run.events)
        run.stopped.clear()
        resumed = planner.RunEvent(
            sequence=position + 1, run_id=request.run_id, resumed=planner.RunResumed(leg=run.leg)
        )
        resumed.time.GetCurrentTime()
        async with run.grown:
            run.events.append(resumed)
            run.grown.notify_all()
        task = asyncio.create_task(self._play(run, skip=position - 1))
        self._playing.add(task)
        async for event in self._follow(request.run_id, position):
            yield planner.ResumeRunResponse(event=event)

    async def UpdateTodo(self, request: planner.UpdateTodoRequest, call: Call) -> planner.UpdateTodoResponse:
        run = self._run(request.run_id)
        if run.is_finished:
            raise Conflict("the run has ended")
        current = run.todo_version
        if request.HasField("version") and request.version != current:
            raise Conflict("version: changed meanwhile", metadata={"field": "version", "version": current})
        run.todo, run.unseen = list(request.items), None
        change = planner.TodoChanged(items=request.items, by_user=True, change_id=request.request_id or "edit")
        await self.tell(request.run_id, todo_changed=change)
        return planner.UpdateTodoResponse(items=request.items, version=change.change_id)

    async def change_silently(self, run_id: str, change: planner.TodoChanged) -> None:
        """Change the plan as another reader does whose event is still on its way."""
        self._run(run_id).unseen = change

    async def SetConsent(self, request: planner.SetConsentRequest, call: Call) -> planner.SetConsentResponse:
        self.consents[request.run_id] = request.consent
        return planner.SetConsentResponse()

    async def GetConsent(self, request: planner.GetConsentRequest, call: Call) -> planner.GetConsentResponse:
        of_run = request.run_id in self.consents
        stated = self.consents.get(request.run_id, self.consents.get("", 0))
        return planner.GetConsentResponse(consent=stated, of_run=of_run and bool(request.run_id))

    async def ReplayRun(self, request: planner.ReplayRunRequest, call: Call) -> planner.ReplayRunResponse:
        self._run(request.run_id)
        return planner.ReplayRunResponse(same=True, recorded_hash="00", replayed_hash="00", steps=2)

    async def tell(self, run_id: str, **event: Any) -> None:
        """One further event of a run that is held."""
        run = self._run(run_id)
        async with run.grown:
            message = planner.RunEvent(sequence=len(run.events) + 1, run_id=run_id, **event)
            message.time.GetCurrentTime()
            run.events.append(message)
            run.grown.notify_all()

    async def GetRun(self, request: planner.GetRunRequest, call: Call) -> planner.GetRunResponse:
        run = self._run(request.run_id)
        record = self.script.trajectory(run.request, run.events)
        conversation = self.script.conversation(run.request)
        return planner.GetRunResponse(
            trajectory=record,
            running=not run.is_finished,
            conversation_id=conversation,
            todo=run.find_todo().items,
            todo_version=run.todo_version,
        )

    async def ListRuns(self, request: planner.ListRunsRequest, call: Call) -> planner.ListRunsResponse:
        return planner.ListRunsResponse(runs=reversed([self._summarize(*one) for one in self.runs.items()]))

    async def ListPrompts(self, request: planner.ListPromptsRequest, call: Call) -> planner.ListPromptsResponse:
        """List what ``prompts`` has."""
        return planner.ListPromptsResponse(prompts=self.prompts)

    def _summarize(self, run_id: str, run: Replayed) -> planner.RunSummary:
        summary = planner.RunSummary(run_id=run_id, question=run.request.question, model=run.request.model)
        if run.is_finished:
            first, last = run.events[0], run.events[-1]
            summary.stop_reason, summary.lane = last.finished.stop_reason, common.LANE_INTERACTIVE
            summary.start_time.CopyFrom(first.time)
            summary.end_time.CopyFrom(last.time)
            summary.usage.CopyFrom(last.finished.usage)
        if self.failure is not None:
            summary.stop_reason = trajectory.STOP_REASON_FAILED
            summary.culprit, summary.error = self.failure
        return summary
