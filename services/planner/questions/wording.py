"""Programs in words: a whole question in the language of the conversation, by the phrases in ``wording.yaml``.

Every function has a phrase, and every word of the conversation that a program uses is in its question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fathom.domain.programs.language import Call, Node, Number, Quote, Reference, Word
from fathom.services.planner.model.programs import SERIES, Program
from fathom.services.planner.questions.periods import MOST_UNITS, Shift, choose_preposition, read_count, shift_period
from fathom.services.planner.questions.phrasing import join_names

FILE = Path(__file__).parent / "wording.yaml"
# Words for a period that bring their own preposition or begin with an article need no "in".
PLACED = re.compile(
    r"(?:in|on|at|from|since|between|during|over|before|after|until|up|through|as|the|this|last)\b", re.I
)
# A period so long after or before another one is named as what it is.
MOVING = {"later": 1, "earlier": -1}
# Calls that are a time as they stand; the value of any other one is found at a time.
TIMES = frozenset({"start", "end", "later", "earlier", "when"})
GENITIVE = re.compile(r"['’]s?$")
# Parts of a phrase that are left out without their argument, and the places of arguments in it.
OPTIONAL, PLACE = re.compile(r"\[([^\]]*)\]"), re.compile(r"\{([pt]?)(\d)\}|\{([fu])\}")


@cache
def load_phrases() -> Mapping[str, Any]:
    """Return the phrases."""
    data: Mapping[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return data


def list_phrases(functions: Collection[str]) -> list[str]:
    """Return the phrases of some functions in both languages."""
    table = load_phrases()["functions"]
    return [text for name in functions for text in table.get(name, ())]


def write_question(program: Program, chinese: bool, periods: Mapping[str, str] | None = None) -> str:
    """Return the question that a program answers; "" for one with a function that computes nothing.

    ``periods`` are the ISO intervals that words of the conversation mean.
    """
    named = [name_rates(step, program.rates, int(chinese)) for step in put_in_place(program.steps)]
    steps = [move_periods(step, periods or {}, chinese) for step in named]
    phrases = [write_node(step, int(chinese)) for step in steps]
    if not phrases or not all(phrases):
        return ""
    table = load_phrases()
    return str(table["question"][int(chinese)].format(table["steps"][int(chinese)].join(phrases)))


def put_in_place(steps: Sequence[Call]) -> list[Call]:
    """Return the steps with the earlier ones that they refer to in the place of their numbers, those left out."""
    values: list[Node] = []
    for step in steps:
        values.append(fill_places(step, values))
    references = {number for step in steps for number in list_references(step)}
    return [one for at, one in enumerate(values, 1) if isinstance(one, Call) and at not in references]


def list_references(node: Node) -> list[int]:
    """Return the numbers of the earlier steps whose values a part uses."""
    match node:
        case Reference(number):
            return [number]
        case Call(arguments=arguments):
            return [number for one in arguments for number in list_references(one)]
        case _:
            return []


def fill_places(node: Node, values: Sequence[Node]) -> Node:
    """Return a part with the values of earlier steps for their numbers."""
    match node:
        # A number that no earlier step has stays as it is. It has no phrase, so that no question is made of it.
        case Reference(number) if 0 < number <= len(values):
            return values[number - 1]
        case Call(_, arguments):
            return replace(node, arguments=tuple(fill_places(one, values) for one in arguments))
        case _:
            return node


def name_rates(node: Node, rates: Collection[str], place: int) -> Node:
    """Return a part whose exchange rates name both currencies: "yen" alone may be priced in anything."""
    if not isinstance(node, Call):
        return node
    if node.name == SERIES and node.words in rates:
        # Words that name the euro themselves stay as they are.
        euro, phrase = (load_phrases()[key][place] for key in ("euro", "euro_rate"))
        text = node.words if euro in node.words.casefold() else phrase.format(GENITIVE.sub("", node.words))
        return Quote(text)
    return replace(node, arguments=tuple(name_rates(one, rates, place) for one in node.arguments))


def move_periods(node: Node, periods: Mapping[str, str], chinese: bool) -> Node:
    """Return a part with the names of periods that it gives by their distance from another one."""
    if not isinstance(node, Call):
        return node
    arguments = tuple(move_periods(one, periods, chinese) for one in node.arguments)
    moved = replace(node, arguments=arguments)
    match moved:
        case Call(name, (Quote(words), Quote(count) | Number(count), Word(unit))) if name in MOVING:
            number = read_count(str(count))
            known = 0 < number < MOST_UNITS and words in periods
            text = shift_period(periods[words], Shift(unit, MOVING[name] * number), chinese) if known else ""
            return Quote(text) if text else moved
    return moved


def write_node(node: Node, place: int) -> str:
    """Return the phrase of a part; ``place`` is that of the language in the table. "" for a function without one."""
    match node:
        case Quote(text):
            # “Apple's” is the name Apple in the conversation; the phrases bring endings of their own.
            return GENITIVE.sub("", text)
        case Word(text) | Number(text):
            known = load_phrases()["words"].get(str(text))
            return str(known[place] if known else text)
        case Reference():
            return ""
        case Call(name=("series" | "members" | "when")):
            return GENITIVE.sub("", node.words)
        case Call(name="each"):
            parts = [write_node(one, place) for one in node.arguments]
            return join_names(list(dict.fromkeys(parts)), bool(place)) if all(parts) else ""
        case Call(name="portfolio", arguments=arguments):
            return write_call(replace(node, arguments=(join_shares(arguments, place), *list_units(arguments))), place)
        case Call():
            return write_call(node, place)


def join_shares(arguments: Sequence[Node], place: int) -> Quote:
    """Return the parts of a portfolio, each with its share, as one phrase."""
    units = list_units(arguments)
    parts = [write_node(one, place) for one in arguments if one not in units]
    # Names and shares alternate; without strict, a last name that has no share is left out.
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return Quote(join_names([load_phrases()["share"][place].format(*pair) for pair in pairs], bool(place)))


def list_units(arguments: Sequence[Node]) -> list[Word]:
    """Return the units of time among arguments."""
    return [one for one in arguments if isinstance(one, Word) and one.text in load_phrases()["nouns"]]


def write_call(call: Call, place: int) -> str:
    """Return the phrase of a function with its arguments; "" without one."""
    table = load_phrases()
    known = table["functions"].get(call.name)
    units = list_units(call.arguments)
    arguments = [one for one in call.arguments if one not in units]
    if known is None or not all(write_node(one, place) for one in arguments):
        return ""

    def fill(match: re.Match[str]) -> str:
        how, at, unit = match.groups()
        if unit:
            return str(table["adjectives" if unit == "f" else "nouns"][units[0].text][place])
        return {"": write_node, "t": write_time, "p": write_date}[how](arguments[int(at)], place)

    def has_all(text: str) -> bool:
        return all(units if unit else int(at) < len(arguments) for _, at, unit in PLACE.findall(text))

    phrase = OPTIONAL.sub(lambda match: match[1] if has_all(match[1]) else "", known[place])
    return PLACE.sub(fill, phrase) if has_all(phrase) else ""


def write_time(node: Node, place: int) -> str:
    """Return a part as a point in time: that at which a value was found, where it is one."""
    is_found = isinstance(node, Call) and node.name not in TIMES
    words = write_node(node, place)
    return str(load_phrases()["found"][place].format(words)) if is_found else words


def write_date(node: Node, place: int) -> str:
    """Return a part as a point in time behind a preposition."""
    words = write_time(node, place)
    has_words = isinstance(node, Quote) or (isinstance(node, Call) and node.name == "when")
    # The Chinese phrases need no preposition before a point in time.
    if place or (has_words and PLACED.match(words)):
        return words
    return f"{choose_preposition(words)} {words}" if has_words else f"at {words}"
