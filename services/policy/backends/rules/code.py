"""Python cells that compute on the sheets, in functional style: one function for one purpose, then its result."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.services.policy.backends.rules.sheets import Series

SUMMARY = '''\
import json
import pandas as pd

def summaries(prices, levels):
    """One summary per series: of prices return, growth, volatility and drawdown; of levels change and extremes."""
    def day(moment):
        return moment.date().isoformat()

    def on_common_period(columns):
        found = {label: sheet.set_index(pd.to_datetime(sheet["date"]))[column].dropna()
                 for sheet, column, label in columns}
        found = {label: s for label, s in found.items() if len(s)}
        if not found:
            return found
        start, end = max(s.index[0] for s in found.values()), min(s.index[-1] for s in found.values())
        return {label: s[start:end] for label, s in found.items()} if start < end else found

'''
PRICES = """\
    def price_summary(label, s):
        row = {"label": label, "n": len(s), "start": day(s.index[0]), "end": day(s.index[-1]),
               "first": round(float(s.iloc[0]), 2), "last": round(float(s.iloc[-1]), 2)}
        if len(s) < 3:
            return row
        years = (s.index[-1] - s.index[0]).days / 365.25
        change = s.pct_change().dropna()
        fall = s / s.cummax() - 1
        trough = fall.idxmin()
        if not -1 <= fall[trough] <= 0:
            raise ValueError(f"{label}: a drawdown lies in [-1, 0], and this is {fall[trough]:.3f}: no prices")
        row["return_pct"] = round(float(s.iloc[-1] / s.iloc[0] - 1) * 100, 1)
        row["volatility_pct"] = round(float(change.std() * (len(change) / years) ** 0.5) * 100, 1)
        row["drawdown_pct"] = round(float(fall[trough]) * 100, 1)
        row["peak"], row["trough"] = day(s[:trough].idxmax()), day(trough)
        if years >= 1:
            row["cagr_pct"] = round(float((s.iloc[-1] / s.iloc[0]) ** (1 / years) - 1) * 100, 1)
        return row

"""
LEVELS = """\
    def level_summary(label, s):
        return {"label": label, "n": len(s), "start": day(s.index[0]), "end": day(s.index[-1]),
                "first": round(float(s.iloc[0]), 4), "last": round(float(s.iloc[-1]), 4),
                "change": round(float(s.iloc[-1] - s.iloc[0]), 4), "mean": round(float(s.mean()), 2),
                "min": round(float(s.min()), 4), "min_date": day(s.idxmin()),
                "max": round(float(s.max()), 4), "max_date": day(s.idxmax())}

"""
RETURN_PRICES = "    rows = [price_summary(label, s) for label, s in on_common_period(prices).items()]\n"
RETURN_LEVELS = "    rows += [level_summary(label, s) for label, s in on_common_period(levels).items()]\n"
PRINT = """\
    return rows

