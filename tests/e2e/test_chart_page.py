"""Charts on the page in headless Chromium: the line below them, the log scale, panels, and figures without values."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, expect
from tests.e2e.script import Script, draw_figure
from tests.e2e.test_answer_page import show_answer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]

NOTE = "each value over that of 2015-01-02, times 100"


def line(values: list[float], title: str, **layout: Any) -> dict[str, Any]:
    """Return a line as plotly JSON."""
    trace = {"type": "scatter", "x": ["2020-01-01", "2020-02-01", "2020-03-01"][: len(values)], "y": values}
    return {"data": [trace], "layout": {"title": {"text": title}, **layout}}


def show(*figures: dict[str, Any]) -> Script:
    """Return a script whose answer consists of these figures."""
    answer = "\n\n".join(f"{{{{figure:fig_{number}}}}}" for number in range(1, len(figures) + 1))
    return Script(answer=answer, days=300, figures=list(figures))


async def test_a_chart_says_below_how_it_was_computed_and_from_where(browser: Browser) -> None:
    figure = draw_figure(Script(days=300))
    figure["layout"]["meta"] = {"note": NOTE}
    async with show_answer(browser, show(figure)) as watched:
        below = watched.page.locator(".plotly-figure .note")
        await expect(below).to_have_text(f"{NOTE} · source: synthetic 1.0 · data as of 2020-10-15")


async def test_the_log_scale_is_offered_where_values_lie_far_apart(browser: Browser) -> None:
    figures = (
        line([1, 10, 90], "steep"),
        line([1, 2, 3], "flat"),
        line([-1, 10, 90], "below 0"),
        line([0.1, 2, 5], "a rate", meta={"note": "", "log": False}),
    )
    async with show_answer(browser, show(*figures)) as watched:
        page = watched.page
        await expect(page.locator(".plotly-figure .nsewdrag")).to_have_count(4)
        offered = page.get_by_role("button", name="Log scale")
        await expect(offered).to_have_count(1)
        await offered.press("Enter")
        await expect(offered).to_have_attribute("aria-pressed", "true")
        await page.wait_for_function("() => document.querySelector('.plot').layout.yaxis.type === 'log'")
        await offered.press("Enter")
        await page.wait_for_function("() => document.querySelector('.plot').layout.yaxis.type !== 'log'")


async def test_panels_above_each_other_get_room_and_a_figure_without_values_says_so(browser: Browser) -> None:
    panels = line([1, 2, 3], "panels", yaxis={"domain": [0.55, 1]}, yaxis2={"domain": [0, 0.45], "anchor": "x"})
    panels["data"].append({**panels["data"][0], "yaxis": "y2"})
    async with show_answer(browser, show(line([1, 2, 3], "one"), panels, line([], "empty"))) as watched:
        page = watched.page
        await expect(page.locator(".plotly-figure .nsewdrag")).to_have_count(3)
        boxes = [await plot.bounding_box() for plot in await page.locator(".plot").all()]
        heights = [box["height"] for box in boxes if box is not None]
        assert heights[1] > heights[0] + 100
        assert heights[2] < 100
        await expect(page.locator(".plot").nth(2)).to_have_text("fig_3: there are no values to draw")


async def test_bars_by_name_have_a_row_each(browser: Browser) -> None:
    names = [f"company {number}" for number in range(24)]
    bars = {"type": "bar", "orientation": "h", "x": list(range(24)), "y": names}
    figures = [{"data": [bars], "layout": {"title": {"text": "many"}}}, line([1, 2, 3], "one")]
    async with show_answer(browser, show(*figures)) as watched:
        page = watched.page
        await expect(page.locator(".plotly-figure .nsewdrag")).to_have_count(2)
        boxes = [await plot.bounding_box() for plot in await page.locator(".plot").all()]
        heights = [box["height"] for box in boxes if box is not None]
        assert heights[0] > heights[1] + 200
        # Plotly leaves out every other name where there is no room.
        await expect(page.locator(".plot").first.locator(".ytick")).to_have_count(24)


async def test_the_ranges_of_many_days_never_lie_over_the_names_of_the_lines(browser: Browser) -> None:
    days = [f"{day:%Y-%m-%d}" for day in pd.date_range("2015-01-01", periods=600)]
    lines = [{"type": "scatter", "name": f"line {number}", "x": days, "y": [1.0] * 600} for number in range(10)]
    figure = {"data": lines, "layout": {"title": {"text": "many"}, "xaxis": {"type": "date"}}}
    async with show_answer(browser, show(figure)) as watched:
        plot = watched.page.locator(".plot")
        ranges = await plot.locator(".rangeselector").bounding_box()
        names = await plot.locator(".legend").bounding_box()
        assert ranges is not None
        assert names is not None
        beside = names["x"] + names["width"] <= ranges["x"]
        assert beside or ranges["y"] + ranges["height"] <= names["y"], (ranges, names, await plot.bounding_box())
