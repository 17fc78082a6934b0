"""Relations of prices: correlation of returns, and beta against a market."""

from __future__ import annotations

from fathom.services.policy.backends.rules.names import Name, named
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import cell, listed
from fathom.services.policy.backends.rules.operations.measures import earlier
from fathom.services.policy.backends.rules.operations.script import Columns, Desk, Play, Script

BETA = r"\bbetas?\b|贝塔"
CORRELATION = r"correlat|相关性|相关系数|相关度"
CELL = '''\
def pairs(columns, start, end, market):
    """Correlation of simple daily returns on common dates of each pair, or the slope of each on the market's."""
    # series()

    prices = pd.concat({label: series(sheet, column) for sheet, column, label in columns}, axis=1).dropna()
    returns = prices.pct_change()[start or None:end or None].dropna()
    ends = {"n": len(returns), "start": str(returns.index[0].date()), "end": str(returns.index[-1].date())}
    labels = list(returns.columns)
    if market:
        return [{"label": one, "market": market, **ends,
                 "beta": round(float(returns[one].cov(returns[market]) / returns[market].var()), 2),
                 "correlation": round(float(returns[one].corr(returns[market])), 2)} for one in labels if one != market]
    return [{"label": one, "other": other, **ends, "correlation": round(float(returns[one].corr(returns[other])), 2)}
            for index, one in enumerate(labels) for other in labels[index + 1:]]
'''


def recognise(ask: Ask) -> Script | None:
    """Return the script for the beta of at least one price, or the correlation of at least two."""
    prices = ask.names("price", "level")
    if not ask.periods and ask.question.kind.value == "document":
        return None
    if ask.has(BETA) and prices:
        return beta
    return correlation if ask.has(CORRELATION) and len(prices) > 1 else None


def fetched(desk: Desk, names: list[Name]) -> Play[Columns]:
    period = desk.ask.period
    labels = desk.words.comma.join(desk.label(name) for name in names)
    yield from desk.think(
        f"Returns of {labels} on common dates, from prices turned into returns first.",
        f"先把{labels}的价格换成同日收益率，再计算。",
    )
    # From prices to returns first: prices that merely both rise correlate without any relation.
    return (yield from desk.data(names, earlier(period, True), period.end))


def beta(desk: Desk) -> Play[None]:
    """Report the beta against the named index, by default the S&P 500."""
    names = desk.ask.names("price", "level")
    indices = [name for name in names if name.id in ("SP500", "NASDAQ")]
    # The last index named: "beta of the Nasdaq against the S&P 500".
    market = (indices or [named("SP500")])[-1]
    columns = yield from fetched(desk, [*(name for name in names if name != market), market])
    if market not in columns or len(columns) < 2:
        return
    call = f"pairs({listed(columns.values())}, {desk.ask.period.start!r}, {desk.ask.period.end!r}, {columns[market].label!r})"
    rows = yield from desk.python(cell(CELL, call), "Compute the beta from daily returns.", "用日收益率计算贝塔。")
    for row in rows:
        value, days = row.number("beta"), (row.values["start"], row.values["end"])
        desk.say(
            f"**{row.label}** had a beta of {value:.2f} against the {row.values['market']} ({days[0]} to {days[1]}, {row.number('n'):,} daily returns; correlation {row.number('correlation'):.2f}).",
            f"**{row.label}**相对{row.values['market']}的贝塔系数为{value:.2f}（{days[0]}至{days[1]}，{row.number('n'):,}个日收益率；相关系数{row.number('correlation'):.2f}）。",
            row,
        )
    yield from desk.document(desk.either("beta", "贝塔系数"))


def correlation(desk: Desk) -> Play[None]:
    """Report the correlation of every pair."""
    columns = yield from fetched(desk, desk.ask.names("price", "level"))
    if len(columns) < 2:
        return
    call = f"pairs({listed(columns.values())}, {desk.ask.period.start!r}, {desk.ask.period.end!r}, '')"
    rows = yield from desk.python(
        cell(CELL, call), "Compute the correlation from daily returns.", "用日收益率计算相关系数。"
    )
    for row in rows:
        value, days = row.number("correlation"), (row.values["start"], row.values["end"])
        desk.say(
            f"The daily returns of **{row.label}** and **{row.values['other']}** had a correlation of {value:.2f} ({days[0]} to {days[1]}, {row.number('n'):,} returns).",
            f"**{row.label}**与**{row.values['other']}**日收益率的相关系数为{value:.2f}（{days[0]}至{days[1]}，{row.number('n'):,}个收益率）。",
            row,
        )
    yield from desk.document(desk.either("correlation of returns", "相关系数"))
