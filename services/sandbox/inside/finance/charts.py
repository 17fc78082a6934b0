"""Charts of the measure that was asked for, with title, units and axis titles, in plotly."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import (
    check_choice,
    count_per_year,
    has_dates,
    has_returns,
    is_rate,
    read_series,
    read_window,
    unit_of,
)
from fathom.services.sandbox.inside.finance.portfolios import spread
from fathom.services.sandbox.inside.finance.returns import EVERY, describe_kind, period_returns
from fathom.services.sandbox.inside.finance.risk import correlation, describe_counts, drawdown, rolling, to_moves

# In English and Chinese. A name with "axis" is short, since it stands along an axis; one with "note" says below the
# chart how it was computed.
TEXTS = MappingProxyType(
    {
        "levels": ("levels", "水平值"),
        "rebased": ("rebased, {0} = 100", "以{0}为100"),
        "drawdown": ("drawdown", "回撤"),
        "volatility": ("annualised volatility over {0} observations", "{0}期滚动年化波动率"),
        "rolling correlation": ("correlation over {0} common dates", "{0}个共同日期的滚动相关系数"),
        "correlation": ("correlation", "相关系数"),
        "spread": ("difference", "差值"),
        "bars": ("return by {0}", "各{0}收益率"),
        "columns": ("values", "数值"),
        "histogram": ("distribution of {0}", "{0}的分布"),
        "scatter": ("{0}", "{0}"),
        "drawdown axis": ("drawdown, %", "回撤（%）"),
        "volatility axis": ("volatility, % a year", "年化波动率（%）"),
        "bars axis": ("return, %", "收益率（%）"),
        "move axis": ("{0}, {1}", "{0}（{1}）"),
        "log axis": ("{0} (log scale)", "{0}（对数坐标）"),
        "date": ("date", "日期"),
        "value": ("value", "数值"),
        "count": ("observations", "观测数"),
        "points": ("percentage points", "百分点"),
        "fit": ("fit: slope {0:.3g}, R² {1:.3f}", "拟合线：斜率{0:.3g}，R² {1:.3f}"),
        "more": ("{0} and {1} more", "{0}等{1}项"),
        "rebased note": ("each value over that of {0}, times 100; {1}", "各值除以{0}的值，再乘以100；{1}"),
        "drawdown note": ("fall from the highest value since {0}; {1}", "自{0}以来最高值的跌幅；{1}"),
        "volatility note": (
            "standard deviation of the last {0} simple returns times the root of {1} periods a year; {2}",
            "最近{0}个简单收益率的标准差乘以每年期数{1}的平方根；{2}",
        ),
        "correlation note": (
            "Pearson correlation of {0} on {1:,} common dates",
            "{0}在{1:,}个共同日期上的皮尔逊相关系数",
        ),
        "rolling correlation note": (
            "Pearson correlation of {0} over the last {1} common dates",
            "{0}在最近{1}个共同日期上的皮尔逊相关系数",
        ),
        "spread note": ("{0} less {1} on common dates", "共同日期上{0}减{1}"),
        "bars note": (
            "each {0} from the last value of the {0} before, the first from its own first value; {1}",
            "每{0}以上一{0}最后一个值为基准，首{0}以其第一个值为基准；{1}",
        ),
        "histogram note": ("each value on the one before it", "逐期计算"),
        "scatter note": ("a dot per common date, each value on the one before it", "每点为一个共同日期，逐期计算"),
        "log note": (
            "values span a factor of {0:,.0f}: on a log scale equal slopes are equal rates of change",
            "数值相差{0:,.0f}倍：对数坐标下斜率相同即变化率相同",
        ),
    }
)
# More names make a title longer than its line; each is in the legend in full.
MAX_NAMES, MAX_NAME_CHARS = 3, 40
# A line of so few dates shows each of them; of one date it would show nothing.
MAX_MARKED = 40
# Pages have six colours; after those the stroke tells two lines apart.
COLOURS, STROKES = 6, ("solid", "dash", "dot", "dashdot")
# Labels that stand side by side, and bars that are wider than a column of text.
MAX_TICKS, FEW_BARS = 12, 3
# Pixels of a chart of bars by name: of the least one, and for each bar, whose name stands beside it.
MIN_HEIGHT, HEIGHT_OF_BAR = 360, 26
# The measure that takes a table of names as well.
NAMED = "columns"
# From this factor between largest and smallest value on, the early part of a linear chart is flat.
LOG_FACTOR = 20


@dataclass(frozen=True)
class Style:
    """Language (0 English, 1 Chinese), observations of rolling measures, and the period of bars."""

    language: int
    window: int
    every: str

    def say(self, name: str, *values: Any) -> str:
        """Return a text in the chart's language; a pair among the values is one text in both."""
        return TEXTS[name][self.language].format(*(v[self.language] if isinstance(v, tuple) else v for v in values))


