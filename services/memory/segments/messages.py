"""Messages of SearchMemory to and from what the search takes and gives."""

from __future__ import annotations

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.services.memory.points import shorten
from fathom.services.memory.segments.searching import ANSWER_CHARS, Found, Recalled, RecalledSegment, Wanted
from fathom.services.memory.times import to_seconds, to_timestamp


def wanted_from_proto(request: pb.SearchMemoryRequest, window: int) -> Wanted:
    """Return what a request asks for; ``window`` is how many turns a window has."""
    return Wanted(
        request.question,
        request.top_k,
        request.page_token,
        request.conversation_id,
        request.through,
        to_seconds(request.after),
        to_seconds(request.before),
        window if request.older_than_window else 0,
    )


def found_to_proto(found: Found) -> pb.SearchMemoryResponse:
    """Return the response of what was found."""
    by_meaning = pb.RECALL_METHOD_MEANING_AND_WORDS
    return pb.SearchMemoryResponse(
        pages=[page_to_proto(one) for one in found.turns],
        segments=[segment_to_proto(one) for one in found.segments],
        method=by_meaning if found.has_meaning else pb.RECALL_METHOD_WORDS,
        next_page_token=found.token,
        has_turns=found.has_turns,
    )


def page_to_proto(one: Recalled) -> pb.MemoryPage:
    """Return a recalled turn."""
    turn, page = one.turn, one.page
    answer = turn.answer
    if len(answer) > ANSWER_CHARS:
        answer = answer[: ANSWER_CHARS - 1] + "…"
    return pb.MemoryPage(
        conversation_id=turn.conversation,
        turn=pb.Turn(
            number=turn.number,
            question=turn.question[:ANSWER_CHARS],
            rewritten_question=turn.rewritten[:ANSWER_CHARS],
            answer=answer,
            run_id=turn.run,
            end_time=to_timestamp(turn.ended),
            bullets=[shorten(bullet) for bullet in turn.bullets],
        ),
        score=one.score,
        segment=page.segment,
        continues=page.continues,
        chain=page.chain,
        passage=one.passage,
    )


def segment_to_proto(one: RecalledSegment) -> pb.MemorySegment:
    """Return a segment with its summary and the turns that this stands on."""
    segment = one.segment
    return pb.MemorySegment(
        id=segment.number,
        summary=segment.summary,
        written_by=segment.written_by,
        sources=[pb.TurnId(conversation_id=conversation, number=number) for conversation, number in segment.sources],
        score=one.score,
        heat=one.heat,
        first_time=to_timestamp(segment.first),
        last_time=to_timestamp(segment.last),
    )
