"""Conversion of readings to ``planner.v1`` messages."""

from __future__ import annotations

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.services.planner.model.slots import Reading, Slot


def reading_to_proto(reading: Reading) -> pb.Reading:
    slots = [slot_to_proto(slot) for slot in reading.slots]
    return pb.Reading(line=reading.line, question=reading.question, slots=slots)


def slot_to_proto(slot: Slot) -> pb.Slot:
    return pb.Slot(
        kind=f"MENTION_KIND_{slot.kind.name}",
        text=slot.text,
        value=slot.value,
        start=slot.start,
        end=slot.end,
        source=f"SLOT_SOURCE_{slot.source.name}",
        state=f"SLOT_STATE_{slot.state.name}",
        detail=slot.detail,
        material=slot.material,
    )
