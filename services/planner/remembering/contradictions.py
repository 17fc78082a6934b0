"""Views that contradict earlier ones of the same thing, and the note that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from fathom.services.planner.model.memory import View
from fathom.services.planner.model.slots import parse_day
from fathom.services.planner.remembering.views import DIRECTION
from fathom.services.planner.remembering.watching import load_wording

# A year may be told from its first day or its first trading day, up to a week later.
WINDOW_DAYS = 7
# Two roundings of one value, or two ways to annualise it, differ by less.
RELATIVE = 0.02
# Changes that are next to nothing have no direction.
FLAT = 0.5
MAX_NOTES = 3


@dataclass(frozen=True)
class Contradiction:
    """A view and the newest earlier one that says otherwise of the same thing."""

    now: View
    then: View


def find_contradictions(now: Sequence[View], earlier: Sequence[View]) -> list[Contradiction]:
    """Return the views that say otherwise than the newest earlier one of the same thing, those newest first."""
    found = []
    for view in now:
        # The newest: what it corrected is settled.
        same = next((one for one in earlier if is_same_thing(view, one)), None)
        if same is not None and differs(view, same):
            found.append(Contradiction(view, same))
    return found


def is_same_thing(left: View, right: View) -> bool:
    """Return whether two views are of one measure of one entity in one period, in comparable units."""
    # Another measure of the same company is another thing, however near the numbers.
    if (left.entity, left.measure) != (right.entity, right.measure):
        return False
    if not all(is_near(*pair) for pair in ((left.first, right.first), (left.last, right.last))):
        return False
    # Amounts in two currencies cannot be compared without a rate and a day.
    return left.unit == right.unit or DIRECTION in (left.unit, right.unit)


def is_near(left: str, right: str) -> bool:
    first, second = parse_day(left), parse_day(right)
    # An open end equals only an open end: "so far" moves on with the data.
    if first is None or second is None:
        return first is second
    return abs((first - second).days) <= WINDOW_DAYS


def differs(left: View, right: View) -> bool:
    """Return whether two values of one thing exclude each other: by their signs, or beyond their roundings."""
    # Of a direction and a value only the signs can exclude each other.
    if DIRECTION in (left.unit, right.unit):
        values = [0.0 if abs(view.value) < FLAT and view.unit != DIRECTION else view.value for view in (left, right)]
        return values[0] * values[1] < 0
    largest = max(abs(left.value), abs(right.value))
    return abs(left.value - right.value) > RELATIVE * largest + left.tolerance + right.tolerance


def write_notes(found: Sequence[Contradiction], language: str) -> str:
    """Return the paragraphs that say what was told before, what now, and why; "" for none."""
    return "\n\n".join(write_note(one, load_wording()[language]) for one in found[:MAX_NOTES])


def write_note(one: Contradiction, words: dict[str, object]) -> str:
    # Newer data are the usual reason; without them one of the answers was wrong.
    if one.now.as_of and one.then.as_of and one.now.as_of != one.then.as_of:
        why = str(words["data"]).format(now=one.now.as_of, then=one.then.as_of)
    else:
        why = str(words["same"])
    if one.now.unit == DIRECTION:
        now = str(words["up" if one.now.value > 0 else "down"])
    else:
        now = str(words["now"]).format(value=show(one.now))
    day = one.then.day or date.today().isoformat()
    return str(words["note"]).format(day=day, text=one.then.text, now=now, why=why)


def show(view: View) -> str:
    """Return a value with its unit."""
    text = f"{view.value:,.10g}"
    return f"{text}{view.unit}" if view.unit == "%" else " ".join(filter(None, (text, view.unit)))
