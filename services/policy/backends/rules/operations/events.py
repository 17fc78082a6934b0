"""Event study: returns over a number of trading days before and after a date."""

from __future__ import annotations

import datetime
import re

from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import cell, listed
from fathom.services.policy.backends.rules.operations.periods import number
from fathom.services.policy.backends.rules.operations.script import Desk, Play, Script
from fathom.services.policy.backends.rules.prose.wording import percent, plain, signed

BEFORE = r"\bbefore\b|prior to|run-?up|\baround\b|之?前"
AFTER = r"\bafter\b|following|\baround\b|\bsince\b|之?后|随后"
SPAN = r"(\d+|one|two|three|five|six|ten|twelve|[一两二三四五六七八九十]+)\s*个?\s*(?:of the\s+)?((?:trading |business )?days?|weeks?|months?|(?:个)?(?:交易日|天|日|周|月))"
UNITS = {"w": 5, "周": 5, "m": 21, "月": 21, "个": 21}
CELL = '''\
def around(columns, moment, before, after):
    """Returns over so many bars up to the close of a day (the next one with a close), and from it on."""
    # series()

    for sheet, column, label in columns:
        s = series(sheet, column)
        at = int(s.index.searchsorted(pd.Timestamp(moment)))
        if at >= len(s):
            yield {"label": label, "n": 0}
            continue
        for side, first, last in (("before", at - before, at), ("after", at, at + after)):
            first, last = max(first, 0), min(last, len(s) - 1)
            if last > first:
                yield {"label": label, "side": side, "bars": last - first, "start": str(s.index[first].date()),
                       "end": str(s.index[last].date()), "first": round(float(s.iloc[first]), 2),
                       "last": round(float(s.iloc[last]), 2), "return_pct": round(float(s.iloc[last] / s.iloc[first] - 1) * 100, 1)}
'''


def recognise(ask: Ask) -> Script | None:
    """Return the script for a day and a price with a length on one side of it."""
    day = any(period.day for period in ask.periods)
    return play if day and ask.names("price", "level") and spans(ask) != (0, 0) else None


def spans(ask: Ask) -> tuple[int, int]:
    """Return the bars before and after; a length given for one side applies to both if both are asked for."""
    found: dict[str, int] = {}
    # Periods are blanked out: "2020-03-23" is no number of days.
    text = re.sub(r"\d{4}\s*[-/.年]\s*\d{1,2}\s*[-/.月]\s*\d{1,2}日?", " ", ask.rest)
    lengths = [(m.start(), bars(m)) for m in re.finditer(SPAN, text, re.IGNORECASE)]
    for side, cue in (("before", BEFORE), ("after", AFTER)):
        match = re.search(cue, text, re.IGNORECASE)
        if match and lengths:
            found[side] = nearest(lengths, match.start(), ask.chinese)
    # A year of trading days; more is no event study.
    return min(found.get("before", 0), 250), min(found.get("after", 0), 250)


def nearest(lengths: list[tuple[int, int]], place: int, chinese: bool) -> int:
    """Return the length next to a side's cue: before it in English ("20 days before"), after it in Chinese ("前20日")."""
    fitting = [item for item in lengths if (item[0] > place) == chinese]
    return min(fitting or lengths, key=lambda item: abs(item[0] - place))[1]


def bars(match: re.Match[str]) -> int:
    unit = match[2].lower()
    return number(match[1]) * (1 if "交易" in unit else UNITS.get(unit[0], 1))


def play(desk: Desk) -> Play[None]:
    """Fetch enough data on both sides and report the returns."""
    before, after = spans(desk.ask)
    moment = next(period.day for period in desk.ask.periods if period.day)
    names = desk.ask.names("price", "level")
    labels = desk.words.comma.join(desk.label(name) for name in names)
    yield from desk.think(
        f"Closes of {labels} around {moment}; returns up to that day's close and from it on.",
        f"取{labels}在{moment}前后的收盘价；分别计算到当日收盘和从当日收盘起的涨跌幅。",
    )
    day = datetime.date.fromisoformat(moment)
    # Twice the trading days and a fortnight cover weekends and holidays.
    start, end = day - datetime.timedelta(days=2 * before + 15), day + datetime.timedelta(days=2 * after + 15)
    columns = yield from desk.data(names, str(start), str(end))
    if not columns:
        return
    code = cell(CELL, f"around({listed(columns.values())}, {moment!r}, {before}, {after})")
    rows = yield from desk.python(code, "Compute the returns on both sides of the day.", "计算该日前后的涨跌幅。")
    for row in rows:
        say(desk, row, moment)


def say(desk: Desk, row: Row, moment: str) -> None:
    """Report one side of one series."""
    if row.number("n") == 0:
        desk.say(
            f"**{row.label}** has no close on or after {moment}.", f"**{row.label}**在{moment}及之后没有收盘价。", row
        )
        return
    gain, n = signed(percent(row.number("return_pct"))), row.number("bars")
    first, last, days = plain(row.number("first")), plain(row.number("last")), (row.values["start"], row.values["end"])
    side = {"before": ("before", "前"), "after": ("after", "后")}[str(row.values["side"])]
    desk.say(
        f"**{row.label}**, {n} trading days {side[0]} {moment}: {gain}, from {first} on {days[0]} to {last} on {days[1]}.",
        f"**{row.label}**在{moment}{side[1]}{n}个交易日：{gain}，从{days[0]}的{first}到{days[1]}的{last}。",
        row,
    )
