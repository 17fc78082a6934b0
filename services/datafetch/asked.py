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

CHANGES = (Transform.YOY, Transform.QOQ, Transform.MOM)
LINK = re.compile(r"\s*(?:的|,)?\s*(?:和|与|、|及|以及|,|，|\band\b|&)\s*(?:the\s+)?", re.I | re.A)
EURO_NAMED = re.compile(r"欧元(?!区)|\beur(?:os?)?\b", re.I | re.A)
NEAR = re.compile(r"[\s的,()（）]*(?:change (?:in|of)|growth (?:in|of)|rate of|of|in)?\s*(?:the\s+)?", re.I | re.A)
BESIDE = re.compile(
    r"(?:多少|几何|水平|数值|读数|level|reading|value)[^,，;；]*[,，;；]\s*(?:以及|和|并|and)?\s*(?:its\s+)?(?:同比|环比|yoy|year|mom|qoq)"
    r"|(?:以及|和|及|与|、)(?:其)?(?:同比|环比)|\band (?:its |the )?(?:yoy|year[\s-]over|qoq|mom|month[\s-]over|quarter[\s-]over|annual change)",
    re.I | re.A,
)
MOVES = {Statistic.RETURN, Statistic.CHANGE}
VALUES = {Statistic.MAX, Statistic.MIN, Statistic.MEAN, Statistic.LAST}
"""Statistics that every series has, a rate of change too."""
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

    def of_prices(self, names: Sequence[str]) -> bool:
        """Whether all that is asked is of prices."""
        specs = [self._layer.indicators[name] for name in self.stored(names)]
        return bool(specs) and all(spec.default for spec in specs)

    def yearly(self, shown: str, indicators: list[str], reading: grammar.Reading) -> list[str]:
        """The yearly figures of what has some, when whole years are asked for and nothing of a quarter."""
        if reading.whole.grain != Frequency.ANNUAL or reading.whole.fiscal or cues.QUARTERS.search(shown):
            return indicators
        return [self._yearly(name) for name in indicators]

    def _yearly(self, name: str) -> str:
        specs = self._layer.indicators
        if name in specs and not specs[name].formula:
            return specs[name].annual or name
        leaves = self.stored([name])
        under = formulas.leaves(formulas.expand(leaves[0], specs)) if len(leaves) == 1 else []
        twin = specs[under[0]].annual if len(under) == 1 else ""
        grown = name.startswith(("yoy(", "100 * yoy(")) or (
            name in specs and formulas.metric_type(specs[name]) == "offset"
        )
        return f"100 * yoy({twin})" if twin and grown else name

    def bound(
        self,
        shown: str,
        mentions: list[Mention],
        names: list[str],
        transform: Transform,
        spans: Sequence[tuple[int, int]],
    ) -> tuple[list[str], Transform]:
        """Of several indicators the change that is asked of some: "fed funds minus core CPI yoy", "CPI和失业率同比".

        "What is the CPI, and what yoy" asks for both of one.
        """
        if transform not in CHANGES or not names or len(mentions) != len(names):
            return names, transform
        if len(names) == 1:
            return (
                ([names[0], f"{transform}({names[0]})"], Transform.NONE) if BESIDE.search(shown) else (names, transform)
            )
        owners = {owner for span in spans for owner in owners_of(shown, mentions, span)}
        specs = self._layer.indicators
        rates = {at for at, name in enumerate(names) if specs[name].unit.startswith(("%", "percentage"))}
        if owners and len(rates) < len(names) and not owners <= rates:
            # A rate that stands beside an amount of which the growth is asked is wanted as it is.
            owners -= rates
        if not owners or len(owners) == len(names) or any(specs[name].text for name in names):
            return names, transform
        # Beside a rate in per cent a change is one too, so that they can be compared and subtracted.
        share = "100 * " if rates - owners else ""
        changed = [f"{share}{transform}({name})" if at in owners else name for at, name in enumerate(names)]
        return changed, Transform.NONE

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
            if names[position] not in self._layer.indicators:
                continue
            spec = self._layer.indicators[names[position]]
            if formulas.metric_type(spec) == "offset" or spec.default:
                continue
            if spec.frequency != Frequency.ANNUAL and cues.SURGED.match(shown, mention.end):
                # "M2增长了多少" of a period is told from its beginning to its end.
                continue
            inflation = "=100" in spec.unit and cues.INFLATION.search(mention.surface)
            if (
                (inflation or cues.GROWTH.match(shown, mention.end))
                and not spec.text
                and transform in (Transform.NONE, Transform.YOY)
            ):
                known = self._layer.indicator_names.all(f"{mention.surface}增长率")
                grown[position] = known[0] if known else f"yoy({names[position]})"
        if grown != names:
            return grown, Transform.NONE
        if transform and any(self._layer.indicators[name].text for name in self.stored(names)):
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
        relative = re.search(r"增长|增速|增幅|百分之|%|\bgrowth\b|\bper ?cent(?!age)", shown, re.I | re.A)
        counted = cues.counted(shown) or cues.HIGHER.search(shown) or not relative
        if not counted or transform not in (Transform.YOY, Transform.QOQ, Transform.MOM):
            return transform
        specs = [self._layer.indicators[name] for name in indicators if name in self._layer.indicators]
        rates = bool(specs) and all(spec.unit.startswith("%") for spec in specs)
        if not rates and (cues.POINTS.search(shown) or not cues.counted(shown)):
            return transform
        return Transform.CHANGE if transform == Transform.YOY else Transform.NONE

    def statistics(
        self,
        shown: str,
        mentions: list[Mention],
        indicators: Sequence[str],
        reading: grammar.Reading,
        transform: Transform = Transform.NONE,
    ) -> tuple[Statistic, ...]:
        """What is asked of the whole period. Words inside an indicator's own name ask for nothing."""
        specs = [self._layer.indicators[name] for name in self.stored(indicators)]
        derived = bool(transform) or any(
            name not in self._layer.indicators or self._layer.indicators[name].formula for name in indicators
        )
        rates = specs and all(spec.unit.startswith("%") for spec in specs)
        own = [(m.start, m.end) for m in mentions if not self._layer.indicators[m.ids[0]].default]
        text = blank(shown, own)
        if rates:
            # The yield of a bond is its indicator, and no return of it.
            text = re.sub(r"收益率", "\0\0\0", text)
        if not specs or any(spec.text or spec.frequency == Frequency.ANNUAL for spec in specs):
            return ()
        said = cues.statistics(text)
        if (not said or said == (Statistic.RETURN,)) and cues.counted(shown):
            # "How many jobs were added": what is counted is the indicator's own name.
            said = (Statistic.CHANGE,)
        if not said and cues.CHANGED.search(text):
            said = (Statistic.RETURN if all(spec.default for spec in specs) else Statistic.CHANGE,)
        if derived:
            # A rate of change has a highest value; its own growth is asked of what is under it.
            moves = {Statistic.CHANGE} if not transform and self._are_rates(indicators) else set()
            said = tuple(item for item in said if item in VALUES | moves)
            return said or self._last(text, reading)
        found = self.fitting(said, specs, text) or self.flows(specs, reading) or self._last(text, reading)
        if reading.whole.start is not None and reading.whole.start == reading.whole.end:
            # The move of one day is that from the day before.
            return tuple(item for item in found if item in MOVES) if cues.OF_DAY.search(text) else ()
        if not found and cues.BROAD.search(text) and not cues.SERIES.search(text) and within_year(reading):
            return (Statistic.RETURN,)
        return found

    def _are_rates(self, indicators: Sequence[str]) -> bool:
        """Whether derived indicators are shares or spreads, which move by points."""
        specs = [self._layer.indicators[name] for name in indicators if name in self._layer.indicators]
        return len(specs) == len(indicators) and all(spec.unit.startswith(("%", "percentage")) for spec in specs)

    def stored(self, indicators: Sequence[str]) -> list[str]:
        """The indicators that formulas of a question are over, and the others as they are."""
        found: list[str] = []
        for name in indicators:
            known = self._layer.indicators
            leaves = [name] if name in known else formulas.leaves(formulas.parse(name, "question"))
            found += [leaf for leaf in leaves if leaf in known]
        return list(dict.fromkeys(found))

    def _last(self, text: str, reading: grammar.Reading) -> tuple[Statistic, ...]:
        """The last value, when the newest is asked for or the one at the end of each period that is named."""
        if cues.LATEST.search(text) and not reading.periods:
            return (Statistic.LAST,)
        whole = reading.whole
        runs = any(p.relative or p.grain == Frequency.NATIVE for p in reading.periods)
        ends = cues.ENDING.search(text) and not cues.EACH.search(text) and not runs and whole.start is not None
        return (Statistic.LAST,) if ends and whole.start != whole.end else ()

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

    def frequency(
        self, period: Period, indicators: Sequence[str], transform: Transform, together: Combination = Combination.NONE
    ) -> Frequency:
        """As stored, unless a change from period to period needs a density of its own, or two series are set together."""
        if together in (Combination.SPREAD, Combination.RATIO):
            densities = [self._layer.indicators[name].frequency for name in self.stored(indicators)]
            if len(set(densities)) > 1:
                return max(densities, key=list(Frequency).index)
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
        return (
            kinds == ["currency"] * 2
            and list(indicators) == ["eur_rate"]
            and bool(cues.PER.search(shown))
            and not EURO_NAMED.search(shown)
        )

    def parts(self, shown: str, indicators: list[str]) -> list[str]:
        """Of a difference or a quotient and its two parts only the parts: they are set against each other."""
        stored = [
            name for name in indicators if name in self._layer.indicators and not self._layer.indicators[name].formula
        ]
        return stored if len(stored) == 2 and len(indicators) == 3 and cues.combination(shown) else indicators


