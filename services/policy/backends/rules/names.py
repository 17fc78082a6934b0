"""Built-in names of the reference policy, like a language model's knowledge: shares, rates, currencies, measures.

It knows more names than there are data for, so that it can ask for them and learn that they are missing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

LATIN = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True)
class Name:
    """A name. ``kind``: price, level (an index without returns), currency, rate (in %), index (macro), statement.

    ``id`` is an entity, or an indicator for rates, indices and statements; "" when no source is known.
    """

    id: str
    kind: str
    en: str
    zh: str
    also: tuple[str, ...]

    def label(self, chinese: bool) -> str:
        return self.zh if chinese else self.en

    @property
    def entity(self) -> str:
        """Return the entity to request from ``data``: the id, or the name if there is none."""
        return (self.id if self.kind in ("price", "level", "currency") else "US") or self.en

    @property
    def indicator(self) -> str:
        return {"price": "close_adj", "level": "close_adj", "currency": "eur_rate"}.get(self.kind, self.id)

    @property
    def column(self) -> str:
        """Return the name of its column in a sheet."""
        return f"{self.entity}.{self.indicator}"


@dataclass(frozen=True)
class Mention:
    """A name at a position of the question."""

    name: Name
    start: int
    end: int


@cache
def all_names() -> tuple[Name, ...]:
    """Return all names in the order of the file."""
    text = resources.files("fathom.services.policy.backends.rules").joinpath("names.json").read_text("utf-8")
    return tuple(Name(**{**item, "also": tuple(item["also"])}) for item in json.loads(text))


@cache
def spellings() -> tuple[tuple[re.Pattern[str], Name], ...]:
    """Return patterns of all spellings, longest first."""
    found = [(word, name) for name in all_names() for word in {name.id, name.en, name.zh, *name.also} if word]
    return tuple((pattern_of(word), name) for word, name in sorted(found, key=lambda item: (-len(item[0]), item[0])))


def pattern_of(word: str) -> re.Pattern[str]:
    """Return a pattern for a spelling: Latin as whole words, case-sensitive for short codes; Chinese anywhere."""
    escaped = re.escape(word).replace(r"\ ", r"[\s-]+").replace(r"\-", r"[\s-]")
    before = r"(?<![A-Za-z0-9])" if LATIN.match(word[0]) else ""
    after = r"(?![A-Za-z0-9])" if LATIN.match(word[-1]) else ""
    # Tickers such as T or ALL are ordinary words in lower case.
    code = word.isupper() and len(word) <= 5
    return re.compile(before + escaped + after, 0 if code else re.IGNORECASE)


def mentions(text: str) -> list[Mention]:
    """Return the names in a text in order, preferring the longest where they overlap."""
    found: list[Mention] = []
    for pattern, name in spellings():
        for match in pattern.finditer(text):
            if not any(match.start() < other.end and other.start < match.end() for other in found):
                found.append(Mention(name, match.start(), match.end()))
    return sorted(found, key=lambda mention: mention.start)


def named(ident: str) -> Name:
    """Return the name with an id; raise ``KeyError`` for an unknown one."""
    return {name.id: name for name in all_names() if name.id}[ident]
