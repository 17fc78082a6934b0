"""Query planner: checks a typed query and lists the measures to compute and the missing items."""

from __future__ import annotations

import difflib
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from fathom.core.errors import InvalidField
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import EntitySpec, IndicatorSpec
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.formula_units import infer_unit
from fathom.services.datafetch.query.model import Frequency, Missing, Query, Transform
from fathom.services.datafetch.query.units import (
    PER_EURO,
    Conversion,
    find_conversion,
    find_currency,
    find_growth_conversion,
)
from fathom.services.datafetch.warehouse.database import SeriesFacts, StoredIndicator, Warehouse

# From the finest to the coarsest, as they are declared.
ORDER = list(Frequency)
CHANGES = (Transform.YOY, Transform.QOQ, Transform.MOM)
# Part of a message, by which ``Engine`` recognises it.
NAMELESS = "needs a name"
FLOWS = (Transform.SINGLE, Transform.YTD, Transform.TTM)
# Months between two values; 0 where a month has several.
STEPS = {Frequency.DAILY: 0, Frequency.WEEKLY: 0, Frequency.MONTHLY: 1, Frequency.QUARTERLY: 3, Frequency.ANNUAL: 12}


@dataclass(frozen=True)
class Measure:
    """One indicator to compute; ``node`` is its formula tree with the query's transform applied."""

    spec: IndicatorSpec
    node: formulas.Node
    inputs: tuple[str, ...]
    conversion: Conversion
    transform: Transform

    @property
    def formula(self) -> str:
        """Return the formula shown for a column; "" for stored values."""
        text = self.spec.formula
        if self.transform:
            text = f"{self.transform}({text or self.spec.id})"
        return self.conversion.format_formula(text or self.spec.id) if self.conversion else text


@dataclass
class Part:
    """The content of one sheet: entities × measures of one frequency, and the facts of their stored inputs."""

    frequency: Frequency
    regular: bool
    entities: list[EntitySpec] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    facts: dict[tuple[str, str], tuple[StoredIndicator, SeriesFacts]] = field(default_factory=dict)
    cells: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Plan:
    """The parts to compute and the items known to be missing; ``query`` names its conditions by ids."""

    parts: list[Part] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    query: Query = field(default_factory=Query)


