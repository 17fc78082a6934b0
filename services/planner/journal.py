"""Journal of a run's open step, so that no completion is sampled twice and no finished call is repeated.

A step is recorded when it is complete. Until then, the completion and the result of each finished call are notes in
the record, from which a worker that takes the run over restores the step.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fathom.ids import sha256
from fathom.protocol.messages import Completion, FinishReason, Usage
from services.planner.convert import step_from_proto, step_to_proto
from services.planner.model import Step, ToolResult
from services.planner.record import Record

NOTHING = Completion((), (), (), "", (), FinishReason.STOP, 0, 0, Usage(0, 0, 0, 0), exact=False, model="")


class Journal:
    """Notes of one run: "0003" is the completion of step 3, "0003-0001-…" its first finished call."""

    def __init__(self, record: Record, run_id: str, epoch: int = 0) -> None:
        """Create the journal; ``epoch`` is that of the writing planner, see ``fence``."""
        self._record, self._run_id, self._epoch = record, run_id, epoch
        self._names: list[str] = []
        self._left: list[tuple[int, str]] = []
        """Notes of previous planners."""
        self._calls: set[str] = set()
        self._writing: set[asyncio.Task[None]] = set()
        self._dropping: set[asyncio.Task[None]] = set()

    async def read(self, recorded: int) -> Step | None:
        """Return the step after ``recorded`` complete ones as far as it was executed, or None.

        Delete notes of complete steps.
        """
        known = {place: step_from_proto(note) for place, note in (await self._record.notes(self._run_id)).items()}
        self._left = sorted(known)
        for index in {step.index for step in known.values() if step.index < recorded}:
            self.close(index)
        open_one = f"{recorded:04d}"
        epoch = max((epoch for epoch, name in known if name == open_one), default=None)
        if epoch is None:
            return None
        calls = [name for at, name in self._left if at == epoch and name.startswith(f"{open_one}-")]
        if epoch != self._epoch:
            # The notes of the last planner with a completion are copied to this epoch, calls first: a planner that
            # takes over meanwhile then finds either the complete copy or the original.
            for name in (*calls, open_one):
                await self._keep(name, known[epoch, name])
        results = [result for name in calls for result in known[epoch, name].results]
        self._calls = {result.call.id for result in results}
        # In the order in which they ended: material has its numbers from there.
        return replace(known[epoch, open_one], index=recorded, results=tuple(results))

    async def sampled(self, step: Step) -> None:
        """Store the completion with the messages before it."""
        name = f"{step.index:04d}"
        if name not in self._names:
            self._calls = set()
            await self._keep(name, step)

    def called(self, index: int, result: ToolResult) -> asyncio.Task[None] | None:
        """Start to store the result of a finished call; return the task, or None when it is stored already."""
        if result.call.id in self._calls:
            return None
        self._calls.add(result.call.id)
        name = f"{index:04d}-{len(self._calls):04d}-{sha256(result.call.id.encode())[:8]}"
        note = Step(index, (), replace(NOTHING, tool_calls=(result.call,)), (result,))
        writing = asyncio.create_task(self._keep(name, note), name=f"note {name}")
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return writing

    async def settled(self) -> None:
        """Wait until every finished call is stored; raise the error that prevented it."""
        await asyncio.gather(*self._writing)

    async def end(self) -> None:
        """Wait until no note is being written or deleted."""
        await asyncio.gather(*self._writing, *self._dropping, return_exceptions=True)

    def close(self, index: int) -> None:
        """Delete the notes of a complete step, in the background."""
        dropping = asyncio.create_task(self._drop(index, [*self._writing]), name=f"drop notes {index}")
        self._dropping.add(dropping)
        dropping.add_done_callback(self._dropping.discard)

    async def _drop(self, index: int, writing: list[asyncio.Task[None]]) -> None:
        await asyncio.gather(*writing, return_exceptions=True)
        names = [(self._epoch, name) for name in self._names if name.startswith(f"{index:04d}")]
        names += [place for place in self._left if place[1].startswith(f"{index:04d}") and place not in names]
        self._names = [name for name in self._names if (self._epoch, name) not in names]
        self._left = [place for place in self._left if place not in names]
        await asyncio.gather(*(self._record.forget_note(self._run_id, name, epoch) for epoch, name in names))

    async def _keep(self, name: str, note: Step) -> None:
        await self._record.note(self._run_id, name, step_to_proto(note, ""), self._epoch)
        self._names.append(name)
