"""Conversion of what is remembered to and from the contract."""

from __future__ import annotations

from datetime import UTC

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.domain.profile.kinds import Kind, check_value
from fathom.services.planner.model.memory import Fact, Memory, View

KINDS = {memory.FactKind.Value(f"FACT_KIND_{kind.name}"): kind for kind in Kind} | {
    memory.FACT_KIND_UNSPECIFIED: Kind.STATEMENT
}
NAMES = {kind: f"FACT_KIND_{kind.name}" for kind in Kind}


def fact_from_proto(message: memory.Fact, field: str = "fact") -> Fact:
    """Return a fact; raise ``InvalidField`` for a kind or a value that is none."""
    if message.kind not in KINDS:
        raise InvalidField(f"{field}.kind", f"{message.kind} is no kind of fact")
    kind = KINDS[message.kind]
    value = check_value(kind, message.value, f"{field}.value")
    return Fact(message.id, kind, value, message.text, find_day(message, "update_time"), message.subject)


def fact_to_proto(fact: Fact) -> memory.Fact:
    made = memory.Fact(id=fact.id, kind=NAMES[fact.kind], value=fact.value, text=fact.text, subject=fact.subject)
    if fact.day:
        made.update_time.FromJsonString(f"{fact.day}T00:00:00Z")
    return made


def view_from_proto(message: memory.Stance) -> View:
    return View(
        message.entity,
        message.measure,
        message.start_date,
        message.end_date,
        message.value,
        message.unit,
        message.view,
        message.as_of,
        find_day(message, "create_time"),
        message.run_id,
        id=message.id,
    )


def view_to_proto(view: View) -> memory.Stance:
    made = memory.Stance(
        id=view.id,
        entity=view.entity,
        measure=view.measure,
        start_date=view.first,
        end_date=view.last,
        value=view.value,
        unit=view.unit,
        view=view.text,
        as_of=view.as_of,
        run_id=view.run,
    )
    if view.day:
        made.create_time.FromJsonString(f"{view.day}T00:00:00Z")
    return made


def memory_from_proto(message: pb.Remembered, field: str = "remembered") -> Memory:
    """Return what an episode is given of a memory; raise ``InvalidField`` naming a fact that is none."""
    return Memory(
        tuple(fact_from_proto(one, f"{field}.facts[{place}]") for place, one in enumerate(message.facts)),
        tuple(map(view_from_proto, message.stances)),
        tuple(message.applied),
        message.question,
    )


def memory_to_proto(held: Memory) -> pb.Remembered:
    return pb.Remembered(
        facts=map(fact_to_proto, held.facts),
        stances=map(view_to_proto, held.views),
        applied=held.applied,
        question=held.question,
    )


def find_day(message: memory.Fact | memory.Stance, name: str) -> str:
    """Return the ISO date of a time of a message; "" where it is unset."""
    return getattr(message, name).ToDatetime(UTC).date().isoformat() if message.HasField(name) else ""
