"""Compilation of formula trees to SQL; functions that look back in time become window columns over the level below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fathom.services.datafetch.catalog.files import quote
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Frequency
from fathom.services.datafetch.warehouse.database import REGULAR

MONTHS = {Frequency.MONTHLY: 1, Frequency.QUARTERLY: 3, Frequency.ANNUAL: 12}


# Ends of months differ by up to three days, and a last trading day lies up to three more before them.
SLACK_DAYS = 6


@dataclass
class FormulaCompiler:
    """A compiler of formula trees for one frequency; ``windows`` holds the window columns by level."""

    density: Frequency
    indicators: dict[str, IndicatorSpec]
    windows: dict[int, dict[str, str]] = field(default_factory=dict)
    _names: dict[formulas.Node, tuple[str, int]] = field(default_factory=dict)

    def compile(self, node: formulas.Node) -> tuple[str, int]:
        """Return the SQL expression of a node and the lowest level that has all its columns."""
        match node:
            case formulas.Leaf(id=ident):
                return quote(ident), 0
            case formulas.Number(value=value):
                return f"{value!r}::double", 0
            case formulas.Binary(operator=operator, left=left, right=right):
                (a, low), (b, high) = self.compile(left), self.compile(right)
                # Division by zero is null, as the language says; DuckDB's own result depends on its settings.
                b = f"nullif({b}, 0)" if operator == "/" else b
                return f"({a} {operator} {b})", max(low, high)
            case formulas.Call(name="abs", argument=argument):
                inner, level = self.compile(argument)
                return f"abs({inner})", level
            case formulas.Call():
                return self._compile_call(node)
        raise AssertionError(node)

    def _compile_call(self, call: formulas.Call) -> tuple[str, int]:
        # Equal calls share a column: ttm(x) / prev(ttm(x)) reads x once.
        if call not in self._names:
            inner, level = self.compile(call.argument)
            # Window functions read columns; an expression becomes one first, on the level below.
            if not inner.startswith('"'):
                inner = self._add_column(f"({inner})", level)
                level += 1
            self._names[call] = self._compile_function(call, inner, level)
        return self._names[call]

    def _compile_function(self, call: formulas.Call, x: str, level: int) -> tuple[str, int]:
        """Return the expression of a function over the column ``x`` of ``level``."""

        def look_back(months: int) -> str:
            return self._add_column(compile_lag(x, months, self.density), level)

        name = call.name
        if name == "prev":
            return look_back(call.months), level + 1
        if name in ("yoy", "qoq", "mom"):
            past = look_back({"yoy": 12, "qoq": 3, "mom": 1}[name])
            return f"(({x} - {past}) / nullif({past}, 0))", level + 1
        if name == "change":
            return f"({x} - {look_back(12)})", level + 1
        if name == "average":
            return f"(({x} + {look_back(12)}) / 2)", level + 1
        if name == "running":
            return self._add_column(f"sum({x}) over (partition by entity order by date)", level), level + 1
        return self._compile_flow(name, call.argument, x, look_back), level + 1

    def _compile_flow(self, name: str, argument: formulas.Node, x: str, before: Callable[[int], str]) -> str:
        """Return SQL for a single quarter, year to date or trailing twelve months."""
        # The column fm is the month of the fiscal year, 1 to 12.
        step = MONTHS.get(self.density, 1)
        inputs = [self.indicators[leaf] for leaf in formulas.list_leaves(argument)]
        if all(spec.cumulative for spec in inputs) and self.density != Frequency.ANNUAL:
            if name == "single":
                return f"(case when fm = {step} then {x} else {x} - {before(step)} end)"
            if name == "ytd":
                return x
            # Trailing twelve months of cumulative figures: this year's, plus last year's whole, less last year's to the
            # same month.
            cases = " ".join(f"when {m} then {x} + {before(m)} - {before(12)}" for m in range(step, 12, step))
            return f"(case fm when 12 then {x} {cases} end)"
        if name == "single":
            return x
        if name == "ytd":
            terms = " ".join(f"when {m} then {sum_periods(x, before, m, step)}" for m in range(step, 13, step))
            return f"(case fm {terms} end)"
        return f"({sum_periods(x, before, 12, step)})"

    def _add_column(self, expression: str, level: int) -> str:
        """Add a column with the expression to the next level, or reuse an equal one, and return its quoted name."""
        columns = self.windows.setdefault(level + 1, {})
        for name, known in columns.items():
            if known == expression:
                return quote(name)
        name = f"w{level + 1}_{len(columns)}"
        columns[name] = expression
        return quote(name)


def sum_periods(x: str, before: Callable[[int], str], months: int, step: int) -> str:
    """Return SQL for x plus its previous values over ``months``; null when one of them is."""
    return " + ".join([x, *(before(m) for m in range(step, months, step))])


def compile_lag(x: str, months: int, density: Frequency) -> str:
    """Return SQL for the value ``months`` before.

    Monthly, quarterly and annual series match within 6 days; others use the last value of the 12 days up to that date.
    """
    # Other series look back only, to the last value on or before the date.
    near, far = (SLACK_DAYS, SLACK_DAYS) if density in REGULAR else (0, 2 * SLACK_DAYS)
    frame = f"interval '{months} months {far} days' preceding and interval '{months} months -{near} days' preceding"
    return f"last_value({x} ignore nulls) over (partition by entity order by date range between {frame})"
