"""Changes over time: growth, changes of some of several indicators, annual figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.names import Mention
from fathom.services.datafetch.parser.operators import cue_words
from fathom.services.datafetch.parser.time import expressions
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Frequency, Transform

CHANGES = (Transform.YOY, Transform.QOQ, Transform.MOM)
# Joints between coordinated indicators: "CPI and PCE", CPI和PPI.
LINK = re.compile(r"\s*(?:的|,)?\s*(?:和|与|、|及|以及|,|，|\band\b|&)\s*(?:the\s+)?", re.I | re.A)
# What may stand between an indicator and its words of change: "yoy growth in the CPI", CPI的同比.
NEAR = re.compile(r"[\s的,()（）]*(?:change (?:in|of)|growth (?:in|of)|rate of|of|in)?\s*(?:the\s+)?", re.I | re.A)
# A question for the level and for its change besides: "what is the reading, and the yoy", CPI是多少，以及同比.
BESIDE = re.compile(
    r"(?:多少|几何|水平|数值|读数|level|reading|value)[^,，;；]*[,，;；]\s*(?:以及|和|并|and)?\s*(?:its\s+)?(?:同比|环比|yoy|year|mom|qoq)"
    r"|(?:以及|和|及|与|、)(?:其)?(?:同比|环比)|\band (?:its |the )?(?:yoy|year[\s-]over|qoq|mom|month[\s-]over|quarter[\s-]over|annual change)",
    re.I | re.A,
)


class Changes:
    """An extractor of the change over time asked of each indicator."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    def stored(self, indicators: Sequence[str]) -> list[str]:
        """Return the stored indicators that the names and formulas refer to, without duplicates."""
        return stored_of(self._layer, indicators)

    def of_prices(self, names: Sequence[str]) -> bool:
        """Return whether all indicators are defaults of their entity kind, such as prices."""
        specs = [self._layer.indicators[name] for name in self.stored(names)]
        return bool(specs) and all(spec.default for spec in specs)

    def yearly(self, shown: str, indicators: list[str], reading: expressions.Reading) -> list[str]:
        """Replace indicators by their annual variants when the question names whole years and no quarters."""
        # Annual variants cover calendar years, which an entity's fiscal years need not match.
        if reading.whole.grain != Frequency.ANNUAL or reading.whole.fiscal or cue_words.QUARTERS.search(shown):
            return indicators
        return [self._yearly(name) for name in indicators]

    def _yearly(self, name: str) -> str:
        specs = self._layer.indicators
        if name in specs and not specs[name].formula:
            return specs[name].annual or name
        leaves = self.stored([name])
        under = formulas.list_leaves(formulas.expand(leaves[0], specs)) if len(leaves) == 1 else []
        twin = specs[under[0]].annual if len(under) == 1 else ""
        # Growth over whole years needs the annual series: on the finer one it compares single months or quarters.
        grown = name.startswith(("yoy(", "100 * yoy(")) or (
            name in specs and formulas.classify_metric(specs[name]) == "offset"
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
        """Apply a change to only those indicators that its words belong to.

        "Fed funds minus core CPI yoy" changes the CPI only, as does "CPI和失业率同比", since unemployment is a rate
        already. "What is the CPI, and what yoy" asks for both the level and the change of one indicator. Return the
        indicators or formulas and the transform left to apply to all of them.
        """
        # Without a mention for each name the words of change cannot be placed, and the change applies to all.
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
            # A rate beside an amount whose growth is asked for stays unchanged.
            owners -= rates
        if not owners or len(owners) == len(names) or any(specs[name].text for name in names):
            return names, transform
        # Beside a rate in per cent the change is in per cent too, so that both can be compared and subtracted.
        share = "100 * " if rates - owners else ""
        changed = [f"{share}{transform}({name})" if at in owners else name for at, name in enumerate(names)]
        return changed, Transform.NONE

    def growth(
        self, shown: str, mentions: list[Mention], names: list[str], transform: Transform
    ) -> tuple[list[str], Transform]:
        """Replace indicators followed by words of growth by their growth.

        A transform that is left applies to all indicators.
        """
        grown = list(names)
        for position, mention in enumerate(mentions[: len(names)]):
            if names[position] not in self._layer.indicators:
                continue
            spec = self._layer.indicators[names[position]]
            if formulas.classify_metric(spec) == "offset" or spec.default:
                continue
            if spec.frequency != Frequency.ANNUAL and cue_words.SURGED.match(shown, mention.end):
                # "M2增长了多少" asks for the change from the beginning of the period to its end.
                continue
            # A price index (base year = 100) whose name ends in "inflation" is asked for its growth.
            inflation = "=100" in spec.unit and cue_words.INFLATION.search(mention.surface)
            if (
                (inflation or cue_words.GROWTH.match(shown, mention.end))
                and not spec.text
                and transform in (Transform.NONE, Transform.YOY)
            ):
                # A stored growth rate is preferred: it may be adjusted in ways that the base series is not.
                known = self._layer.indicator_names.find_all(f"{mention.surface}增长率")
                grown[position] = known[0] if known else f"yoy({names[position]})"
        if grown != names:
            return grown, Transform.NONE
        if transform and any(self._layer.indicators[name].text for name in self.stored(names)):
            return grown, Transform.NONE
        return grown, transform

    def offset(
        self, transform: Transform, indicators: list[str], reading: expressions.Reading
    ) -> tuple[Transform, list[str]]:
        """Return the transform and indicators without a change of a change, which applies to the base series.

        ``QOQ`` of monthly indicators becomes ``MOM`` unless the period is a quarter ("on the period before").
        """
        specs = self._layer.indicators
        if transform in (Transform.YOY, Transform.QOQ, Transform.MOM):
            trees = [
                formulas.parse(specs[name].formula, name) if name in specs and specs[name].formula else None
                for name in indicators
            ]
            under = [
                formulas.list_leaves(tree)
                if tree is not None and formulas.classify_metric(specs[name]) == "offset"
                else [name]
                for name, tree in zip(indicators, trees, strict=True)
            ]
            if transform == Transform.YOY and any(
                len(item) == 1 and item[0] != name for item, name in zip(under, indicators, strict=True)
            ):
                return Transform.NONE, indicators
            # QoQ growth of an indicator that is a growth itself is computed from the base series below it.
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
        """Replace a rate of change by an absolute difference for questions such as "how many more than last month"."""
        # Words that ask for per cent: 增长率, "%", "growth". "Percentage points" are an absolute difference.
        relative = re.search(r"增长|增速|增幅|百分之|%|\bgrowth\b|\bper ?cent(?!age)", shown, re.I | re.A)
        counted = cue_words.counted(shown) or cue_words.HIGHER.search(shown) or not relative
        if not counted or transform not in (Transform.YOY, Transform.QOQ, Transform.MOM):
            return transform
        specs = [self._layer.indicators[name] for name in indicators if name in self._layer.indicators]
        rates = bool(specs) and all(spec.unit.startswith("%") for spec in specs)
        if not rates and (cue_words.POINTS.search(shown) or not cue_words.counted(shown)):
            return transform
        return Transform.CHANGE if transform == Transform.YOY else Transform.NONE


def stored_of(layer: Layer, indicators: Sequence[str]) -> list[str]:
    """Return the ids of the indicators that names and formulas refer to, without duplicates."""
    found: list[str] = []
    for name in indicators:
        leaves = [name] if name in layer.indicators else formulas.list_leaves(formulas.parse(name, "question"))
        found += [leaf for leaf in leaves if leaf in layer.indicators]
    return list(dict.fromkeys(found))


def owners_of(shown: str, mentions: Sequence[Mention], span: tuple[int, int]) -> list[int]:
    """Return the indices of the mentions that a phrase of change belongs to.

    These are the mention around, right before or right after the span, and those coordinated with it.
    """
    behind = [at for at, m in enumerate(mentions) if m.end <= span[0] and NEAR.fullmatch(shown[m.end : span[0]])]
    ahead = [at for at, m in enumerate(mentions) if m.start >= span[1] and NEAR.fullmatch(shown[span[1] : m.start])]
    within = [at for at, m in enumerate(mentions) if m.start <= span[0] and span[1] <= m.end]
    found = (within or behind or ahead)[-1:]
    # "CPI and PPI yoy": the phrase follows its owner, and coordination extends backwards; "yoy of CPI and PPI"
    # forwards.
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
