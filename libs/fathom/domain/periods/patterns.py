"""Cascaded patterns over the roles of items: each level replaces the longest match by one item."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from fathom.domain.periods.builders import ROLES, build
from fathom.domain.periods.lexer import Item, list_role_sets, load_grammar
from fathom.domain.periods.match import Match
from fathom.domain.periods.period import Unit

# In a pattern: roles to choose from with the name of their value, or a single role with or without one.
ROLE = re.compile(r"([a-z]):\(([a-z_0-9|]+)\)|(?:([a-z]):)?([a-z][a-z_0-9]*)")
# The name of a group in a compiled pattern.
NAME = re.compile(r"(?<=\(\?)P<\w+>")
# One character per set of roles, from a plane of Unicode that is free for private use.
FIRST_CODE = 0xE000


@dataclass(frozen=True)
class Anchors:
    """The days from which relative words count: today, and the day of the newest value."""

    today: date
    newest: date


@dataclass(frozen=True)
class Pattern:
    """A pattern of the grammar with the builder that it belongs to, and the roles that each of its names may have."""

    builder: str
    expression: re.Pattern[str]
    names: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Level:
    """Patterns that are tried together, the earlier ones first."""

    patterns: Sequence[Pattern]
    any_of: re.Pattern[str]
    """Matches where one of the patterns does: most items begin none, and one test is cheaper than one of each."""


@cache
def _number_role_sets() -> Mapping[frozenset[str], str]:
    """Return a character for each set of roles that an item can have."""
    made = [
        frozenset({role, f"{role}_{unit}"} if unit else {role})
        for role in ("date", "part", "impossible", *ROLES.values())
        for unit in (None, *Unit)
    ]
    return {roles: chr(FIRST_CODE + at) for at, roles in enumerate(dict.fromkeys([*list_role_sets(), *made]))}


@cache
def _load_levels() -> Sequence[Level]:
    levels = []
    for level in load_grammar()["levels"]:
        patterns = [_compile(builder, source) for builder, sources in level.items() for source in sources]
        # A group has one name in an expression, so the names go.
        whole = "|".join(NAME.sub(":", pattern.expression.pattern) for pattern in patterns)
        levels.append(Level(patterns, re.compile(whole)))
    return levels


def _compile(builder: str, source: str) -> Pattern:
    names: dict[str, Sequence[str]] = {}

    def encode(match: re.Match[str]) -> str:
        name, roles = match[1] or match[3], (match[2] or match[4]).split("|")
        codes = "".join(code for held, code in _number_role_sets().items() if not held.isdisjoint(roles))
        if not codes:
            raise ValueError(f"the grammar of periods has no words for {roles}")
        if name:
            names[name] = roles
        return f"(?P<{name}>[{codes}])" if name else f"[{codes}]"

    return Pattern(builder, re.compile(ROLE.sub(encode, source).replace(" ", "")), names)


def reduce_items(items: Sequence[Item], anchors: Anchors, year: int, levels: int | None = None) -> Sequence[Item]:
    """Return the items that remain when all levels, or the first of them, are applied.

    ``anchors`` are the days that relative words count from, ``year`` is the only year of the text or 0.
    """
    for level in _load_levels()[:levels]:
        encoded = "".join(_number_role_sets()[frozenset(item.roles)] for item in items)
        left: list[Item] = []
        at = 0
        while at < len(items):
            made, size = _match(level, encoded, at, items, anchors, year)
            left.append(made)
            at += size
        items = left
    return items


def _match(level: Level, encoded: str, at: int, items: Sequence[Item], anchors: Anchors, year: int) -> tuple[Item, int]:
    """Return what the longest pattern at an item makes of it, with the number of items; the item itself without one."""
    if not level.any_of.match(encoded, at):
        return items[at], 1
    tried = ((pattern, pattern.expression.match(encoded, at)) for pattern in level.patterns)
    found = [(pattern, match) for pattern, match in tried if match and match.end() > at]
    # The sort is stable: of matches of one length the earlier pattern is taken.
    for pattern, match in sorted(found, key=lambda pair: -pair[1].end()):
        values = {
            name: next(items[place].roles[role] for role in roles if role in items[place].roles)
            for name, roles in pattern.names.items()
            if (place := match.start(name)) >= 0
        }
        part = items[at : match.end()]
        roles = build(pattern.builder, Match(values, part, anchors.today, anchors.newest, year))
        if roles is not None:
            return Item(part[0].start, part[-1].end, roles), len(part)
    return items[at], 1
