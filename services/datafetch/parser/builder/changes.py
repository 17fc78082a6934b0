"""Changes over time: quotients, growth, changes of some of several indicators, annual figures."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.services.datafetch.parser.draft import Draft
from fathom.services.datafetch.parser.lexicon import cue, cues
from fathom.services.datafetch.parser.mention import Mention
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Frequency, Transform

CHANGES = (Transform.YOY, Transform.QOQ, Transform.MOM)


def build_measures(draft: Draft) -> tuple[list[str], Transform]:
    """Return the indicators and formulas of a question, and the transform that is left to apply to all of them."""
    items = draft.indicators
    transform = draft.reading.transform
    specs = draft.find_specs([item.value for item in items])
    priced = bool(specs) and all(spec.default for spec in specs)
    if not transform and cue("annual_change").search(draft.text) and not priced:
        transform = Transform.YOY
    # From here the order matters: each step sees the formulas that the one before has made of the indicators.
    names, transform = _apply_growth(draft, items, transform)
    transform, names = _rebase(draft, transform, names)
    names = _drop_derived(draft, list(dict.fromkeys(names)))
    transform = _choose_difference(draft, transform, names)
    # The words were read as the period up to today; the transform would sum a year before each of its dates.
    if transform == Transform.TTM and draft.reading.whole.relative:
        transform = Transform.NONE
    return names, transform


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
    combined = cue("combinations.spread").search(draft.text) or cue("combinations.ratio").search(draft.text)
    return stored if len(stored) == 2 and len(names) == 3 and combined else names


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
    return cues("statistics")["change"].search(text) is not None
