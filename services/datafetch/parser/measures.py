"""Measures of a question: its series, a change over time of them, and statistics of their values."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.domain.periods.period import find_week
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.parser.draft import Draft, is_rate, list_specs
from fathom.services.datafetch.parser.lexicon import choose, cue, cues, mark_names, says
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Frequency, Statistic, Transform

CHANGES = (Transform.YOY, Transform.QOQ, Transform.MOM)
MOVES = {Statistic.RETURN, Statistic.CHANGE}
# Statistics that apply to every series, including rates of change.
VALUES = {Statistic.MAX, Statistic.MIN, Statistic.MEAN, Statistic.LAST}


def build_series(draft: Draft) -> tuple[list[str], Transform]:
    """Return the indicators and formulas of a question, and the transform that is left to apply to all of them."""
    text, transform = draft.text, draft.transform
    specs = list_specs([item.value for item in draft.indicators], draft.layer)
    is_priced = bool(specs) and all(spec.default for spec in specs)
    # Of a price the annual change is a return, which statistics compute.
    if not transform and says("annual_change", text) and not is_priced:
        transform = Transform.YOY
    quotient = _divide(draft) if not transform else ""
    if quotient:
        return [quotient], transform
    # From here the order matters: each step sees the formulas that the one before has made of the indicators.
    names, transform = _apply_growth(draft, transform)
    names, transform = _rebase(draft, names, transform)
    if transform in CHANGES and _is_difference(draft, names):
        transform = Transform.CHANGE if transform == Transform.YOY else Transform.NONE
    # The words were read as the period up to today; the transform would sum a year before each of its dates.
    is_running = transform == Transform.TTM and draft.reading.whole.relative
    return names, Transform.NONE if is_running else transform


def _divide(draft: Draft) -> str:
    """Return the quotient of the two indicators that a question asks for (净利润占营收比率), by its name if it has one.

    Only of figures in one unit and of one frequency: of others it is no share. "" where none is asked for.
    """
    named = sorted(draft.indicators, key=lambda item: item.span)
    asked = choose("quotients", mark_names(draft.text, draft.mentions)) if len(named) == 2 else ""
    if not asked:
        return ""
    one, other = (draft.layer.indicators[item.value] for item in named)
    if one.text or one.default or not one.unit or (one.unit, one.frequency) != (other.unit, other.frequency):
        return ""
    formula = f"{one.id} / {other.id}"
    formula = f"100 * {formula}" if asked == "share" else formula
    return next((spec.id for spec in draft.layer.indicators.values() if spec.formula == formula), formula)


def _apply_growth(draft: Draft, transform: Transform) -> tuple[list[str], Transform]:
    """Replace indicators followed by words of growth by their growth; a transform that is left applies to all."""
    text, names = draft.text, [item.value for item in draft.indicators]
    specs = [draft.layer.indicators[name] for name in names]
    for at, (item, spec) in enumerate(zip(draft.indicators, specs, strict=True)):
        words = text[item.start : item.end]
        # A price index (base year = 100) whose name ends in "inflation" is asked for its growth.
        inflation = "=100" in spec.unit and (says("inflation", words) or says("inflation_word", text))
        # "M2增长了多少" asks for the change from the beginning of the period to its end.
        # Of annual figures no period has a beginning and an end, so a growth is the only reading.
        surged = spec.frequency != Frequency.ANNUAL and cue("surged").match(text, item.end)
        grows = (inflation or cue("growth").match(text, item.end)) and not surged
        is_level = not spec.default and not spec.text and formulas.classify_metric(spec) != "offset"
        if grows and is_level and transform in (Transform.NONE, Transform.YOY):
            names[at] = f"yoy({item.value})"
    has_changed = names != [item.value for item in draft.indicators]
    return names, Transform.NONE if has_changed or any(spec.text for spec in specs) else transform


def _rebase(draft: Draft, names: list[str], transform: Transform) -> tuple[list[str], Transform]:
    """Apply a change of a change to the base series.

    ``QOQ`` of monthly indicators becomes ``MOM`` unless the period is a quarter ("on the period before").
    """
    specs = draft.layer.indicators

    def list_bases(name: str) -> list[str]:
        spec = specs.get(name)
        if spec is None or formulas.classify_metric(spec) != "offset":
            return [name]
        return formulas.list_leaves(formulas.parse(spec.formula, name))

    if transform in CHANGES:
        bases = [list_bases(name) for name in names]
        if transform == Transform.YOY and any(
            len(one) == 1 and one != [own] for one, own in zip(bases, names, strict=True)
        ):
            return names, Transform.NONE
        # QoQ growth of an indicator that is a growth itself is computed from the base series below it.
        names = [one[0] for one in bases]
    # 环比 is "on the period before", whose length is that of the figures.
    is_monthly = all(name in specs and specs[name].frequency == Frequency.MONTHLY for name in names)
    if transform == Transform.QOQ and is_monthly and draft.reading.whole.grain != Frequency.QUARTERLY:
        transform = Transform.MOM
    return names, transform


def _is_difference(draft: Draft, names: Sequence[str]) -> bool:
    """Return whether an absolute difference is asked for: "how many more than last month"."""
    text, specs = draft.text, [spec for name in names if (spec := draft.layer.indicators.get(name))]
    if bool(specs) and all(spec.unit.startswith("%") for spec in specs):
        return says("statistics.change", text) or says("higher", text) or not says("relative", text)
    return says("statistics.change", text) and not says("points", text)


def find_length(draft: Draft, names: Sequence[str], statistics: Sequence[Statistic]) -> Frequency:
    """Return the length of the periods that a move is of: a day or a week, which only it reads the value before of."""
    whole, is_move = draft.reading.whole, bool(statistics) and MOVES.issuperset(statistics)
    densities = {spec.frequency for spec in list_specs(names, draft.layer)}
    if not is_move or whole.start is None or not densities <= {Frequency.DAILY}:
        return Frequency.NATIVE
    if whole.start == whole.end:
        return Frequency.DAILY
    # A week that is named by its first and last day is one, too.
    is_week = len(draft.reading.periods) == 1 and whole.end and find_week(whole.start) == (whole.start, whole.end)
    return Frequency.WEEKLY if is_week else Frequency.NATIVE


def find_statistics(draft: Draft, names: Sequence[str], transform: Transform) -> tuple[Statistic, ...]:
    """Return the statistics asked over the whole period; words inside an indicator's own name do not count.

    There are none for texts and annual series. Statistics of derived indicators are limited to those that a rate of
    change can have.
    """
    specs, known, whole = list_specs(names, draft.layer), draft.layer.indicators, draft.reading.whole
    if not specs or any(spec.text or spec.frequency == Frequency.ANNUAL for spec in specs):
        return ()
    text = draft.blank_names(draft.text)
    if all(spec.unit.startswith("%") for spec in specs):
        # The yield of a bond is the indicator itself, not a return on it.
        text = cue("bond_yield").sub("\0\0\0", text)
    found = read_statistics(text)
    if found in ((), (Statistic.RETURN,)) and says("statistics.change", draft.text):
        # "How many jobs were added", "jobs lost": the counted noun is the indicator's own name.
        found = (Statistic.CHANGE,)
    if not found and says("changed", text):
        found = (Statistic.RETURN if all(spec.default for spec in specs) else Statistic.CHANGE,)
    if transform or any(name not in known or known[name].formula for name in names):
        # A rate of change has an extreme or a mean, but its growth means that of the base series.
        is_change = not transform and all(name in known and is_rate(known[name]) for name in names)
        allowed = VALUES | {Statistic.CHANGE} if is_change else VALUES
        return tuple(item for item in found if item in allowed) or _find_last(draft, text)
    # The order is the precedence: words that name a statistic, then a running period of flows, then "the latest".
    found = _fit(found, specs, text)
    if not found:
        periods = draft.reading.periods
        is_running = any(p.relative and p.grain == Frequency.NATIVE and p.start and p.end for p in periods)
        is_flow = is_running and all(spec.flow for spec in specs)
        found = (Statistic.SUM,) if is_flow else _find_last(draft, text)
    if whole.start is not None and whole.start == whole.end:
        # The change of one day is measured from the day before.
        return tuple(item for item in found if item in MOVES) if says("of_day", text) else ()
    return found


def read_statistics(text: str) -> tuple[Statistic, ...]:
    """Return the statistics that a text asks for; none when it asks for a chart or for performance in general."""
    # A comparison still names a winner by one figure each, even when it says "performance".
    is_contest = says("rivals.return", text)
    if not is_contest and (says("series", text) or says("broad", text)):
        return ()
    for words in cues("ranked").values():
        text = words.sub(r"\1", text)
    found: list[Statistic] = []
    for value, pattern in cues("statistics").items():
        # A blank, so that the words around do not join to a new phrase.
        text, times = pattern.subn(" ", text)
        found += [Statistic(value)] if times else []
    if is_contest and not found:
        found.append(Statistic.RETURN)
    # "By how many points did it rise" holds the words of both; the unit is more specific.
    return tuple(item for item in found if item != Statistic.RETURN or Statistic.CHANGE not in found)


def _find_last(draft: Draft, text: str) -> tuple[Statistic, ...]:
    """Return ``LAST`` when the newest value, or the value at the end of a named period, is asked for."""
    periods, whole = draft.reading.periods, draft.reading.whole
    if not periods:
        is_vague = says("vague_time", text) and not says("series", text)
        return (Statistic.LAST,) if is_vague or says("latest", text) else ()
    is_point = not any(p.relative or p.grain == Frequency.NATIVE for p in periods) and not says("each", text)
    is_end = is_point and any(p.edge == "end" for p in periods) and whole.start not in (None, whole.end)
    return (Statistic.LAST,) if is_end else ()


def _fit(found: Sequence[Statistic], specs: Sequence[IndicatorSpec], text: str) -> tuple[Statistic, ...]:
    """Return the statistics that apply to the indicators.

    A sum needs flows; rates change by points, other series by per cent, unless the text states otherwise. A sum beside
    another statistic is dropped.
    """
    # A sum of levels (prices, balances) means nothing.
    fitting = [item for item in found if item != Statistic.SUM or all(spec.flow for spec in specs)]
    # Only where all are rates: beside an amount, a rate keeps the measure as it is worded.
    is_rates = all(spec.unit.startswith("%") for spec in specs)
    # A yield that goes from 4 % to 5 % rose by one point; "25 %" would be read as points by most readers.
    if is_rates and not says("explicit", text):
        fitting = [Statistic.CHANGE if item == Statistic.RETURN else item for item in fitting]
    if not is_rates and says("points", text):
        fitting = [Statistic.RETURN if item == Statistic.CHANGE else item for item in fitting]
    # "Total return" and "cumulative drawdown" use the words for a sum as an adjective.
    return tuple(dict.fromkeys(item for item in fitting if item != Statistic.SUM or len(fitting) == 1))
