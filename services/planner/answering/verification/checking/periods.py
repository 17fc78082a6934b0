"""The check of a date: that the material has something of it."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.services.planner.answering.verification.checking.material import CheckedMaterial
from fathom.services.planner.answering.verification.checking.verdict import Verdict, format_numbers, make_finding
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.answering.verification.lookup import find_matches
from fathom.services.planner.model.episode import Finding, FindingKind


def verify_date(
    material: CheckedMaterial, moment: Moment, sentence: Sentence, read: Sequence[Source], cited: bool
) -> Finding | None:
    if any(is_confirmed(held, moment) for held in material.asked.moments):
        return None
    if any(is_confirmed(held, moment) for source in read for held in source.moments):
        return None
    if any(source.partial for source in read):
        return None
    year = [number for number in sentence.numbers if number.start == moment.start and len(moment.text) == 4]
    if year and any(find_matches(year[0], source, material.known) for source in read):
        return None
    others = material.list_others(read)
    holding = tuple(s.number for s in others if any(is_confirmed(held, moment) for held in s.moments))
    if not material.sources:
        return make_finding(
            sentence, moment.start, moment.stop, Verdict(False, FindingKind.UNSUPPORTED, "no material holds it")
        )
    detail = (
        f"the cited material has no such date, but {format_numbers(holding)} does"
        if holding
        else "no material has this date"
    )
    kind = FindingKind.TIME if cited else FindingKind.UNSUPPORTED
    # The date is true; that the sentence cites nothing is reported elsewhere.
    if not cited and holding:
        return None
    return make_finding(sentence, moment.start, moment.stop, Verdict(False, kind, detail, holding))


def is_confirmed(held: Moment, said: Moment) -> bool:
    """Return whether a period of the material confirms one of the text by lying within it."""
    if said.month_day is not None:
        return said.meets(held) and (held.month_day is not None or held.first == held.last)
    if held.first is None or held.last is None or said.first is None or said.last is None:
        return False
    return said.first <= held.first and held.last <= said.last