for_prices = [{prices}]
for_levels = [{levels}]
print(*(json.dumps(row, ensure_ascii=False) for row in summaries(for_prices, for_levels)), sep="\\n")
"""
SIMPLE = '''\
import json

def first_and_last(columns):
    """The ends of each series: the little that needs no calculation."""
    for sheet, column, label in columns:
        rows = sheet[["date", column]].dropna()
        first, last = rows.iloc[0], rows.iloc[-1]
        yield {"label": label, "n": len(rows), "start": str(first["date"])[:10], "end": str(last["date"])[:10],
               "first": round(float(first[column]), 4), "last": round(float(last[column]), 4)}

print(*(json.dumps(row, ensure_ascii=False) for row in first_and_last([{columns}])), sep="\\n")
'''
VALUE = '''\
import json
import pandas as pd

def values_at(columns, moment):
    """The values on a day, the last ones before it, or the last of all; of a month or year that starts so."""
    for sheet, column, label in columns:
        s = sheet.set_index(pd.to_datetime(sheet["date"]))[column].dropna()
        within = s[[str(date).startswith(moment) for date in s.index]] if moment else s
        if within.empty and len(moment) == 10:
            within = s[: pd.Timestamp(moment)]
        if within.empty:
            yield {"label": label, "n": 0}
        else:
            yield {"label": label, "n": len(within), "date": str(within.index[-1])[:10],
                   "value": round(float(within.iloc[-1]), 4)}

print(*(json.dumps(row, ensure_ascii=False) for row in values_at([{columns}], {moment!r})), sep="\\n")
'''
FIGURE = '''\
import pandas as pd
import plotly.express as px

def lines(columns, rebase):
    """The series side by side; rebased, each is 100 on the first date that all have."""
    frame = pd.concat({label: sheet.set_index(pd.to_datetime(sheet["date"]))[column]
                       for sheet, column, label in columns}, axis=1).sort_index()
    frame = frame[frame.apply(lambda s: s.first_valid_index()).max():].ffill()
    return frame / frame.iloc[0] * 100 if rebase else frame

'''
DRAW = """\
frame = lines([{columns}], rebase={rebase})
fig = px.line(frame, title={title!r}, labels={{"value": {value!r}, "date": {date!r}, "variable": ""}})
fig.show()
"""
PANELS = '''\
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

def panels_of(panels, title):
    """One panel per unit; prices are rebased, each to 100 on its first date."""
    fig = make_subplots(rows=len(panels), cols=1, shared_xaxes=True)
    for row, (axis, rebase, columns) in enumerate(panels, 1):
        for sheet, column, label in columns:
            s = sheet.set_index(pd.to_datetime(sheet["date"]))[column].dropna()
            fig.add_trace(go.Scatter(x=s.index, y=s / s.iloc[0] * 100 if rebase else s, name=label), row=row, col=1)
        fig.update_yaxes(title_text=axis, row=row, col=1)
    return fig.update_layout(title=title)

'''
DRAW_PANELS = """\
fig = panels_of([{panels}], {title!r})
fig.show()
"""


def listed(series: Sequence[Series]) -> str:
    """Format the series as arguments: sheet, column name, label."""
    return ", ".join(f"({one.variable}, {one.column!r}, {one.label!r})" for one in series)


def summary_cell(series: Sequence[Series]) -> str:
    """Return a cell that summarizes prices, rates and levels, printing one line of JSON per series."""
    prices = [one for one in series if one.price]
    levels = [one for one in series if not one.price]
    parts = [SUMMARY, PRICES if prices else "", LEVELS if levels else ""]
    parts.append(RETURN_PRICES if prices else "    rows = []\n")
    parts.append(RETURN_LEVELS if levels else "")
    parts.append(PRINT.replace("{prices}", listed(prices)).replace("{levels}", listed(levels)))
    return "".join(parts)


def simple_cell(series: Sequence[Series]) -> str:
    """Return a cell for first and last values only, as a fallback when the summary failed."""
    return SIMPLE.replace("{columns}", listed(series))


def value_cell(series: Sequence[Series], moment: str) -> str:
    """Return a cell for one value per series, at a moment or the last one."""
    return VALUE.replace("{columns}", listed(series)).replace("{moment!r}", repr(moment))


def figure_cell(series: Sequence[Series], title: str, chinese: bool) -> str:
    """Return a cell that draws a line chart: prices rebased to 100, rates and levels as is, one panel per unit."""
    rebased = "起点 = 100" if chinese else "first date = 100"
    panels: dict[tuple[str, bool], list[Series]] = {}
    for one in series:
        panels.setdefault((rebased if one.price else one.unit, one.price), []).append(one)
    if len(panels) > 1:
        shown = ", ".join(f"({axis!r}, {rebase}, [{listed(found)}])" for (axis, rebase), found in panels.items())
        return PANELS + DRAW_PANELS.format(panels=shown, title=title)
    [(axis, rebase)] = panels
    value = ("起点 = 100" if chinese else "first common date = 100") if rebase else axis or "value"
    date = "日期" if chinese else "date"
    return FIGURE + DRAW.format(columns=listed(series), rebase=rebase, title=title, value=value, date=date)
