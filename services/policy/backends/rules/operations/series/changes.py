"""Growth against the previous year, quarter or month, at a date or at its extremes."""

from __future__ import annotations

from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.names import Name
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import cell
from fathom.services.policy.backends.rules.operations.measures import earlier
from fathom.services.policy.backends.rules.operations.script import Desk, Play, Script
from fathom.services.policy.backends.rules.operations.series.extremes import BEST, WORST
from fathom.services.policy.backends.rules.prose.wording import plain, signed, unit_text
from fathom.services.policy.backends.rules.sheets import Series

# Months before, and the words that ask for them.
LAGS = (
    ("yoy", 12, r"year[\s-](?:on|over)[\s-]year|\byoy\b|over (?:twelve|12) months|annual inflation|同比|年增长率"),
    ("qoq", 3, r"quarter[\s-](?:on|over)[\s-]quarter|\bqoq\b|on the quarter before|季环比"),
    ("mom", 1, r"month[\s-](?:on|over)[\s-]month|\bmom\b|on the month before|月环比"),
)
CHAINED = r"环比"
INFLATION = r"inflation|通胀|通货膨胀"
ENGLISH = {"yoy": "year on year", "qoq": "on the quarter before", "mom": "on the month before"}
CHINESE = {"yoy": "同比", "qoq": "环比（季）", "mom": "环比（月）"}
CELL = '''\
def changes(sheet, column, label, start, end, lags):
    """Change in per cent against so many months before: at the last period inside, and the extremes of the periods."""
    # series()

    def short(value):
        return round(float(value), 1 if abs(value) >= 1000 else 4)

    s = series(sheet, column)
    s.index = s.index.to_period("M")
    for name, months in lags:
        change = pd.Series({when: s[when] / s[when - months] - 1 for when in s.index if when - months in s.index}) * 100
        inside = change[(start or str(s.index[0]))[:7]:(end or str(s.index[-1]))[:7]]
        if inside.empty:
            yield {"label": label, "lag": name, "n": 0}
            continue
        last, high, low = inside.index[-1], inside.idxmax(), inside.idxmin()
        yield {"label": label, "lag": name, "n": len(inside), "period": str(last), "change_pct": round(float(inside[last]), 2),
               "value": short(s[last]), "before": short(s[last - months]), "before_period": str(last - months),
               "high": str(high), "high_pct": round(float(inside[high]), 2), "low": str(low), "low_pct": round(float(inside[low]), 2)}
'''


def lags_of(ask: Ask) -> list[tuple[str, int]]:
    """Return the named lags."""
    # Inflation without a lag is a change over twelve months; an unspecified 环比 follows the frequency of the series.
    found = [(name, months) for name, months, cue in LAGS if ask.has(cue)]
    quarterly = any(name.id.startswith("gdp") for name in ask.names("index"))
    if ask.has(CHAINED) and not any(name in ("qoq", "mom") for name, _ in found):
        found.append(("qoq", 3) if quarterly or ask.has("季") else ("mom", 1))
    if not found and any(name.id in ("cpiaucsl", "cpilfesl", "pcepi", "pcepilfe") for name in ask.names("index")):
        found = [("yoy", 12)] if any(word in ask.text.lower() for word in ("inflation", "通胀")) else []
    return found


def recognise(ask: Ask) -> Script | None:
    """Return the script for a lag with a subject and a period."""
    return play if lags_of(ask) and subjects(ask) and ask.periods else None


def subjects(ask: Ask) -> list[Name]:
    return ask.names("index", "rate") or ask.names("price", "level")


def play(desk: Desk) -> Play[None]:
    """Fetch a year more than the period, compute the changes, and report them."""
    ask, period = desk.ask, desk.ask.period
    lags = lags_of(ask)
    # 430 days: the year before, and a margin of two months.
    columns = yield from desk.data(subjects(ask), earlier(period, True, 430), period.end)
    sides = [side for side, cue in (("high", BEST), ("low", WORST)) if ask.has(cue)]
    for one in columns.values():
        code = cell(
            CELL, f"changes({one.variable}, {one.column!r}, {one.label!r}, {period.start!r}, {period.end!r}, {lags!r})"
        )
        rows = yield from desk.python(code, "Compute the changes on the table.", "在表格上计算变化率。")
        for row in rows:
            kind = (CHINESE if ask.chinese else ENGLISH)[str(row.values["lag"])]
            if row.number("n") == 0:
                desk.say(
                    f"**{one.label}** has no change {kind} in {period.text}.",
                    f"**{one.label}**在{period.text}没有{kind}数据。",
                    row,
                )
            elif sides:
                for side in sides:
                    say_extreme(desk, one, row, side, kind)
            else:
                say_change(desk, one, row, kind)


def say_change(desk: Desk, one: Series, row: Row, kind: str) -> None:
    """Report the change at a date, with both values."""
    gain, unit = signed(percent2(row.number("change_pct"))), unit_text(one.unit)
    value, before = plain(row.number("value")), plain(row.number("before"))
    desk.say(
        f"**{one.label}** changed by {gain} {kind} in {row.values['period']}: {value}{unit} after {before} in {row.values['before_period']}.",
        f"**{one.label}**在{row.values['period']}{kind}变化{gain}：{value}{unit}，{row.values['before_period']}为{before}。",
        row,
        # The table is cited beside the cell, because both values stand in it.
        Row({}, one.material),
    )


def say_extreme(desk: Desk, one: Series, row: Row, side: str, kind: str) -> None:
    """Report when the change was highest or lowest."""
    when, gain = row.values[side], signed(percent2(row.number(f"{side}_pct")))
    word = {"high": ("highest", "最高"), "low": ("lowest", "最低")}[side]
    desk.say(
        f"The change of **{one.label}** {kind} was {word[0]} in {when}: {gain}.",
        f"**{one.label}**{kind}增速{word[1]}的月份是{when}：{gain}。",
        row,
    )


def percent2(value: float | int | None) -> str:
    """Format a percentage with two decimals, as rounded by the cell."""
    return "" if value is None else f"{value:,.2f}%"
