"""Multi-hop questions: one part finds a period, a day or a name, and the next part refers to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from fathom.domain.text.scripts import HAN
from fathom.services.policy.backends.rules.names import Name
from fathom.services.policy.backends.rules.operations import comparing
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.measures import measure, value_of
from fathom.services.policy.backends.rules.operations.periods import Period, last_day, number, of_text
from fathom.services.policy.backends.rules.operations.script import Desk, Play, Script
from fathom.services.policy.backends.rules.operations.series import crossing, extremes
from fathom.services.policy.backends.rules.prose.wording import unit_text

YEAR = r"\b(?:in |during |over )?(?:that|the same|this) year|那一?年|该年|当年|同年|这一年"
MONTH = r"\b(?:in |during |over )?(?:that|the same|this) month|那个?月|该月|当月|同月|这个月"
DAY = r"\b(?:on |around |of )?(?:that|the same|this) (?:day|date)|那一?天|该日|当日|当天|同日"
NEXT_YEAR = r"\b(?:in )?the (?:following|next) year|\bthe year after(?: that)?|次年|第二年|下一年"
AFTER = r"(\d+|one|two|three|six|twelve|[一两三六十]+二?)\s*个?\s*(months?|years?|月|年)\s*(?:after (?:that|this|then)|之后|以后|后)|(?:此后|之后|其后)(?:的)?(\d+|[一两三六十]+二?)\s*个?(月|年)"
WHO = r"\bthat (?:company|stock|share|index|one)(?:'s)?|\bthe winner|\bits\b|这家公司|该公司|这只股票|该股|这家|那家公司|它的?"
BACK = "|".join((YEAR, MONTH, DAY, NEXT_YEAR, AFTER, WHO))
BREAK = re.compile(rf"[,，;；?？。.](?=\s|[{HAN}]|$)|[?？。；]")
# Each part costs a round or two; a longer chain is a list of questions.
MAX_PARTS = 5
# "What did Apple do in the year that Microsoft fell most?": asked, back reference, grain, and what is to be found
# first.
REVERSED = re.compile(
    r"(?P<asked>.+?)\s*\b(?P<back>in|during|over|on)\s+the\s+(?P<grain>year|month|day)\s+(?:that|when|in which|on which|where)\s+(?P<found>.+?)[?.]*$",
    re.IGNORECASE,
)
PROFILE = r"what (?:does|do) .* (?:do|make|sell)\b|business|headquarter|sector|做什么|主营|业务|行业|总部"


def parts_of(ask: Ask) -> list[Ask]:
    """Split the question before each clause that refers back; a single part when none does.

    "What did A do in the year that B fell most?" is reversed: B's year comes first.
    """
    # Its year comes last in the words and first in the work.
    turned = REVERSED.match(ask.text)
    if turned:
        grain = turned["grain"].lower()
        return [ask.saying(f"Which {grain}: {turned['found']}"), ask.saying(f"{turned['asked']} in that {grain}")]
    first = min((mention.end for mention in ask.mentions), default=len(ask.text))
    ends = [found.end() for found in BREAK.finditer(ask.rest)]
    cuts = set()
    for match in re.finditer(BACK, ask.rest, re.IGNORECASE):
        # Something must have been named before it is referred to: a reference in the first clause is none.
        before = [end for end in ends if first <= end <= match.start()]
        cuts |= set(before[-1:])
    edges = [0, *sorted(cuts)[:MAX_PARTS], len(ask.text)]
    return [ask.part(start, end) for start, end in pairwise(edges)]


def recogniser(script_of: Callable[[Ask], Script | None]) -> Callable[[Ask], Script | None]:
    """Return a recogniser of chains whose first part finds something; any operation may be the last."""

    def recognise(ask: Ask) -> Script | None:
        parts = parts_of(ask)
        if len(parts) < 2 or not all(finder(part) for part in parts[:1]):
            return None
        return lambda desk: play(desk, parts, script_of)

    return recognise


def finder(ask: Ask) -> str:
    """Return the kind of result that a part finds: "crossing", "extreme", "first" of a ranking; "" for none."""
    if crossing.recognise(ask):
        return "crossing"
    if extremes.recognise(ask):
        return "extreme"
    return "first" if len(ask.names("price", "level")) > 1 else ""


def play(desk: Desk, parts: list[Ask], script_of: Callable[[Ask], Script | None]) -> Play[None]:
    """Run the parts in order, each with the previous result."""
    yield from desk.think(
        f"{len(parts)} hops: each part needs what the one before it finds, so go step by step.",
        f"共{len(parts)}步：后一步要用前一步的结果，逐步进行。",
    )
    known: Name | None = None
    when = ""
    for index, part in enumerate(parts):
        ask = part if index == 0 else referred(part, known, when)
        inner = replace(desk, ask=ask)
        if index < len(parts) - 1 and finder(ask):
            known, when = yield from find(inner, ask, known)
            desk.found = desk.found or inner.found
            # Nothing was found: what follows would be about something else.
            if not when and known is None:
                return
            found = when or desk.label(known) if known else when
            yield from desk.think(
                f"Found: {found}. The next part is about it.", f"找到：{found}。下一步据此进行。", "data insight"
            )
        else:
            yield from last(inner, ask, known, script_of)
            desk.found = desk.found or inner.found


def find(desk: Desk, ask: Ask, known: Name | None) -> Play[tuple[Name | None, str]]:
    """Run a part, report it, and return the (name, moment) it finds."""
    kind = finder(ask)
    if kind == "crossing":
        name = ask.names("rate", "index", "level", "price")[0]
        rows = yield from crossing.find(desk, name)
        return name, next((str(row.values["date"]) for row in rows if row.values.get("date")), "")
    if kind == "extreme":
        return (yield from found_extreme(desk, ask))
    names = ask.names("price", "level")
    columns, rows = yield from measure(desk, names, [ask.period])
    comparing.write(desk, columns, rows, ask.measures[:1] or ("return",))
    measured = [row for row in rows if value_of(row, (ask.measures or ("return",))[0]) is not None]
    best = next(iter(comparing.ordered(ask, measured, (ask.measures or ("return",))[0])), None)
    return next((name for name in names if best and desk.label(name) == best.label), known), ""


def found_extreme(desk: Desk, ask: Ask) -> Play[tuple[Name | None, str]]:
    """Return the name and the period or day of an extreme of the first series."""
    wanted = extremes.wanted(ask)
    assert wanted is not None
    grain, sides = wanted
    name = ask.names("price", "level", "rate", "index")[0]
    one, rows = yield from extremes.find(desk, name, ask.period, grain)
    if one is None:
        return name, ""
    extremes.say(desk, rows, sides[:1], grain, unit_text(one.unit))
    return name, next((str(row.values["period"]) for row in rows if row.values.get("side") == sides[0]), "")


def referred(ask: Ask, known: Name | None, when: str) -> Ask:
    """Return the part with its references resolved to a period and a name."""
    period = period_of(ask, when) if when else None
    name = known if known is not None and (ask.has(WHO) or not ask.names()) else None
    return replace(ask, given_period=period, given_name=name)


def period_of(ask: Ask, when: str) -> Period | None:
    """Return the period that a reference means; None when the part names its own."""
    after = re.search(AFTER, ask.rest, re.IGNORECASE)
    if after:
        count = number(after[1] or after[3]) * (12 if (after[2] or after[4])[0] in "y年" else 1)
        return months_after(when[:7] if len(when) > 4 else f"{when}-12", count)
    if ask.has(NEXT_YEAR):
        return of_text(str(int(when[:4]) + 1))
    if ask.has(YEAR):
        return of_text(when[:4])
    if ask.has(MONTH) and len(when) > 4:
        return of_text(when[:7])
    return of_text(when) if ask.has(DAY) or not ask.periods else None


def months_after(month: str, count: int) -> Period:
    """Return the period from the end of a month to the end of the month ``count`` months later."""
    first = int(month[:4]) * 12 + int(month[5:7])
    final = first + count - 1
    return Period(f"{first // 12}-{first % 12 + 1:02d}-01", last_day(final // 12, final % 12 + 1), True)


def last(desk: Desk, ask: Ask, known: Name | None, script_of: Callable[[Ask], Script | None]) -> Play[None]:
    """Run the last part: a document on the name, or any operation."""
    if known is not None and ask.has(PROFILE):
        yield from desk.document(f"{known.en} company profile", known.en)
        return
    script = script_of(ask)
    if script is not None:
        yield from script(desk)
