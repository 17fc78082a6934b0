"""The words of a follow-up that refer to earlier turns and answers, replaced by what they mean; nothing is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.text.language import language_of
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, ReadText
from fathom.services.planner.questions.follow_ups import (
    choose_preposition,
    complete_dates,
    complete_ends,
    drop_denied,
    list_meant,
    name_shifted,
    settle_then,
)
from fathom.services.planner.questions.frames import Frame, Turn, find_frame
from fathom.services.planner.questions.names import promote_names
from fathom.services.planner.questions.phrasing import join_names, replace_span
from fathom.services.planner.questions.references import (
    EARLIER,
    NAMING,
    SAME,
    SHIFTED,
    STATEMENT,
    Reference,
    drop_overlapped,
    find_references,
)
from fathom.services.planner.questions.substitution import move_to_year

# What is said about an answer, or about a turn that is not named, is no calculation of its own.
UNSETTLED = frozenset({EARLIER, STATEMENT})


@dataclass(frozen=True)
class Settled:
    """A follow-up without referring words; ``is_dated`` by a period that an answer has found in a longer one."""

    text: str
    is_dated: bool = False


def settle_references(question: ReadText, turns: Sequence[Turn]) -> Settled | None:
    """Return the follow-up with names and periods for its referring words; None where one has no or several meanings.

    What it denies is left out ("Tampa, not Boston"), and a bare year is the month of the question before in that year.
    """
    turns = [turn for turn in turns if turn.has_data]
    if not turns:
        return None
    known = [slot for turn in turns for slot in turn.question.of(ENTITY)]
    question = promote_names(complete_ends(complete_dates(question, turns), turns), known, is_follow_up=True)
    references = settle_then(find_references(question), question, turns)
    if any(one.kind in UNSETTLED for one in references):
        return None
    frame, question = find_frame(question, turns, references), drop_denied(drop_overlapped(question, references))
    chinese, text, is_dated = language_of(question.text) == "zh", question.text, False
    if not references:
        is_year_only = not question.of(ENTITY + TOPIC)
        moved = move_to_year(question, turns[-1].question, chinese) if is_year_only else []
        slot = question.of(PERIOD)[0] if moved else None
        return Settled(replace_span(question, slot.start, slot.end, moved[0]).text if slot else text)
    for one in reversed(references):
        if one.kind not in (*NAMING, SAME, SHIFTED):
            continue
        words = name_reference(one, frame, question, chinese)
        if not words:
            return None
        is_dated |= one.kind not in NAMING and frame.moment is not None
        text = text[: one.start] + words + text[one.end :]
    return Settled(text, is_dated)


def name_reference(one: Reference, frame: Frame, question: ReadText, chinese: bool) -> str:
    """Return what referring words mean; "" for nothing and for several things."""
    if one.kind in NAMING:
        meant = list_meant(one, frame, question)
        return join_names(meant[0], chinese) + ("'s" if one.is_genitive else "") if len(meant) == 1 else ""
    days = name_shifted(one, frame, chinese)
    if len(days) != 1:
        return ""
    is_placed = chinese or days[0].startswith(("in ", "from "))
    return days[0] if is_placed else f"{choose_preposition(days[0])} {days[0]}"
