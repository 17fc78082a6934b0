"""The trace of a run: what its rows and its one line say."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.mark.parametrize(("locale", "width", "said"), [("en-US", 1440, "cached"), ("zh-CN", 420, "来自缓存")])
async def test_a_result_that_was_held_says_so_live_and_in_the_record(
    browser: Browser, locale: str, width: int, said: str
) -> None:
    async with serve_script(Script(days=30, cached="data")) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        await ask(page)
        for _ in range(2):
            await expect(page.locator(".trace.over")).to_be_visible()
            await page.locator(".trace > details > summary").press("Enter")
            rows = page.locator(".trace .row[data-tool]")
            await expect(rows.locator(".state.cached")).to_have_count(1)
            await expect(page.locator(".trace .row[data-tool=data] .state.cached")).to_have_text(said)
            await check(page, "cached result")
            # As the record has it, too.
            await page.reload()
        assert (watched.outside, watched.complaints) == ([], [])


@pytest.mark.parametrize(
    ("locale", "width", "step", "summary"),
    [("en-US", 1440, "step 2", "5 steps · 2 sources · 1 sheet"), ("zh-CN", 900, "第 2 步", "5 步 · 2 个来源 · 1 张表")],
)
async def test_the_line_says_the_step_and_then_how_many_sources_the_answer_rests_on(
    browser: Browser, locale: str, width: int, step: str, summary: str
) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        # Before the result of the second call.
        house.planner.hold(6)
        await ask(page)
        await expect(page.locator(".trace summary .step")).to_have_text(step)
        await check(page, "running step")
        house.planner.release()
        # The note and the table: both are cited. The calculation is none, it was made of the table.
        line = page.locator(".trace.over > details > summary")
        await expect(line).to_contain_text(summary)
        await expect(line.locator(".step")).to_have_count(0)
        assert (watched.outside, watched.complaints) == ([], [])


@pytest.mark.parametrize(
    ("cited", "said"), [([3], "1 source ·"), ([1], "1 source ·"), ([4], "5 steps · 1 source · 1 sheet")]
)
async def test_what_is_not_cited_is_no_source(browser: Browser, cited: list[int], said: str) -> None:
    answer = "It fell less [1]." if 1 in cited else "It fell less. {{table:sheet_1}}"
    async with serve_script(Script(days=30, cited=cited, answer=answer)) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await expect(page.locator(".trace.over")).to_contain_text(said)


async def test_an_answer_that_cites_nothing_has_no_sources(browser: Browser) -> None:
    async with serve_script(Script(days=30, cited=[], answer="Nothing is known of it.")) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await expect(page.locator(".trace.over")).to_contain_text("5 steps · 1 sheet")


@pytest.mark.parametrize(
    ("locale", "theme", "width", "day"),
    [("en-US", "light", 1440, "Mar 1, 2024"), ("zh-CN", "dark", 420, "2024年3月1日")],
)
async def test_rows_lead_to_the_documents_tables_and_cells_that_they_brought(
    browser: Browser, locale: str, theme: str, width: int, day: str
) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, theme=theme, width=width)
        page = watched.page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        await page.locator(".trace > details > summary").press("Enter")
        for tool, tab, number in (("search", "sources", 1), ("data", "data", 2), ("python", "code", 3)):
            row = page.locator(f".trace .row[data-tool={tool}]").last
            await row.locator("summary").press("Enter")
            way = row.locator(f"[data-way='{number}']")
            await expect(way).to_be_visible()
            if tool == "search":
                # A hit with its title, where it is from and its day.
                await expect(row.locator(".hits li")).to_have_text(
                    f"[1] Drawdownown notes · {day}largest loss from a peak"
                )
            await check(page, f"row of {tool}")
            await way.press("Enter")
            await expect(page.locator("#panel-body")).to_have_attribute("aria-labelledby", f"tab-{tab}")
            await expect(page.locator(f"#panel-body [data-number='{number}'].flash")).to_be_visible()
            await check(page, f"way to {tab}")
            if width < 1280:
                await page.keyboard.press("Escape")
                await expect(way).to_be_focused()
            await row.locator("summary").press("Enter")
        assert (watched.outside, watched.complaints) == ([], [])


async def test_a_hit_that_was_not_read_and_an_odd_one_of_another_server_lead_nowhere(browser: Browser) -> None:
    """Servers of others answer as they like: numbers, objects and no days are text as well."""
    odd = [{"id": "other", "title": "Not read", "time": "last week", "place": "memo.pdf p. 3"}, {"title": {"a": 1}}, 7]
    async with serve_script(Script(days=30, hits=odd)) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        await page.locator(".trace > details > summary").press("Enter")
        row = page.locator(".trace .row[data-tool=search]")
        await row.locator("summary").press("Enter")
        await expect(row.locator(".hits li")).to_have_text(["Not readmemo.pdf p. 3 · last week", '{"a":1}', "7"])
        await expect(row.locator("[data-way]")).to_have_count(0)
        assert (watched.outside, watched.complaints) == ([], [])
