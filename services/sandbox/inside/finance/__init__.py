"""Measures of prices, rates and portfolios that state how they were computed; charts of them.

All take a sheet (DataFrame with a column "date" or dates as index) or a Series, and most ``start`` and ``end`` ("2020",
"2020-03", "2020-03-23"). Results print their convention; ``convention(result, "zh")`` has it in Chinese. Results are
fractions (0.1 is 10 %) but for columns named ``…_pct``. Wrong input raises ``InvalidArgument`` naming the argument.

returns, period_returns(every=), holding_return (with CAGR), growth(months=, annual=), changes (for rates, no returns)
by_period(every=, aggregate=, below=, above=, inclusive=): best, worst, count; recovery (of a high), since(dates)
drawdown, max_drawdown, volatility, sharpe(risk_free, unit), sortino, beta(market), correlation, rolling(window)
around(event, before, after), crossings(other or level), gap_to_mean(window), beyond(level, side), top(n), rank
spread, ratio, cross_rates, portfolio(weights, rebalance=), deflate(price_index), convert(rate, quote)
summary(risk_free=)
steps: calculations in steps over lines with windows and points with days, in % (``finance.steps``)
chart(measure): levels, rebased, drawdown, volatility, correlation, spread, bars, columns, histogram, scatter
"""

from fathom.services.sandbox.inside.finance import steps
from fathom.services.sandbox.inside.finance.charts import chart
from fathom.services.sandbox.inside.finance.errors import BrokenInvariant, InvalidArgument
from fathom.services.sandbox.inside.finance.periods import by_period, recovery, since
from fathom.services.sandbox.inside.finance.portfolios import cross_rates, portfolio, ratio, spread
from fathom.services.sandbox.inside.finance.results import Column, Number, Table, convention
from fathom.services.sandbox.inside.finance.returns import (
    changes,
    convert,
    deflate,
    growth,
    holding_return,
    period_returns,
    returns,
)
from fathom.services.sandbox.inside.finance.risk import (
    beta,
    correlation,
    drawdown,
    gap_to_mean,
    max_drawdown,
    rolling,
    sharpe,
    sortino,
    volatility,
)
from fathom.services.sandbox.inside.finance.summaries import summary
from fathom.services.sandbox.inside.finance.windows import around, beyond, crossings, rank, top

__all__ = [
    "BrokenInvariant",
    "Column",
    "InvalidArgument",
    "Number",
    "Table",
    "around",
    "beta",
    "beyond",
    "by_period",
    "changes",
    "chart",
    "convention",
    "convert",
    "correlation",
    "cross_rates",
    "crossings",
    "deflate",
    "drawdown",
    "gap_to_mean",
    "growth",
    "holding_return",
    "max_drawdown",
    "period_returns",
    "portfolio",
    "rank",
    "ratio",
    "recovery",
    "returns",
    "rolling",
    "sharpe",
    "since",
    "sortino",
    "spread",
    "steps",
    "summary",
    "top",
    "volatility",
]