@dataclass(frozen=True)
class Drawing:
    """A figure, what it shows for its title, and how that was computed for the line below it."""

    figure: Any
    text: str
    note: str = ""


def chart(
    data: Any,
    measure: str = "levels",
    title: str = "",
    start: Any = None,
    end: Any = None,
    window: int = 60,
    every: str = "year",
    language: str = "en",
    log: bool = False,
) -> Any:
    """Return a plotly figure of a measure; raise ``InvalidArgument`` where it does not fit the data.

    ``measure`` is "levels" (a panel per unit), "rebased" (100 on the first common date, for prices and indices alone),
    "drawdown", "volatility" and "rolling correlation" (over ``window`` observations), "correlation" (heat map),
    "spread" (first column less second), "bars" (returns by ``every``), "columns" (values as they are, by date, or bars
    by name of a table without dates), "histogram" (of returns, or of differences of rates), or "scatter" (second column
    against first, with fit). ``language`` is "en" or "zh"; ``log`` gives levels and rebased values a logarithmic axis.
    """
    if isinstance(data, str):
        raise InvalidArgument("data", f"comes first and is a table, as in chart(sheet_1, {data!r})")
    if isinstance(measure, str) and measure == NAMED and is_named(data):
        return draw_names(data, title, Style(int(language == "zh"), window, every))
    frame, period = read_series(data, "data"), read_window(start, end, "first")
    check_choice(measure, MEASURES, "measure")
    attrs, frame = frame.attrs, frame.loc[period.start : period.end].dropna(how="all")
    frame.attrs = attrs
    if len(frame) < 2:
        raise InvalidArgument("start", f"leaves {len(frame)} dates, and a chart needs two")
    if (measure in PAIRED) and len(frame.columns) != 2:
        raise InvalidArgument("data", f"has {len(frame.columns)} series, and a {measure} has two")
    style = Style(int(language == "zh"), window, every)
    frame, indicator = drop_common_indicator(frame)
    drawing = MEASURES[measure](frame, style)
    notes = [drawing.note, apply_log(drawing.figure, frame, measure, style) if log else hint_log(frame, measure, style)]
    head = f"{join_names(frame.columns, style)}{f' ({indicator})' if indicator else ''}"
    ends = f"{frame.index[0].date()} – {frame.index[-1].date()}"
    meta = {"note": " · ".join(filter(None, notes)), "log": has_log(frame, measure)}
    name_years(drawing.figure, frame)
    return drawing.figure.update_layout(
        title=title or f"{head}: {drawing.text}, {ends}", template="plotly_white", meta=meta
    )


def drop_common_indicator(frame: Any) -> tuple[Any, str]:
    """Return the frame with entities as names and the indicator that all columns share; unchanged and "" without."""
    indicators = {str(frame.attrs.get("indicators", {}).get(column, "")) for column in frame}
    common = indicators.pop() if len(indicators) == 1 else ""
    short = {column: column.removesuffix(f".{common}") for column in frame}
    if not common or any(one == other for one, other in short.items()) or len(set(short.values())) < len(short):
        return frame, ""
    renamed = frame.rename(columns=short)
    renamed.attrs = {
        key: {short.get(column, column): value for column, value in facts.items()} for key, facts in frame.attrs.items()
    }
    return renamed, common


def join_names(names: Any, style: Style) -> str:
    """Return the names as a title lists them: long ones shortened, and of many the first."""
    short = [name if len(name) <= MAX_NAME_CHARS else f"{name[: MAX_NAME_CHARS - 1]}…" for name in names]
    shown = ("、" if style.language else ", ").join(short[:MAX_NAMES])
    # In Chinese the number is that of all, as 等 is used; in English that of the rest.
    count = len(short) if style.language else len(short) - MAX_NAMES
    return style.say("more", shown, count) if len(short) > MAX_NAMES else shown


