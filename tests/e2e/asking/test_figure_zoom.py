"""The part of a figure that a reader looks at: chosen by hand or by a button, and kept when the page is drawn anew."""

from __future__ import annotations

from datetime import date

import pytest
from playwright.async_api import Browser, Page

from tests.e2e.pages import CHROMIUM, expect
from tests.e2e.script import Script, draw_figure
from tests.e2e.test_answer_page import show_answer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]
RANGE = "JSON.stringify(document.querySelector('.plot')._fullLayout.xaxis.range)"
INK = "document.querySelector('.plot')._fullLayout.font.color"


def make_script() -> Script:
    """Make a run whose answer is one figure of two years of days."""
    script = Script(answer="{{figure:fig_1}}", days=600)
    script.figures = [draw_figure(script)]
    return script


async def read_range(page: Page) -> list[str]:
    """Return the first and the last moment that the figure shows."""
    found: list[str] = await page.evaluate(f"JSON.parse({RANGE})")
    return found


async def test_a_zoom_outlasts_a_change_of_theme(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page = watched.page
        place = page.locator(".plotly-figure .nsewdrag").first
        await place.scroll_into_view_if_needed()
        whole, ink = await page.evaluate(RANGE), await page.evaluate(INK)
        box = await place.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        await page.mouse.move(box["x"] + box["width"] * 0.3, middle)
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=5)
        await page.mouse.up()
        await page.wait_for_function(f"(whole) => {RANGE} !== whole", arg=whole)
        zoomed = await read_range(page)
        await page.locator("#theme").click()
        # The figure's own colours tell that it has been drawn in the other theme.
        await page.wait_for_function(f"(ink) => {INK} !== ink", arg=ink)
        assert await read_range(page) == zoomed


async def test_a_button_shows_the_last_part_of_the_days(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page = watched.page
        buttons = page.locator(".plotly-figure .rangeselector .button")
        await expect(buttons).to_have_count(4)
        whole = await read_range(page)
        await buttons.filter(has_text="6m").click()
        await page.wait_for_function(f"(whole) => {RANGE} !== whole", arg=await page.evaluate("JSON.stringify", whole))
        start, end = await read_range(page)
        assert end == whole[1]
        assert 180 <= (date.fromisoformat(end[:10]) - date.fromisoformat(start[:10])).days <= 185
