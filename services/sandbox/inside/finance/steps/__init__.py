"""Steps of a calculation over series: ``ret(within(line(sheet_1, "value"), period("2020", "2020")))``.

Each function takes lines, points, groups and periods and returns one of them; what it is given is not changed.

line, period, each: what steps take
within, between, after, before, recent, where, without: windows
every, moves, steps, yoy, qoq, mom, annualised, average, rolling_max, rolling_min, rolling_vol, rolling_ret: lines of
lines
real, rate, plus, minus, times, over, share, magnitude, neg: arithmetic
at, first, last, maximum, minimum, mean, median, total, std, count, summary, percentile, ahead: points
top, bottom, rank, item, size: groups
ret, change, pct, cagr, grow, portfolio, drawdown, rise, recovery, vol, sharpe, sortino, beta, corr, levels_corr
crossover: a rule of trading
count_if, share_if, first_if, last_if, longest, crossings
start, end, later, earlier, days, months, years, sessions
rows, pick, value, sum_rows, mean_rows, by_label: rows of a table that is no series
show: a result as one line of JSON; run_step: a step that may fail, with its words
"""

from fathom.services.sandbox.inside.finance.steps.conditions import (
    count_if,
    crossings,
    first_if,
    last_if,
    longest,
    share_if,
    where,
)
from fathom.services.sandbox.inside.finance.steps.dates import days, earlier, end, later, months, sessions, start, years
from fathom.services.sandbox.inside.finance.steps.money import real
from fathom.services.sandbox.inside.finance.steps.output import run_step, show, show_tables
from fathom.services.sandbox.inside.finance.steps.overview import summary
from fathom.services.sandbox.inside.finance.steps.portfolios import grow, portfolio
from fathom.services.sandbox.inside.finance.steps.risk import (
    beta,
    corr,
    drawdown,
    levels_corr,
    rise,
    sharpe,
    sortino,
    vol,
)
from fathom.services.sandbox.inside.finance.steps.rolling import rolling_ret, rolling_vol
from fathom.services.sandbox.inside.finance.steps.rows import Rows, by_label, mean_rows, pick, rows, sum_rows, value
from fathom.services.sandbox.inside.finance.steps.statistics import (
    ahead,
    at,
    bottom,
    cagr,
    change,
    count,
    first,
    item,
    last,
    maximum,
    mean,
    median,
    minimum,
    percentile,
    rank,
    recovery,
    ret,
    size,
    std,
    top,
    total,
)
from fathom.services.sandbox.inside.finance.steps.trading import crossover
from fathom.services.sandbox.inside.finance.steps.transforms import annualise as annualised
from fathom.services.sandbox.inside.finance.steps.transforms import (
    average,
    every,
    magnitude,
    minus,
    mom,
    moves,
    neg,
    over,
    pct,
    plus,
    qoq,
    rate,
    rolling_max,
    rolling_min,
    share,
    steps,
    times,
    yoy,
)
from fathom.services.sandbox.inside.finance.steps.values import Group, Line, Period, Point, each, line, period
from fathom.services.sandbox.inside.finance.steps.windows import after, before, between, recent, within, without

__all__ = [
    "Group",
    "Line",
    "Period",
    "Point",
    "Rows",
    "after",
    "ahead",
    "annualised",
    "at",
    "average",
    "before",
    "beta",
    "between",
    "bottom",
    "by_label",
    "cagr",
    "change",
    "corr",
    "count",
    "count_if",
    "crossings",
    "crossover",
    "days",
    "drawdown",
    "each",
    "earlier",
    "end",
    "every",
    "first",
    "first_if",
    "grow",
    "item",
    "last",
    "last_if",
    "later",
    "levels_corr",
    "line",
    "longest",
    "magnitude",
    "maximum",
    "mean",
    "mean_rows",
    "median",
    "minimum",
    "minus",
    "mom",
    "months",
    "moves",
    "neg",
    "over",
    "pct",
    "percentile",
    "period",
    "pick",
    "plus",
    "portfolio",
    "qoq",
    "rank",
    "rate",
    "real",
    "recent",
    "recovery",
    "ret",
    "rise",
    "rolling_max",
    "rolling_min",
    "rolling_ret",
    "rolling_vol",
    "rows",
    "run_step",
    "sessions",
    "share",
    "share_if",
    "sharpe",
    "show",
    "show_tables",
    "size",
    "sortino",
    "start",
    "std",
    "steps",
    "sum_rows",
    "summary",
    "times",
    "top",
    "total",
    "value",
    "vol",
    "where",
    "within",
    "without",
    "years",
    "yoy",
]
