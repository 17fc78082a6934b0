"""First crossing of a level by a series, upwards or downwards."""

from __future__ import annotations

import datetime
import re

from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.names import Name
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import cell
from fathom.services.policy.backends.rules.operations.periods import MONTH, Period
from fathom.services.policy.backends.rules.operations.script import Desk, Play, Script
from fathom.services.policy.backends.rules.prose.wording import plain, unit_text

ABOVE = r"exceed\w*|(?:rose|rise|climb\w*|went|go|move\w*|clos\w*)\s+above|above|surpass\w*|top(?:ped)?|reach\w*|超过|突破|升破|升至|高于|达到|涨破"
BELOW = r"(?:fell|fall|drop\w*|went|go|move\w*|clos\w*)\s+(?:below|under)|below|under|跌破|低于|降至|降到|跌至"
WHEN = r"\bwhen\b|\bfirst\b|何时|什么时候|首次|第一次|哪个月|哪一?天|哪年|哪一年"
COUNT = (
    r"how many (?:months|days|quarters|weeks)|number of (?:months|days)|多少个?(?:月|天|交易日)|几个月|月份有多少|天数"
)
MONTH_OR_DAY = rf"(?:the\s+)?(?:end\s+of\s+)?(?:\d{{1,2}}\s+)?(?:(?:{MONTH})\b|(?:19|20)\d\d)"
AFTER = rf"\b(?:after|following|later than)\s+{MONTH_OR_DAY}"
AFTER_ZH = r"(?:19|20)\d\d\s*年(?:\s*\d{1,2}\s*月)?(?:\s*\d{1,2}\s*日)?份?(?:之后|以后|后)"
LEVEL = r"\s*(?:of\s+)?\$?(\d[\d,]*(?:\.\d+)?)"
CELL = '''\
def first_crossing(sheet, column, label, start, end, level, above):
    """The first period whose value is beyond the level, with the one before it."""
    # series()

    s = series(sheet, column)[start or None:end or None]
    if len(s) < 2:
        return [{"label": label, "of": len(s), "level": level}]
    beyond = s[s > level] if above else s[s < level]
    if beyond.empty:
        return [{"label": label, "n": 0, "of": len(s), "level": level}]
    at = s.index.get_loc(beyond.index[0])
    row = {"label": label, "n": len(beyond), "of": len(s), "level": level, "date": str(beyond.index[0].date()), "value": round(float(beyond.iloc[0]), 4)}
    return [row | ({"before": round(float(s.iloc[at - 1]), 4), "before_date": str(s.index[at - 1].date())} if at else {})]
'''


def level_of(ask: Ask) -> tuple[float, bool] | None:
    """Return the level and whether it is crossed upwards; None when none is named."""
    for cue, above in ((BELOW, False), (ABOVE, True)):
        match = re.search(f"(?:{cue}){LEVEL}", ask.rest, re.IGNORECASE)
        if match:
            return float(match[1].replace(",", "")), above
    return None


def since(ask: Ask) -> Period:
    """Return the period to search: "after October 2009" starts on the day after it and is open-ended."""
    period = ask.period
    if not period.end or not (ask.has(AFTER) or ask.has(AFTER_ZH)):
        return period
    # Open at its end: the first crossing may come years later.
    return Period(str(datetime.date.fromisoformat(period.end) + datetime.timedelta(days=1)))


def recognise(ask: Ask) -> Script | None:
    """Return the script for a level with a direction, when the question asks when or how often."""
    subjects = ask.names("rate", "index", "level", "price")
    return play if subjects and (ask.has(WHEN) or ask.has(COUNT)) and level_of(ask) else None


def find(desk: Desk, name: Name) -> Play[list[Row]]:
    """Find and report the first crossing of a series; return its rows, [] when the series is unavailable."""
    passed = level_of(desk.ask)
    period = since(desk.ask)
    columns = yield from desk.data([name], period.start, period.end)
    if name not in columns or passed is None:
        return []
    one = columns[name]
    call = f"first_crossing({one.variable}, {one.column!r}, {one.label!r}, {period.start!r}, {period.end!r}, {passed[0]}, {passed[1]})"
    rows = yield from desk.python(
        cell(CELL, call), "Find when the level was first passed.", "找出首次越过该水平的时间。"
    )
    for row in rows:
        say(desk, row, passed[1], unit_text(one.unit))
    return rows


def play(desk: Desk) -> Play[None]:
    """Report the first named series."""
    yield from find(desk, desk.ask.names("rate", "index", "level", "price")[0])


def say(desk: Desk, row: Row, above: bool, unit: str) -> None:
    """Report the day and both values."""
    side, level = ("above", "高于") if above else ("below", "低于"), f"{row.number('level'):g}{unit}"
    # With fewer than two values there is no value before, hence no crossing.
    if row.number("n") is None:
        desk.say(
            f"**{row.label}** has fewer than two values in the period, so nothing can be said on when or how often it was"
            f" {side[0]} {level}.",
            f"**{row.label}**在该区间不足两个数值，无法判断何时或多少次{side[1]}{level}。",
            row,
        )
        return
    if row.number("n") == 0:
        desk.say(
            f"**{row.label}** was never {side[0]} {level} in the period.",
            f"**{row.label}**在该区间从未{side[1]}{level}。",
            row,
        )
        return
    if desk.ask.has(COUNT):
        n, of = row.number("n"), row.number("of")
        desk.say(
            f"**{row.label}** was {side[0]} {level} in {n} of {of} values of the period.",
            f"**{row.label}**在该区间的{of}个数值中有{n}个{side[1]}{level}。",
            row,
        )
    day, value = row.values["date"], plain(row.number("value"))
    before = ""
    if row.number("before") is not None:
        earlier = plain(row.number("before"))
        before = desk.either(
            f", after {earlier}{unit} on {row.values['before_date']}", f"，{row.values['before_date']}为{earlier}{unit}"
        )
    desk.say(
        f"**{row.label}** was first {side[0]} {level} on {day}: {value}{unit}{before}.",
        f"**{row.label}**首次{side[1]}{level}是在{day}：{value}{unit}{before}。",
        row,
    )
