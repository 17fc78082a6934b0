"""Order in time: "a week earlier than", "three years after", 早于."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.domain.text.numerals import NUMBER_WORDS
from fathom.services.planner.answering.verification.comparison.extremes import find_kind_of
from fathom.services.planner.answering.verification.comparison.parts import Clause
from fathom.services.planner.answering.verification.dates import Moment

# "before" and "after" compare two dates only behind a duration: by themselves they join events of any kind.
ORDER = re.compile(
    rf"(?P<span>\b(?:an?|\d+|{'|'.join(NUMBER_WORDS)})\s+(?:\w+\s+)?(?:day|session|week|month|quarter|year)s?\s+)?"
    r"(?:\b(?P<early>earlier than|(?P<before>before))\b|\b(?P<late>later than|(?P<after>after))\b)|"
    r"(?P<zh_early>早于|先于)|(?P<zh_late>晚于|迟于)",
    re.IGNORECASE,
)


def find_disorder(clause: Clause) -> tuple[int, int] | None:
    """Return the offsets of the words of a clause that put two of its dates in the wrong order."""
    dated = [moment for moment in clause.moments if moment.first and moment.last]
    for match in ORDER.finditer(clause.text):
        if (match["before"] or match["after"]) and not match["span"]:
            continue
        one = pick_finest([moment for moment in dated if moment.stop <= match.start()], -1)
        other = pick_finest([moment for moment in dated if moment.start >= match.end()], 0)
        if one is None or other is None or find_kind_of(one) != find_kind_of(other) or one.first is None:
            continue
        is_early = bool(match["early"] or match["zh_early"])
        if other.first is not None and (one.first >= other.first if is_early else one.first <= other.first):
            return match.span()
    return None


def pick_finest(moments: Sequence[Moment], place: int) -> Moment | None:
    """Return the first or last one of the shortest periods."""
    shortest = min((find_kind_of(one) for one in moments), default=0)
    alike = [one for one in moments if find_kind_of(one) == shortest]
    return alike[place] if alike else None
