"""Charts of the measure that was asked for, with title, units and axis titles, in plotly."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import (
    check_choice,
    has_returns,
    is_rate,
    read_series,
    read_window,
    unit_of,
)
from fathom.services.sandbox.inside.finance.portfolios import spread
from fathom.services.sandbox.inside.finance.returns import EVERY, period_returns
from fathom.services.sandbox.inside.finance.risk import correlation, drawdown, rolling, to_moves

# In English and Chinese.
TEXTS = MappingProxyType(
    {
        "levels": ("levels", "水平值"),
        "rebased": ("rebased, {0} = 100", "以{0}为100"),
        "drawdown": ("drawdown from the highest value so far, %", "自此前最高值的回撤（%）"),
        "volatility": ("annualised volatility over {0} observations, %", "{0}期滚动年化波动率（%）"),
        "rolling correlation": ("correlation of {1} over {0} common dates", "{0}个共同日期{1}的滚动相关系数"),
        "correlation": ("correlation of {0}, {1} common dates", "{0}的相关系数，{1}个共同日期"),
        "spread": ("difference, {0}", "差值（{0}）"),
        "bars": ("return by {0}, %", "各{0}收益率（%）"),
        "histogram": ("distribution of {0}", "{0}的分布"),
        "scatter": ("{0}", "{0}"),
        "date": ("date", "日期"),
        "value": ("value", "数值"),
        "count": ("observations", "观测数"),
        "fit": ("fit: slope {0:.3g}, R² {1:.3f}", "拟合线：斜率{0:.3g}，R² {1:.3f}"),
    }
)


@dataclass(frozen=True)
class Style:
    """Language (0 English, 1 Chinese), observations of rolling measures, and the period of bars."""

    language: int
    window: int
    every: str

    def say(self, name: str, *values: Any) -> str:
        """Return a text in the chart's language; a pair among the values is one text in both."""
        return TEXTS[name][self.language].format(*(v[self.language] if isinstance(v, tuple) else v for v in values))


def chart(
    data: Any,
    measure: str = "levels",
    title: str = "",
    start: Any = None,
    end: Any = None,
    window: int = 60,
    every: str = "year",
    language: str = "en",
) -> Any:
    """Return a plotly figure of a measure; raise ``InvalidArgument`` where it does not fit the data.

    ``measure`` is "levels" (a panel per unit), "rebased" (100 on the first common date, for prices and indices alone),
    "drawdown", "volatility" and "rolling correlation" (over ``window`` observations), "correlation" (heat map),
    "spread" (first column less second), "bars" (returns by ``every``), "histogram" (of returns, or of differences of
    rates), or "scatter" (second column against first, with fit). ``language`` is "en" or "zh".
    """
    if isinstance(data, str):
        raise InvalidArgument("data", f"comes first and is a table, as in chart(sheet_1, {data!r})")
    frame, period = read_series(data, "data"), read_window(start, end, "first")
    check_choice(measure, MEASURES, "measure")
    attrs, frame = frame.attrs, frame.loc[period.start : period.end].dropna(how="all")
    frame.attrs = attrs
    if len(frame) < 2:
        raise InvalidArgument("start", f"leaves {len(frame)} dates, and a chart needs two")
    if (measure in PAIRED) and len(frame.columns) != 2:
        raise InvalidArgument("data", f"has {len(frame.columns)} series, and a {measure} has two")
    style = Style(int(language == "zh"), window, every)
    figure, text = MEASURES[measure](frame, style)
    ends = f"{frame.index[0].date()} – {frame.index[-1].date()}"
    names = ("、" if style.language else ", ").join(frame.columns)
    return figure.update_layout(title=title or f"{names}: {text}, {ends}", template="plotly_white")


def draw_lines(frame: Any, text: str, style: Style) -> Any:
    """Return a line per column over the dates."""
    figure = go.Figure([go.Scatter(x=one.index, y=one, name=column) for column, one in drop_gaps(frame)])
    return figure.update_xaxes(title_text=style.say("date")).update_yaxes(title_text=text)


def drop_gaps(frame: Any) -> list[tuple[str, Any]]:
    """Return each column with its own dates, so that its line has no gap where another series has a date."""
    return [(column, frame[column].dropna()) for column in frame]


