"""Extremes: best and worst year, quarter, month, day or weekday of a price; highest and lowest value of a series."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.names import Name
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import cell
from fathom.services.policy.backends.rules.operations.measures import earlier
from fathom.services.policy.backends.rules.operations.periods import Period, number
from fathom.services.policy.backends.rules.operations.script import Desk, Play, Script
from fathom.services.policy.backends.rules.prose.wording import percent, plain, signed, unit_text
from fathom.services.policy.backends.rules.sheets import Series

BEST = r"\bbest\b|strongest|highest|\bpeak|\btop\b|(?:rose|gain\w*|grew|climb\w*|return\w*)\s+(?:the\s+)?most|涨得?最|最好|最高|最强|最佳|涨幅最大|见顶|峰值"
WORST = r"\bworst\b|(?:fell|fall|lost|drop\w*|declin\w*)\s+(?:the\s+)?(?:most|hardest|furthest)|跌得?最|weakest|lowest|\bbottom|\btrough|最差|最弱|最低|跌幅最大|最糟|见底|谷底"
WEEKDAY = r"weekdays?|day of the week|星期几|周几"
GRAINS = (
    ("W", WEEKDAY),
    ("Y", r"\byears?\b(?! to| Treasury)|哪一年|哪年|年份|年度"),
    ("Q", r"\bquarters?\b|季度"),
    ("M", r"\bmonths?\b|月份|哪个月|哪月|单月"),
    ("D", r"\bdays?\b|哪一?天|哪几天|日子|交易日"),
)
# "the three days", "5 trading days", 三天: how many extremes are asked for.
COUNT = r"(?:the )?\b(one|two|three|five|ten|\d+)\s+(?:trading )?days\b|([一两二三五十\d]+)(?:个|天|日)"
WEEKDAYS = {"Monday": "星期一", "Tuesday": "星期二", "Wednesday": "星期三", "Thursday": "星期四", "Friday": "星期五"}
CELL = '''\
def extremes(sheet, column, label, start, end, every, count):
    """The best and the worst periods by return (Y, Q, M), mean return by weekday (W), or highest and lowest values (D)."""
    # series()

    s = series(sheet, column)
    if every == "D":
        inside = s[start or None:end or None]
        return [{"label": label, "side": side, "rank": rank, "period": str(day.date()), "value": round(float(value), 4)}
                for side, part in (("best", inside.nlargest(count)), ("worst", inside.nsmallest(count)))
                for rank, (day, value) in enumerate(part.items(), 1)]
    if every == "W":
        daily = s.pct_change()[start or None:end or None].dropna() * 100
        means = daily.groupby(daily.index.day_name()).mean().sort_values(ascending=False)
        return [{"label": label, "side": "weekday", "rank": rank, "period": day, "mean_pct": round(float(value), 3),
                 "n": int((daily.index.day_name() == day).sum())} for rank, (day, value) in enumerate(means.items(), 1)]
    last = s.groupby(s.index.to_period(every)).last()
    changes = (last.pct_change() * 100).dropna()
    inside = changes[(start or str(changes.index[0]))[:7 if every != "Y" else 4]:(end or str(changes.index[-1]))[:7 if every != "Y" else 4]]
    return [{"label": label, "side": side, "rank": rank, "period": str(when), "return_pct": round(float(value), 1), "n": len(inside)}
            for side, part in (("best", inside.nlargest(count)), ("worst", inside.nsmallest(count)))
            for rank, (when, value) in enumerate(part.items(), 1)]
'''


def recognise(ask: Ask) -> Script | None:
    """Return the script for an extreme of a series."""
    return play if ask.names("price", "level", "rate", "index") and wanted(ask) else None


def wanted(ask: Ask) -> tuple[str, list[str]] | None:
    """Return the granularity and the sides asked for; None when no extreme is."""
    sides = [side for side, cue in (("best", BEST), ("worst", WORST)) if ask.has(cue)]
    if not sides:
        return None
    grain = next((grain for grain, cue in GRAINS if ask.has(cue)), "")
    levels = all(name.kind in ("rate", "index", "level") for name in ask.names("price", "level", "rate", "index"))
    if not grain and not (levels or ask.has(r"\bwhen\b|何时|什么时候")):
        return None
    # Rates and indices have no returns: their extremes are values on a day, whatever period the question names.
    return ("D" if levels and grain != "W" else grain or "D"), sides


def count_of(ask: Ask) -> int:
    """Return the number of days asked for, as in "the three days with the highest price"; at most 20."""
    match = re.search(COUNT, ask.rest, re.IGNORECASE)
    return min(number(match[1] or match[2]), 20) if match else 1


def extreme_cell(one: Series, period: Period, grain: str, count: int) -> str:
    """Return a cell with rows per side and rank."""
    return cell(
        CELL,
        f"extremes({one.variable}, {one.column!r}, {one.label!r}, {period.start!r}, {period.end!r}, {grain!r}, {count})",
    )


def find(desk: Desk, name: Name, period: Period, grain: str, count: int = 1) -> Play[tuple[Series | None, list[Row]]]:
    """Fetch one series and find its extremes; no rows when it is unavailable."""
    # The first return needs the value before: a year for years, a quarter for anything shorter.
    columns = yield from desk.data([name], earlier(period, grain != "D", 400 if grain == "Y" else 100), period.end)
    if name not in columns:
        return None, []
    rows = yield from desk.python(
        extreme_cell(columns[name], period, grain, count), "Find the extremes in the series.", "在数据中找出极值。"
    )
    return columns[name], rows


def play(desk: Desk) -> Play[None]:
    """Report the extremes of each series of the question."""
    found = wanted(desk.ask)
    assert found is not None
    grain, sides = found
    names = desk.ask.names("price", "level", "rate", "index")
    labels = desk.words.comma.join(desk.label(name) for name in names)
    yield from desk.think(f"Group {labels} by period, then take the extremes.", f"把{labels}按时段分组，再取极值。")
    for name in names:
        one, rows = yield from find(desk, name, desk.ask.period, grain, count_of(desk.ask) if grain == "D" else 1)
        if one is not None:
            say(desk, rows, sides, grain, unit_text(one.unit))


def say(desk: Desk, rows: Sequence[Row], sides: Sequence[str], grain: str, unit: str) -> None:
    """Report the extremes."""
    if grain == "W":
        weekdays(desk, rows)
        return
    for side in sides:
        chosen = [row for row in rows if row.values.get("side") == side]
        if len(chosen) > 1:
            several(desk, chosen, side, unit)
        elif chosen:
            single(desk, chosen[0], side, grain, unit)


def single(desk: Desk, row: Row, side: str, grain: str, unit: str) -> None:
    """Report one extreme."""
    when, label = row.values["period"], row.label
    if grain == "D":
        value = plain(row.number("value"))
        high = {"best": ("highest", "最高"), "worst": ("lowest", "最低")}[side]
        desk.say(
            f"**{label}** was {high[0]} on {when}: {value}{unit}.",
            f"**{label}**{high[1]}出现在{when}：{value}{unit}。",
            row,
        )
        return
    noun = {"Y": ("year", "年份"), "Q": ("quarter", "季度"), "M": ("month", "月份")}[grain]
    gain = signed(percent(row.number("return_pct")))
    adjective = {"best": ("best", "最好"), "worst": ("worst", "最差")}[side]
    desk.say(
        f"The {adjective[0]} {noun[0]} of **{label}** was {when}: {gain}, among {row.number('n')}.",
        f"**{label}**表现{adjective[1]}的{noun[1]}是{when}：{gain}（共{row.number('n')}个）。",
        row,
    )


def several(desk: Desk, rows: Sequence[Row], side: str, unit: str) -> None:
    """Report the n highest or lowest days, and whether they are close together."""
    days = desk.words.comma.join(f"{row.values['period']} ({plain(row.number('value'))}{unit})" for row in rows)
    label, high = rows[0].label, {"best": ("highest", "最高"), "worst": ("lowest", "最低")}[side]
    desk.say(f"The days on which **{label}** was {high[0]}: {days}.", f"**{label}**{high[1]}的几天：{days}。", *rows)
    # Several highest days in one month are one event; a reader would otherwise take them for a seasonal pattern.
    months = {str(row.values["period"])[:7] for row in rows}
    close = len(months) == 1
    desk.say(
        f"Pattern: {'all of them lie in the same month, at one stretch of the trend, so they are one event rather than a repeating date' if close else 'they lie in different months: ' + ', '.join(sorted(months))}.",
        f"规律：{'它们都在同一个月、处于同一段走势之中，是一次事件而不是会重复的日期' if close else '它们分布在不同的月份：' + '、'.join(sorted(months))}。",
        *rows,
    )


def weekdays(desk: Desk, rows: Sequence[Row]) -> None:
    """Report the mean daily return by weekday, with the first and the last."""
    if not rows:
        return
    name = {
        row.values["period"]: desk.either(row.values["period"], WEEKDAYS.get(row.values["period"], "")) for row in rows
    }
    listed = desk.words.comma.join(f"{name[row.values['period']]} {row.number('mean_pct'):+.3f}%" for row in rows)
    best, worst = rows[0], rows[-1]
    desk.say(
        f"**{best.label}** gained most on average on {name[best.values['period']]} ({best.number('mean_pct'):+.3f}%) and least on {name[worst.values['period']]} ({worst.number('mean_pct'):+.3f}%).",
        f"**{best.label}**平均涨幅最高的是{name[best.values['period']]}（{best.number('mean_pct'):+.3f}%），最低的是{name[worst.values['period']]}（{worst.number('mean_pct'):+.3f}%）。",
        best,
    )
    desk.say(f"Mean daily return by weekday: {listed}.", f"各星期的平均日收益率：{listed}。", best)
    desk.caveats.append(
        desk.either(
            "Differences of this size between weekdays are within what chance gives; they are no rule.",
            "这样大小的差别可能只是偶然，不是规律。",
        )
    )
