"""Programs in words: a whole question in the language of the conversation, by the phrases in ``wording.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fathom.services.planner.model.programs import Call, Node, Program, Quote, Sign
from fathom.services.planner.questions.periods import MOST_UNITS, Shift, read_count, shift_period
from fathom.services.planner.questions.phrasing import join_names

FILE = Path(__file__).parent / "wording.yaml"
DATING = frozenset({"within", "at"})
# Words for a period that bring their own preposition or begin with an article need no "in".
PLACED = re.compile(
    r"(?:in|on|at|from|since|between|during|over|before|after|until|up|through|as|the|this|last)\b", re.I
)
# A period so long after or before another one is named as what it is.
MOVING = {"later": 1, "earlier": -1}
GENITIVE = re.compile(r"['’]s?$")


@cache
def load_phrases() -> Mapping[str, Any]:
    """Return the phrases."""
    data: Mapping[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return data


def write_question(program: Program, chinese: bool, periods: Mapping[str, str] | None = None) -> str:
    """Return the question that a program answers; "" where a function of it has no phrase.

    ``periods`` are the ISO intervals that words of the conversation mean.
    """
    steps = [move_periods(step, periods or {}, chinese) for step in program.steps]
    phrases = [write_node(step, int(chinese)) for step in steps]
    if not phrases or None in phrases:
        return ""
    table = load_phrases()
    joined = table["steps"][int(chinese)].join(phrase for phrase in phrases if phrase)
    return str(table["question"][int(chinese)].format(joined))


def move_periods(node: Node, periods: Mapping[str, str], chinese: bool) -> Node:
    """Return a part with the names of periods that it gives by their distance from another one."""
    if not isinstance(node, Call):
        return node
    arguments = tuple(move_periods(one, periods, chinese) for one in node.arguments)
    match Call(node.name, arguments):
        case Call(name=("later" | "earlier") as name, arguments=(Quote(words), Quote(count) | Sign(count), Sign(unit))):
            number = read_count(count)
            shift = Shift(unit, MOVING[name] * number)
            known = 0 < number < MOST_UNITS and words in periods
            moved = shift_period(periods[words], shift, chinese) if known else ""
            return Quote(moved) if moved else Call(name, arguments)
        case changed:
            return changed


def write_node(node: Node, place: int) -> str | None:
    """Return the phrase of a part; ``place`` is that of the language in the table. None where there is none."""
    match node:
        case Quote(text):
            return GENITIVE.sub("", text)
        case Sign(text):
            known = load_phrases()["words"].get(text)
            # A number stands for itself, a step that another refers to has no phrase there.
            return known[place] if known else text if text.isdigit() else None
        case Call(name=("series" | "members")):
            return GENITIVE.sub("", node.words) or None
        case Call(name="when"):
            return node.words
        case Call(name="each"):
            parts = write_all(node.arguments, place)
            return join_names(list(dict.fromkeys(parts)), bool(place)) if parts else None
    return write_call(node, place)


def write_call(call: Call, place: int) -> str | None:
    """Return the phrase of a function with its arguments; None for a function or an argument without one."""
    parts, known = write_all(call.arguments, place), load_phrases()["functions"].get(call.name)
    if known is None or not parts:
        return None
    if call.name in DATING and not place:
        parts[1:] = [date_words(parts[1])]
    filled: str = known[place]
    # Parameters that a phrase has no place for, such as a rate or a frequency, follow in brackets.
    count = len(set(re.findall(r"\{(\d)\}", filled)))
    if len(parts) < count:
        return None
    extra = ", ".join(parts[count:])
    return filled.format(*parts) + (f"（{extra}）" if extra and place else f" ({extra})" if extra else "")


def write_all(nodes: Sequence[Node], place: int) -> list[str]:
    """Return the phrases of parts; [] where one has none."""
    parts = [write_node(node, place) for node in nodes]
    found = [part for part in parts if part]
    return found if len(found) == len(parts) else []


def date_words(words: str) -> str:
    """Return the words of a period behind a preposition."""
    return words if PLACED.match(words) else f"in {words}"
