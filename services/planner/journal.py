"""The open step of a run, kept as it grows: no completion is sampled twice, no finished call is made twice.

A step is recorded when it is whole. Until then what was sampled and the result of each finished call are notes
in the record. A worker that takes the run up reads the notes and gets from them what an earlier one was given.
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
    """The notes of one run: "0003" is what step 3 sampled, "0003-0001-…" its second finished call."""

    def __init__(self, record: Record, run_id: str, epoch: int = 0) -> None:
        """``epoch`` is that of the planner which writes; see ``fence``."""
        self._record, self._run_id, self._epoch = record, run_id, epoch
        self._names: list[str] = []
        self._left: list[tuple[int, str]] = []
        """Notes of earlier planners."""
        self._calls: set[str] = set()
        self._writing: set[asyncio.Task[None]] = set()
        self._dropping: set[asyncio.Task[None]] = set()

    async def read(self, recorded: int) -> Step | None:
        """The step after ``recorded`` whole ones as far as it had got, or None; notes of whole ones go.

        What the last planner with a completion has kept becomes this one's own: calls first, so that whoever comes
        next finds all of it or takes it from where it was.
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
            for name in (*calls, open_one):
                await self._keep(name, known[epoch, name])
        results = [result for name in calls for result in known[epoch, name].results]
        self._calls = {result.call.id for result in results}
        # In the order in which they ended: material has its numbers from there.
        return replace(known[epoch, open_one], index=recorded, results=tuple(results))

    async def sampled(self, step: Step) -> None:
        """Keeps what was sampled with the messages before it."""
        name = f"{step.index:04d}"
        if name not in self._names:
            self._calls = set()
            await self._keep(name, step)

    def called(self, index: int, result: ToolResult) -> asyncio.Task[None] | None:
        """Keeps the result of a finished call; the task ends when it is kept, None says that it is."""
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
        """Returns when every finished call is kept; raises what kept one from that."""
        await asyncio.gather(*self._writing)

    async def end(self) -> None:
        """Returns when nothing is being written or dropped any more."""
        await asyncio.gather(*self._writing, *self._dropping, return_exceptions=True)

    def close(self, index: int) -> None:
        """Drops the notes of a step that is whole; nobody waits for that."""
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
