"""Conversion of facts and stances to and from the contract."""

from __future__ import annotations

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.domain.profile.kinds import Kind
from fathom.services.memory.profile.facts import LEARNT, STATED, Fact
from fathom.services.memory.profile.stances import Stance
from fathom.services.memory.times import to_timestamp

KINDS = {kind: f"FACT_KIND_{kind.name}" for kind in Kind}
KINDS_BACK = {pb.FactKind.Value(name): kind for kind, name in KINDS.items()} | {
    pb.FACT_KIND_UNSPECIFIED: Kind.STATEMENT
}
ORIGINS = {STATED: pb.FACT_ORIGIN_STATED, LEARNT: pb.FACT_ORIGIN_LEARNT}


def fact_to_proto(fact: Fact) -> pb.Fact:
    made = pb.Fact(
        id=fact.id,
        text=fact.text,
        run_id=fact.run,
        confidence=fact.confidence,
        kind=KINDS[fact.kind],
        value=fact.value,
        subject=fact.subject,
        origin=ORIGINS[fact.origin],
        version=fact.version,
        conversation_id=fact.conversation,
    )
    made.update_time.CopyFrom(to_timestamp(fact.updated))
    if fact.expires:
        made.expire_time.CopyFrom(to_timestamp(fact.expires))
    return made


def fact_from_proto(message: pb.Fact) -> Fact:
    """Return a fact of a request; raise ``InvalidField`` for a kind that is not known here."""
    if message.kind not in KINDS_BACK:
        raise InvalidField("fact.kind", f"{message.kind} is no kind of fact")
    # Only what was learnt brings its own time and confidence.
    learnt = message.origin == pb.FACT_ORIGIN_LEARNT
    return Fact(
        message.text,
        KINDS_BACK[message.kind],
        message.value,
        message.subject,
        message.run_id,
        message.conversation_id,
        LEARNT if learnt else STATED,
        message.confidence if learnt else 1.0,
        # What a user says on purpose is said now.
        message.update_time.ToMicroseconds() / 1e6 if learnt else 0.0,
        message.expire_time.ToMicroseconds() / 1e6 if message.HasField("expire_time") else 0.0,
        message.id,
        message.version,
    )


def stance_to_proto(stance: Stance) -> pb.Stance:
    made = pb.Stance(
        id=stance.id,
        entity=stance.entity,
        measure=stance.measure,
        start_date=stance.first,
        end_date=stance.last,
        value=stance.value,
        unit=stance.unit,
        as_of=stance.as_of,
        view=stance.view,
        run_id=stance.run,
    )
    made.create_time.CopyFrom(to_timestamp(stance.created))
    return made


def stance_from_proto(message: pb.Stance) -> Stance:
    # When the answer was given, if its caller says so.
    created = message.create_time.ToMicroseconds() / 1e6 if message.HasField("create_time") else 0.0
    return Stance(
        message.entity,
        message.measure,
        message.start_date,
        message.end_date,
        message.value,
        message.unit,
        message.as_of,
        " ".join(message.view.split()),
        message.run_id,
        created,
    )
