"""Fold of a run's log into its steps, from which any planner resumes the run.

A completion comes with the event ``sampled``, each result is the event ``tool_finished``, and a mark ends the step. It
says only what these do not: when the step ended, the order of its results, and results without an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.model.episode import Step
from fathom.services.planner.proto.episode import call_to_proto, step_from_proto, step_to_proto
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.tools.think import Think

# Longer than any call of a tool: between two events of one planner no more time is taken for work.
MAX_SILENCE_S = 600.0


def make_completion_entry(step: Step, prompt_hash: str) -> trajectory.Step:
    """Return the log entry of a sampled step: all but its results and its end."""
    entry = step_to_proto(replace(step, results=()), prompt_hash)
    entry.ClearField("end_time")
    return entry


def make_end_entry(step: trajectory.Step, sampled: Step) -> trajectory.Step:
    """Return the log entry that ends a step: what neither ``sampled``'s entry nor the events of its calls say."""
    entry = trajectory.Step(index=step.index, end_time=step.end_time)
    # A workflow's stage reads search hits by further calls, which its completion did not name.
    if list(step.completion.tool_calls) != [call_to_proto(call) for call in sampled.completion.tool_calls]:
        entry.completion.tool_calls.extend(step.completion.tool_calls)
    for result in step.tool_results:
        # A thought's event tells what was thought when the call begins; there is none with its result.
        has_event = result.tool != Think.name
        entry.tool_results.append(trajectory.ToolResult(tool_call_id=result.tool_call_id) if has_event else result)
    return entry