class Planner:
    """The checker of queries: every name is resolved before anything runs."""

    def __init__(self, layer: Layer, warehouse: Warehouse) -> None:
        self._layer, self._warehouse = layer, warehouse
        # Derived indicators that some table has as such: totals of statements, which others report by parts alone.
        self._stated = tuple(ident for ident in warehouse.stored if layer.indicators[ident].formula)

    def plan(self, query: Query) -> Plan:
        """Plan a query; raises ``InvalidField`` for a unit or a transform that does not apply to an indicator."""
        plan = Plan(query=query)
        entities = self._resolve_entities(query, plan)
        self._check_currency(query)
        named = [self._resolve_indicator(name, entities, plan) for name in query.indicators]
        asked = self._list_condition_indicators(query)
        extra = [self._resolve_indicator(name, entities, plan) for name in asked]
        if None in extra:
            # Rows that were never compared with the condition would look like an answer to it.
            return plan
        ids = {name: spec.id for name, spec in zip(asked, extra, strict=True) if spec is not None}
        plan.query = name_conditions(query, ids)
        # Indicators of conditions and of the order are fetched too, once each.
        specs = list({spec.id: spec for spec in (*named, *extra) if spec is not None}.values())
        used: set[str] = set()
        # "Capacity utilization of Apple" must not be answered with the figure for the country.
        kinds = {kind for spec in specs for kind in spec.kinds}
        is_foreign = bool(entities) and kinds.isdisjoint(entity.kind for entity in entities)
        for spec in () if is_foreign else specs:
            owners = self._find_owners(spec, entities, query, plan)
            measure = self._build_measure(spec, query)
            for owner in owners:
                used.add(owner.id)
                self._place_cell(owner, measure, query, plan)
        # The country of a company that has them says nothing new.
        homes = {entity.market for entity in entities if entity.id in used}
        for entity in entities:
            if entity.id not in used and entity.id not in homes and specs:
                plan.missing.append(report_no_series(entity, specs))
        return plan

    def add_defaults(self, query: Query) -> Query:
        """Return the query with the default indicator of its entities when it names none.

        Raises ``InvalidField("typed.indicators")`` with some of their indicators when they have no default.
        """
        entities = self._resolve_entities(query, Plan())
        if query.indicators or not entities:
            return query
        kinds = {entity.kind for entity in entities}
        specs = self._layer.indicators.values()
        defaults = tuple(spec.id for spec in specs if spec.default and kinds & set(spec.kinds))
        if defaults:
            return replace(query, indicators=defaults)
        some = [
            ident
            for ident, tables in self._warehouse.stored.items()
            if any(entities[0].id in t.members for t in tables)
        ]
        raise InvalidField(
            "typed.indicators",
            f"name what {entities[0].name} is asked for; it has {len(some)}, such as {', '.join(some[:5])}",
        )

    def _check_currency(self, query: Query) -> None:
        """Raise ``InvalidField("typed.currency")`` for a currency without rates."""
        rates = {entity for stored in self._warehouse.stored.get("eur_rate", ()) for entity in stored.members} | {"EUR"}
        if query.currency and query.currency.upper() not in rates:
            near = difflib.get_close_matches(query.currency.upper(), sorted(rates), 3, 0.5)
            hint = f"; nearest: {', '.join(near)}" if near else "; give an ISO 4217 code such as USD"
            raise InvalidField("typed.currency", f"no rates of {query.currency!r} are here{hint}")

    def _list_condition_indicators(self, query: Query) -> list[str]:
        return [*(item.indicator for item in query.filters), *([query.order] if query.order else [])]

    def _resolve_entities(self, query: Query, plan: Plan) -> list[EntitySpec]:
        if query.kind:
            found = [spec for spec in self._layer.entities.values() if spec.kind == query.kind]
            if not found:
                kinds = sorted({spec.kind for spec in self._layer.entities.values()})
                plan.missing.append(
                    Missing(query.kind, "UNKNOWN_ENTITY", f"no entity is a {query.kind}", nearest=tuple(kinds[:5]))
                )
            return found
        known = {}
        for name in query.entities:
            ids = self._layer.entity_names.find_all(name) or self._layer.pinyin_names.find_all(name)
            # Ambiguity is reported and the first id is used: an answer with a warning serves better than none.
            if len(ids) > 1:
                plan.missing.append(self._report_ambiguous(name, ids))
            if not ids:
                plan.missing.append(self._report_unknown_entity(name))
            else:
                known[ids[0]] = self._layer.entities[ids[0]]
        return list(known.values())

    def _report_ambiguous(self, name: str, ids: tuple[str, ...]) -> Missing:
        """Return a missing item for an ambiguous name, of which the first entity is used."""
        names = [f"{self._get_entity_name(ident)} ({ident})" for ident in ids]
        detail = f"{name!r} can be {', '.join(names[:5])}; {names[0]} was taken"
        return Missing(name, "UNKNOWN_ENTITY", detail, aspect="ambiguous name", nearest=tuple(names[:5]))

    def _get_entity_name(self, ident: str) -> str:
        spec = self._layer.entities[ident]
        return spec.name

    def _report_unknown_entity(self, name: str) -> Missing:
        """Return a missing item for an unknown entity name, with the nearest known names."""
        nearest = tuple(self._layer.entity_names.find_nearest(name))
        detail = f"no company, index, fund, currency or economy called {name!r} has data here"
        return Missing(name, "UNKNOWN_ENTITY", detail, nearest=nearest)

    def _resolve_indicator(self, name: str, entities: list[EntitySpec], plan: Plan) -> IndicatorSpec | None:
        specs = self._layer.indicators
        if name in specs:
            return specs[name]
        if self._is_formula(name):
            return self._parse_expression(name, plan)
        ids = self._layer.indicator_names.find_all(name)
        if not ids:
            nearest = tuple(self._layer.indicator_names.find_nearest(name))
            plan.missing.append(
                Missing(name, "UNKNOWN_INDICATOR", f"no indicator is called {name!r}", name, nearest=nearest)
            )
            return None
        # One name may stand for an indicator of companies and one of economies.
        kinds = {entity.kind for entity in entities}
        return next((specs[ident] for ident in ids if kinds & set(specs[ident].kinds)), specs[ids[0]])

    def _is_formula(self, text: str) -> bool:
        """Return whether a text is meant as a formula; one with a minus alone, as names have, must name an id."""
        if "(" in text or set(text) & set("+*/"):
            return True
        if "-" not in text or self._layer.indicator_names.find_all(text):
            return False
        try:
            leaves = formulas.list_leaves(formulas.parse(text, "typed.indicators"))
        except InvalidField:
            return False
        return any(leaf in self._layer.indicators for leaf in leaves)

    def _parse_expression(self, text: str, plan: Plan) -> IndicatorSpec | None:
        """Parse a formula in place of a name, such as ``yoy(net_profit)``; its names must be ids of indicators."""
        try:
            node = formulas.parse(text, "typed.indicators")
        except InvalidField:
            nearest = tuple(self._layer.indicator_names.find_nearest(text))
            plan.missing.append(
                Missing(text, "UNKNOWN_INDICATOR", f"no indicator is called {text!r}", text, nearest=nearest)
            )
            return None
        unknown = [leaf for leaf in formulas.list_leaves(node) if leaf not in self._layer.indicators]
        for leaf in unknown:
            nearest = tuple(self._layer.indicator_names.find_nearest(leaf))
            plan.missing.append(
                Missing(leaf, "UNKNOWN_INDICATOR", f"no indicator has the id {leaf!r}", leaf, nearest=nearest)
            )
        if unknown or not formulas.list_leaves(node):
            return None
        first = self._layer.indicators[formulas.list_leaves(node)[0]]
        words = {
            "yoy": "year-over-year change of",
            "qoq": "quarter-over-quarter change of",
            "ttm": "trailing twelve months of",
        }
        shown = f"{words[node.name]} {first.name}" if isinstance(node, formulas.Call) and node.name in words else text
        unit = infer_unit(node, lambda leaf: self._layer.indicators[leaf].unit)
        update = {"id": text, "name": shown, "name_zh": "", "formula": text, "unit": unit, "synonyms": []}
        return first.model_copy(update=update)

    def _find_owners(
        self, spec: IndicatorSpec, entities: list[EntitySpec], query: Query, plan: Plan
    ) -> list[EntitySpec]:
        """Return the entities that an indicator applies to.

        An indicator of economies takes the first that has it, if none is named.
        """
        owners = [entity for entity in entities if entity.kind in spec.kinds]
        if owners:
            return owners
        if "economy" in spec.kinds:
            node = expand_spec(spec, self._layer.indicators)
            holders = [set(self._warehouse.list_entities(leaf)) for leaf in formulas.list_leaves(node)]
            # A formula needs all of its inputs for the same economy.
            found = sorted(set.intersection(*holders)) if holders else []
            known = [self._layer.entities[ident] for ident in found if ident in self._layer.entities]
            if known:
                return known[:1]
        subject = ", ".join(entity.name for entity in entities) or spec.name
        if not entities and (query.entities or query.kind):
            return []  # The names are unknown, which is said already.
        if entities:
            detail = f"{spec.name} is kept for {' and '.join(map(pluralise, spec.kinds))}, not for {subject}"
        else:
            detail = f"{spec.name} {NAMELESS}: say which {' or '.join(spec.kinds)} is meant"
        plan.missing.append(Missing(subject, "NO_MATCH", detail, aspect=spec.id))
        return []

    def _build_measure(
        self, spec: IndicatorSpec, query: Query, known: Mapping[str, IndicatorSpec] | None = None
    ) -> Measure:
        node = expand_spec(spec, known or self._layer.indicators)
        if query.transform:
            if spec.text:
                raise InvalidField("typed.transform", f"{spec.name} is a text, it has no {query.transform}")
            node = formulas.Call(query.transform.value, node)
        inputs = tuple(formulas.list_leaves(node)) if spec.formula or query.transform else ()
        if query.transform in CHANGES:
            conversion = find_growth_conversion(spec.name, query.transform, query.unit, query.currency)
        else:
            conversion = find_conversion(spec, query.unit, query.currency)
        return Measure(spec, node, inputs, conversion, query.transform)

    def _prefer_stated(self, owner: EntitySpec, measure: Measure, query: Query) -> Measure:
        """Return the measure with what a table states of the owner in the place of what would be derived."""
        if not measure.spec.formula:
            return measure
        stated = {
            ident: self._layer.indicators[ident].model_copy(update={"formula": ""})
            for ident in self._stated
            if self._warehouse.find_series(owner.id, ident) is not None
        }
        if not stated:
            return measure
        spec = stated.get(measure.spec.id, measure.spec)
        return self._build_measure(spec, query, ChainMap(stated, self._layer.indicators))

    def _place_cell(self, owner: EntitySpec, measure: Measure, query: Query, plan: Plan) -> None:
        """Add a cell to the part of its frequency, or report why it cannot be computed."""
        measure = self._prefer_stated(owner, measure, query)
        found = {leaf: self._warehouse.find_series(owner.id, leaf) for leaf in formulas.list_leaves(measure.node)}
        lacking = [leaf for leaf, where in found.items() if where is None]
        if lacking:
            plan.missing.append(self._report_absent(owner, measure, lacking))
            return
        facts = {leaf: where for leaf, where in found.items() if where is not None}
        densities = [where[1].frequency for where in facts.values()]
        # The coarsest of the inputs, to which the finer ones are resampled.
        density = max(densities, key=ORDER.index)
        if query.frequency:
            # Values are resampled to a coarser frequency, never invented for a finer one.
            if ORDER.index(query.frequency) < ORDER.index(density):
                detail = f"{measure.spec.name} of {owner.name} is {density}; it has no {query.frequency} values"
                plan.missing.append(Missing(owner.name, "NO_MATCH", detail, aspect=measure.spec.id))
                return
            density = query.frequency
        if query.transform in CHANGES and STEPS[density] > {"yoy": 12, "qoq": 3, "mom": 1}[query.transform]:
            detail = f"{measure.spec.name} of {owner.name} is {density}; it has no {query.transform} change"
            plan.missing.append(Missing(owner.name, "NO_MATCH", detail, aspect=measure.spec.id))
            return
        regular = all(where[1].regular for where in facts.values())
        # Sums over quarters need one value at the end of each.
        if query.transform in FLOWS and not (regular and all(where[0].indicator.flow for where in facts.values())):
            detail = f"{measure.spec.name} of {owner.name} is no amount of a period; it has no {query.transform} value"
            plan.missing.append(Missing(owner.name, "NO_MATCH", detail, aspect=measure.spec.id))
            return
        source = measure.conversion.source
        # The catalog's unit is that of the indicator; a single series may be in points or per barrel.
        is_rate = measure.spec.unit == PER_EURO
        if source and not is_rate and any(find_currency(where[1].unit) != source for where in facts.values()):
            unit = next(iter(facts.values()))[1].unit
            detail = f"{measure.spec.name} of {owner.name} is in {unit}, which is no amount of money in {source}"
            plan.missing.append(Missing(owner.name, "NO_MATCH", detail, aspect=measure.spec.id))
            return
        part = self._get_part(plan, density, regular, measure)
        if owner not in part.entities:
            part.entities.append(owner)
        if measure.spec.id not in [item.spec.id for item in part.measures]:
            part.measures.append(measure)
        part.cells.add((owner.id, measure.spec.id))
        part.facts.update({(owner.id, leaf): where for leaf, where in facts.items()})

    def _get_part(self, plan: Plan, density: Frequency, regular: bool, measure: Measure) -> Part:
        for part in plan.parts:
            # One column is computed in one way: what is stated of some and derived of others stands in two sheets.
            is_same = all(one.node == measure.node for one in part.measures if one.spec.id == measure.spec.id)
            if (part.frequency, part.regular) == (density, regular) and is_same:
                return part
        plan.parts.append(Part(density, regular))
        return plan.parts[-1]

    def _report_absent(self, owner: EntitySpec, measure: Measure, lacking: list[str]) -> Missing:
        names = ", ".join(self._layer.indicators[leaf].name for leaf in lacking)
        failed = {failure.source: failure.message for failure in self._layer.failures}
        # With a table that could not be read, the value may be in it.
        if failed and not any(self._warehouse.stored.get(leaf) for leaf in lacking):
            source, message = next(iter(failed.items()))
            return Missing(
                owner.name, "SOURCE_FAILED", f"source {source} could not be read: {message}", measure.spec.id
            )
        what = measure.spec.name if lacking == [measure.spec.id] else f"{measure.spec.name} (it needs {names})"
        return Missing(owner.name, "NO_MATCH", f"no source here keeps {what} of {owner.name}", measure.spec.id)


