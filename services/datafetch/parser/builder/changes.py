"""Changes over time: quotients, growth, changes of some of several indicators, annual figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.services.datafetch.parser.draft import CHANGES, Draft, is_rate
from fathom.services.datafetch.parser.lexicon import cue, cues
from fathom.services.datafetch.parser.mention import Mention
from fathom.services.datafetch.parser.time.expressions import transform_of
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Frequency, Transform


def build_measures(draft: Draft) -> tuple[list[str], Transform]:
    """Return the indicators and formulas of a question, and the transform that is left to apply to all of them."""
    items = _join_quotient(draft, draft.indicators)
    transform = draft.reading.transform
    specs = draft.find_specs([item.value for item in items])
    priced = bool(specs) and all(spec.default for spec in specs)
    if not transform and cue("annual_change").search(draft.text) and not priced:
        transform = Transform.YOY
    # From here the order matters: each step sees the formulas that the one before has made of the indicators.
    items, transform = _place_change(draft, items, transform)
    names, transform = _apply_growth(draft, items, transform)
    transform, names = _rebase(draft, transform, names)
    names = _drop_derived(draft, list(dict.fromkeys(names)))
    if transform != Transform.QOQ:
        names = _choose_annual(draft, names)
    transform = _choose_difference(draft, transform, names)
    # The words were read as the period up to today; the transform would sum a year before each of its dates.
    if transform == Transform.TTM and draft.reading.whole.relative:
        transform = Transform.NONE
    return names, transform


def _join_quotient(draft: Draft, items: list[Mention]) -> list[Mention]:
    """Replace two indicators joined as a quotient ("R&D to profit") by the formula ``(a) / (b)``."""
    if len(items) != 2 or any(draft.layer.indicators[item.value].text for item in items):
        return items
    first, second = items
    around = f"{draft.text[first.end : second.start]}\0{draft.text[second.end :]}"
    if second.start < first.end or cue("quotient").match(around) is None:
        return items
    return [replace(first, end=second.end, value=f"({first.value}) / ({second.value})")]


def _place_change(draft: Draft, items: list[Mention], transform: Transform) -> tuple[list[Mention], Transform]:
    """Apply a change to only those indicators that its words belong to.

    "Fed funds minus core CPI yoy" changes the CPI only, as does "CPI和失业率同比", since unemployment is a rate
    already. "What is the CPI, and what yoy" asks for both the level and the change of one indicator.
    """
    specs = draft.layer.indicators
    if transform not in CHANGES or not items or any(item.value not in specs or not item.end for item in items):
        return items, transform
    if len(items) == 1:
        (item,) = items
        if not cue("beside").search(draft.text):
            return items, transform
        return [item, replace(item, value=f"{transform}({item.value})")], Transform.NONE
    owners = {at for span in transform_of(draft.text)[1] for at in _find_owners(draft.text, items, span)}
    rates = {at for at, item in enumerate(items) if is_rate(specs[item.value])}
    if owners and len(rates) < len(items) and not owners <= rates:
        # A rate beside an amount whose growth is asked for stays unchanged.
        owners -= rates
    if not owners or len(owners) == len(items) or any(specs[item.value].text for item in items):
        return items, transform
    # Beside a rate in per cent the change is in per cent too, so that both can be compared and subtracted.
    share = "100 * " if rates - owners else ""
    changed = [
        replace(item, value=f"{share}{transform}({item.value})") if at in owners else item
        for at, item in enumerate(items)
    ]
    return changed, Transform.NONE


def _find_owners(text: str, items: Sequence[Mention], span: tuple[int, int]) -> list[int]:
    """Return the indices of the indicators that a phrase of change belongs to.

    These are the one around, right before or right after the span, and those coordinated with it.
    """
    near = cue("near")
    behind = [at for at, m in enumerate(items) if m.end <= span[0] and near.fullmatch(text[m.end : span[0]])]
    ahead = [at for at, m in enumerate(items) if m.start >= span[1] and near.fullmatch(text[span[1] : m.start])]
    within = [at for at, m in enumerate(items) if m.start <= span[0] and span[1] <= m.end]
    found = (within or behind or ahead)[-1:]
    # "CPI and PPI yoy": the phrase follows its owner, and coordination extends backwards; "yoy of CPI and PPI"
    # forwards.
    step = -1 if behind else 1
    while found and not within and 0 <= found[-1] + step < len(items):
        one, other = sorted((items[found[-1] + step], items[found[-1]]), key=lambda m: m.start)
        if not cue("link").fullmatch(text[one.end : other.start]):
            break
        found.append(found[-1] + step)
    return found


def _apply_growth(draft: Draft, items: Sequence[Mention], transform: Transform) -> tuple[list[str], Transform]:
    """Replace indicators followed by words of growth by their growth; a transform that is left applies to all."""
    names, specs = [item.value for item in items], draft.layer.indicators
    inflated = cue("inflation_word").search(draft.text)
    text_only = any(spec.text for spec in draft.find_specs(names))
    for at, item in enumerate(items):
        spec = specs.get(item.value)
        if spec is None or spec.default or spec.text or formulas.classify_metric(spec) == "offset":
            continue
        if spec.frequency != Frequency.ANNUAL and cue("surged").match(draft.text, item.end):
            # "M2增长了多少" asks for the change from the beginning of the period to its end.
            continue
        words = draft.text[item.start : item.end]
        # A price index (base year = 100) whose name ends in "inflation" is asked for its growth.
        inflation = "=100" in spec.unit and (cue("inflation").search(words) or inflated)
        grows = inflation or cue("growth").match(draft.text, item.end)
        if grows and transform in (Transform.NONE, Transform.YOY):
            # A stored growth rate is preferred: it may be adjusted in ways that the base series is not.
            known = draft.layer.indicator_names.find_all(f"{words}增长率")
            names[at] = known[0] if known else f"yoy({item.value})"
    changed = names != [item.value for item in items]
    return names, Transform.NONE if changed or text_only else transform


def _rebase(draft: Draft, transform: Transform, names: list[str]) -> tuple[Transform, list[str]]:
    """Apply a change of a change to the base series.

    ``QOQ`` of monthly indicators becomes ``MOM`` unless the period is a quarter ("on the period before").
    """
    specs = draft.layer.indicators
    if transform in CHANGES:
        under = [
            formulas.list_leaves(formulas.parse(specs[name].formula, name))
            if name in specs and specs[name].formula and formulas.classify_metric(specs[name]) == "offset"
            else [name]
            for name in names
        ]
        derived = any(len(item) == 1 and item[0] != name for item, name in zip(under, names, strict=True))
        if transform == Transform.YOY and derived:
            return Transform.NONE, names
        # QoQ growth of an indicator that is a growth itself is computed from the base series below it.
        names = [item[0] for item in under]
    monthly = all(name in specs and specs[name].frequency == Frequency.MONTHLY for name in names)
    if transform == Transform.QOQ and monthly and draft.reading.whole.grain != Frequency.QUARTERLY:
        return Transform.MOM, names
    return transform, names


def _drop_derived(draft: Draft, names: list[str]) -> list[str]:
    """Keep only the two stored parts when they are named together with their own difference or quotient."""
    specs = draft.layer.indicators
    stored = [name for name in names if name in specs and not specs[name].formula]
    # "The spread of 10-year and 2-year yields" matches the catalog's own spread too; computing it twice would add a
    # column.
    combined = cue("spread").search(draft.text) or cue("ratio").search(draft.text)
    return stored if len(stored) == 2 and len(names) == 3 and combined else names


def _choose_annual(draft: Draft, names: list[str]) -> list[str]:
    """Replace indicators by their annual variants when the question names whole years and no quarters."""
    whole = draft.reading.whole
    # Annual variants cover calendar years, which an entity's fiscal years need not match.
    if whole.grain != Frequency.ANNUAL or whole.fiscal or cue("quarters").search(draft.text):
        return names
    specs, chosen = draft.layer.indicators, []
    for name in names:
        if name in specs and not specs[name].formula:
            chosen.append(specs[name].annual or name)
            continue
        stored = draft.find_specs([name])
        under = formulas.list_leaves(formulas.expand(stored[0].id, specs)) if len(stored) == 1 else []
        twin = specs[under[0]].annual if len(under) == 1 else ""
        # Growth over whole years needs the annual series: on the finer one it compares single months or quarters.
        grown = name.startswith(("yoy(", "100 * yoy(")) or (
            name in specs and formulas.classify_metric(specs[name]) == "offset"
        )
        chosen.append(f"100 * yoy({twin})" if twin and grown else name)
    return chosen


def _choose_difference(draft: Draft, transform: Transform, names: Sequence[str]) -> Transform:
    """Replace a rate of change by an absolute difference for questions such as "how many more than last month"."""
    text, counted = draft.text, is_counted(draft.text)
    if transform not in CHANGES or not (counted or cue("higher").search(text) or not cue("relative").search(text)):
        return transform
    specs = [draft.layer.indicators[name] for name in names if name in draft.layer.indicators]
    rates = bool(specs) and all(spec.unit.startswith("%") for spec in specs)
    if not rates and (cue("points").search(text) or not counted):
        return transform
    return Transform.CHANGE if transform == Transform.YOY else Transform.NONE


def is_counted(text: str) -> bool:
    """Return whether a text asks for a change in absolute units ("by how many points")."""
    return dict(cues("statistics"))["change"].search(text) is not None