@dataclass
class StepFold:
    """Steps of a run, as far as the messages added so far tell them."""

    count: int = 0
    """Number of messages, marks included."""
    worked_s: float = 0.0
    """Seconds that planners have worked on the current leg, each by its own clock."""
    takeovers: int = 0
    """Number of times that the current leg was taken up."""
    losses: int = 0
    """Number of times in a row that it was taken up, and then lost before anything further was done."""
    parks: int = 0
    """Number of times that the current leg has waited for a service since."""
    waited_s: float = 0.0
    """Seconds of these waits."""
    started: pb.RunStarted | None = None
    """Event with which the run began: it tells how the run is played."""
    _told_at: float | None = None
    _sampled: dict[int, trajectory.Step] = field(default_factory=dict)
    _ends: dict[int, trajectory.Step] = field(default_factory=dict)
    _calls: dict[int, dict[str, policy.ToolCall]] = field(default_factory=dict)
    _results: dict[int, dict[str, pb.ToolCallFinished]] = field(default_factory=dict)
    _elsewhere: set[int] = field(default_factory=set)
    """Steps whose completion was sampled by a planner that stored steps as objects, before they were in the log."""

    def add(self, event: pb.RunEvent, step: trajectory.Step | None) -> None:
        """Add a message of the log; messages come in its order."""
        self.count += 1
        kind, done = event.WhichOneof("event"), self._count_done()
        self._measure(event)
        if kind == "sampled" and step is None:
            self._elsewhere.add(event.sampled.step)
        elif kind == "sampled" and step is not None:
            self._sampled.setdefault(step.index, step)
        elif kind == "tool_started":
            self._calls.setdefault(event.tool_started.step, {})[event.tool_started.call.id] = event.tool_started.call
        elif kind == "tool_finished":
            self._add_result(event.tool_finished)
        elif kind is None and step is not None:
            self._ends.setdefault(step.index, step)
        elif kind == "started" and self.started is None:
            self.started = event.started
        # Who lost the run got it further: faults beside it, and not the run, end its workers.
        if self._count_done() > done:
            self.losses = 0

    def _count_done(self) -> int:
        """Return how many completions, results and ends of steps are told; it grows with each piece of work done."""
        return len(self._sampled) + len(self._ends) + sum(map(len, self._results.values()))

    def _measure(self, event: pb.RunEvent) -> None:
        """Add an event to the account of the leg's time and attempts."""
        if event.HasField("finished"):
            self.worked_s, self.takeovers, self.losses, self.parks, self.waited_s = 0.0, 0, 0, 0, 0.0
        if event.HasField("taken_up") and event.taken_up.attempt:
            # Events from here on are another planner's, by another clock.
            self.takeovers, self.losses, self._told_at = self.takeovers + 1, self.losses + 1, None
        elif event.HasField("time"):
            told_at = event.time.ToMicroseconds() / 1e6
            if self._told_at is not None:
                # A clock may be set between two events.
                self.worked_s += min(MAX_SILENCE_S, max(0.0, told_at - self._told_at))
            self._told_at = told_at
        if event.HasField("waiting"):
            self.parks, self.waited_s = self.parks + 1, self.waited_s + event.waiting.expected_ms / 1000
            self.losses = max(0, self.losses - 1)

    def _add_result(self, finished: pb.ToolCallFinished) -> None:
        # The first one counts: a planner that resumed the step went on from it.
        self._results.setdefault(finished.step, {}).setdefault(finished.result.tool_call_id, finished)

    def is_elsewhere(self, index: int) -> bool:
        """Return whether the completion of a step, or of a later one, is stored outside the log."""
        return any(step >= index and step not in self._sampled for step in self._elsewhere)

    def has_completion(self, index: int) -> bool:
        return index in self._sampled

    def adopt(self, notes: Sequence[trajectory.Step]) -> None:
        """Add a step that was stored outside the log: its completion, then its results so far."""
        completion = trajectory.Step()
        completion.CopyFrom(notes[0])
        for name in ("tool_results", "material", "end_time"):
            completion.ClearField(name)
        self._sampled.setdefault(completion.index, completion)
        for note in notes:
            for call in note.completion.tool_calls:
                self._calls.setdefault(completion.index, {}).setdefault(call.id, call)
            material = {item.number: item for item in note.material}
            for result in note.tool_results:
                found = [material[number] for number in result.material]
                self._add_result(pb.ToolCallFinished(result=result, material=found, step=completion.index))

    def extend(self, steps: Sequence[trajectory.Step]) -> list[trajectory.Step]:
        """Return these steps and the complete ones that follow them."""
        extended = list(steps)
        while (step := self._assemble(len(extended))) is not None:
            extended.append(step)
        return extended

    def _assemble(self, index: int) -> trajectory.Step | None:
        """Return a complete step; None for an open one, whose missing calls are made again."""
        end, results = self._ends.get(index), self._results.get(index, {})
        if end is None or index not in self._sampled:
            return None
        step = trajectory.Step()
        step.CopyFrom(self._sampled[index])
        step.end_time.CopyFrom(end.end_time)
        if end.completion.tool_calls:
            del step.completion.tool_calls[:]
            step.completion.tool_calls.extend(end.completion.tool_calls)
        for result in end.tool_results:
            if result.tool:
                step.tool_results.append(result)
            elif (finished := results.get(result.tool_call_id)) is not None:
                step.tool_results.append(finished.result)
                step.material.extend(finished.material)
            else:
                return None
        return step

    def find_open(self, index: int) -> Step | None:
        """Return a step as far as it was executed, its results in the order in which their calls ended; or None."""
        if index not in self._sampled:
            return None
        message = trajectory.Step()
        message.CopyFrom(self._sampled[index])
        for finished in self._results.get(index, {}).values():
            message.tool_results.append(finished.result)
            message.material.extend(finished.material)
        step, calls = step_from_proto(message), self._calls.get(index, {})
        return replace(
            step,
            results=tuple(
                replace(result, call=ToolCall(known.id, known.name, known.arguments_json))
                if (known := calls.get(result.call.id)) is not None
                else result
                for result in step.results
            ),
        )


@dataclass(frozen=True)
class History:
    """Complete steps of a run, and the step after them as far as it was executed."""

    steps: list[trajectory.Step]
    open_step: Step | None
    is_new: bool
    """True when no planner has worked on the run before."""


async def load_history(
    record: RunRepository, run_id: str, fold: StepFold, ended: trajectory.Trajectory | None
) -> History:
    """Return the steps of a run from its log and, for a resumed one, from the trajectory of its last end."""
    steps = list(ended.steps) if ended is not None else []
    if fold.is_elsewhere(len(steps)):
        steps = max(steps, await record.get_steps(run_id), key=len)
    steps = fold.extend(steps)
    # The log keeps events for a day; the step that an end has cut short is stored beside the trajectory.
    if not fold.has_completion(len(steps)) and (ended is not None or fold.is_elsewhere(len(steps))):
        notes = await record.get_open_step(run_id, len(steps))
        if notes:
            fold.adopt(notes)
            steps = fold.extend(steps)
    return History(steps, fold.find_open(len(steps)), fold.count == 0 and ended is None)
