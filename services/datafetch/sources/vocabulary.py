"""Vocabulary of vendors: maps words of a question to vendors' concepts, series and countries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field

from fathom.core.config import Settings
from fathom.services.datafetch.catalog.layer import FAST
from fathom.services.datafetch.catalog.text import normal

FILE = Path(__file__).with_name("vocabulary.yaml")


class Concept(Settings):
    """Fields of company statements with the same meaning, and their names.

    ``id`` is the indicator under which their figures are stored, ``statement`` where they stand.
    """

    id: str
    statement: Literal["income", "balance", "cash"]
    fields: list[str] = Field(min_length=1)
    names: list[str] = Field(min_length=1)


class Series(Settings):
    """A World Bank series and its names."""

    id: str
    names: list[str] = Field(min_length=1)


class VocabularyFile(Settings):
    """The content of ``vocabulary.yaml``."""

    concepts: list[Concept]
    series: list[Series]
    countries: dict[str, list[str]]


@dataclass(frozen=True)
class Vocabulary:
    """The lookup tables; words are compared in normalised form."""

    concepts: dict[str, tuple[str, ...]]
    series: dict[str, str]
    countries: dict[str, str]
    items: tuple[Concept, ...] = ()

    @classmethod
    def read(cls, path: Path = FILE) -> Vocabulary:
        """Load the file; raises pydantic's ``ValidationError`` if it violates the schema."""
        file = VocabularyFile.model_validate(yaml.load(path.read_text(encoding="utf-8"), Loader=FAST))  # noqa: S506 - a SafeLoader
        return cls(
            {normal(name): tuple(item.fields) for item in file.concepts for name in item.names},
            {normal(name): item.id for item in file.series for name in item.names},
            {normal(name): code for code, names in file.countries.items() for name in names},
            tuple(file.concepts),
        )

    def find_fields(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the concepts of the first text that is, begins with or ends with a known name.

        The longest such name wins.
        """
        for text in map(normal, filter(None, words)):
            # "total revenue 2021" begins with a name; one in the middle of a phrase is more often another figure.
            inside = [name for name in self.concepts if text == name or text.endswith(name) or text.startswith(name)]
            if inside:
                return self.concepts[max(inside, key=len)]
        return ()

    def find_country(self, text: str) -> str:
        """Return a country's code, or ""."""
        return self.countries.get(normal(text).removesuffix("'s"), "")

    def find_series(self, words: Sequence[str]) -> str:
        """Return the World Bank series of the first word that names one, or ""."""
        return next((self.series[word] for word in map(normal, words) if word in self.series), "")
