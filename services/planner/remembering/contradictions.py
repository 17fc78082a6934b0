"""Views that contradict earlier ones of the same thing, and the note that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from fathom.services.planner.model.memory import View
from fathom.services.planner.remembering.comparing import DIRECTION, TIMES, excludes, is_same_thing
from fathom.services.planner.remembering.watching import load_wording

MAX_NOTES = 3


@dataclass(frozen=True)
class Contradiction:
    """A view and the newest earlier one that says otherwise of the same thing."""

    now: View
    then: View


def find_contradictions(now: Sequence[View], earlier: Sequence[View]) -> list[Contradiction]:
    """Return the views that cannot be true beside an earlier one, each with the newest of these; newest come first."""
    latest = find_latest(earlier)
    found = []
    for view in now:
        wrong = next((one for one in latest if excludes(view, one)), None)
        if wrong is not None:
            found.append(Contradiction(view, wrong))
    return found


def find_latest(earlier: Sequence[View]) -> list[View]:
    """Return the newest view of each thing, in their order, newest first: what it corrected is settled."""
    latest: list[View] = []
    for one in earlier:
        if not any(is_same_thing(one, newer) for newer in latest):
            latest.append(one)
    return latest


def join_contradictions(first: Sequence[Contradiction], others: Sequence[Contradiction]) -> list[Contradiction]:
    """Return contradictions without those others that concern a sentence or an earlier view of the first."""
    sides = {one.now.text for one in first} | {one.then.text for one in first}
    return [*first, *(one for one in others if not {one.now.text, one.then.text} & sides)]


def write_notes(found: Sequence[Contradiction], language: str) -> str:
    """Return the paragraphs that say what was told before, what now, and why; "" for none."""
    return "\n\n".join(write_note(one, load_wording()[language]) for one in found[:MAX_NOTES])


def write_note(one: Contradiction, words: dict[str, object]) -> str:
    # Newer data are the usual reason; without them one of the answers was wrong.
    if one.now.as_of and one.then.as_of and one.now.as_of != one.then.as_of:
        why = str(words["data"]).format(now=one.now.as_of, then=one.then.as_of)
    else:
        why = str(words["same" if is_same_thing(one.now, one.then) else "both"])
    if not is_same_thing(one.now, one.then) or one.now.unit in TIMES:
        # A bare value would not say which of two things it is of.
        now = str(words["said"]).format(text=one.now.text)
    elif one.now.unit == DIRECTION:
        now = str(words["up" if one.now.value > 0 else "down"])
    else:
        now = str(words["now"]).format(value=show(one.now))
    day = one.then.day or date.today().isoformat()
    return str(words["note"]).format(day=day, text=one.then.text, now=now, why=why)


def show(view: View) -> str:
    """Return a value with its unit."""
    text = f"{view.value:,.10g}"
    return f"{text}{view.unit}" if view.unit == "%" else " ".join(filter(None, (text, view.unit)))
