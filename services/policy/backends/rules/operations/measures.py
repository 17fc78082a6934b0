"""Measures over windows: return, growth, volatility, Sharpe ratio and drawdown of prices.

Change and extremes of levels.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.names import Name
from fathom.services.policy.backends.rules.operations.cells import cell, windows
from fathom.services.policy.backends.rules.operations.periods import Period
from fathom.services.policy.backends.rules.operations.script import Columns, Desk, Play
from fathom.services.policy.backends.rules.prose.wording import percent, plain, signed
from fathom.services.policy.backends.rules.sheets import Series

CELL = '''\
def measured(columns, windows):
    """Per series and window: of prices return, growth and risk; of levels change, mean and extremes."""
    # series()

    def risk(s, inside):
        daily, fall = s.pct_change()[inside.index].dropna(), inside / inside.cummax() - 1
        trough = fall.idxmin()
        if not -1 <= fall.min() <= 0:
            raise ValueError(f"a drawdown lies in [-1, 0], and this is {fall.min():.3f}: these are no prices")
        deviation = float(daily.std())
        return {"volatility_pct": round(deviation * 252 ** 0.5 * 100, 1),
                "sharpe": round(float(daily.mean()) / deviation * 252 ** 0.5, 2) if deviation > 0 else None,
                "drawdown_pct": round(float(fall.min()) * 100, 1),
                "peak": str(inside[:trough].idxmax().date()), "trough": str(trough.date())}

    def price(s, inside, first):
        years = (inside.index[-1] - first.index[-1]).days / 365.25
        gain = float(inside.iloc[-1] / first.iloc[-1])
        row = {"first": round(float(first.iloc[-1]), 2), "first_date": str(first.index[-1].date()),
               "last": round(float(inside.iloc[-1]), 2), "return_pct": round((gain - 1) * 100, 1)}
        row |= {"cagr_pct": round((gain ** (1 / years) - 1) * 100, 1)} if years >= 1.5 and gain > 0 else {}
        return row | (risk(s, inside) if len(inside) > 2 else {})

    def level(s, inside, first):
        return {"first": round(float(inside.iloc[0]), 4), "last": round(float(inside.iloc[-1]), 4),
                "first_date": str(inside.index[0].date()), "change": round(float(inside.iloc[-1] - inside.iloc[0]), 4),
                "mean": round(float(inside.mean()), 2), "min": round(float(inside.min()), 4),
                "min_date": str(inside.idxmin().date()), "max": round(float(inside.max()), 4),
                "max_date": str(inside.idxmax().date())}

    for sheet, column, label, priced in columns:
        s = series(sheet, column)
        for name, start, end, before, months in windows:
            inside = s[start or None:end or None] if len(s) else s
            inside = inside[inside.index > inside.index[-1] - pd.DateOffset(months=months)] if months and len(inside) else inside
            if inside.empty:
                yield {"label": label, "window": name, "n": 0}
                continue
            earlier = s[s.index < inside.index[0]]
            first = earlier if (before or months) and len(earlier) else inside[:1]
            yield {"label": label, "window": name, "n": len(inside), "start": str(inside.index[0].date()),
                   "end": str(inside.index[-1].date()), **(price if priced else level)(s, inside, first)}
'''
MEASURES = ("return", "cagr", "volatility", "sharpe", "drawdown")
# Calendar days before a period in which the value before it lies, holidays included.
LEADS = 14


def measure_cell(series: Sequence[Series], over: Sequence[Period]) -> str:
    """Return a cell with rows per series and window."""
    columns = ", ".join(f"({one.variable}, {one.column!r}, {one.label!r}, {one.price})" for one in series)
    return cell(CELL, f"measured([{columns}], {windows(over)})")


def earlier(period: Period, returns: bool = False, days: int = LEADS) -> str:
    """Return the first day to fetch, ``days`` before a period whose first return needs the value before it."""
    if not period.start or not (period.calendar or returns):
        return period.start
    return str(datetime.date.fromisoformat(period.start) - datetime.timedelta(days=days))


def measure(desk: Desk, names: Sequence[Name], over: Sequence[Period]) -> Play[tuple[Columns, list[Row]]]:
    """Fetch the names and measure them over the windows; no rows when nothing is available."""
    # Both are computed from daily returns, the first of which needs the value before.
    returns = bool({"sharpe", "volatility"} & set(desk.ask.measures))
    starts = [earlier(period, returns) for period in over]
    ends = [period.end for period in over]
    # One open window needs everything.
    start = min(starts) if all(starts) else ""
    columns = yield from desk.data(names, start, max(ends) if all(ends) else "")
    return columns, (yield from measured(desk, columns, over)) if columns else []


def measured(desk: Desk, columns: Columns, over: Sequence[Period]) -> Play[list[Row]]:
    """Measure the available series over the windows."""
    rows = yield from desk.python(
        measure_cell(list(columns.values()), over),
        "Compute the measures on the table instead of estimating them.",
        "在表格上计算指标，而不是估计。",
    )
    desk.found = desk.found or bool(rows)
    return rows


def sentence(desk: Desk, row: Row, wanted: Sequence[str], unit: str) -> str:
    """Describe one series in one window: its course first, then the requested measures."""
    if row.number("n") == 0:
        text = desk.either(
            f"**{row.label}** has no value in {row.values['window']}.",
            f"**{row.label}**在{row.values['window']}没有数据。",
        )
        return desk.cited(text, row)
    if row.number("return_pct") is None:
        return desk.cited(level(desk, row, unit), row)
    parts = [part(desk, row, name) for name in MEASURES if name in wanted and name != "return"]
    first, last = plain(row.number("first")), plain(row.number("last"))
    days = desk.either(
        f"{row.values['first_date']} to {row.values['end']}", f"{row.values['first_date']}至{row.values['end']}"
    )
    gain = signed(percent(row.number("return_pct")))
    text = desk.either(
        f"**{row.label}**: {gain} from {first} to {last}{unit} ({days})",
        f"**{row.label}**：{gain}，从{first}到{last}{unit}（{days}）",
    )
    return desk.cited(text + "".join(desk.words.comma + one for one in parts if one) + desk.either(".", "。"), row)


def level(desk: Desk, row: Row, unit: str) -> str:
    """Describe a rate or an index."""
    numbers = {name: plain(row.number(name)) for name in ("first", "last", "min", "max", "mean")}
    change, days = (
        signed(plain(row.number("change"))),
        {name: str(row.values[name]) for name in ("min_date", "max_date")},
    )
    return desk.either(
        "**{0}**: from {first} on {1} to {last}{2} on {3} (change {4}), lowest {min} on {min_date}, highest {max} on {max_date},"
        " mean {mean}.",
        "**{0}**：从{1}的{first}到{3}的{last}{2}（变化{4}），最低{min}（{min_date}），最高{max}（{max_date}），均值{mean}。",
    ).format(row.label, row.values["first_date"], unit, row.values["end"], change, **numbers, **days)


def part(desk: Desk, row: Row, name: str) -> str:
    """Describe one measure; "" when the cell could not compute it."""
    value = row.number("sharpe" if name == "sharpe" else f"{name}_pct")
    if value is None:
        return ""
    if name == "sharpe":
        return desk.either(f"Sharpe ratio {value:.2f}", f"夏普比率{value:.2f}")
    shown = percent(value)
    if name == "cagr":
        return desk.either(f"{signed(shown)} a year compounded", f"年化复合{signed(shown)}")
    if name == "volatility":
        return desk.either(f"annualised volatility {shown}", f"年化波动率{shown}")
    if value == 0:
        return desk.either("no drawdown", "没有回撤")
    peak, trough = row.values["peak"], row.values["trough"]
    return desk.either(
        f"maximum drawdown {shown} (peak {peak}, trough {trough})", f"最大回撤{shown}（高点{peak}，低点{trough}）"
    )


def value_of(row: Row, name: str) -> float | int | None:
    """Return a measure of a row by its name."""
    return row.number("sharpe" if name == "sharpe" else f"{name}_pct")
