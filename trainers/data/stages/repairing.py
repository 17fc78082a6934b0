"""Repair of answers in two turns: a model lists what is wrong, then corrects it; what stays wrong goes to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fathom.domain.chat.quoting import write_sections
from fathom.domain.intervals import bootstrap_mean
from fathom.domain.text.markup import list_citations
from fathom.trainers.data.instructions import instruction, name_instruction
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.stages.record import Record, make_id, read_prompt, update
from fathom.trainers.data.stages.running import Task

Kind = Literal["time", "number", "event"]
KINDS: tuple[Kind, ...] = ("time", "number", "event")


class Fault(BaseModel):
    """One place where an answer is wrong: ``quote`` are its words."""

    kind: Kind
    quote: str = Field(min_length=1, max_length=2_000)
    why: str = ""


class Faults(BaseModel):
    """A model's reply of the first turn."""

    model_config = ConfigDict(title="fathom.data.faults")

    faults: list[Fault] = Field(max_length=50)


class Corrected(BaseModel):
    """A model's reply of the second turn."""

    model_config = ConfigDict(title="fathom.data.corrected")

    answer: str = Field(min_length=1)


@dataclass(frozen=True)
class Rate:
    """Faults of one kind that were found, and how many of them were mended, with the interval of their share."""

    kind: str
    found: int
    fixed: int
    low: float
    high: float


def make_tasks(records: Sequence[Record], mender: Asker) -> list[Task[Record]]:
    """Return a task per answer, whatever its status: rejected ones may be mended, too."""
    rows = [record for record in records if record.stage == "answer" and record.output]
    return [make_task(record, mender) for record in rows]


def make_task(record: Record, mender: Asker) -> Task[Record]:
    """Return the task of one answer."""
    name = make_id("repair", record.id, mender.model)

    async def make() -> Record:
        shown = write_sections(read_shown(record))
        found = await mender.ask(instruction("faults", "en"), shown, Faults, seed=0)
        base = update(
            record,
            id=name,
            stage="repair",
            parents=(record.id,),
            status="review",
            reason="no list of faults could be read",
            # Not the worse side of the tournament: the pair of this row is the answer before and after its repair.
            rejected="",
            judged_by=mender.version,
            instructions=(name_instruction("faults", "en"),),
            # The tournament's tags are of the choice among answers, and say nothing of this step.
            tags={},
        )
        if found is None:
            return base
        # A fault whose words are not in the answer cannot be mended, and says nothing of it.
        faults = [fault for fault in found.faults if fault.quote in record.output]
        if not faults:
            # An answer without a fault has the status that it had: this check does not know why one was rejected.
            return update(base, status=record.status, reason="nothing was found to be wrong", tags=count_kinds([], []))
        return await correct(base, record, faults, mender)

    return Task(name, make)


async def correct(base: Record, record: Record, faults: Sequence[Fault], mender: Asker) -> Record:
    """Return the corrected answer; it waits for a person while a fault stays or a citation is lost."""
    # The first turn is told without the faults that the answer does not have, which nobody could correct.
    said = Faults(faults=list(faults)).model_dump_json()
    earlier = [(write_sections(read_shown(record)), said)]
    reply = await mender.ask(instruction("faults", "en"), instruction("corrected", "en"), Corrected, 0, earlier)
    names = (*base.instructions, name_instruction("corrected", "en"))
    if reply is None or reply.answer == record.output:
        tags = count_kinds(faults, faults)
        return update(base, reason="no other answer could be read", instructions=names, tags=tags)
    # The second check does not see the first one, so that it cannot simply agree with it.
    again = await mender.ask(
        instruction("faults", "en"), write_sections({**read_shown(record), "Answer": reply.answer}), Faults, seed=0
    )
    left = find_left(faults, reply.answer, again)
    # Of mended answers alone: while a fault stays, a person reads the answer anyway.
    lost = list_citations(record.output) - list_citations(reply.answer) if not left else set()
    reason = f"{len(left)} of {len(faults)} faults stay" if left else "all faults are mended"
    if lost:
        reason = f"the correction lost the citations {', '.join(map(str, sorted(lost)))}"
    return update(
        base,
        status="review" if left or lost else "accepted",
        reason=reason,
        made_by=mender.version,
        instructions=names,
        tags=count_kinds(faults, left),
        output=reply.answer,
        rejected=record.output,
    )


def find_left(faults: Sequence[Fault], answer: str, again: Faults | None) -> list[Fault]:
    """Return the faults that a correction did not mend.

    One stays when its words do, or when the second check finds one of its kind: a wrong figure may have become another
    wrong figure. Without a second check nothing counts as mended.
    """
    if again is None:
        return list(faults)
    kinds = {fault.kind for fault in again.faults if fault.quote in answer}
    return [fault for fault in faults if fault.quote in answer or fault.kind in kinds]


def read_shown(record: Record) -> dict[str, str]:
    """Return what a checker is shown: question, material, answer."""
    asked = read_prompt(record.messages)
    question, material = (asked["question"], asked["material"]) if asked is not None else ("", "")
    return {"Question": question, "Material": material, "Answer": record.output}


def count_kinds(faults: Sequence[Fault], left: Sequence[Fault]) -> dict[str, int]:
    """Return how many faults of each kind there were and are left, as tags."""
    found, stay = Counter(fault.kind for fault in faults), Counter(fault.kind for fault in left)
    return {f"{kind}_{word}": counts[kind] for kind in KINDS for word, counts in (("found", found), ("left", stay))}


def measure_rates(records: Sequence[Record]) -> list[Rate]:
    """Return the rate of mended faults for each kind; its interval of 95 % is over answers."""
    rates = []
    for kind in KINDS:
        pairs = [(int(record.tags.get(f"{kind}_{word}", 0)) for word in ("found", "left")) for record in records]
        counts = [(found, left) for found, left in pairs if found]
        # Grouped by answer: faults of one answer are mended or missed together, and as single ones they would give too
        # narrow an interval.
        groups = [[1.0] * (found - left) + [0.0] * left for found, left in counts]
        # Without a fault that was found the rate may be anything.
        low, high = bootstrap_mean(groups) if groups else (0.0, 1.0)
        found = sum(found for found, _ in counts)
        rates.append(Rate(kind, found, found - sum(left for _, left in counts), low, high))
    return rates
