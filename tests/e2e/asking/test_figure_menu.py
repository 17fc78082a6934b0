"""Files that a reader saves from a figure in a real browser, and the way from a figure to its code."""

from __future__ import annotations

import asyncio
import csv
import io
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.e2e.asking.test_figure_zoom import make_script
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import Script, draw_figure, trading_days, walk
from tests.e2e.test_answer_page import show_answer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]


async def download(page: Page, entry: str) -> tuple[str, bytes]:
    """Save the figure by that entry of its menu; return the file's name and content."""
    # A menu that is still closing would take the press that is to open it again.
    await expect(page.get_by_role("menu")).to_have_count(0)
    await page.locator(".plotly-figure .more").click()
    async with page.expect_download() as waiting:
        await page.get_by_role("menuitem", name=entry).click()
    saved = await waiting.value
    path: Path = await saved.path()
    return saved.suggested_filename, await asyncio.to_thread(path.read_bytes)


async def test_a_figure_is_saved_as_picture_drawing_and_values(browser: Browser) -> None:
    script = make_script()
    async with show_answer(browser, script) as watched:
        page = watched.page
        await expect(page.locator(".plotly-figure .nsewdrag").first).to_be_visible()
        name, content = await download(page, "Picture (PNG)")
        assert (name, content[:8]) == ("Growth of 100.png", b"\x89PNG\r\n\x1a\n")
        name, content = await download(page, "Drawing (SVG)")
        assert (name, content[:5]) == ("Growth of 100.svg", b"<svg ")
        name, content = await download(page, "Values (CSV)")
        assert (name, content[:3]) == ("Growth of 100.csv", b"\xef\xbb\xbf")
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))
        assert rows[0] == ["date", "AAA.close_adj", "BBB.close_adj"]
        # One row per day, then an empty one, the title and the sources.
        assert rows.index([]) == script.days + 1
        assert rows[script.days + 2] == ["Growth of 100"]


@pytest.mark.parametrize(
    ("locale", "name", "rows"),
    [("en-US", "Values", "The last 200 of 600 rows"), ("zh-CN", "数值", "最后 200 行，共 600 行")],
)
async def test_the_values_of_a_figure_are_a_table_of_bounded_length(
    browser: Browser, locale: str, name: str, rows: str
) -> None:
    script = make_script()
    async with serve_script(script) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await ask(page)
        figure = page.locator(".plotly-figure")
        await expect(figure.locator(".nsewdrag").first).to_be_visible()
        button = figure.get_by_role("button", name=name, exact=True)
        await expect(button).to_have_attribute("aria-expanded", "false")
        await button.press("Enter")
        await expect(button).to_have_attribute("aria-expanded", "true")
        table = figure.get_by_role("table", name="Growth of 100")
        await expect(table.get_by_role("columnheader")).to_have_text(["date", "AAA.close_adj", "BBB.close_adj"])
        await expect(table.get_by_role("row")).to_have_count(201)
        await expect(figure.locator(".values")).to_contain_text(rows)
        last = trading_days(script.days)[-1].isoformat()
        await expect(table.get_by_role("rowheader").last).to_have_text(last)
        # The first is over the value of the second day, as the drawing is.
        value = walk(script.days, 0.0008, 1)[-1] / walk(script.days, 0.0008, 1)[1] * 100
        await expect(table.get_by_role("row").last.get_by_role("cell").first).to_have_text(f"{value:,.2f}")
        await button.press("Enter")
        await expect(table).to_have_count(0)
        await expect(button).to_be_focused()
        assert (watched.outside, watched.complaints) == ([], [])


async def test_a_figure_leads_to_the_code_that_drew_it(browser: Browser) -> None:
    script = make_script()
    async with show_answer(browser, script) as watched:
        page = watched.page
        await page.locator(".plotly-figure").get_by_role("button", name="Code", exact=True).click()
        # Among the code of the run, where it can be run again, under the number that it is cited by.
        await expect(page.locator("#tab-code")).to_have_attribute("aria-selected", "true")
        cell = page.locator('#panel-body [data-number="3"]')
        await expect(cell).to_be_in_viewport()
        await expect(cell).to_contain_text('px.line(growth, title="Growth of 100")')


async def test_the_values_of_candlesticks_are_their_four_prices(browser: Browser) -> None:
    script = make_script()
    days = [day.isoformat() for day in trading_days(3)]
    prices = {"open": [1.5, 2.5, 3.5], "high": [4, 5, 6], "low": [0.5, 1, 2], "close": [2, 3, 4]}
    trace = {"type": "candlestick", "name": "AAA", "x": days, **prices}
    script.figures = [
        {"data": [trace], "layout": {"title": {"text": "AAA by day"}, "xaxis": {"title": {"text": "date"}}}}
    ]
    async with show_answer(browser, script) as watched:
        page = watched.page
        figure = page.locator(".plotly-figure")
        await expect(figure.locator(".nsewdrag").first).to_be_visible()
        name, content = await download(page, "Values (CSV)")
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))
        assert (name, rows[0]) == ("AAA by day.csv", ["date", "AAA open", "AAA high", "AAA low", "AAA close"])
        assert rows[1][1:] == ["1.5", "4", "0.5", "2"]
        assert rows[3][1:] == ["3.5", "6", "2", "4"]
        await figure.get_by_role("button", name="Values", exact=True).press("Enter")
        table = figure.get_by_role("table", name="AAA by day")
        await expect(table.get_by_role("row")).to_have_count(4)
        await expect(table.get_by_role("row").last.get_by_role("cell")).to_have_text(["3.5", "6", "2.0", "4"])


@pytest.mark.parametrize(
    ("locale", "said", "button", "values"),
    [
        ("en-US", "of 8,000 points are drawn", "Draw all points", "Values"),
        ("zh-CN", "共 8,000 个点，绘出", "绘出全部点", "数值"),
    ],
)
async def test_a_figure_of_many_points_says_how_many_it_draws_and_draws_all_when_asked(
    browser: Browser, locale: str, said: str, button: str, values: str
) -> None:
    script = Script(answer="{{figure:fig_1}}", days=4_000)
    script.figures = [draw_figure(script)]
    count = "document.querySelector('.plot')._fullData.reduce((sum, trace) => sum + trace.y.length, 0)"
    async with serve_script(script) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await ask(page)
        notice = page.locator(".plotly-figure .thinned")
        await expect(notice).to_contain_text(said)
        await expect(page.locator(".plotly-figure .nsewdrag").first).to_be_visible()
        assert 3_000 < await page.evaluate(count) <= 5_000
        await check(page, "thinned")
        # What is read and saved has every day.
        await page.get_by_role("button", name=values, exact=True).click()
        await expect(page.locator(".values p")).to_contain_text("4,000")
        _, content = await download(page, "Values (CSV)" if locale == "en-US" else "数值（CSV）")
        assert len(list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))) >= 4_001
        await notice.get_by_role("button", name=button).click()
        await page.wait_for_function(f"{count} === 8000")
        await expect(notice.get_by_role("button", name=button)).to_have_attribute("aria-pressed", "true")
        await expect(notice).not_to_contain_text(said)
        assert (watched.outside, watched.complaints) == ([], [])


async def test_a_figure_of_few_points_says_nothing_of_them(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        await expect(watched.page.locator(".plotly-figure .nsewdrag").first).to_be_visible()
        await expect(watched.page.locator(".thinned")).to_have_count(0)
