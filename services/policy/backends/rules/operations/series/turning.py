"""Turning points: months that are the highest or lowest of the year before and the year after."""

from __future__ import annotations

from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import cell
from fathom.services.policy.backends.rules.operations.measures import earlier
from fathom.services.policy.backends.rules.operations.script import Desk, Play, Script
from fathom.services.policy.backends.rules.prose.wording import plain, unit_text

CUE = r"turning points?|turned|peaks and troughs|inflection|拐点|转折|峰谷"
CELL = '''\
def turning_points(sheet, column, label, start, end):
    """Months that exceed the 12 before them and are not exceeded by the 12 after, or the reverse; highs and lows in turn."""
    # series()

    s = series(sheet, column)
    s = s.groupby(s.index.to_period("M")).last()
    points = []
    for at in range(12, len(s) - 12):
        value, past, around = s.iloc[at], s.iloc[at - 12:at], s.iloc[at - 12:at + 13]
        kind = "peak" if value == around.max() > past.max() else "trough" if value == around.min() < past.min() else ""
        if not kind or not (start or "0")[:7] <= str(s.index[at]) <= (end or "9")[:7]:
            continue
        point = {"label": label, "kind": kind, "period": str(s.index[at]), "value": round(float(value), 4)}
        further = bool(points) and points[-1]["kind"] == kind
        if not further:
            points.append(point)
        elif (point["value"] > points[-1]["value"]) == (kind == "peak") and point["value"] != points[-1]["value"]:
            points[-1] = point
    return points
'''


def recognise(ask: Ask) -> Script | None:
    return play if ask.has(CUE) and ask.names("rate", "index", "level", "price") else None


def play(desk: Desk) -> Play[None]:
    """Fetch a year more on both sides, since turning points are only known afterwards, and report them."""
    period = desk.ask.period
    names = desk.ask.names("rate", "index", "level", "price")
    start = earlier(period, True, 430)
    yield from desk.think(
        "A turning point needs a year on both sides: fetch more than the period.",
        "拐点要看前后各一年：数据要比区间更长。",
    )
    # Without an end: the year after the period decides whether its last months are turning points.
    columns = yield from desk.data(names, start)
    for one in columns.values():
        call = f"turning_points({one.variable}, {one.column!r}, {one.label!r}, {period.start!r}, {period.end!r})"
        rows = yield from desk.python(cell(CELL, call), "Find the turning points.", "寻找拐点。")
        unit = unit_text(one.unit)
        word = {"peak": desk.either("peak", "高点"), "trough": desk.either("trough", "低点")}
        listed = desk.words.comma.join(
            f"{row.values['period']} ({word[str(row.values['kind'])]}, {plain(row.number('value'))}{unit})"
            for row in rows
        )
        if rows:
            desk.say(f"Turning points of **{one.label}**: {listed}.", f"**{one.label}**的拐点：{listed}。", *rows)
    if columns:
        desk.caveats.append(
            desk.either(
                "A turning point is a month that is highest or lowest of the year before it and the year after it; the last year of the data can have none.",
                "拐点指在之前一年和之后一年中最高或最低的月份；数据的最后一年无法判断。",
            )
        )
