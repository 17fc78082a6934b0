"""Conversion of stage notes to and from ``planner.v1`` messages."""

from __future__ import annotations

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.services.planner.model.stages import Fault, Flaw, LibraryLookup, StageNote, SubQuery, Widening


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
            suited=note.meant.suited,
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
                # An empty string is proto3's unset: the sub-question was sent.
                Fault(query.dropped) if query.dropped else None,
            )
            for query in message.queries
        ),
        tuple(Flaw(Fault(flaw.fault), flaw.detail) for flaw in message.flaws),
        tuple(Widening(one.part, tuple(one.found), one.error) for one in message.widening),
        lookup_from_proto(message.library),
        message.room_tokens,
    )


def lookup_from_proto(message: pb.LibraryNames) -> LibraryLookup:
    inside = {text: tuple(names.names) for text, names in message.inside.items()}
    return LibraryLookup(dict(message.known), dict(message.canonical), inside, suited=dict(message.suited))
