"""Conversion of stage notes and routes to and from ``planner.v1`` messages."""

from __future__ import annotations

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb
from services.planner.workflow.record import Fault, Flaw, Meant, StageNote, SubQuery, Widening
from services.planner.workflow.routing import Mode, Route

PLAYED_BY = {
    Mode.DIRECT: pb.PROTOCOL_RESEARCH,
    Mode.WORKFLOW: pb.PROTOCOL_WORKFLOW,
    Mode.RESEARCH: pb.PROTOCOL_RESEARCH,
}
"""Protocol by mode.

The agent answers a simple question at once, while the workflow would plan it first.
"""


def note_to_proto(note: StageNote) -> pb.StageNote:
    return pb.StageNote(
        name=note.name,
        text=note.text,
        queries=[
            pb.SubQuery(
                tool=query.tool,
                text=query.text,
                origin=query.origin,
                dropped=query.dropped or "",
                indicators=query.indicators,
            )
            for query in note.queries
        ],
        flaws=[pb.StageFlaw(fault=flaw.fault, detail=flaw.detail) for flaw in note.flaws],
        widening=[pb.Widening(part=one.part, found=one.found, error=one.error) for one in note.widening],
        library=pb.LibraryNames(
            known=note.meant.known,
            canonical=note.meant.canonical,
            inside={text: pb.Names(names=names) for text, names in note.meant.inside.items()},
        ),
        room_tokens=note.room,
    )


def note_from_proto(message: pb.StageNote) -> StageNote:
    return StageNote(
        message.name,
        message.text,
        tuple(
            SubQuery(
                query.tool,
                query.text,
                query.origin,
                tuple(query.indicators),
                Fault(query.dropped) if query.dropped else None,
            )
            for query in message.queries
        ),
        tuple(Flaw(Fault(flaw.fault), flaw.detail) for flaw in message.flaws),
        tuple(Widening(one.part, tuple(one.found), one.error) for one in message.widening),
        meant_from_proto(message.library),
        message.room_tokens,
    )


def meant_from_proto(message: pb.LibraryNames) -> Meant:
    inside = {text: tuple(names.names) for text, names in message.inside.items()}
    return Meant(dict(message.known), dict(message.canonical), inside)


def route_to_proto(found: Route) -> planner.RouteQuestionResponse:
    return planner.RouteQuestionResponse(
        scene=f"SCENE_{found.scene.name}",
        confidence=found.confidence,
        mode=f"MODE_{found.mode.name}",
        protocol=PLAYED_BY[found.mode],
        reason=found.reason,
    )
