"""What vendors call the things that people ask for: words → concepts, series and countries of the vendors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import Field

from fathom.config import Settings
from services.datafetch.semantic.layer import FAST
from services.datafetch.semantic.text import normal

FILE = Path(__file__).with_name("known.yaml")


class Concept(Settings):
    """Fields of a company's statements that mean one thing, and its names."""

    fields: list[str] = Field(min_length=1)
    names: list[str] = Field(min_length=1)


class Series(Settings):
    """A series of the World Bank, and its names."""

    id: str
    names: list[str] = Field(min_length=1)


class KnownFile(Settings):
    """``known.yaml``."""

    concepts: list[Concept]
    series: list[Series]
    countries: dict[str, list[str]]


@dataclass(frozen=True)
class Known:
    """Looks words up, whole and without case."""

    concepts: dict[str, tuple[str, ...]]
    series: dict[str, str]
    countries: dict[str, str]

    @classmethod
    def read(cls, path: Path = FILE) -> Known:
        """Raises pydantic's ``ValidationError`` for a file of another form."""
        file = KnownFile.model_validate(yaml.load(path.read_text(encoding="utf-8"), Loader=FAST))  # noqa: S506 - a SafeLoader
        return cls(
            {normal(name): tuple(item.fields) for item in file.concepts for name in item.names},
            {normal(name): item.id for item in file.series for name in item.names},
            {normal(name): code for code, names in file.countries.items() for name in names},
        )

    def fields(self, words: Sequence[str]) -> tuple[str, ...]:
        """The concepts of the first words that name some, or of the longest name that they begin or end with."""
        for text in map(normal, filter(None, words)):
            inside = [name for name in self.concepts if text == name or text.endswith(name) or text.startswith(name)]
            if inside:
                return self.concepts[max(inside, key=len)]
        return ()

    def country(self, text: str) -> str:
        """A country's code; "" for none."""
        return self.countries.get(normal(text).removesuffix("'s"), "")

    def indicator(self, words: Sequence[str]) -> str:
        """The World Bank's series of the first words that name one; "" for none."""
        return next((self.series[word] for word in map(normal, words) if word in self.series), "")
