"""The series that the tables hold, stored or derived, with the dates between which they have values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta

from fathom.domain.periods.period import find_month_end
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import Frequency, IndicatorSpec
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.sql.source_rows import find_delay_days
from fathom.services.datafetch.query.sql.windows import MONTHS
from fathom.services.datafetch.warehouse.database import SeriesFacts, StoredIndicator, Warehouse

ORDER = list(Frequency)


@dataclass(frozen=True)
class Span:
    """First and last day with a value among the series of a row, with the metadata that they share."""

    first: date
    last: date
    frequency: Frequency
    unit: str
    source: str
    basis: str

    @property
    def group(self) -> tuple[str, ...]:
        """Return what series must share to be shown as one row."""
        return (self.frequency, self.basis)


@dataclass(frozen=True)
class Row:
    """The series of one indicator for one or several entities of a kind; ``entities`` are sorted by id."""

    indicator: IndicatorSpec
    kind: str
    entities: tuple[str, ...]
    span: Span
    score: float = 0.0


@dataclass
class KindOverview:
    """Overview of the series of one kind of entity."""

    entities: set[str] = field(default_factory=set)
    indicators: set[str] = field(default_factory=set)
    frequencies: set[Frequency] = field(default_factory=set)
    bases: set[str] = field(default_factory=set)
    first: date = date.max
    lasts: Counter[date] = field(default_factory=Counter)
    """Number of series by their last date."""

    @property
    def usual_last(self) -> date | None:
        """Return the last date of most of the series, or None when they end on different dates."""
        day, count = self.lasts.most_common(1)[0]
        return day if 2 * count > self.lasts.total() else None


class Availability:
    """An index of the series of a warehouse; with ``as_of`` it knows only what was published by then."""

    def __init__(self, layer: Layer, warehouse: Warehouse, as_of: date | None = None) -> None:
        self._layer, self._warehouse, self._as_of = layer, warehouse, as_of

    def list_kinds(self) -> list[str]:
        """Return the kinds of entities that have data, sorted."""
        entities = {entity for stored in self._iter_stored() for entity in stored.members}
        return sorted({self._find_kind(entity) for entity in entities})

    def find_span(self, entity: str, indicator: str) -> Span | None:
        """Return the span of a stored or derived series, or None when it has no value yet."""
        spec = self._layer.indicators[indicator]
        leaves = formulas.list_leaves(formulas.expand(indicator, self._layer.indicators))
        found = [self._warehouse.find_series(entity, leaf) for leaf in dict.fromkeys(leaves)]
        spans = [self._limit(*where) for where in found if where is not None]
        known = [span for span in spans if span is not None]
        # A derived value exists only where all of its inputs do.
        if not known or len(known) < len(found):
            return None
        first, last = max(span.first for span in known), min(span.last for span in known)
        if first > last:
            return None
        if not spec.formula:
            return known[0]
        density = max((span.frequency for span in known), key=ORDER.index)
        source = ", ".join(dict.fromkeys(span.source for span in known))
        return Span(first, last, density, spec.unit, source, spec.basis)

    def list_owners(self, indicator: str) -> list[str]:
        """Return the entities that have a stored or derived indicator, sorted by id."""
        leaves = formulas.list_leaves(formulas.expand(indicator, self._layer.indicators))
        owners = [set(self._warehouse.list_entities(leaf)) for leaf in leaves]
        return sorted(set.intersection(*owners)) if owners else []

    def list_indicators(self, entity: str) -> list[str]:
        """Return the stored indicators of an entity, its default one first."""
        found = [ident for ident, tables in self._warehouse.stored.items() if any(entity in t.members for t in tables)]
        return sorted(found, key=lambda ident: (not self._layer.indicators[ident].default, ident))

    def make_rows(self, indicator: str, score: float, kind: str = "") -> list[Row]:
        """Return the series of an indicator, grouped by the kind of their entities, frequency and basis."""
        groups: dict[tuple[str, ...], list[tuple[str, Span]]] = defaultdict(list)
        for entity in self.list_owners(indicator):
            own = self._find_kind(entity)
            span = self.find_span(entity, indicator) if kind in ("", own) else None
            if span is not None:
                groups[own, *span.group].append((entity, span))
        spec = self._layer.indicators[indicator]
        return [
            Row(spec, key[0], tuple(entity for entity, _ in members), merge_spans([span for _, span in members]), score)
            for key, members in groups.items()
        ]

    def make_row(self, entity: str, indicator: str, score: float) -> Row | None:
        """Return the row of a single series, or None when it has no value yet."""
        span = self.find_span(entity, indicator)
        if span is None:
            return None
        return Row(self._layer.indicators[indicator], self._find_kind(entity), (entity,), span, score)

    def describe_kinds(self) -> dict[str, KindOverview]:
        """Return what there is by kind of entity, sorted by kind."""
        found: dict[str, KindOverview] = defaultdict(KindOverview)
        for stored in self._iter_stored():
            for entity, facts in stored.members.items():
                span = self._limit(stored, facts)
                if span is None:
                    continue
                overview = found[self._find_kind(entity)]
                overview.entities.add(entity)
                overview.indicators.add(stored.indicator.id)
                overview.frequencies.add(span.frequency)
                overview.bases |= {span.basis} if span.basis else set()
                overview.first = min(overview.first, span.first)
                overview.lasts[span.last] += 1
        return dict(sorted(found.items()))

    def _iter_stored(self) -> Iterable[StoredIndicator]:
        return (stored for tables in self._warehouse.stored.values() for stored in tables)

    def _find_kind(self, entity: str) -> str:
        spec = self._layer.entities.get(entity)
        return spec.kind if spec is not None else "other"

    def _limit(self, stored: StoredIndicator, facts: SeriesFacts) -> Span | None:
        """Return the span of a stored series as known at ``as_of``, or None when nothing was published by then."""
        last = facts.last
        if self._as_of is not None:
            known = self._as_of - timedelta(days=find_delay_days(stored))
            if facts.regular:
                # The last whole period that ended by then.
                months = MONTHS[facts.frequency]
                start = known.month - (known.month - 1) % months
                end = find_month_end(known.year, start + months - 1)
                known = end if end <= known else date(known.year, start, 1) - timedelta(days=1)
            if facts.first > known:
                return None
            last = min(last, known)
        return Span(facts.first, last, facts.frequency, facts.unit, facts.source, facts.basis)


def merge_spans(spans: list[Span]) -> Span:
    """Return the span from the first to the last day of spans of one group; units and sources are listed."""
    first = spans[0]
    dates = min(span.first for span in spans), max(span.last for span in spans)
    units, sources = (", ".join(sorted(set(names))) for names in zip(*((s.unit, s.source) for s in spans), strict=True))
    return Span(*dates, first.frequency, units, sources, first.basis)
