"""Query planner: checks a typed query and lists the measures to compute and the missing items."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date

from fathom.errors import InvalidField
from services.datafetch import formulas
from services.datafetch.model import Frequency, Missing, Query, Transform
from services.datafetch.semantic.layer import Layer
from services.datafetch.semantic.schema import EntitySpec, IndicatorSpec
from services.datafetch.units import Conversion, conversion, currency_of
from services.datafetch.warehouse import Facts, Stored, Warehouse

ORDER = list(Frequency)
CHANGES = (Transform.YOY, Transform.QOQ, Transform.MOM)
NAMELESS = "needs a name"
FLOWS = (Transform.SINGLE, Transform.YTD, Transform.TTM)
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
        return self.conversion.shown(text or self.spec.id) if self.conversion else text


@dataclass
class Part:
    """The content of one sheet: entities × measures of one frequency, and the facts of their stored inputs."""

    frequency: Frequency
    regular: bool
    entities: list[EntitySpec] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    facts: dict[tuple[str, str], tuple[Stored, Facts]] = field(default_factory=dict)
    cells: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Plan:
    """The parts to compute and the items known to be missing."""

    parts: list[Part] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)


class Planner:
    """The checker of queries: every name is resolved before anything runs."""

    def __init__(self, layer: Layer, warehouse: Warehouse) -> None:
        self._layer, self._warehouse = layer, warehouse

    def plan(self, query: Query) -> Plan:
        """Plan a query; raises ``InvalidField`` for a unit or a transform that does not apply to an indicator."""
        plan = Plan()
        entities = self._entities(query, plan)
        named = [self._indicator(name, entities, plan) for name in query.indicators]
        extra = [self._indicator(name, entities, plan) for name in self._keys(query)]
        specs = list({spec.id: spec for spec in (*named, *extra) if spec is not None}.values())
        used: set[str] = set()
        for spec in specs:
            owners = self._owners(spec, entities, query, plan)
            measure = self._measure(spec, query)
            for owner in owners:
                used.add(owner.id)
                self._place(owner, measure, query, plan)
        for entity in entities:
            if entity.id not in used and entity.kind != "economy" and specs:
                plan.missing.append(no_series(entity, specs))
        return plan

    def _keys(self, query: Query) -> list[str]:
        return [*(item.indicator for item in query.filters), *([query.order] if query.order else [])]

    def _entities(self, query: Query, plan: Plan) -> list[EntitySpec]:
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
            ids = self._layer.entity_names.all(name) or self._layer.pinyin_names.all(name)
            if len(ids) > 1:
                plan.missing.append(self.ambiguous(name, ids))
            if not ids:
                plan.missing.append(self.unknown_entity(name))
            else:
                known[ids[0]] = self._layer.entities[ids[0]]
        return list(known.values())

    def ambiguous(self, name: str, ids: tuple[str, ...]) -> Missing:
        """Return a missing item for an ambiguous name, of which the first entity is used."""
        names = [f"{self.name(ident)} ({ident})" for ident in ids]
        detail = f"{name!r} can be {', '.join(names[:5])}; {names[0]} was taken"
        return Missing(name, "UNKNOWN_ENTITY", detail, aspect="ambiguous name", nearest=tuple(names[:5]))

    def name(self, ident: str) -> str:
        spec = self._layer.entities[ident]
        return spec.name

    def unknown_entity(self, name: str) -> Missing:
        """Return a missing item for a name that is no known entity, with the nearest known names."""
        nearest = tuple(self._layer.entity_names.nearest(name))
        detail = f"no company, index, fund, currency or economy called {name!r} has data here"
        return Missing(name, "UNKNOWN_ENTITY", detail, nearest=nearest)

    def _indicator(self, name: str, entities: list[EntitySpec], plan: Plan) -> IndicatorSpec | None:
        specs = self._layer.indicators
        if name in specs:
            return specs[name]
        if "(" in name or set(name) & set("+*/"):
            return self._expression(name, plan)
        ids = self._layer.indicator_names.all(name)
        if not ids:
            nearest = tuple(self._layer.indicator_names.nearest(name))
            plan.missing.append(
                Missing(name, "UNKNOWN_INDICATOR", f"no indicator is called {name!r}", name, nearest=nearest)
            )
            return None
        kinds = {entity.kind for entity in entities}
        return next((specs[ident] for ident in ids if kinds & set(specs[ident].kinds)), specs[ids[0]])

    def _expression(self, text: str, plan: Plan) -> IndicatorSpec | None:
        """Parse a formula in place of a name, such as ``yoy(net_profit)``; its names must be ids of indicators."""
        try:
            node = formulas.parse(text, "typed.indicators")
        except InvalidField:
            nearest = tuple(self._layer.indicator_names.nearest(text))
            plan.missing.append(
                Missing(text, "UNKNOWN_INDICATOR", f"no indicator is called {text!r}", text, nearest=nearest)
            )
            return None
        unknown = [leaf for leaf in formulas.leaves(node) if leaf not in self._layer.indicators]
        for leaf in unknown:
            nearest = tuple(self._layer.indicator_names.nearest(leaf))
            plan.missing.append(
                Missing(leaf, "UNKNOWN_INDICATOR", f"no indicator has the id {leaf!r}", leaf, nearest=nearest)
            )
        if unknown or not formulas.leaves(node):
            return None
        first = self._layer.indicators[formulas.leaves(node)[0]]
        words = {
            "yoy": "year-over-year change of",
            "qoq": "quarter-over-quarter change of",
            "ttm": "trailing twelve months of",
        }
        shown = f"{words[node.name]} {first.name}" if isinstance(node, formulas.Call) and node.name in words else text
        unit = "%" if text.startswith(("100 * yoy(", "100 * qoq(", "100 * mom(")) else ""
        update = {"id": text, "name": shown, "name_zh": "", "formula": text, "unit": unit, "synonyms": []}
        return first.model_copy(update=update)

    def _owners(self, spec: IndicatorSpec, entities: list[EntitySpec], query: Query, plan: Plan) -> list[EntitySpec]:
        """Return the entities that an indicator applies to.

        An indicator of economies takes the first that has it, if none is named.
        """
        owners = [entity for entity in entities if entity.kind in spec.kinds]
        if owners:
            return owners
        if "economy" in spec.kinds:
            node = tree(spec, self._layer)
            holders = [set(self._warehouse.entities(leaf)) for leaf in formulas.leaves(node)]
            found = sorted(set.intersection(*holders)) if holders else []
            known = [self._layer.entities[ident] for ident in found if ident in self._layer.entities]
            if known:
                return known[:1]
        subject = ", ".join(entity.name for entity in entities) or spec.name
        if not entities and (query.entities or query.kind):
            return []  # The names are unknown, which is said already.
        if entities:
            detail = f"{spec.name} is kept for {' and '.join(map(plural, spec.kinds))}, not for {subject}"
        else:
            detail = f"{spec.name} {NAMELESS}: say which {' or '.join(spec.kinds)} is meant"
        plan.missing.append(Missing(subject, "NO_MATCH", detail, aspect=spec.id))
        return []

    def _measure(self, spec: IndicatorSpec, query: Query) -> Measure:
        node = tree(spec, self._layer)
        if query.transform:
            if spec.text:
                raise InvalidField("typed.transform", f"{spec.name} is a text, it has no {query.transform}")
            node = formulas.Call(query.transform.value, node)
        target = "" if query.transform in CHANGES else query.unit
        currency = "" if query.transform in CHANGES else query.currency
        inputs = tuple(formulas.leaves(node)) if spec.formula or query.transform else ()
        return Measure(spec, node, inputs, conversion(spec, target, currency), query.transform)

    def _place(self, owner: EntitySpec, measure: Measure, query: Query, plan: Plan) -> None:
        """Add a cell to the part of its frequency, or report why it cannot be computed."""
        found = {leaf: self._warehouse.of(owner.id, leaf) for leaf in formulas.leaves(measure.node)}
        lacking = [leaf for leaf, where in found.items() if where is None]
        if lacking:
            plan.missing.append(self._absent(owner, measure, lacking))
            return
        facts = {leaf: where for leaf, where in found.items() if where is not None}
        densities = [where[1].frequency for where in facts.values()]
        density = max(densities, key=ORDER.index)
        if query.frequency:
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
        if query.transform in FLOWS and not (regular and all(where[0].indicator.flow for where in facts.values())):
            detail = f"{measure.spec.name} of {owner.name} is no amount of a period; it has no {query.transform} value"
            plan.missing.append(Missing(owner.name, "NO_MATCH", detail, aspect=measure.spec.id))
            return
        source = measure.conversion.source
        if source and any(currency_of(where[1].unit) != source for where in facts.values()):
            unit = next(iter(facts.values()))[1].unit
            detail = f"{measure.spec.name} of {owner.name} is in {unit}, which is no amount of money in {source}"
            plan.missing.append(Missing(owner.name, "NO_MATCH", detail, aspect=measure.spec.id))
            return
        part = self._part(plan, density, regular)
        if owner not in part.entities:
            part.entities.append(owner)
        if measure.spec.id not in [item.spec.id for item in part.measures]:
            part.measures.append(measure)
        part.cells.add((owner.id, measure.spec.id))
        part.facts.update({(owner.id, leaf): where for leaf, where in facts.items()})

    def _part(self, plan: Plan, density: Frequency, regular: bool) -> Part:
        for part in plan.parts:
            if (part.frequency, part.regular) == (density, regular):
                return part
        plan.parts.append(Part(density, regular))
        return plan.parts[-1]

    def _absent(self, owner: EntitySpec, measure: Measure, lacking: list[str]) -> Missing:
        names = ", ".join(self._layer.indicators[leaf].name for leaf in lacking)
        failed = {failure.source: failure.message for failure in self._layer.failures}
        if failed and not any(self._warehouse.stored.get(leaf) for leaf in lacking):
            source, message = next(iter(failed.items()))
            return Missing(
                owner.name, "SOURCE_FAILED", f"source {source} could not be read: {message}", measure.spec.id
            )
        what = measure.spec.name if lacking == [measure.spec.id] else f"{measure.spec.name} (it needs {names})"
        return Missing(owner.name, "NO_MATCH", f"no source here keeps {what} of {owner.name}", measure.spec.id)


def tree(spec: IndicatorSpec, layer: Layer) -> formulas.Node:
    """Return the formula tree of an indicator, expanded down to stored indicators."""
    if spec.id in layer.indicators or not spec.formula:
        return formulas.expand(spec.id, layer.indicators)
    return formulas.replace_leaves(formulas.parse(spec.formula, "typed.indicators"), layer.indicators, ("typed",))


def plural(kind: str) -> str:
    """Return the plural of an entity kind for messages."""
    return {"economy": "economies", "currency": "currencies", "index": "indices", "commodity": "commodities"}.get(
        kind, f"{kind}s"
    )


def no_series(entity: EntitySpec, specs: list[IndicatorSpec]) -> Missing:
    """Return a missing item for an entity to which none of the indicators applies."""
    names = ", ".join(spec.name for spec in specs)
    kinds = ", ".join(dict.fromkeys(plural(kind) for spec in specs for kind in spec.kinds))
    detail = f"{entity.name} has no {names}: that is kept for {kinds}"
    return Missing(entity.name, "NO_MATCH", detail, aspect=names)


def bounded(query: Query, as_of: date | None) -> Query:
    """Return the query with its end limited to ``as_of``; raises ``InvalidField`` for a start after the end."""
    if query.start and query.end and query.start > query.end:
        raise InvalidField("typed.start_date", "is after end_date")
    return replace(query, end=min(filter(None, (query.end, as_of)), default=None))