def name_conditions(query: Query, ids: Mapping[str, str]) -> Query:
    """Return the query with the ids of the indicators in its conditions and its order, by their names in ``ids``."""
    filters = tuple(replace(item, indicator=ids[item.indicator]) for item in query.filters)
    return replace(query, filters=filters, order=ids[query.order] if query.order else "")


def expand_spec(spec: IndicatorSpec, known: Mapping[str, IndicatorSpec]) -> formulas.Node:
    """Return the formula tree of an indicator, expanded down to stored indicators; ``known`` are all by their ids."""
    if spec.id in known or not spec.formula:
        return formulas.expand(spec.id, known)
    return formulas.replace_leaves(formulas.parse(spec.formula, "typed.indicators"), known, ("typed",))


def pluralise(kind: str) -> str:
    """Return the plural of an entity kind for messages."""
    return {"economy": "economies", "currency": "currencies", "index": "indices", "commodity": "commodities"}.get(
        kind, f"{kind}s"
    )


def report_no_series(entity: EntitySpec, specs: list[IndicatorSpec]) -> Missing:
    """Return a missing item for an entity to which none of the indicators applies."""
    names = ", ".join(spec.name for spec in specs)
    kinds = ", ".join(dict.fromkeys(pluralise(kind) for spec in specs for kind in spec.kinds))
    detail = f"{entity.name} has no {names}: that is kept for {kinds}"
    return Missing(entity.name, "NO_MATCH", detail, aspect=names)


def limit_to_as_of(query: Query, as_of: date | None) -> Query:
    """Return the query with its end limited to ``as_of``; raises ``InvalidField`` for a start after the end."""
    if query.start and query.end and query.start > query.end:
        raise InvalidField("typed.start_date", "is after end_date")
    # Values after as_of could not be known; those before it that were published later are left out by ``SourceRows``.
    return replace(query, end=min(filter(None, (query.end, as_of)), default=None))
