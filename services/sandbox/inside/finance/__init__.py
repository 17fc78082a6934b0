"""Measures of prices, rates and portfolios that state how they were computed; charts of them.

All take a sheet (DataFrame with a column "date" or dates as index) or a Series, and most ``start`` and ``end`` ("2020",
"2020-03", "2020-03-23"). Results print their convention; ``convention(result, "zh")`` has it in Chinese. Results are
fractions (0.1 is 10 %) but for columns named ``…_pct``. Wrong input raises ``InvalidArgument`` naming the argument.

returns, period_returns(every=), holding_return (with CAGR), growth(months=), changes (for rates, which have no returns)
drawdown, max_drawdown, volatility, sharpe(risk_free, unit), sortino, beta(market), correlation, rolling(window)
around(event, before, after), crossings(other or level), beyond(level, side), top(n), rank, spread
portfolio(weights, rebalance=), deflate(price_index), convert(rate, quote), summary(risk_free=)
chart(measure): levels, rebased, drawdown, volatility, correlation, spread, bars, histogram, scatter
"""

from fathom.services.sandbox.inside.finance.charts import chart
from fathom.services.sandbox.inside.finance.errors import BrokenInvariant, InvalidArgument
from fathom.services.sandbox.inside.finance.portfolios import portfolio, spread
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
    "changes",
    "chart",
    "convention",
    "convert",
    "correlation",
    "crossings",
    "deflate",
    "drawdown",
    "growth",
    "holding_return",
    "max_drawdown",
    "period_returns",
    "portfolio",
    "rank",
    "returns",
    "rolling",
    "sharpe",
    "sortino",
    "spread",
    "summary",
    "top",
    "volatility",
]
