"""Filters of a query, in the units of the series that they apply to."""

from __future__ import annotations

from dataclasses import replace

from fathom.services.datafetch.parser.draft import Draft, is_rate
from fathom.services.datafetch.parser.measures import CHANGES, MOVES
from fathom.services.datafetch.parser.operators import ORDER, Bound
from fathom.services.datafetch.query.model import Combination, Filter, Missing, Query, Statistic
from fathom.services.datafetch.query.units import find_scale, parse_unit

SHARES = {Statistic.RETURN, Statistic.CAGR, Statistic.VOLATILITY, Statistic.DRAWDOWN}
# For values whose sign is turned: a fall of more than 5 % is a change below -5 %.
FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def apply_conditions(draft: Draft, query: Query) -> Query:
    """Return the query with filters.

    A percentage bound on a series that is not a rate is reported, and the indicators are dropped.
    """
    asked = draft.conditions
    if not query.indicators or asked is None:
        return query
    found = [_build_filter(draft, query, bound) for bound in asked.bounds]
    filters = tuple(item for item in found if item is not None)
    names, reason = ", ".join(spec.name for spec in draft.find_specs(query.indicators)), ""
    if len(query.indicators) > 1 and query.combination == Combination.NONE and not all(b.value for b in asked.bounds):
        reason = f"a sign is one of a single series or of a difference, not of {names}"
    elif len(filters) < len(found):
        reason = f"{names} is no rate: it cannot be compared with a percentage"
    if reason:
        # Dropping the filter alone would return every value as if it had passed.
        draft.missing.append(Missing(names, "NO_MATCH", reason, aspect=query.indicators[0]))
        return replace(query, indicators=())
    # Rows that pass "below" are shown from the lowest, those of "above" from the highest.
    is_low = all(item.operator.startswith("<") for item in filters)
    query = replace(query, filters=filters, descending=not is_low if query.kind else query.descending)
    is_coarser = ORDER.index(asked.every) > ORDER.index(draft.find_finest(query.indicators))
    if is_coarser and not query.statistics and not query.every and not query.transform:
        query = replace(query, frequency=asked.every)
    if asked.pick == "last":
        return replace(query, tail=1, statistics=tuple(one for one in query.statistics if one != Statistic.LAST))
    return replace(query, limit=1) if asked.pick == "first" else query


def _build_filter(draft: Draft, query: Query, bound: Bound) -> Filter | None:
    """Convert a bound to the unit of the filtered series.

    Return None if a percentage is set on a series that is not a rate.
    """
    name, inner = query.indicators[0], query.statistics[0] if query.statistics else None
    operator, value, spec = bound.operator, bound.value, draft.layer.indicators.get(name)
    if query.kind == "currency" and inner == Statistic.RETURN and bound.rate and bound.moved:
        # A currency that gains 10 % has a rate per euro that falls to 1 / 1.1 of what it was.
        operator = FLIPPED[operator] if bound.moved > 0 else operator
        return Filter(name, operator, 100 * (1 / (1 + abs(value) / 100 * bound.moved) - 1))
    # Drawdowns are computed as negative numbers and asked for as positive ones.
    falls = (bound.moved < 0 and (inner in MOVES or query.transform in CHANGES)) or inner == Statistic.DRAWDOWN
    if falls and value > 0:
        operator, value = FLIPPED[operator], -value
    if spec is None and name.startswith("100 *"):
        return Filter(name, operator, value)
    if query.transform in CHANGES or (spec is None and name.startswith(CHANGES)):
        # Growth is computed as a fraction and asked for in per cent, unless the query converts it.
        wanted = parse_unit(query.unit) if query.transform in CHANGES else None
        return Filter(name, operator, value / 100 * (wanted.fraction if wanted else 1.0))
    # A condition without an indicator applies to the combined column.
    over = "" if query.combination != Combination.NONE or spec is None else name
    if inner in SHARES or (spec is not None and is_rate(spec)):
        return Filter(over, operator, value)
    # A quotient of two indicators is a fraction, which may be compared with per cent.
    if bound.rate and not (spec is None and "/" in name):
        return None
    return Filter(over, operator, value / 100 if bound.rate else value / find_scale(spec.unit if spec else ""))
