"""The trace of a run: what its rows and its one line say."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.test_accessibility import check
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
