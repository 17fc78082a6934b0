"""Sources that the reader switches off for the next questions, in both languages."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.mark.parametrize(
    ("locale", "width", "documents", "less"),
    [("en-US", 1440, "documents", "Sources: without documents"), ("zh-CN", 420, "文档", "来源： 不含 文档")],
)
async def test_a_source_is_switched_off_and_on_again(
    browser: Browser, locale: str, width: int, documents: str, less: str
) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        menu = page.locator("#sources-menu")
        await menu.press("Enter")
        entry = page.get_by_role("menuitemcheckbox", name=documents, exact=True)
        await expect(entry).to_be_checked()
        servers = await page.get_by_role("menuitemcheckbox").all_inner_texts()
        await check(page, "sources of a question")
        await entry.press("Enter")
        await expect(entry).not_to_be_checked()
        await page.keyboard.press("Escape")
        await expect(menu).to_be_focused()
        await expect(menu).to_have_attribute("aria-label", less)
        await check(page, "a source is off")
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        assert list(house.planner.asked[-1].sources_off) == ["documents"]
        await menu.press("Enter")
        await entry.press("Enter")
        await page.keyboard.press("Escape")
        await ask(page, "And with documents?")
        await expect(page.locator(".trace.over")).to_have_count(2)
        assert list(house.planner.asked[-1].sources_off) == []
        assert len(servers) >= 2
        assert watched.complaints == []


@pytest.mark.parametrize(
    ("locale", "width", "tables", "less"),
    [
        ("en-US", 1100, "tables of data", "Sources: without akshare, desk"),
        ("zh-CN", 900, "数据表", "来源： 不含 akshare, desk"),
        ("en-US", 420, "tables of data", "Sources: without akshare, desk"),
    ],
)
async def test_a_single_vendor_is_switched_off(
    browser: Browser, locale: str, width: int, tables: str, less: str
) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page, menu = watched.page, watched.page.locator("#sources-menu")
        await menu.press("Enter")
        vendors = page.get_by_role("menu").get_by_role("group").get_by_role("menuitemcheckbox")
        # Those that the operator has turned on, in whatever state; a database has tables, and is no vendor of its own.
        await expect(vendors).to_have_text(["✓akshare", "✓edgar", "✓worldbank", "✓yfinance"])
        await check(page, "vendors of a question")
        await vendors.filter(has_text="akshare").press("Enter")
        await page.get_by_role("menuitemcheckbox", name="desk", exact=True).press("Enter")
        # Without tables of data no vendor is asked, so that there is nothing to choose.
        await page.get_by_role("menuitemcheckbox", name=tables, exact=True).press("Enter")
        await expect(vendors.first).to_be_disabled()
        await page.get_by_role("menuitemcheckbox", name=tables, exact=True).press("Enter")
        await expect(vendors.first).to_be_enabled()
        await expect(vendors.first).not_to_be_checked()
        await page.keyboard.press("Escape")
        await expect(menu).to_have_attribute("aria-label", less)
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        assert list(house.planner.asked[-1].sources_off) == ["vendor:akshare", "desk"]
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert watched.complaints == []