def within_year(reading: grammar.Reading) -> bool:
    """Whether a text names one period of a year or less."""
    whole = reading.whole
    return (
        len(reading.periods) == 1
        and whole.start is not None
        and whole.end is not None
        and bool(whole.grain)
        and whole.start.year == whole.end.year
    )


def owners_of(shown: str, mentions: Sequence[Mention], span: tuple[int, int]) -> list[int]:
    """The places of the mentions that words of change stand right behind, or right before, and of those linked to them."""
    behind = [at for at, m in enumerate(mentions) if m.end <= span[0] and NEAR.fullmatch(shown[m.end : span[0]])]
    ahead = [at for at, m in enumerate(mentions) if m.start >= span[1] and NEAR.fullmatch(shown[span[1] : m.start])]
    within = [at for at, m in enumerate(mentions) if m.start <= span[0] and span[1] <= m.end]
    found = (within or behind or ahead)[-1:]
    step = -1 if behind else 1
    while found and not within:
        at = found[-1] + step
        if not 0 <= at < len(mentions):
            break
        one, other = sorted((mentions[at], mentions[found[-1]]), key=lambda m: m.start)
        if not LINK.fullmatch(shown[one.end : other.start]):
            break
        found.append(at)
    return found


def parse_rate(unit: str) -> bool:
    """Whether a unit is a way to write a share: statistics have theirs already."""
    read = parse_unit(unit) if unit else None
    return read is not None and read.fraction > 0
