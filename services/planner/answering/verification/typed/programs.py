"""Programs over the columns of the material, in the language of typed claims, for what statements say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Series, Source
from fathom.services.planner.answering.verification.typed.formula import Evaluator
from fathom.services.planner.answering.verification.typed.values import FormulaError


class Programs:
    """Evaluator of what statements say of the columns of some sources."""

    def __init__(self, sources: Sequence[Source]) -> None:
        """Create it for the sources that a statement cites."""
        self._evaluator = Evaluator(sources)
        self._numbers = {id(one): source.number for source in sources for one in source.series}

    def name(self, series: Series) -> str:
        """Return the formula of a column."""
        return f"column({self._numbers[id(series)]}, {series.name!r})"

    def judge(self, readings: Iterable[str]) -> bool | None:
        """Return whether some reading of a statement holds; None where none of them can be computed."""
        outcomes = [found for one in readings if (found := self._evaluate(one)) is not None]
        return any(outcomes) if outcomes else None

    def _evaluate(self, formula: str) -> bool | None:
        try:
            found = self._evaluator.evaluate(formula)
        except FormulaError:
            return None
        return found if isinstance(found, bool) else None


def write_span(scope: Moment | None) -> str:
    """Return a period as formulas have it."""
    if scope is None:
        return repr("all")
    return repr(f"{(scope.first or date.min).isoformat()}:{(scope.last or date.max).isoformat()}")
