"""Views that a language model reads from an answer, as typed values: code checks them here and compares them later."""

from __future__ import annotations

import calendar
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from fathom.clients import Clients
from fathom.domain.chat.quoting import quote
from fathom.domain.text.folding import keep_letters
from fathom.services.planner.answering.verification.numbers import find_numbers
from fathom.services.planner.model.memory import Statement, View
from fathom.services.planner.model.slots import ENTITY, parse_day
from fathom.services.planner.reader import Reader
from fathom.services.planner.remembering.asking import ask_object, is_line_number, number_lines
from fathom.services.planner.remembering.comparing import DIRECTION, TIMES, Statistic

MAX_TOKENS, MAX_VIEWS, MAX_KNOWN, MAX_THINGS = 4_000, 32, 24, 4
MAX_NAME_CHARS, MAX_UNIT_CHARS, MAX_TEXT_CHARS = 120, 32, 400
# Marks that part the fields of a measure.
MARKS = str.maketrans("/;", "  ")
SIGNS = {"up": 1.0, "down": -1.0, "flat": 0.0}
MONTHS = 12
# Scales that a model may have written out: of thousands, of Chinese numerals, of basis points and per cent.
SCALES = tuple(10.0**power for power in range(-4, 13))
SAME, PLACES = 1e-6, 12


@dataclass(frozen=True)
class ViewTypist:
    """Asks a language model for the views of an answer, in one call within a time limit."""

    clients: Clients
    reader: Reader
    prompt: str
    timeout_s: float = 20.0

    async def read(
        self, statements: Sequence[Statement], question: str, known: Sequence[View], model: str
    ) -> list[View] | None:
        """Return the views of statements; None where no language model answers in time and in form.

        ``known`` are earlier views, whose names the model takes up for what is the same.
        """
        if not statements:
            return None
        request = write_request(statements, question, known[:MAX_KNOWN])
        said = await ask_object(self.clients, model, self.prompt, request, MAX_TOKENS, self.timeout_s)
        listed = said.get("views") if said else None
        if not isinstance(listed, list):
            return None
        found = [await self._make(item, statements) for item in listed[:MAX_VIEWS]]
        return [view for view in found if view is not None]

    async def _make(self, item: Any, statements: Sequence[Statement]) -> View | None:
        """Return a view as a model writes it; None for one that is not of the form, or not in its statement."""
        if not isinstance(item, Mapping):
            return None
        place = item.get("statement")
        if not is_line_number(place, len(statements)):
            return None
        statement = statements[place - 1]
        things = item.get("things")
        names = [clean(one, MAX_NAME_CHARS) for one in things[:MAX_THINGS]] if isinstance(things, list) else []
        quantity = clean(item.get("quantity"), MAX_NAME_CHARS).casefold().translate(MARKS)
        window = read_window(item)
        measured = read_value(item, statement.text)
        if not all(names) or not names or not quantity or window is None or measured is None:
            return None
        value, unit, tolerance = measured
        statistic = Statistic(str(item["statistic"]))
        # Two answers may name the same company, or two things in another order.
        entities = [await self._identify(name) for name in names]
        if statistic is Statistic.GAP and len(entities) == 2 and entities[0] > entities[1]:
            value = -value
        entity = ",".join(sorted(dict.fromkeys(entities)))
        first, last = window
        text = " ".join(statement.text.split())[:MAX_TEXT_CHARS]
        measure = f"{quantity}/{statistic}"
        return View(entity, measure, first, last, value, unit, text, statement.as_of, tolerance=tolerance)

    async def _identify(self, name: str) -> str:
        """Return the id of an entity of the data that has this name, else the name in small letters."""
        read = await self.reader.read(name)
        # A pair of currencies has two of them in its name, and is neither.
        slots = read.of(ENTITY) if read else ()
        found = [slot.value for slot in slots if slot.value and keep_letters(slot.text) == keep_letters(name)]
        # A comma parts the entities of a view.
        return found[0] if found else name.casefold().replace(",", " ")


