"""Division of a text into the items that the patterns of periods are made of."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from fathom.domain.periods.episodes import load_episodes
from fathom.domain.text.months import MONTHS
from fathom.domain.text.numerals import TYPED_DIGITS, parse_numeral, replace_digits

GRAMMAR = Path(__file__).with_name("grammar.toml")
YEAR = r"(?:1[89]|20|21)\d\d"
# What is one item by its form. The order decides: a day before its month, and a code such as "Q3" before its digit.
FORMS: tuple[tuple[str, str], ...] = (
    ("iso_day", rf"({YEAR})\s?([-/.])\s?(\d{{1,2}})\s?\2\s?(\d{{1,2}})(?!\d)(?:t?\s*\d{{1,2}}:\d{{2}}(?::\d{{2}})?)?"),
    ("american_day", rf"(\d{{1,2}})/(\d{{1,2}})/({YEAR}|\d\d)(?![\d/])"),
    ("slash_month", rf"(\d{{1,2}})/({YEAR})(?![\d/])"),
    ("years_pair", rf"({YEAR})/(\d\d)(?![\d/]|\s?[-.]\d)"),
    ("dotted_day", rf"(\d{{1,2}})\.(\d{{1,2}})\.({YEAR})(?!\d)"),
    ("iso_day", r"((?:19|20)\d\d)()(\d\d)(\d\d)(?!\d)"),
    ("iso_month", rf"({YEAR})\s?(?:[-/]\s?(0?[1-9]|1[0-2])(?!\d)|\.(\d\d)|(0[1-9]|1[0-2]))(?![\d/]|\s?[-.]\d)"),
    ("quarter", r"q\s?(\d)(?!\d|[a-z])|([1-4])q(?![a-z])"),
    ("half", r"h([12])(?![\da-z])|([12])h(?![a-z])"),
    ("decade", r"((?:1[89]|20)?\d0)['’]?s(?![a-z])"),
    ("amount", r"[$¥€£+−]\s?\d[\d,.]*|\d+(?:,\d{3})+(?:\.\d+)?|\d+\.\d+"),
    ("number", r"(\d++)(?:(?:st|nd|rd|th)(?![a-z]))?+(?![a-z_])|(\d{4}|\d\d)(?=q\d|h[12](?!\d)|fy)"),
    ("number", rf"([{TYPED_DIGITS}十两半]+)"),
)


# A word of no role with the digits of a name ("H100"), and the NULs that stand for words that are accounted for.
OTHER = re.compile(r"[a-z_]+(?:['’][a-z]+)?(?:\d++(?!年)[a-z0-9_]*)?|\d+[a-z0-9_]*|\0+")


@dataclass(frozen=True)
class Item:
    """A stretch of a text with its value in each role that it may have."""

    start: int
    end: int
    roles: Mapping[str, Any] = field(default_factory=dict)


@cache
def load_grammar() -> Mapping[str, Any]:
    return tomllib.loads(GRAMMAR.read_text(encoding="utf-8"))


@cache
def _load_words() -> tuple[re.Pattern[str], Mapping[str, Mapping[str, Any]]]:
    """Return a pattern of all words, the longest first, and the roles of each with their values."""
    known: dict[str, dict[str, Any]] = {}
    for role, words in load_grammar()["words"].items():
        for value, forms in words.items() if isinstance(words, dict) else (("", words),):
            for form in forms:
                known.setdefault(form, {}).update({role: value, f"{role}_{value}": value} if value else {role: ""})
    for key, episode in load_episodes().items():
        for form in episode.names:
            known.setdefault(form, {}).update({"episode": key})
    for name, month in MONTHS.items():
        for form in (name, f"{name}."):
            known.setdefault(form, {}).update({"month": str(month), "date_word": ""})
    joined = (
        re.escape(form).replace(r"\ ", r"[\s-]+") + (r"(?![a-z_])" if form[-1].isascii() and form[-1].isalpha() else "")
        for form in sorted(known, key=len, reverse=True)
    )
    return re.compile("|".join(joined)), known


def list_words() -> Iterator[str]:
    """Yield the words of the grammar in small letters."""
    yield from _load_words()[1]


def _read_form(role: str, match: re.Match[str]) -> Mapping[str, Any] | None:
    """Return the roles of an item recognised by its form; None when the form misleads."""
    parts = [part for part in match.groups() if part is not None]
    if role != "number":
        return {role: parts, "date_word": ""} if role != "amount" else {role: ""}
    value = 0.5 if parts[0] == "半" else parse_numeral(parts[0])
    if value is None or "半" in parts[0][1:]:
        return None
    digits = replace_digits(parts[0])
    roles: dict[str, Any] = {"number": value}
    if re.fullmatch(YEAR, digits):
        roles |= {"year4": value, "date_word": ""}
    elif len(digits) == 2 and digits.isdecimal():
        roles |= {"year2": value} | ({"year0": value} if digits[0] == "0" else {})
    if match[0][-2:] in ("st", "nd", "rd", "th"):
        roles["ordinal"] = value
    return roles


@cache
def _compile_forms() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((role, re.compile(form)) for role, form in FORMS)


def split_items(text: str) -> list[Item]:
    """Return the items of a text in order: numbers and dates by their form, words by their role, and the rest.

    The longer of a number and a word is taken: 半年报 is one word. A NUL stands for words that are accounted for.
    """
    text, at = text.lower() if len(text.lower()) == len(text) else text, 0
    words, known = _load_words()
    items: list[Item] = []
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        word = words.match(text, at)
        form = next(((role, found) for role, pattern in _compile_forms() if (found := pattern.match(text, at))), None)
        roles: Mapping[str, Any] | None = None
        end = at + 1
        if form is not None and (word is None or form[1].end() >= word.end()):
            roles, end = _read_form(*form), form[1].end()
        if roles is None and word is not None:
            roles, end = known[re.sub(r"[\s-]+", " ", word[0]) if word[0] not in known else word[0]], word.end()
        elif roles is None:
            other = OTHER.match(text, at)
            end = other.end() if other else end
            roles = {"gap": ""} if text[at] == "\0" else {"other": ""}
        items.append(Item(at, end, roles))
        at = end
    return _settle_notation(items)


def _settle_notation(items: list[Item]) -> list[Item]:
    """Return the items with the notations that the rest of the text makes clear.

    "2008/09" is a span of two years, as a month beside "2008/01". "Jan 07" is a month of 2007, and a day where another
    date has its year in four digits; beside "2008-06-30", "07-01" is a day too.
    """
    pairs = [tuple(map(int, item.roles["years_pair"])) for item in items if "years_pair" in item.roles]
    are_months = any(0 < second <= 12 and second != (first + 1) % 100 for first, second in pairs)
    has_iso = any(not {"iso_day", "iso_month"}.isdisjoint(item.roles) for item in items)
    has_year = any("year4" in item.roles for item in items)
    out: list[Item] = []
    for item in items:
        roles = item.roles
        if are_months and "years_pair" in roles:
            roles = {"iso_month": roles["years_pair"], "date_word": ""}
        elif "year0" in roles and (has_iso or (has_year and out and "month" in out[-1].roles)):
            roles = {role: value for role, value in roles.items() if role != "year0"}
        out.append(replace(item, roles=roles))
    return out


def list_role_sets() -> Iterator[frozenset[str]]:
    """Yield the sets of roles that the items of any text can have."""
    yield from (frozenset(roles) for roles in _load_words()[1].values())
    yield from (frozenset({role, "date_word"}) for role, _ in FORMS)
    yield from map(frozenset, (["other"], ["gap"], ["amount"]))
    for extra in ([], ["ordinal"]):
        kinds: tuple[list[str], ...] = ([], ["year2"], ["year2", "year0"], ["year4", "date_word"])
        yield from (frozenset(["number", *extra, *kind]) for kind in kinds)
