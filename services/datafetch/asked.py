"""What is asked of the indicators of a question: growth, quotients, statistics, a density, one against another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from services.datafetch import cues, formulas, grammar
from services.datafetch.model import Combination, Frequency, Statistic, Transform
from services.datafetch.periods import MONTHS_OF, Period, split
from services.datafetch.semantic.layer import Layer
from services.datafetch.semantic.names import Mention
from services.datafetch.semantic.schema import IndicatorSpec
from services.datafetch.semantic.text import blank
from services.datafetch.units import parse_unit

QUOTIENTS = [
    (
        re.compile(r"(?:占|与|和|同|跟|对|除以|/|比上?)\s*(?:其|总|全部)?\s*"),
        re.compile(r"\s*的?\s*(?:比值|之比|比例|比率|比重|百分比|占比|比)"),
    ),
    (re.compile(r"(?:占|除以|/)\s*"), re.compile("")),
    (re.compile(r"在\s*"), re.compile(r"(?:中|里|之中)?所?占?的?(?:比例|比率|比重|占比|百分比)")),
    (re.compile(r"\s+(?:to|as a (?:share|percentage) of|divided by|over|per)\s+", re.I | re.A), re.compile("")),
]


class Asked:
    """Reads what is to be done with indicators; it looks at their specifications only."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    def twin(self, name: str, shown: str) -> str:
        """The yearly figures of an indicator, when these are asked for."""
        twin = self._layer.indicators[name].annual
        return (
            twin if twin and cues.ANNUAL.search(shown) and not re.search(r"annuali[sz]ed", shown, re.I | re.A) else name
        )

    def unadjusted(self, name: str, shown: str) -> str:
        """The figures before seasonal adjustment, when these are asked for: a twin of the id ends in n."""
        if not cues.UNADJUSTED.search(shown):
            return name
        twins = (f"{name[:-2]}ns", f"{name[:-3]}nsa", f"{name}nsa", f"{name[:-2]}rnsa")
        specs = self._layer.indicators
        return next((twin for twin in twins if twin in specs and "(NSA)" in specs[twin].unit), name)

    def shares(self, shown: str, mentions: list[Mention], names: list[str]) -> tuple[list[str], list[Mention]]:
        """ "R&D to profit" of two indicators that stand together is their quotient, when no name says it better."""
        if len(names) == len(mentions) == 2 and not any(self._layer.indicators[name].text for name in names):
            between, behind = shown[mentions[0].end : mentions[1].start], shown[mentions[1].end :]
            if any(joint.fullmatch(between) and tail.match(behind) for joint, tail in QUOTIENTS):
                return [f"({names[0]}) / ({names[1]})"], []
        return names, mentions

    def growth(
        self, shown: str, mentions: list[Mention], names: list[str], transform: Transform
    ) -> tuple[list[str], Transform]:
        """Words of growth right after an indicator belong to it; others to all indicators."""
        grown = list(names)
        for position, mention in enumerate(mentions[: len(names)]):
            spec = self._layer.indicators[names[position]]
            if formulas.metric_type(spec) == "offset" or spec.default:
                continue
            if cues.GROWTH.match(shown, mention.end) and not spec.text and transform in (Transform.NONE, Transform.YOY):
                known = self._layer.indicator_names.all(f"{mention.surface}增长率")
                grown[position] = known[0] if known else f"yoy({names[position]})"
        if grown != names:
            return grown, Transform.NONE
        if transform and any(self._layer.indicators[name].text for name in names):
            return grown, Transform.NONE
        return grown, transform

    def offset(
        self, transform: Transform, indicators: list[str], reading: grammar.Reading
    ) -> tuple[Transform, list[str]]:
        """A change of a change is the change of what is under it; "on the period before" is the month for months."""
        specs = self._layer.indicators
        if transform in (Transform.YOY, Transform.QOQ, Transform.MOM):
            trees = [
                formulas.parse(specs[name].formula, name) if name in specs and specs[name].formula else None
                for name in indicators
            ]
            under = [
                formulas.leaves(tree) if tree is not None and formulas.metric_type(specs[name]) == "offset" else [name]
                for name, tree in zip(indicators, trees, strict=True)
            ]
            if transform == Transform.YOY and any(
                len(item) == 1 and item[0] != name for item, name in zip(under, indicators, strict=True)
            ):
                return Transform.NONE, indicators
            indicators = [item[0] for item in under]
        monthly = [name for name in indicators if name in specs and specs[name].frequency == Frequency.MONTHLY]
        if (
            transform == Transform.QOQ
            and len(monthly) == len(indicators)
            and reading.whole.grain != Frequency.QUARTERLY
        ):
            return Transform.MOM, indicators
        return transform, indicators

    def stepped(self, shown: str, transform: Transform, indicators: Sequence[str]) -> Transform:
        """ "How many more than last month" is a difference in the unit of the series, and no rate of change."""
        counted = cues.counted(shown)
        if not counted or transform not in (Transform.YOY, Transform.QOQ, Transform.MOM):
            return transform
        specs = [self._layer.indicators[name] for name in indicators if name in self._layer.indicators]
        rates = bool(specs) and all(spec.unit.startswith("%") for spec in specs)
        if cues.POINTS.search(shown) and not rates:
            return transform
        return Transform.CHANGE if transform == Transform.YOY else Transform.NONE

    def statistics(
        self, shown: str, mentions: list[Mention], indicators: Sequence[str], reading: grammar.Reading
    ) -> tuple[Statistic, ...]:
        """What is asked of the whole period. Words inside an indicator's own name ask for nothing."""
        specs = [self._layer.indicators[name] for name in indicators if name in self._layer.indicators]
        rates = specs and all(spec.unit.startswith("%") for spec in specs)
        own = [(m.start, m.end) for m in mentions if not self._layer.indicators[m.ids[0]].default]
        text = blank(shown, own)
        if rates:
            # The yield of a bond is its indicator, and no return of it.
            text = re.sub(r"收益率", "\0\0\0", text)
        if not specs or any(spec.text or spec.formula or spec.frequency == Frequency.ANNUAL for spec in specs):
            return ()
        said = cues.statistics(text)
        if not said and cues.counted(shown):
            # "How many jobs were added": what is counted is the indicator's own name.
            said = (Statistic.CHANGE,)
        found = self.fitting(said, specs, text) or self.flows(specs, reading)
        if not found and cues.LATEST.search(text) and not reading.periods:
            return (Statistic.LAST,)
        whole = reading.whole
        runs = any(p.relative for p in reading.periods)
        if (
            not found
            and not runs
            and cues.ENDING.search(text)
            and whole.start is not None
            and not cues.EACH.search(text)
        ):
            return (Statistic.LAST,)
        if whole.start is not None and whole.start == whole.end:
            return ()
        return found

    def fitting(self, found: tuple[Statistic, ...], specs: Sequence[IndicatorSpec], text: str) -> tuple[Statistic, ...]:
        """What these indicators can have: levels have no sum, rates rise by points, prices by per cent."""
        kept = [item for item in found if item != Statistic.SUM or all(spec.flow for spec in specs)]
        rates = all(spec.unit.startswith("%") for spec in specs)
        if Statistic.RETURN in kept and rates and not cues.EXPLICIT.search(text):
            kept = [Statistic.CHANGE if item == Statistic.RETURN else item for item in kept]
        if Statistic.CHANGE in kept and not rates and cues.POINTS.search(text):
            kept = [Statistic.RETURN if item == Statistic.CHANGE else item for item in kept]
        if Statistic.SUM in kept and len(kept) > 1:
            kept.remove(Statistic.SUM)
        return tuple(dict.fromkeys(kept))

    def ends(self, reading: grammar.Reading, period: Period, indicators: Sequence[str]) -> Period:
        """From one quarter to another of quarterly figures: measured from the first quarter's own figure."""
        specs = [self._layer.indicators[name] for name in indicators if name in self._layer.indicators]
        grain = reading.whole.grain
        step = MONTHS_OF.get(grain)
        if (
            len(reading.periods) != 1
            or step is None
            or reading.whole.relative
            or period.start is None
            or period.end is None
        ):
            return period
        if any(spec.frequency != grain for spec in specs) or not specs or reading.whole.cumulative:
            return period
        first = split(period, grain)
        return replace(period, start=first[0].end) if len(first) > 1 else period

    def flows(self, specs: Sequence[IndicatorSpec], reading: grammar.Reading) -> tuple[Statistic, ...]:
        """Flows since the year's start or over twelve months are added up."""
        runs = [p for p in reading.periods if p.relative and p.grain == Frequency.NATIVE and p.start and p.end]
        return (Statistic.SUM,) if runs and all(spec.flow for spec in specs) else ()

    def density(self, shown: str, mentions: Sequence[Mention], statistics: Sequence[Statistic]) -> Frequency:
        """The density that is asked for outside the indicators' own names: "average weekly hours" are monthly."""
        own = [(m.start, m.end) for m in mentions if not self._layer.indicators[m.ids[0]].default]
        return Frequency.NATIVE if statistics else cues.density(blank(shown, own))

    def frequency(self, period: Period, indicators: Sequence[str], transform: Transform) -> Frequency:
        """As stored, unless a change from period to period needs a density of its own."""
        if transform == Transform.QOQ:
            return Frequency.QUARTERLY
        return Frequency.MONTHLY if transform == Transform.MOM else Frequency.NATIVE

    def combination(self, shown: str, entities: Sequence[str], indicators: Sequence[str]) -> Combination:
        """Two series against each other, when two are there and the words say so."""
        if self.is_cross(shown, entities, indicators):
            return Combination.CROSS
        if len(entities) * len(indicators) == 2 or (not entities and len(indicators) == 2):
            return cues.combination(shown)
        return Combination.NONE

    def is_cross(self, shown: str, entities: Sequence[str], indicators: Sequence[str]) -> bool:
        kinds = [self._layer.entities[ident].kind for ident in entities]
        return kinds == ["currency"] * 2 and list(indicators) == ["eur_rate"] and bool(cues.PER.search(shown))

    def parts(self, shown: str, indicators: list[str]) -> list[str]:
        """Of a difference or a quotient and its two parts only the parts: they are set against each other."""
        stored = [
            name for name in indicators if name in self._layer.indicators and not self._layer.indicators[name].formula
        ]
        return stored if len(stored) == 2 and len(indicators) == 3 and cues.combination(shown) else indicators


def parse_rate(unit: str) -> bool:
    """Whether a unit is a way to write a share: statistics have theirs already."""
    read = parse_unit(unit) if unit else None
    return read is not None and read.fraction > 0