def write_request(statements: Sequence[Statement], question: str, known: Sequence[View]) -> str:
    """Return the text for the model: question, known views and numbered statements, each quoted."""
    lines = number_lines(one.text for one in statements)
    parts = [f"# Question\n{quote(question)}"] if question.strip() else []
    if known:
        parts.append(f"# Known views\n{quote(chr(10).join(map(describe, known)))}")
    return "\n\n".join([*parts, f"# Statements\n{quote(lines)}"])


def describe(view: View) -> str:
    """Return an earlier view on one line."""
    quantity, _, statistic = view.measure.partition("/")
    # A direction is no unit that a number could have.
    unit = "" if view.unit == DIRECTION else view.unit
    shown = {"things": view.entity.split(","), "quantity": quantity, "statistic": statistic, "unit": unit}
    period = {"from": view.first, "to": view.last, "words": " ".join(view.text.split())[:MAX_TEXT_CHARS]}
    return json.dumps({**shown, **period}, ensure_ascii=False)


def clean(value: Any, limit: int) -> str:
    """Return a text on one line; "" for another value or one that is too long."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return text if len(text) <= limit else ""


def read_window(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return first and last day, "" for open ends; None for what is no date or the wrong way round."""
    ends = [clean(item.get(edge), MAX_NAME_CHARS) for edge in ("from", "to")]
    days = [parse_day(end) for end in ends]
    if any(end and day is None for end, day in zip(ends, days, strict=True)):
        return None
    first, last = days
    if first and last and first > last:
        return None
    return (first.isoformat() if first else "", last.isoformat() if last else "")


def read_value(item: Mapping[str, Any], text: str) -> tuple[float, str, float] | None:
    """Return value, unit and tolerance of a view; None where its form or its statement gives none."""
    if item.get("statistic") not in [*Statistic]:
        return None
    value, words = item.get("value"), clean(item.get("number"), MAX_NAME_CHARS)
    # A number that the statement does not have is the model's own.
    if words and keep_letters(words) not in keep_letters(text):
        return None
    if item["statistic"] == Statistic.DATE:
        return read_date(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        tolerance = find_tolerance(float(value), words)
        return None if tolerance is None else (float(value), clean(item.get("unit"), MAX_UNIT_CHARS), tolerance)
    sign = SIGNS.get(str(item.get("direction")))
    return (sign, DIRECTION, 0.0) if value is None and sign is not None else None


def read_date(value: Any) -> tuple[float, str, float] | None:
    """Return the middle of a day, month or year as a number of days, with its unit; None for no date."""
    parts = str(value).split("-")
    if not 1 <= len(parts) <= len(TIMES) or not all(part.isdecimal() for part in parts):
        return None
    year, month, day = [*map(int, parts), 0, 0][: len(TIMES)]
    try:
        first = date(year, month or 1, day or 1)
        last = date(year, month or MONTHS, day or calendar.monthrange(year, month or MONTHS)[1])
    except ValueError:
        return None
    unit = [*reversed(TIMES)][len(parts) - 1]
    return (first.toordinal() + last.toordinal()) / 2, unit, 0.0


def find_tolerance(value: float, words: str) -> float | None:
    """Return half a unit of the last digit of a number; None where its words say another number.

    ``value`` is in the unit of its view, the words may have it in another scale.
    """
    # In words alone ("some seventy points") the digits that are not zero count.
    if not any(number.value for number in find_numbers(words)):
        return 0.5 * 10.0 ** find_last_place(value)
    return match_tolerance(value, words)


def match_tolerance(value: float, words: str) -> float | None:
    """Return half a unit of the last digit of the first number that is a value in some scale; None for none."""
    for number in find_numbers(words):
        for scale in SCALES:
            if number.value and math.isclose(abs(value), abs(number.value) * scale, rel_tol=SAME):
                return number.tolerance * scale
    return None


def find_last_place(value: float) -> int:
    """Return the power of ten of the last digit of a number that is not zero."""
    digits, _, exponent = f"{abs(value):.{PLACES}e}".partition("e")
    return int(exponent) - max(len(digits.replace(".", "").rstrip("0")), 1) + 1


def restore_tolerance(view: View) -> View:
    """Return a stored view with the tolerance of the number in its words: memory keeps none."""
    return view if view.tolerance else replace(view, tolerance=match_tolerance(view.value, view.text) or 0.0)
