"""The open step of a run, kept as it grows: no completion is sampled twice, no finished call is made twice.

A step is recorded when it is whole. Until then its completion and the result of each finished call are notes
in the record, under the same ids that make the calls idempotent. A worker that takes the run up reads the
notes and gets from them what an earlier one had already been given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from fathom.protocol.messages import Completion, FinishReason, Message, Role, Sampling, ToolCall, ToolSpec, Usage
from services.planner.convert import step_from_proto, step_to_proto
from services.planner.loop import Policy
from services.planner.model import Step, Task, ToolResult
from services.planner.record import Record
from services.planner.stage import Tools
from services.planner.window.view import View


class Journal:
    """The notes of one run. ``read`` comes first; ``told`` hears of each completion, sampled now or noted before."""

    def __init__(self, record: Record, run_id: str, told: Callable[[int, Completion], Awaitable[None]]) -> None:
        self._record, self._run_id, self._told = record, run_id, told
        self._notes: dict[str, Step] = {}

    async def read(self, recorded: int) -> None:
        """Loads the notes of the step after ``recorded`` whole ones; older ones are remains and go."""
        notes = await self._record.notes(self._run_id)
        open_ = {name for name in notes if step_of(name) == recorded}
        self._notes = {name: step_from_proto(notes[name]) for name in sorted(open_)}
        await asyncio.gather(*(self._record.forget_note(self._run_id, name) for name in notes.keys() - open_))

    def step(self, index: int) -> Step | None:
        """The step as far as it had got: with the results of finished calls only; None when nothing was sampled."""
        sampled = self._notes.get(str(index))
        if sampled is None:
            return None
        calls = [self._notes[name] for name in sorted(self._notes, key=position_of) if name != str(index)]
        return Step(index, sampled.new_messages, sampled.completion, tuple(r for call in calls for r in call.results))

    def completion(self, request_id: str) -> Completion | None:
        """What was sampled for this request; None when nothing was."""
        note = self._notes.get(self._name(request_id))
        return None if note is None else note.completion

    async def sampled(self, request_id: str, new: tuple[Message, ...], completion: Completion) -> None:
        """Keeps a completion with the messages that were new to the model."""
        name = self._name(request_id)
        await self._keep(name, Step(step_of(name), new, completion))

    async def tell(self, request_id: str, completion: Completion) -> None:
        """Reports what the policy gave for a request."""
        await self._told(step_of(self._name(request_id)), completion)

    def result(self, call_id: str) -> ToolResult | None:
        """What this call gave; None when it was not finished."""
        note = self._notes.get(self._name(call_id))
        return note.results[0] if note is not None and note.results else None

    async def called(self, call_id: str, result: ToolResult) -> None:
        """Keeps the result of a finished call."""
        name = self._name(call_id)
        carrier = Completion(
            (), (), (), "", (result.call,), FinishReason.STOP, 0, 0, Usage(0, 0, 0, 0), exact=False, model=""
        )
        await self._keep(name, Step(step_of(name), (), carrier, (result,)))

    async def close(self, index: int) -> None:
        """Drops the notes of a step that is whole now."""
        names = [name for name in self._notes if step_of(name) == index]
        await asyncio.gather(*(self._record.forget_note(self._run_id, name) for name in names))
        for name in names:
            del self._notes[name]

    async def _keep(self, name: str, note: Step) -> None:
        await self._record.note(self._run_id, name, step_to_proto(note, ""))
        self._notes[name] = note

    def _name(self, request_id: str) -> str:
        return request_id.removeprefix(f"{self._run_id}-")


class NotedPolicy:
    """A policy that is asked only for what the journal does not have."""

    def __init__(self, policy: Policy, journal: Journal) -> None:
        self._policy, self._journal = policy, journal

    async def generate(
        self, request_id: str, task: Task, view: View, tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        completion = self._journal.completion(request_id)
        if completion is None:
            completion = await self._policy.generate(request_id, task, view, tools, sampling)
            await self._journal.sampled(request_id, newest(view.messages), completion)
        await self._journal.tell(request_id, completion)
        return completion


class NotedTools:
    """Tools of which only those calls are made whose results the journal does not have."""

    def __init__(self, tools: Tools, journal: Journal) -> None:
        self._tools, self._journal = tools, journal

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._tools.specs

    def intent(self, call: ToolCall) -> str:
        return self._tools.intent(call)

    async def call(self, call_id: str, call: ToolCall) -> ToolResult:
        known = self._journal.result(call_id)
        if known is not None:
            return known
        result = await self._tools.call(call_id, call)
        await self._journal.called(call_id, result)
        return result


def newest(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages since the model last spoke."""
    spoken = [place for place, message in enumerate(messages) if message.role is Role.ASSISTANT]
    return tuple(messages[spoken[-1] + 1 :] if spoken else messages)


def step_of(name: str) -> int:
    """The step of a note: "3" is what step 3 sampled, "3-0" what its first call gave; -1 for neither."""
    first = name.partition("-")[0]
    return int(first) if first.isdecimal() else -1


def position_of(name: str) -> tuple[int, str]:
    """Orders the calls of a step as the model made them."""
    rest = name.partition("-")[2]
    return (int(rest) if rest.isdecimal() else 0, rest)
