"""A dialog that was opened from a drawer: each gives the focus back to its own opener, in headless Chromium."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.mark.parametrize("name", ["Settings", "Questions asked by schedule", "Keys"])
async def test_a_dialog_opened_from_the_drawer_leads_back_to_it_and_the_drawer_to_its_button(
    browser: Browser, name: str
) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url, width=420, height=900)).page
        toggle = page.locator("#sidebar-toggle")
        await toggle.press("Enter")
        opener = page.locator("#sidebar").get_by_role("button", name=name)
        await opener.press("Enter")
        await expect(page.locator(".dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator(".dialog")).to_have_count(0)
        await expect(opener).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.locator("#sidebar")).to_have_count(0)
        await expect(toggle).to_be_focused()


async def test_the_dialog_of_links_leads_back_to_the_answer(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        share = page.locator(".tools .share")
        await share.press("Enter")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(share).to_be_focused()
