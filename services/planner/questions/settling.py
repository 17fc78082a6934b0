"""The words of a follow-up that refer to earlier turns and answers, replaced by what they mean; nothing is added."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.domain.text.language import language_of
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, ReadText
from fathom.services.planner.questions.follow_ups import (
    choose_preposition,
    complete_dates,
    complete_ends,
    drop_denied,
    list_meant,
    name_found,
    name_shifted,
    settle_then,
)
from fathom.services.planner.questions.frames import Frame, Turn, find_frame
from fathom.services.planner.questions.names import promote_names
from fathom.services.planner.questions.phrasing import join_names, replace_span
from fathom.services.planner.questions.references import (
    FOUND,
    NAMING,
    SAME,
    SHIFTED,
    Reference,
    drop_overlapped,
    find_references,
)
from fathom.services.planner.questions.substitution import move_to_year


def settle_references(question: ReadText, turns: Sequence[Turn]) -> str:
    """Return the follow-up with names and periods for its referring words; words with no or several meanings stay.

    What it denies is left out ("Tampa, not Boston"), and a bare year is the month of the question before in that year.
    """
    turns = [turn for turn in turns if turn.has_data]
    if not turns:
        return question.text
    known = [slot for turn in turns for slot in turn.question.of(ENTITY)]
    question = promote_names(complete_ends(complete_dates(question, turns), turns), known, is_follow_up=True)
    references = settle_then(find_references(question), question, turns)
    frame, question = find_frame(question, turns, references), drop_denied(drop_overlapped(question, references))
    chinese, text = language_of(question.text) == "zh", question.text
    if not references:
        is_year_only = not question.of(ENTITY + TOPIC)
        moved = move_to_year(question, turns[-1].question, chinese) if is_year_only else []
        slot = question.of(PERIOD)[0] if moved else None
        return replace_span(question, slot.start, slot.end, moved[0]).text if slot else text
    for one in reversed(references):
        if one.kind in (*NAMING, SAME, SHIFTED, FOUND) and (words := name_reference(one, frame, question, chinese)):
            text = text[: one.start] + words + text[one.end :]
    return text


def name_reference(one: Reference, frame: Frame, question: ReadText, chinese: bool) -> str:
    """Return what referring words mean; "" for nothing and for several things."""
    if one.kind in NAMING:
        meant = list_meant(one, frame, question)
        return join_names(meant[0], chinese) + ("'s" if one.is_genitive else "") if len(meant) == 1 else ""
    if one.kind == FOUND:
        return name_found(one, frame, chinese)
    days = name_shifted(one, frame, chinese)
    if len(days) != 1:
        return ""
    is_placed = chinese or days[0].startswith(("in ", "from "))
    return days[0] if is_placed else f"{choose_preposition(days[0])} {days[0]}"