def name_years(figure: Any, frame: Any) -> None:
    """Name the dates of annual values by their years.

    Values dated to the end of a year would stand beside the tick of the next one.
    """
    is_dated = all(trace.type == "scatter" and isinstance(trace.x[0], np.datetime64) for trace in figure.data)
    if is_dated and frame.index.is_unique and frame.index.year.is_unique:
        dates = frame.index[:: max(1, len(frame) // MAX_TICKS)]
        figure.update_xaxes(tickvals=dates, ticktext=dates.strftime("%Y"))


def has_log(frame: Any, measure: str) -> bool:
    """Return whether a log scale means something: for values of one unit, all above 0, that are no rates."""
    is_single = len({unit_of(frame, column) for column in frame}) == 1
    return measure in LOGARITHMIC and is_single and all(has_returns(frame, column) for column in frame)


def hint_log(frame: Any, measure: str, style: Style) -> str:
    """Return the note that values differ by so much that a log scale shows more; "" otherwise."""
    if not has_log(frame, measure):
        return ""
    factor = np.nanmax(frame.to_numpy()) / np.nanmin(frame.to_numpy())
    return style.say("log note", factor) if factor >= LOG_FACTOR else ""


def apply_log(figure: Any, frame: Any, measure: str, style: Style) -> str:
    """Give the figure's values logarithmic axes; raise ``InvalidArgument`` for what has none."""
    if measure not in LOGARITHMIC:
        raise InvalidArgument("log", f"is for {' and '.join(LOGARITHMIC)}, not for {measure}")
    for column in frame:
        if (frame[column].dropna() <= 0).any():
            raise InvalidArgument("log", f"needs values above 0, and {column} is not always")
    figure.for_each_yaxis(lambda axis: axis.update(type="log", title_text=style.say("log axis", axis.title.text)))
    return ""


def make_line(column: str, one: Any, position: int) -> Any:
    """Return the line of a series; ``position`` among the lines decides its stroke."""
    stroke = STROKES[position // COLOURS % len(STROKES)]
    mode = "lines+markers" if len(one) <= MAX_MARKED else "lines"
    return go.Scatter(x=one.index, y=one, name=column, mode=mode, line={"dash": stroke})


def draw_lines(frame: Any, axis: str, style: Style) -> Any:
    """Return a line per column over the dates."""
    figure = go.Figure([make_line(*line, place) for place, line in enumerate(drop_gaps(frame))])
    return figure.update_xaxes(title_text=style.say("date")).update_yaxes(title_text=axis)


def drop_gaps(frame: Any) -> list[tuple[str, Any]]:
    """Return each column with its own dates, so that its line has no gap where another series has a date."""
    return [(column, frame[column].dropna()) for column in frame]


def draw_levels(frame: Any, style: Style) -> Drawing:
    """Draw the values as they are, a panel per unit."""
    units = list(dict.fromkeys(unit_of(frame, column) for column in frame))
    figure = make_subplots(rows=len(units), cols=1, shared_xaxes=True, vertical_spacing=0.15 / len(units))
    for place, (column, one) in enumerate(drop_gaps(frame)):
        figure.add_trace(make_line(column, one, place), row=units.index(unit_of(frame, column)) + 1, col=1)
    for row, unit in enumerate(units, 1):
        figure.update_yaxes(title_text=unit or style.say("value"), row=row, col=1)
    return Drawing(figure.update_xaxes(title_text=style.say("date"), row=len(units), col=1), style.say("levels"))


def draw_rebased(frame: Any, style: Style) -> Drawing:
    """Draw prices or indices as 100 on the first common date; refuse rates and what is not always above 0."""
    for column in frame:
        if not has_returns(frame, column):
            why = f"is in {unit_of(frame, column)}" if is_rate(frame, column) else "is not always above 0"
            raise InvalidArgument("measure", f"'rebased' is for prices and indices, and {column} {why}: draw 'levels'")
    first = frame.dropna().index
    if not len(first):
        raise InvalidArgument("data", "has no date on which all series have a value: draw 'levels'")
    text = style.say("rebased", first[0].date())
    note = style.say("rebased note", first[0].date(), describe_kind(frame))
    return Drawing(draw_lines(frame.loc[first[0] :] / frame.loc[first[0]] * 100, text, style), text, note)


def draw_drawdown(frame: Any, style: Style) -> Drawing:
    """Draw the falls from the highest value so far."""
    note = style.say("drawdown note", frame.index[0].date(), describe_kind(frame))
    figure = draw_lines(drawdown(frame) * 100, style.say("drawdown axis"), style)
    return Drawing(figure, style.say("drawdown"), note)


def draw_volatility(frame: Any, style: Style) -> Drawing:
    """Draw the rolling volatility."""
    counts = describe_counts({column: count_per_year(one.index) for column, one in drop_gaps(frame)})
    note = style.say("volatility note", style.window, counts, describe_kind(frame))
    figure = draw_lines(rolling(frame, style.window) * 100, style.say("volatility axis"), style)
    return Drawing(figure.update_yaxes(rangemode="tozero"), style.say("volatility", style.window), note)


def draw_rolling_correlation(frame: Any, style: Style) -> Drawing:
    """Draw the rolling correlation of two series, with a line at 0."""
    note = style.say("rolling correlation note", to_moves(frame)[1], style.window)
    figure = draw_lines(rolling(frame, style.window, "correlation"), style.say("correlation"), style)
    return Drawing(figure.add_hline(y=0, line_width=1), style.say("rolling correlation", style.window), note)


def draw_correlation(frame: Any, style: Style) -> Drawing:
    """Draw the matrix of correlations as a heat map, the first series on top."""
    matrix, common = correlation(frame), frame.dropna()
    names = list(matrix.columns)
    cells = go.Heatmap(
        z=matrix,
        x=names,
        y=names,
        zmin=-1,
        zmax=1,
        colorscale="RdBu",
        texttemplate="%{z:.2f}",
        hovertemplate="%{y} – %{x}: %{z:.3f}<extra></extra>",
    )
    common.attrs = frame.attrs
    moves, kind = to_moves(common)
    figure = go.Figure(cells).update_yaxes(autorange="reversed").update_layout(hovermode="closest")
    return Drawing(figure, style.say("correlation"), style.say("correlation note", kind, len(moves)))


def draw_spread(frame: Any, style: Style) -> Drawing:
    """Draw the first series less the second."""
    pair = [frame[[column]] for column in frame]
    for one in pair:
        one.attrs = frame.attrs
    found = spread(*pair)
    unit = unit_of(found, found.columns[0])
    axis = style.say("points") if unit == TEXTS["points"][0] else unit or style.say("value")
    figure = draw_lines(found, axis, style).add_hline(y=0, line_width=1)
    return Drawing(figure, style.say("spread"), style.say("spread note", *frame.columns))


def draw_bars(frame: Any, style: Style) -> Drawing:
    """Draw the return of each period."""
    found, every = period_returns(frame, style.every) * 100, (style.every, EVERY[style.every][2])
    figure = go.Figure([go.Bar(x=found.index, y=found[column], name=column) for column in found])
    figure.update_xaxes(type="category", nticks=MAX_TICKS).update_yaxes(title_text=style.say("bars axis"))
    # A bar or two would fill the whole width.
    figure.update_layout(bargap=0.2 if len(found) > FEW_BARS else 0.7)
    return Drawing(figure, style.say("bars", every), style.say("bars note", every, describe_kind(frame)))


def draw_columns(frame: Any, style: Style) -> Drawing:
    """Draw the values as they are, a column for each date."""
    units = list(dict.fromkeys(unit_of(frame, column) for column in frame))
    if len(units) > 1:
        raise InvalidArgument("data", f"has values in {', '.join(units)}, and columns stand on one axis: draw 'levels'")
    # Of months and longer periods the day on which the last value fell says nothing.
    form = "%Y" if frame.index.year.is_unique else "%Y-%m" if frame.index.to_period("M").is_unique else "%Y-%m-%d"
    days = frame.index.strftime(form)
    figure = go.Figure([go.Bar(x=days, y=frame[column], name=column) for column in frame])
    figure.update_xaxes(type="category", nticks=MAX_TICKS, title_text=style.say("date"))
    figure.update_yaxes(title_text=units[0] or style.say("value"))
    return Drawing(figure.update_layout(bargap=0.2 if len(frame) > FEW_BARS else 0.7), style.say("columns"))


def is_named(data: Any) -> bool:
    """Return whether a table has a column of texts and one of numbers, and nothing that dates its rows."""
    if not isinstance(data, pd.DataFrame) or isinstance(data.index, (pd.DatetimeIndex, pd.PeriodIndex)):
        return False
    texts, numbers = data.select_dtypes(["object", "string"]), data.select_dtypes("number")
    return bool(len(texts.columns) and len(numbers.columns)) and not any(has_dates(data[one]) for one in data)


def draw_names(data: Any, title: str, style: Style) -> Any:
    """Return a bar for each row, in the order of the table: names of the first column of texts, its first numbers."""
    column = str(data.select_dtypes("number").columns[0])
    values = data[column]
    names: list[str] = []
    for text in data.select_dtypes(["object", "string"]).iloc[:, 0].astype(str):
        name, number = text if len(text) <= MAX_NAME_CHARS else f"{text[: MAX_NAME_CHARS - 1]}…", 2
        # Bars of one name would lie upon each other.
        while name in names:
            name, number = f"{text[: MAX_NAME_CHARS - 5]} ({number})", number + 1
        names.append(name)
    bars = go.Bar(x=values, y=names, orientation="h", text=[f"{value:,.4g}" for value in values], name=column)
    figure = go.Figure(bars).update_yaxes(type="category", autorange="reversed", automargin=True)
    figure.update_xaxes(title_text=unit_of(data, column) or style.say("value"))
    height = max(MIN_HEIGHT, HEIGHT_OF_BAR * len(names))
    figure.update_layout(hovermode="closest", height=height, bargap=0.2 if len(names) > FEW_BARS else 0.7)
    return figure.update_layout(title=title or column, template="plotly_white", meta={"note": "", "log": False})


def draw_histogram(frame: Any, style: Style) -> Drawing:
    """Draw how often returns, or differences of rates, were of which size."""
    moves, kind = scale_moves(frame, style)
    figure = go.Figure(
        [go.Histogram(x=one, name=column, opacity=0.65) for column, one in drop_gaps(moves)]
    ).update_layout(barmode="overlay")
    units = "、".join(dict.fromkeys(filter(None, (unit_of(moves, column) for column in moves))))
    figure.update_yaxes(title_text=style.say("count"))
    figure.update_xaxes(title_text=style.say("move axis", kind, units) if units else kind[style.language])
    return Drawing(figure, style.say("histogram", kind), style.say("histogram note"))


def draw_scatter(frame: Any, style: Style) -> Drawing:
    """Draw the moves of the second series against those of the first, with the line of least squares."""
    common = frame.dropna()
    common.attrs = frame.attrs
    moves, kind = scale_moves(common, style)
    one, other = moves.iloc[:, 0], moves.iloc[:, 1]
    slope, offset = np.polyfit(one, other, 1)
    line = [one.min(), one.max()]
    fit = style.say("fit", slope, one.corr(other) ** 2)
    marks = {"size": 5, "opacity": 0.5}
    dots = go.Scatter(
        x=one, y=other, mode="markers", name=kind[style.language], marker=marks, text=one.index.strftime("%Y-%m-%d")
    )
    figure = go.Figure([dots, go.Scatter(x=line, y=[slope * x + offset for x in line], mode="lines", name=fit)])
    for column, update in zip(moves, (figure.update_xaxes, figure.update_yaxes), strict=True):
        update(title_text=style.say("move axis", column, unit_of(moves, column) or style.say("value")))
    # Small, pale dots could not be seen in the legend.
    figure.update_layout(hovermode="closest", legend={"itemsizing": "constant"})
    return Drawing(figure, style.say("scatter", kind), style.say("scatter note"))


def scale_moves(frame: Any, style: Style) -> tuple[Any, tuple[str, str]]:
    """Return returns in % or differences in their unit, with the units in ``attrs``, and the name of the moves."""
    moves, kind = to_moves(frame)
    units = {}
    for column in moves:
        unit = unit_of(frame, column)
        if has_returns(frame, column):
            moves[column], units[column] = moves[column] * 100, "%"
        else:
            units[column] = style.say("points") if unit.startswith("%") else unit
    moves.attrs = {"units": units}
    return moves, kind


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
        NAMED: draw_columns,
        "histogram": draw_histogram,
        "scatter": draw_scatter,
    }
)
PAIRED = ("rolling correlation", "spread", "scatter")
LOGARITHMIC = ("levels", "rebased")
