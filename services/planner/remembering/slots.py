"""Values of preferences in a sentence: a currency, a unit, a language, colours, a decimal mark, names of a list."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import yaml

from fathom.domain.profile.kinds import Kind
from fathom.services.planner.answering.verification.numbers import CURRENCIES
from fathom.services.planner.model.slots import ENTITY, ReadText, SlotKind

# A currency sign alone: a dollar is the American one unless the words say otherwise, "¥" depends on who writes it.
SIGNS = {"$": "USD", "¥": ""}
ISO = re.compile(r"\b[A-Z]{3}\b")
EXAMPLE = re.compile(r"\d(?:[.,]\d{3})*([.,])\d{1,2}(?!\d)")
NAMES = {"franc": "CHF", "francs": "CHF", "sterling": "GBP", "hong kong dollar": "HKD", "canadian dollar": "CAD",
         "australian dollar": "AUD", "港币": "HKD", "瑞士法郎": "CHF", "法郎": "CHF"}  # fmt: skip


@cache
def load_words() -> dict[str, Any]:
    """Return the words of values by kind."""
    text = resources.files("fathom.services.planner.remembering").joinpath("slots.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def read_value(kind: Kind, label: str, text: str, read: ReadText | None) -> str:
    """Return the value of a preference that a sentence states; "" where it names none.

    ``label`` is the classifier's, which for the depth of answers is the value itself.
    """
    # No word states it; the classifier has one label per value.
    if kind is Kind.DEPTH:
        return label.removeprefix("depth_")
    if kind is Kind.CURRENCY:
        return find_currency(text, read)
    if kind is Kind.COLOURS:
        return find_colours(text)
    if kind is Kind.DECIMALS:
        return find_decimals(text)
    if kind is Kind.WATCH_LIST:
        return ",".join(dict.fromkeys(slot.value for slot in read.of(ENTITY) if slot.value)) if read else ""
    return find_first(text, load_words()[kind.value])


def find_words(text: str, words: list[str]) -> list[int]:
    """Return where words stand in a text; Latin ones only as whole words."""
    found = []
    for word in words:
        pattern = rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])" if word.isascii() else re.escape(word)
        found += [match.start() for match in re.finditer(pattern, text, re.IGNORECASE)]
    return sorted(found)


def find_first(text: str, choices: dict[str, list[str]]) -> str:
    """Return the value whose words stand first; "" for none. Of two at one place the longer word counts."""
    places = {value: found[0] for value, words in choices.items() if (found := find_words(text, words))}
    return min(places, key=lambda value: places[value]) if places else ""


def find_currency(text: str, read: ReadText | None) -> str:
    """Return the ISO code of the first currency of a text; "" for none."""
    # datafetch reads "in euros" as a form of output, with the code.
    for slot in read.slots if read else ():
        if slot.kind is SlotKind.OUTPUT and ISO.fullmatch(slot.value):
            return slot.value
    names = {**{word: code for word, code in CURRENCIES.items() if word != "元"}, **NAMES, "元": "CNY"}
    # Three capitals may be any abbreviation.
    known = {code for code in names.values() if len(code) == 3}
    codes = [(match.start(), -3, match.group()) for match in ISO.finditer(text) if match.group() in known]
    for word, code in names.items():
        plural = [word, f"{word}s"] if word.isascii() and word.replace(" ", "").isalpha() else [word]
        # Of "Hong Kong dollars" and "dollars" the longer name counts, which begins before.
        codes += [(place, -len(word), SIGNS.get(code, code)) for place in find_words(text, plural)]
    found = [entry for entry in sorted(codes) if entry[2]]
    return found[0][2] if found else ""


def find_colours(text: str) -> str:
    """Return which colour rises, by the first colour with the first direction; "" where one is not named."""
    words = load_words()
    # "Red up, green down" and "losses green, gains red" say the same by their first pair.
    colour, direction = find_first(text, words["colour"]), find_first(text, words["direction"])
    if not colour or not direction:
        return ""
    return "red_up" if (colour == "red") == (direction == "up") else "green_up"


def find_decimals(text: str) -> str:
    """Return the mark before decimals, by an example number or by the mark that is named nearest to "decimal"."""
    # A number written the wanted way leaves no doubt.
    example = EXAMPLE.search(text)
    if example:
        return "comma" if example[1] == "," else "point"
    words = load_words()
    # Both marks may be named: "points for thousands, a comma before decimals".
    near = find_words(text, words["decimal"])
    places = {mark: find_words(text, names) for mark, names in words["mark"].items()}
    distances = {
        mark: min(abs(place - other) for place in found for other in near or [0])
        for mark, found in places.items()
        if found
    }
    return min(distances, key=lambda mark: distances[mark]) if distances else ""
