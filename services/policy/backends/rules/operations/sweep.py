"""Dual moving-average strategy: every pair of windows over equally weighted prices, traded a day late, with fees."""

from __future__ import annotations

import re

from fathom.domain.text.numerals import ONE_TO_TEN
from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import listed
from fathom.services.policy.backends.rules.operations.script import Desk, Play, Script
from fathom.services.policy.backends.rules.prose.wording import signed

CUE = r"moving[\s-]averages?|crossover|双均线|均线"
TRADE = r"\brule|strateg|backtest|best|return|earn|crossover|策略|回测|最优|最佳|收益|规则"
FEES = (
    (r"(\d+(?:\.\d+)?)\s*(?:bps?\b|basis[\s-]points?|个?基点)", 1e-4),
    (rf"万分之([{ONE_TO_TEN}]|\d+(?:\.\d+)?)", 1e-4),
    (rf"千分之([{ONE_TO_TEN}]|\d+(?:\.\d+)?)", 1e-3),
    (
        r"(\d+(?:\.\d+)?)\s*%\s*(?:fee|cost|commission|的?手续费|的?费用)|(?:fee|cost|commission|手续费|费率)\D{0,12}(\d+(?:\.\d+)?)\s*%",
        1e-2,
    ),
)
# Five basis points per trade, for questions that name no fee.
DEFAULT_FEE = 0.0005
HAN = {word: index for index, word in enumerate(ONE_TO_TEN, 1)}
CELL = '''\
import json
import pandas as pd
import plotly.graph_objects as go

def best_moving_averages(columns, start, end, months, fee, names):
    """All pairs of a fast and a slow window, equal weights; a signal acts on the next bar, each turn costs the fee."""
    prices = pd.concat({label: sheet.set_index(pd.to_datetime(sheet["date"]))[column] for sheet, column, label in columns},
                       axis=1).dropna()[start or None:end or None]
    prices = prices[prices.index > prices.index[-1] - pd.DateOffset(months=months)] if months else prices
    returns = prices.pct_change().fillna(0.0)
    results, curves = {}, {}
    for fast in range(2, 11):
        for slow in range(fast + 3, 41, 3):
            signal = (prices.rolling(fast).mean() > prices.rolling(slow).mean()).astype(float)
            held = signal.shift(1).fillna(0.0)
            daily = (held * returns - held.diff().fillna(held).abs() * fee).mean(axis=1)
            curves[fast, slow] = (1 + daily).cumprod()
            results[fast, slow] = float(curves[fast, slow].iloc[-1] - 1)
    pair = max(results, key=results.get)
    hold = (1 + returns.mean(axis=1)).cumprod()
    ranked = sorted(results.values())
    figure = go.Figure()
    figure.add_scatter(x=prices.index, y=curves[pair], name=f"{names[0]} {pair[0]}/{pair[1]}")
    figure.add_scatter(x=prices.index, y=hold, name=names[1])
    figure.update_layout(title=names[2])
    figure.show()
    return {"label": "sweep", "fast": pair[0], "slow": pair[1], "return": results[pair], "return_pct": round(results[pair] * 100, 2),
            "hold": float(hold.iloc[-1] - 1), "hold_pct": round(float(hold.iloc[-1] - 1) * 100, 2), "tried": len(results),
            "median_pct": round(ranked[len(ranked) // 2] * 100, 2), "worst_pct": round(ranked[0] * 100, 2),
            "fee_pct": round(fee * 100, 4), "n": len(prices), "start": str(prices.index[0].date()), "end": str(prices.index[-1].date())}

print(json.dumps(best_moving_averages({columns}, {start!r}, {end!r}, {months}, {fee}, {names!r}), ensure_ascii=False))
'''


def recognise(ask: Ask) -> Script | None:
    """Return the script for moving averages with a trading word and prices."""
    return play if ask.has(CUE) and ask.has(TRADE) and ask.names("price") else None


def fee_of(ask: Ask) -> float:
    """Return the fee per trade as a fraction; 0.0005 by default."""
    for pattern, scale in FEES:
        match = re.search(pattern, ask.rest, re.IGNORECASE)
        if match:
            text = next(group for group in match.groups() if group)
            return round((HAN[text] if text in HAN else float(text)) * scale, 8)
    return DEFAULT_FEE


def play(desk: Desk) -> Play[None]:
    """Fetch the prices, sweep the windows with equity curves, and add the method's caveats."""
    ask, names = desk.ask, desk.ask.names("price", "level")
    period, fee = ask.period, fee_of(ask)
    labels = desk.words.comma.join(desk.label(name) for name in names)
    yield from desk.think(
        f"Sweep fast and slow windows over {labels}; trade a signal one bar late, charge fees, compare with buy and hold, and say that the best pair is chosen afterwards.",
        f"在{labels}上遍历快慢均线；信号次日才成交，计入手续费，与买入并持有比较，并说明最优参数是事后挑选的。",
    )
    columns = yield from desk.data(names, period.start, period.end)
    if not columns:
        return
    curves = (
        desk.either("moving averages", "双均线"),
        desk.either("buy and hold", "买入并持有"),
        desk.either("Equity curves", "净值曲线"),
    )
    code = CELL
    for key, value in (("{columns}", listed(columns.values())), ("{start!r}", repr(period.start)), ("{end!r}", repr(period.end)),
                       ("{months}", str(period.months)), ("{fee}", repr(fee)), ("{names!r}", repr(curves))):  # fmt: skip
        code = code.replace(key, value)
    rows = yield from desk.python(code, "Sweep the windows and draw the equity curves.", "遍历参数并画出净值曲线。")
    for row in rows:
        say(desk, row, desk.words.comma.join(one.label for one in columns.values()))
    if rows:
        yield from desk.document(desk.either("dual moving average rule", "双均线规则"))


def say(desk: Desk, row: Row, labels: str) -> None:
    """Report the best pair, the baseline, and a warning about overfitting."""
    best, hold = (signed(percent2(row, key)) for key in ("return_pct", "hold_pct"))
    fast, slow, fee, tried = row.values["fast"], row.values["slow"], row.values["fee_pct"], row.number("tried")
    days = desk.either(f"{row.values['start']} to {row.values['end']}", f"{row.values['start']}至{row.values['end']}")
    desk.say(
        f"The best pair of windows was **{fast} and {slow}** days: {best} on {labels}, equally weighted ({days}, {row.number('n')} closes), with signals traded one day later and a fee of {fee}% per turn.",
        f"最优参数是**{fast}日和{slow}日**均线：{labels}等权重的收益率为{best}（{days}，{row.number('n')}个收盘价），信号次日成交，每次换手费用{fee}%。",
        row,
    )
    desk.say(
        f"Baseline: to buy and hold the same names gave {hold}.", f"基准：买入并持有同样的标的，收益率为{hold}。", row
    )
    median, worst = (signed(percent2(row, key)) for key in ("median_pct", "worst_pct"))
    desk.say(
        f"Caution: the pair was chosen afterwards among {tried}, so it is overfitted to this period; the median pair gave {median}, the worst {worst}. It says little about the future.",
        f"注意：该参数是事后从{tried}组中挑选的，属于过度拟合；中位数参数的收益率为{median}，最差为{worst}。它对未来说明不了什么。",
        row,
    )


def percent2(row: Row, key: str) -> str:
    """Format a percentage with two decimals, as rounded by the cell."""
    return f"{row.number(key):,.2f}%"
