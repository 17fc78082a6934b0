"""Relations of macro series: spreads and real rates, with their extremes, values and negative months."""

from __future__ import annotations

from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.names import Name, named
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import cell
from fathom.services.policy.backends.rules.operations.measures import earlier
from fathom.services.policy.backends.rules.operations.script import Desk, Play, Script
from fathom.services.policy.backends.rules.operations.series.extremes import BEST, WORST
from fathom.services.policy.backends.rules.prose.wording import plain

SPREAD = r"\bspreads?\b|\bminus\b|\bless\b|difference|\bbelow\b|\babove\b|inver|yield curve|利差|之差|差额|减去?|低于|高于|倒挂|期限利差|收益率曲线"
REAL = r"\breal\b|实际利率|实际收益率|扣除通胀|实际"
BELOW = r"\bbelow\b|inver|negative|低于|倒挂|为负"
WIDEST = r"widest|largest|biggest|最大|最宽"
NARROWEST = r"narrowest|smallest|最小|最窄"
CELL = '''\
def related(one, other, start, end, inflation):
    """One rate less another, or less the change of a price index over twelve months, in percentage points by month."""
    # series()

    a, b = (series(sheet, column) for sheet, column, _ in (one, other))
    a, b = (s.groupby(s.index.to_period("M")).last() for s in (a, b))
    b = pd.Series({when: (b[when] / b[when - 12] - 1) * 100 for when in b.index if when - 12 in b.index}) if inflation else b
    gap = (a - b).dropna()
    gap = gap[(start or str(gap.index[0]))[:7]:(end or str(gap.index[-1]))[:7]]
    if gap.empty:
        return [{"label": one[2], "other": other[2], "n": 0}]
    last, low, high = gap.index[-1], gap.idxmin(), gap.idxmax()
    return [{"label": one[2], "other": other[2], "n": len(gap), "start": str(gap.index[0]), "last": str(last),
             "last_value": round(float(gap[last]), 2), "last_one": round(float(a[last]), 2), "last_other": round(float(b[last]), 2),
             "low": str(low), "low_value": round(float(gap[low]), 2), "high": str(high), "high_value": round(float(gap[high]), 2),
             "mean": round(float(gap.mean()), 2), "negative_months": int((gap < 0).sum())}]
'''


def recognise(ask: Ask) -> Script | None:
    """Return the script for a rate and inflation, for two rates with a comparing word, or for the yield curve."""
    rates = ask.names("rate")
    if not ask.periods and ask.question.kind.value == "document":
        return None
    if rates and ask.has(REAL) and not ask.names("price"):
        return lambda desk: play(desk, rates[0], named("cpiaucsl"), True)
    if len(rates) > 1 and ask.has(SPREAD):
        return lambda desk: play(desk, rates[0], rates[1], False)
    if not rates and ask.periods and ask.has(r"yield curve|收益率曲线|期限利差") and not ask.names("price"):
        # Ten years less two years is what "the yield curve" means without further words.
        return lambda desk: play(desk, named("gs10"), named("gs2"), False)
    return None


def play(desk: Desk, one: Name, other: Name, inflation: bool) -> Play[None]:
    """Fetch both series and compute their difference by month."""
    period, labels = desk.ask.period, (desk.label(one), desk.label(other))
    yield from desk.think(
        f"The difference of {labels[0]} and {labels[1]}, month by month.", f"逐月计算{labels[0]}与{labels[1]}之差。"
    )
    # Inflation over twelve months needs the year before, with a margin of two months.
    columns = yield from desk.data([one, other], earlier(period, inflation, 430), period.end)
    if len(columns) < 2:
        return
    pair = [f"({series.variable}, {series.column!r}, {series.label!r})" for series in (columns[one], columns[other])]
    call = f"related({pair[0]}, {pair[1]}, {period.start!r}, {period.end!r}, {inflation})"
    rows = yield from desk.python(cell(CELL, call), "Compute the difference month by month.", "逐月计算差值。")
    for row in rows:
        say(desk, row, inflation)


def say(desk: Desk, row: Row, inflation: bool) -> None:
    """Report the requested extremes or count, then the value at the end of the period."""
    if row.number("n") == 0:
        desk.say(
            f"**{row.label}** and {row.values['other']} have no common month.",
            f"**{row.label}**与{row.values['other']}没有共同月份。",
            row,
        )
        return
    other = desk.either("CPI inflation over twelve months", "12个月CPI通胀率") if inflation else row.values["other"]
    single = desk.ask.period.calendar and row.number("n") == 1
    value = {key: plain(row.number(f"{key}_value")) for key in ("last", "low", "high")}
    if desk.ask.has(WORST) or desk.ask.has(NARROWEST):
        desk.say(
            f"**{row.label} less {other}** was lowest in {row.values['low']}: {value['low']} percentage points.",
            f"**{row.label}减{other}**最低在{row.values['low']}：{value['low']}个百分点。",
            row,
        )
    if desk.ask.has(BEST) or desk.ask.has(WIDEST):
        desk.say(
            f"**{row.label} less {other}** was highest in {row.values['high']}: {value['high']} percentage points.",
            f"**{row.label}减{other}**最大在{row.values['high']}：{value['high']}个百分点。",
            row,
        )
    if desk.ask.has(BELOW):
        desk.say(
            f"{row.label} was below {other} in {row.number('negative_months')} of {row.number('n')} months ({row.values['start']} to {row.values['last']}).",
            f"{row.values['start']}至{row.values['last']}的{row.number('n')}个月中，{row.label}低于{other}的有{row.number('negative_months')}个月。",
            row,
        )
    ends = f"{plain(row.number('last_one'))}% − {plain(row.number('last_other'))}%"
    desk.say(
        f"**{row.label} less {other}** was {value['last']} percentage points in {row.values['last']} ({ends}).",
        f"**{row.label}减{other}**在{row.values['last']}为{value['last']}个百分点（{ends}）。",
        row,
    )
    if not single:
        desk.say(
            f"Over the {row.number('n')} months its mean was {plain(row.number('mean'))}.",
            f"{row.number('n')}个月的均值为{plain(row.number('mean'))}。",
            row,
        )