def draw_levels(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw the values as they are, a panel per unit."""
    units = list(dict.fromkeys(unit_of(frame, column) for column in frame))
    figure = make_subplots(rows=len(units), cols=1, shared_xaxes=True)
    for column, one in drop_gaps(frame):
        figure.add_trace(
            go.Scatter(x=one.index, y=one, name=column), row=units.index(unit_of(frame, column)) + 1, col=1
        )
    for row, unit in enumerate(units, 1):
        figure.update_yaxes(title_text=unit or style.say("value"), row=row, col=1)
    return figure.update_xaxes(title_text=style.say("date"), row=len(units), col=1), style.say("levels")


def draw_rebased(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw prices or indices as 100 on the first common date; refuse rates and what is not always above 0."""
    for column in frame:
        if not has_returns(frame, column):
            why = f"is in {unit_of(frame, column)}" if is_rate(frame, column) else "is not always above 0"
            raise InvalidArgument("measure", f"'rebased' is for prices and indices, and {column} {why}: draw 'levels'")
    first = frame.dropna().index
    if not len(first):
        raise InvalidArgument("data", "has no date on which all series have a value: draw 'levels'")
    text = style.say("rebased", first[0].date())
    return draw_lines(frame.loc[first[0] :] / frame.loc[first[0]] * 100, text, style), text


def draw_drawdown(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw the falls from the highest value so far."""
    return draw_lines(drawdown(frame) * 100, style.say("drawdown"), style), style.say("drawdown")


def draw_volatility(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw the rolling volatility."""
    text = style.say("volatility", style.window)
    return draw_lines(rolling(frame, style.window) * 100, text, style), text


def draw_rolling_correlation(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw the rolling correlation of two series."""
    text = style.say("rolling correlation", style.window, to_moves(frame)[1])
    return draw_lines(rolling(frame, style.window, "correlation"), text, style), text


def draw_correlation(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw the matrix of correlations as a heat map."""
    matrix, common = correlation(frame), frame.dropna()
    names = list(matrix.columns)
    cells = go.Heatmap(z=matrix, x=names, y=names, zmin=-1, zmax=1, colorscale="RdBu", texttemplate="%{z:.2f}")
    common.attrs = frame.attrs
    moves, kind = to_moves(common)
    return go.Figure(cells), style.say("correlation", kind, len(moves))


def draw_spread(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw the first series less the second."""
    pair = [frame[[column]] for column in frame]
    for one in pair:
        one.attrs = frame.attrs
    found = spread(*pair)
    text = style.say("spread", unit_of(found, found.columns[0]) or style.say("value"))
    figure = draw_lines(found, text, style)
    return figure.add_hline(y=0, line_width=1), text


def draw_bars(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw the return of each period."""
    found = period_returns(frame, style.every) * 100
    text = style.say("bars", (style.every, EVERY[style.every][2]))
    figure = go.Figure([go.Bar(x=found.index, y=found[column], name=column) for column in found])
    return figure.update_xaxes(type="category").update_yaxes(title_text=text), text


def draw_histogram(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw how often returns, or differences of rates, were of which size."""
    moves, kind = to_moves(frame)
    figure = go.Figure([go.Histogram(x=one, name=column, opacity=0.7) for column, one in drop_gaps(moves)])
    figure.update_layout(barmode="overlay").update_yaxes(title_text=style.say("count"))
    return figure.update_xaxes(title_text=kind[style.language]), style.say("histogram", kind)


def draw_scatter(frame: Any, style: Style) -> tuple[Any, str]:
    """Draw the moves of the second series against those of the first, with the line of least squares."""
    common = frame.dropna()
    common.attrs = frame.attrs
    moves, kind = to_moves(common)
    one, other = moves.iloc[:, 0], moves.iloc[:, 1]
    slope, offset = np.polyfit(one, other, 1)
    line = [one.min(), one.max()]
    fit = style.say("fit", slope, one.corr(other) ** 2)
    dots = go.Scatter(x=one, y=other, mode="markers", name=kind[style.language])
    figure = go.Figure([dots, go.Scatter(x=line, y=[slope * x + offset for x in line], mode="lines", name=fit)])
    figure.update_xaxes(title_text=f"{frame.columns[0]}: {kind[style.language]}")
    return figure.update_yaxes(title_text=f"{frame.columns[1]}: {kind[style.language]}"), style.say("scatter", kind)


MEASURES = MappingProxyType(
    {
        "levels": draw_levels,
        "rebased": draw_rebased,
        "drawdown": draw_drawdown,
        "volatility": draw_volatility,
        "rolling correlation": draw_rolling_correlation,
        "correlation": draw_correlation,
        "spread": draw_spread,
        "bars": draw_bars,
        "histogram": draw_histogram,
        "scatter": draw_scatter,
    }
)
PAIRED = ("rolling correlation", "spread", "scatter")
