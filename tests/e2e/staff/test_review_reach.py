"""Whoever cannot see the staff's area: axe finds nothing serious in any state, in two languages, themes and widths."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Browser, Page

from fathom.services.datafetch.catalog.frameworks import load_frameworks
from fathom.services.planner.config import Config
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.listing import list_prompts
from fathom.services.planner.prompts.selection import Prompts
from tests.e2e.doubles.data import EXAMPLES
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import Script
from tests.e2e.staff.queues import add_items, compare, correct, doubt, open_part, rewrite

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.mark.parametrize(
    ("locale", "theme", "width"),
    [("en-US", "light", 1440), ("en-US", "dark", 1100), ("zh-CN", "dark", 900), ("zh-CN", "light", 420)],
)
async def test_no_state_of_the_area_has_a_serious_finding(
    browser: Browser, locale: str, theme: str, width: int
) -> None:
    """The states of a reviewer's way; the narrow ones need no more room than there is."""
    async with serve_script(Script(days=5)) as house:
        house.planner.prompts = list(list_prompts(Prompts.of(load_catalogue(), Config())).prompts)
        house.datafetch.library = load_frameworks(EXAMPLES)
        await add_items(house.url, compare("one", grade=2), rewrite("two"), doubt("three"), correct("four"))
        page = (await open_page(browser, house.url, width=width, locale=locale, theme=theme)).page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()

        async def look(state: str) -> None:
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state
            await check(page, state)

        await open_part(page, house.url)
        await expect(page.locator("[data-queue]")).to_have_count(5)
        await look("overview")
        await open_part(page, house.url, "comparison")
        await expect(page.locator(".grades")).to_be_visible()
        await look("comparison")
        await page.keyboard.press("3")
        await look("graded")
        await page.keyboard.press("Enter")
        await expect(page.locator(".decided")).to_be_visible()
        await look("decided")
        await page.keyboard.press("n")
        await expect(page.locator(".notice")).to_be_visible()
        await look("empty")
        await open_part(page, house.url, "recheck")
        await expect(page.locator(".judged")).to_be_visible()
        await look("recheck")
        for kind in ("rewriting", "hallucination", "candidate"):
            await open_part(page, house.url, kind)
            await expect(page.locator(".text").first).to_be_visible()
            await look(kind)
            await page.keyboard.press("e")
            await page.locator("#edited").fill("Something else.")
            await expect(page.locator(".difference")).to_be_visible()
            await look(f"{kind} edited")
            await page.keyboard.press("Control+Enter")
            await expect(page.locator(".decided")).to_be_visible()
            await look(f"{kind} decided")
        await open_part(page, house.url, "decisions")
        await page.locator("[data-item] summary").first.click()
        await look("decisions")
        await open_part(page, house.url, "runs")
        await expect(page.locator("[data-run]")).to_have_count(1)
        await look("runs")
        await look_at_files(page, house.url, look)
        await page.route(re.compile("/next$"), lambda route: route.abort())
        await open_part(page, house.url, "candidate")
        await expect(page.get_by_role("alert")).to_be_visible()
        await look("failed")


async def look_at_files(page: Page, url: str, look: Callable[[str], Awaitable[None]]) -> None:
    """Look at the states of the prompts and of the frameworks."""
    await open_part(page, url, "prompts")
    await expect(page.locator("[data-prompt] pre")).to_be_visible()
    await look("prompts")
    await page.locator(".prompt > .choice button").press("Enter")
    await page.locator("#draft").fill("Something else.")
    await expect(page.locator(".difference ins").first).to_be_visible()
    await look("prompt drafted")
    await open_part(page, url, "frameworks")
    await expect(page.locator("[data-framework] pre")).to_be_visible()
    await look("frameworks")
    await page.locator(".framework > .choice button").press("Enter")
    await page.locator("#draft").press("Control+Enter")
    await expect(page.locator(".verdict.accept")).to_be_visible()
    await look("framework drafted")
    await page.locator("#draft").fill("topic: [")
    await page.locator("#draft").press("Control+Enter")
    await expect(page.locator(".faults li")).to_have_count(1)
    await look("framework refused")
