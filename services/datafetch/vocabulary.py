"""The words that can be asked with: entities and indicators, matched exactly, longest first."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

import yaml
from pydantic import Field

from fathom.config import Settings

CJK = re.compile(r"[\u4e00-\u9fff]")
# Capitalised words that look like a name; used only to report what is unknown, never to guess.
NAME_LIKE = re.compile(r"\b(?:[A-Z][a-z]+(?:\s+[A-Z][a-z]+)*|[A-Z]{2,5})\b")
# Words that begin a sentence or name a method, a unit or a time rather than something with data.
COMMON = frozenset(
    """A An And Annual At Average Between Both By CAGR CEO Calculate Chart Compare Compared Compute Daily
    Describe Did Do Does Draw During EPS Explain Find For From GDP Give Global Has Have Hello Hi How I
    If In Is It January February March April May June July August September October November December
    Let List Maximum Minimum Monthly Name Of On Or Over PE Please Plot Price Q1 Q2 Q3 Q4 Quarterly ROE
    Rank Return Share Show Since Sharpe Stock Suppose Table Tell Thanks The Their Then They This To
    Total US USA Until Versus Volatility Was Were What When Where Which While Who Why Will With Would
    Year Yearly ETF CPI PCE YoY YTD Sell Buy Great Financial Crisis Recession Covid Dollar Euro""".split()  # noqa: SIM905 - a list of words is easier to read so
)


class EntitySpec(Settings):
    """Something that has data."""

    id: str
    name: str
    name_zh: str = ""
    kind: str
    aliases: list[str] = Field(default_factory=list)


class IndicatorSpec(Settings):
    """Something that can be measured. ``kinds`` are those of the entities that have it."""

    id: str
    name: str
    name_zh: str = ""
    unit: str = ""
    frequency: str = "monthly"
    kinds: list[str] = Field(default_factory=lambda: ["economy"])
    synonyms: list[str] = Field(default_factory=list)


class VocabularyFile(Settings):
    """The schema of ``vocabulary.yaml``."""

    version: int
    entities: list[EntitySpec]
    indicators: list[IndicatorSpec]


@dataclass(frozen=True)
class Mention:
    """A name found in a text."""

    id: str
    start: int
    end: int


def normal(text: str) -> str:
    """Width- and case-insensitive form."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


class Names:
    """Names of one kind of thing. Tickers match in upper case only, so that "hd" or "ge" in a word is none."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """``names``: pairs of a name and the id that it stands for."""
        self._ids: dict[str, str] = {}
        tickers: list[str] = []
        words: list[str] = []
        for name, ident in names:
            if not name:
                continue
            self._ids.setdefault(normal(name), ident)
            (tickers if name == ident and name.isupper() else words).append(name)
        self._words = pattern(words, re.IGNORECASE)
        self._tickers = pattern(tickers, 0)

    def exact(self, mention: str) -> str | None:
        """The id that a whole mention stands for."""
        return self._ids.get(normal(mention))

    def find(self, text: str) -> list[Mention]:
        """Names in the order of the text, longest first where they overlap."""
        plain = unicodedata.normalize("NFKC", text)
        matches = [*self._words.finditer(plain), *self._tickers.finditer(plain)]
        found: list[Mention] = []
        for match in sorted(matches, key=lambda match: (match.start() - match.end(), match.start())):
            if all(match.end() <= kept.start or match.start() >= kept.end for kept in found):
                found.append(Mention(self._ids[normal(match.group())], match.start(), match.end()))
        return sorted(found, key=lambda mention: mention.start)

    def nearest(self, mention: str, limit: int = 3) -> list[str]:
        """Names that are spelt alike."""
        return difflib.get_close_matches(normal(mention), list(self._ids), n=limit, cutoff=0.5)


def pattern(names: Sequence[str], flags: int) -> re.Pattern[str]:
    """Alternatives, longest first; Latin names at word boundaries, Chinese ones anywhere."""
    parts = []
    for name in sorted({unicodedata.normalize("NFKC", name) for name in names}, key=len, reverse=True):
        escaped = re.escape(name)
        parts.append(escaped if CJK.search(name) else rf"(?<![A-Za-z0-9]){escaped}(?![A-Za-z0-9])")
    return re.compile("|".join(parts) or r"(?!)", flags)


class Vocabulary:
    """Entities and indicators with all their names."""

    def __init__(self, file: VocabularyFile, series: Iterable[tuple[str, str]]) -> None:
        """``series``: id and name of each stored macro series, which need no entry in the file."""
        known = {spec.id for spec in file.indicators}
        extra = [IndicatorSpec(id=ident, name=name) for ident, name in series if ident not in known]
        self.entities = {spec.id: spec for spec in file.entities}
        self.indicators = {spec.id: spec for spec in (*file.indicators, *extra)}
        self.entity_names = Names((name, spec.id) for spec in file.entities for name in names_of(spec))
        self.indicator_names = Names(
            (name, spec.id)
            for spec in self.indicators.values()
            for name in (*([spec.id] if spec in file.indicators else []), spec.name, spec.name_zh, *spec.synonyms)
        )

    @classmethod
    def load(cls, series: Iterable[tuple[str, str]]) -> Vocabulary:
        """The vocabulary of this package; a malformed file is a pydantic error that names the key."""
        text = resources.files("services.datafetch").joinpath("vocabulary.yaml").read_text(encoding="utf-8")
        return cls(VocabularyFile.model_validate(yaml.safe_load(text)), series)

    def unknown_names(self, text: str) -> list[str]:
        """Words of a question that look like names and stand for nothing here."""
        taken = [*self.entity_names.find(text), *self.indicator_names.find(text)]
        unknown = []
        for match in NAME_LIKE.finditer(text):
            inside = any(match.start() < mention.end and match.end() > mention.start for mention in taken)
            words = [word for word in match.group().split() if word not in COMMON]
            if words and not inside and " ".join(words) not in unknown:
                unknown.append(" ".join(words))
        return unknown


def names_of(spec: EntitySpec) -> tuple[str, ...]:
    """All spellings of an entity."""
    return (spec.id, spec.name, spec.name_zh, *spec.aliases)
