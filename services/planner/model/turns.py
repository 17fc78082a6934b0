"""Tables and figures of earlier turns, by the record of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class EarlierTable:
    """A table of an earlier turn, by the name that it had there; the sheet is in the tools' own type."""

    name: str
    sheet: Any

    @property
    def description(self) -> str:
        """Return the words by which somebody may ask for it."""
        columns = " ".join(f"{column.name} {column.entity} {column.indicator}" for column in self.sheet.columns)
        return f"{self.sheet.title} {columns.replace('.', ' ').replace('_', ' ')}"


@dataclass(frozen=True)
class EarlierFigure:
    """A figure of an earlier turn, with the code that drew it and the run in which it did."""

    figure: Any
    code: str
    run_id: str

    @property
    def description(self) -> str:
        """Return the words by which somebody may ask for it."""
        return f"{self.figure.title} figure chart 图"


@dataclass(frozen=True)
class TurnFindings:
    """The tables and figures of one turn."""

    tables: Sequence[EarlierTable] = ()
    figures: Sequence[EarlierFigure] = ()

    @property
    def names(self) -> list[str]:
        """Return each finding by name and title."""
        tables = [f"{table.name} ({table.sheet.title})" for table in self.tables]
        return tables + [f"{one.figure.id} ({one.figure.title})" for one in self.figures]


class TurnStore(Protocol):
    """Source of the findings of turns."""

    async def load(self, run_id: str) -> TurnFindings:
        """Return the findings of a turn's run; none for a run whose record is gone."""
        ...
