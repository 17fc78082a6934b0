"""Comparison and ranking of one or several series over a period; the most general operation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fathom.services.policy.backends.rules import code
from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.names import Name
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.measures import measure, sentence, value_of
from fathom.services.policy.backends.rules.operations.periods import Period
from fathom.services.policy.backends.rules.operations.script import Columns, Desk, Play, Script
from fathom.services.policy.backends.rules.passages import method_query
from fathom.services.policy.backends.rules.prose.wording import percent, signed, unit_text
from fathom.services.policy.backends.rules.prose.writing import mixed_returns
from fathom.services.policy.backends.rules.question import Kind
from fathom.services.policy.backends.rules.sheets import Series, is_share

INVESTED = r"invest|\bworth\b|buy|bought|投资|买入"
# Words that ask for the smallest value; a drawdown is a negative number, so that the smallest fall is the largest value.
LEAST = r"lowest|smallest|least|weakest|worst|harder|fell|从小到大|从低到高|最小|最低|最差|跌得|跌幅"
PRICES = r"price|shares?\b|stock|股价|价格|走势|行情"
# What a reader expects of "compare A and B" without a measure.
DEFAULT = ("return", "cagr", "volatility", "drawdown")


def recognise(ask: Ask) -> Script | None:
    """Return the script for names with a measure, a period or a comparison.

    A value on a single day is a look-up instead.
    """
    names = series_names(ask)
    if not names or ask.question.kind is Kind.CHAT or ask.period.day:
        return None
    looked_up = ask.question.kind in (Kind.LOOKUP, Kind.DOCUMENT) and not ask.measures and not ask.names("statement")
    if looked_up or not (ask.measures or ask.periods or len(names) > 1):
        return None
    return play


def series_names(ask: Ask) -> list[Name]:
    return ask.names("price", "level", "rate", "index", "statement") or ask.names("currency")


def play(desk: Desk) -> Play[None]:
    """Plan, measure, draw, look the measure up, and report."""
    ask, names = desk.ask, series_names(desk.ask)
    if ask.names("statement") and not (ask.measures or ask.has(PRICES)):
        yield from desk.data(ask.names("statement"), ask.period.start, ask.period.end, owners=ask.names("price"))
        return
    labels = desk.words.comma.join(desk.label(name) for name in names)
    wanted = ask.measures or DEFAULT
    yield from desk.think(
        f"Parts: the series of {labels}; for each: {', '.join(wanted)}; then what sets them apart.",
        f"拆解：{labels}的数据；逐一计算{'、'.join(wanted)}；再看差别。",
    )
    columns, rows = yield from measure(desk, names, over(ask))
    write(desk, columns, rows, wanted)
    yield from draw(desk, columns, rows)
    if columns:
        yield from describe(desk)


def over(ask: Ask) -> list[Period]:
    """Return the periods to measure: several years or months side by side, or one span for an investment."""
    found = list(dict.fromkeys(replace(period, place=0) for period in ask.periods))
    if len(found) < 2 or not all(period.calendar for period in found):
        return [ask.period]
    # "Invested in 2015, worth in 2020" names two years and means the time between them.
    return [Period(found[0].start, found[-1].end)] if ask.has(INVESTED) else found[:4]


def write(desk: Desk, columns: Columns, rows: Sequence[Row], wanted: Sequence[str]) -> None:
    """Report the ranking first, then a sentence per series."""
    units = {one.label: unit_text(one.unit) for one in columns.values()}
    shown = wanted if desk.ask.measures and wanted != ("return",) else DEFAULT
    leads(desk, rows, wanted, list(columns.values()))
    for row in rows:
        desk.paragraphs.append(sentence(desk, row, shown, units.get(row.label, "")))


def leads(desk: Desk, rows: Sequence[Row], wanted: Sequence[str], series: Sequence[Series]) -> None:
    """Report the ranking in each window by each requested measure, with a warning when returns are not comparable."""
    ranked = False
    windows = list(dict.fromkeys(str(row.values.get("window", "")) for row in rows))
    for window in windows:
        for name in wanted if desk.ask.measures else wanted[:1]:
            rivals = [row for row in rows if row.values.get("window") == window and value_of(row, name) is not None]
            if len(rivals) > 1:
                lead(desk, rivals, name, window if len(windows) > 1 else "", series)
                ranked = ranked or name in ("return", "cagr")
    desk.paragraphs += mixed_returns(series, desk.words) if ranked else []


def ordered(ask: Ask, rows: Sequence[Row], name: str) -> list[Row]:
    """Sort rows best first as the question defines it; by default high returns, small drawdowns and volatilities."""
    least = bool(re.search(LEAST, ask.rest, re.IGNORECASE))
    most = bool(re.search(r"highest|largest|most volatile|最高|最大|从大到小|从高到低", ask.rest, re.IGNORECASE))
    values = {id(row): float(value_of(row, name) or 0.0) for row in rows}
    if name == "volatility":
        return sorted(rows, key=lambda row: -values[id(row)] if most else values[id(row)])
    if name == "drawdown":
        falls_first = bool(re.search(r"deepest|largest draw|从大到小|回撤最大", ask.rest, re.IGNORECASE))
        return sorted(rows, key=lambda row: values[id(row)] if falls_first else -values[id(row)])
    return sorted(rows, key=lambda row: values[id(row)] if least and not most else -values[id(row)])


def return_title(series: Sequence[Series]) -> tuple[str, str]:
    """Return the name of the returns: total for adjusted shares, price returns for anything else."""
    shares = [is_share(one) for one in series if one.price]
    if shares and all(shares):
        return "total return", "总收益率"
    return ("return", "收益率") if any(shares) or not shares else ("price return", "价格收益率")


def lead(desk: Desk, rows: Sequence[Row], name: str, window: str, series: Sequence[Series]) -> None:
    """Report the ranking by one measure, in one window when there are several."""
    best = ordered(desk.ask, rows, name)
    listed = desk.words.comma.join(f"{row.label} ({short(row, name)})" for row in best)
    title = {
        "return": return_title(series),
        "cagr": ("annual growth", "年化收益率"),
        "volatility": ("annualised volatility", "年化波动率"),
        "sharpe": ("Sharpe ratio", "夏普比率"),
        "drawdown": ("maximum drawdown", "最大回撤"),
    }[name]
    desk.say(
        f"By {title[0]}{' in ' * bool(window)}{window}, first to last: {listed}.",
        f"{window}按{title[1]}排序：{listed}。",
        *best,
    )


def short(row: Row, name: str) -> str:
    value = value_of(row, name)
    if name == "sharpe":
        return f"{value:.2f}"
    return percent(value) if name in ("volatility", "drawdown") else signed(percent(value))


def draw(desk: Desk, columns: Columns, rows: Sequence[Row]) -> Play[None]:
    """Draw a line chart of the series with more than one value."""
    # A line needs two points.
    if not rows or all((row.number("n") or 0) <= 1 for row in rows):
        return
    labels = desk.words.comma.join(one.label for one in columns.values())
    start, end = (
        pick(str(row.values.get(key, "")) for row in rows if row.values.get(key))
        for key, pick in (("start", min), ("end", max))
    )
    title = desk.words.figure_title.format(names=labels, start=start, end=end)
    cell = code.figure_cell(list(columns.values()), title, desk.ask.chinese)
    yield from desk.python(cell, desk.words.intent_figure, desk.words.intent_figure)


def describe(desk: Desk) -> Play[None]:
    """Explain the measure when the question names one or asks for it."""
    ask = desk.ask
    if ask.question.aspects and (ask.wants_definition or len(ask.measures) > 1 or ask.question.background):
        yield from desk.document(method_query(ask.question, []))
