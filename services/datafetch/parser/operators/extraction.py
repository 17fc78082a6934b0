"""Extraction of operators from a question: statistics, quotients, output frequency and combinations of series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.names import Mention
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.parser.operators import cue_words
from fathom.services.datafetch.parser.operators.changes import stored_of
from fathom.services.datafetch.parser.time import expressions
from fathom.services.datafetch.query.model import Combination, Frequency, Statistic, Transform
from fathom.services.datafetch.query.periods import MONTHS_OF, Period, split
from fathom.services.datafetch.query.units import parse_unit

# 欧元区 is the euro area, an economy and not the currency.
EURO_NAMED = re.compile(r"欧元(?!区)|\beur(?:os?)?\b", re.I | re.A)
MOVES = {Statistic.RETURN, Statistic.CHANGE}
# Statistics that apply to every series, including rates of change.
VALUES = {Statistic.MAX, Statistic.MIN, Statistic.MEAN, Statistic.LAST}
# Pairs of patterns: what stands between two indicators, and what must follow the second one.
QUOTIENTS = [
    (
        # 研发费用占营业收入的比例: a joint such as 与 also lists, so a word for a ratio must follow.
        re.compile(r"(?:占|与|和|同|跟|对|除以|/|比上?)\s*(?:其|总|全部)?\s*"),
        re.compile(r"\s*的?\s*(?:比值|之比|比例|比率|比重|百分比|占比|比)"),
    ),
    # 利润除以收入: these joints mean a quotient by themselves.
    (re.compile(r"(?:占|除以|/)\s*"), re.compile("")),
    # 研发费用在营业收入中的占比.
    (re.compile(r"在\s*"), re.compile(r"(?:中|里|之中)?所?占?的?(?:比例|比率|比重|占比|百分比)")),
    # "R&D expense as a share of revenue", "debt divided by equity".
    (re.compile(r"\s+(?:to|as a (?:share|percentage) of|divided by|over|per)\s+", re.I | re.A), re.compile("")),
]


class Asked:
    """An extractor of operators that depends only on the specifications of indicators."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    def twin(self, name: str, shown: str) -> str:
        """Return the annual variant of an indicator if the question asks for annual figures, else the same id."""
        # "Annualized" describes a rate, not the length of the period that a value covers.
        twin = self._layer.indicators[name].annual
        return (
            twin
            if twin and cue_words.ANNUAL.search(shown) and not re.search(r"annuali[sz]ed", shown, re.I | re.A)
            else name
        )

    def unadjusted(self, name: str, shown: str) -> str:
        """Return the variant of an indicator that is not seasonally adjusted, when the question asks for it."""
        if not cue_words.UNADJUSTED.search(shown):
            return name
        # By convention of the catalog the id of the unadjusted series ends in "ns", "nsa" or "rnsa".
        # FRED names the pairs so: cpiaucsl and cpiaucns, payems and paynsa.
        twins = (f"{name[:-2]}ns", f"{name[:-3]}nsa", f"{name}nsa", f"{name[:-2]}rnsa")
        specs = self._layer.indicators
        return next((twin for twin in twins if twin in specs and "(NSA)" in specs[twin].unit), name)

    def shares(self, shown: str, mentions: list[Mention], names: list[str]) -> tuple[list[str], list[Mention]]:
        """Replace two indicators joined as a quotient ("R&D to profit") by the formula ``(a) / (b)``.

        The mentions of a formula are dropped.
        """
        # Names and mentions are aligned by position; with a mention dropped before, the words between two names are
        # unknown.
        if len(names) == len(mentions) == 2 and not any(self._layer.indicators[name].text for name in names):
            between, behind = shown[mentions[0].end : mentions[1].start], shown[mentions[1].end :]
            if any(joint.fullmatch(between) and tail.match(behind) for joint, tail in QUOTIENTS):
                return [f"({names[0]}) / ({names[1]})"], []
        return names, mentions

    def statistics(
        self,
        shown: str,
        mentions: list[Mention],
        indicators: Sequence[str],
        reading: expressions.Reading,
        transform: Transform = Transform.NONE,
    ) -> tuple[Statistic, ...]:
        """Return the statistics asked over the whole period; words inside an indicator's own name do not count.

        There are none for texts and annual series. Statistics of derived indicators are limited to those that a rate of
        change can have.
        """
        specs = [self._layer.indicators[name] for name in self.stored(indicators)]
        derived = bool(transform) or any(
            name not in self._layer.indicators or self._layer.indicators[name].formula for name in indicators
        )
        rates = specs and all(spec.unit.startswith("%") for spec in specs)
        own = [(m.start, m.end) for m in mentions if not self._layer.indicators[m.ids[0]].default]
        text = blank(shown, own)
        if rates:
            # The yield of a bond is the indicator itself, not a return on it.
            text = re.sub(r"收益率", "\0\0\0", text)
        if not specs or any(spec.text or spec.frequency == Frequency.ANNUAL for spec in specs):
            return ()
        said = cue_words.statistics(text)
        if (not said or said == (Statistic.RETURN,)) and cue_words.counted(shown):
            # "How many jobs were added": the counted noun is the indicator's own name.
            said = (Statistic.CHANGE,)
        if not said and cue_words.CHANGED.search(text):
            said = (Statistic.RETURN if all(spec.default for spec in specs) else Statistic.CHANGE,)
        if derived:
            # A rate of change has an extreme or a mean, but its growth means that of the base series.
            moves = {Statistic.CHANGE} if not transform and self._are_rates(indicators) else set()
            said = tuple(item for item in said if item in VALUES | moves)
            return said or self._last(text, reading)
        # The order is the precedence: words that name a statistic, then a running period of flows, then "the latest".
        found = self.fitting(said, specs, text) or self.flows(specs, reading) or self._last(text, reading)
        if reading.whole.start is not None and reading.whole.start == reading.whole.end:
            # The change of one day is measured from the day before.
            return tuple(item for item in found if item in MOVES) if cue_words.OF_DAY.search(text) else ()
        if not found and cue_words.BROAD.search(text) and not cue_words.SERIES.search(text) and within_year(reading):
            return (Statistic.RETURN,)
        return found

    def _are_rates(self, indicators: Sequence[str]) -> bool:
        """Return whether all indicators are in the catalog and measured in per cent or percentage points."""
        specs = [self._layer.indicators[name] for name in indicators if name in self._layer.indicators]
        return len(specs) == len(indicators) and all(spec.unit.startswith(("%", "percentage")) for spec in specs)

    def stored(self, indicators: Sequence[str]) -> list[str]:
        """Return the stored indicators that the names and formulas refer to, without duplicates."""
        return stored_of(self._layer, indicators)

    def _last(self, text: str, reading: expressions.Reading) -> tuple[Statistic, ...]:
        """Return ``LAST`` when the newest value, or the value at the end of a named period, is asked for."""
        if cue_words.LATEST.search(text) and not reading.periods:
            return (Statistic.LAST,)
        whole = reading.whole
        runs = any(p.relative or p.grain == Frequency.NATIVE for p in reading.periods)
        ends = (
            any(p.edge == "end" for p in reading.periods)
            and not cue_words.EACH.search(text)
            and not runs
            and whole.start is not None
        )
        return (Statistic.LAST,) if ends and whole.start != whole.end else ()

    def fitting(self, found: tuple[Statistic, ...], specs: Sequence[IndicatorSpec], text: str) -> tuple[Statistic, ...]:
        """Return the statistics that apply to the indicators.

        A sum needs flows; rates change by points, other series by per cent, unless the text states otherwise. A sum
        beside another statistic is dropped.
        """
        # A sum of levels (prices, balances) means nothing.
        kept = [item for item in found if item != Statistic.SUM or all(spec.flow for spec in specs)]
        rates = all(spec.unit.startswith("%") for spec in specs)
        # A yield that goes from 4 % to 5 % rose by one point; "25 %" would be read as points by most readers.
        if Statistic.RETURN in kept and rates and not cue_words.EXPLICIT.search(text):
            kept = [Statistic.CHANGE if item == Statistic.RETURN else item for item in kept]
        if Statistic.CHANGE in kept and not rates and cue_words.POINTS.search(text):
            kept = [Statistic.RETURN if item == Statistic.CHANGE else item for item in kept]
        # "Total return" and "cumulative drawdown" use the words for a sum as an adjective.
        if Statistic.SUM in kept and len(kept) > 1:
            kept.remove(Statistic.SUM)
        return tuple(dict.fromkeys(kept))

    def ends(self, reading: expressions.Reading, period: Period, indicators: Sequence[str]) -> Period:
        """Start a range of several quarters or years at the end of its first period, the base of the change."""
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

    def flows(self, specs: Sequence[IndicatorSpec], reading: expressions.Reading) -> tuple[Statistic, ...]:
        """Return ``SUM`` for flow indicators over a running period such as "year to date"."""
        runs = [p for p in reading.periods if p.relative and p.grain == Frequency.NATIVE and p.start and p.end]
        return (Statistic.SUM,) if runs and all(spec.flow for spec in specs) else ()

    def density(self, shown: str, mentions: Sequence[Mention], statistics: Sequence[Statistic]) -> Frequency:
        """Return the output frequency asked for outside the indicators' own names ("average weekly hours" is monthly).

        Statistics have no output frequency, so any of them gives ``NATIVE``.
        """
        own = [(m.start, m.end) for m in mentions if not self._layer.indicators[m.ids[0]].default]
        return Frequency.NATIVE if statistics else cue_words.density(blank(shown, own))

    def frequency(
        self, period: Period, indicators: Sequence[str], transform: Transform, together: Combination = Combination.NONE
    ) -> Frequency:
        """Return the frequency that the transform or combination requires, or ``NATIVE`` to keep the stored one.

        Spreads and ratios of series with different frequencies use the coarser one.
        """
        if together in (Combination.SPREAD, Combination.RATIO):
            densities = [self._layer.indicators[name].frequency for name in self.stored(indicators)]
            # Values of different dates cannot be subtracted: the finer series is resampled to the coarser frequency.
            if len(set(densities)) > 1:
                return max(densities, key=list(Frequency).index)
        if transform == Transform.QOQ:
            return Frequency.QUARTERLY
        return Frequency.MONTHLY if transform == Transform.MOM else Frequency.NATIVE

    def combination(self, shown: str, entities: Sequence[str], indicators: Sequence[str]) -> Combination:
        """Return how two series are combined: ``CROSS`` for two currencies, ``SPREAD`` or ``RATIO`` by the words."""
        if self.is_cross(shown, entities, indicators):
            return Combination.CROSS
        if len(entities) * len(indicators) == 2 or (not entities and len(indicators) == 2):
            return cue_words.combination(shown)
        return Combination.NONE

    def is_cross(self, shown: str, entities: Sequence[str], indicators: Sequence[str]) -> bool:
        kinds = [self._layer.entities[ident].kind for ident in entities]
        return (
            # Every rate is stored per euro, so a rate between two other currencies is the quotient of two series.
            kinds == ["currency"] * 2
            and list(indicators) == ["eur_rate"]
            and bool(cue_words.PER.search(shown))
            and not EURO_NAMED.search(shown)
        )

    def parts(self, shown: str, indicators: list[str]) -> list[str]:
        """Keep only the two stored parts when they are named together with their own difference or quotient."""
        stored = [
            name for name in indicators if name in self._layer.indicators and not self._layer.indicators[name].formula
        ]
        # "The spread of 10-year and 2-year yields" matches the catalog's own spread too; computing it twice would add a
        # column.
        return stored if len(stored) == 2 and len(indicators) == 3 and cue_words.combination(shown) else indicators


def within_year(reading: expressions.Reading) -> bool:
    """Return whether the text names exactly one period, and that period lies within one calendar year."""
    whole = reading.whole
    return (
        len(reading.periods) == 1
        and whole.start is not None
        and whole.end is not None
        and bool(whole.grain)
        and whole.start.year == whole.end.year
    )


def parse_rate(unit: str) -> bool:
    """Return whether a unit expresses a share, such as per cent or basis points."""
    read = parse_unit(unit) if unit else None
    return read is not None and read.fraction > 0
