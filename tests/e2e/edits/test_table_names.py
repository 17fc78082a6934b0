"""Tables that the reader renames and pins: in the panel, in citations, after a reload, in both languages."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import SHEET_ID, Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]
WORDS = {"en-US": ("Rename", "Pin", "Unpin"), "zh-CN": ("重命名", "置顶", "取消置顶")}


@pytest.mark.parametrize(("locale", "width"), [("en-US", 1440), ("zh-CN", 1100), ("en-US", 900), ("zh-CN", 420)])
async def test_a_table_is_renamed_and_pinned(browser: Browser, locale: str, width: int) -> None:
    rename, pin, unpin = WORDS[locale]
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        await page.locator("#question").blur()
        await page.keyboard.press("d")
        table = page.locator(f"#panel-body [data-sheet={SHEET_ID}]")
        await table.get_by_role("button", name=f"{rename}: Adjusted close of AAA and BBB").press("Enter")
        field = table.locator(".title")
        await expect(field).to_be_focused()
        await check(page, "a table is named")
        await field.fill("Not this")
        await field.press("Escape")
        await expect(table.get_by_role("button", name=f"{rename}: Adjusted")).to_be_focused()
        await table.get_by_role("button", name=f"{rename}: Adjusted").press("Enter")
        await field.fill("<b>Kurse</b> 价格")
        await field.press("Enter")
        await expect(table.locator("figure strong")).to_have_text("<b>Kurse</b> 价格")
        await table.get_by_role("button", name=f"{pin}: <b>Kurse</b> 价格", exact=True).press("Enter")
        await expect(table.get_by_role("button", name=f"{unpin}: <b>Kurse</b> 价格", exact=True)).to_be_focused()
        await check(page, "a table is named")
        await page.reload()
        chip = page.locator(".answer .cite.sheet").first
        await expect(chip).to_have_attribute(
            "aria-label", "Table 2: <b>Kurse</b> 价格" if locale == "en-US" else "表格 2: <b>Kurse</b> 价格"
        )
        await expect(page.locator(".answer figure.table strong")).to_have_text("<b>Kurse</b> 价格")
        file = page.locator(".answer figure.table a", has_text="CSV")
        assert "Kurse" in (await file.get_attribute("href") or "")
        assert f"tables/{SHEET_ID}/" in (await file.get_attribute("href") or "")
        assert watched.complaints == []
        assert watched.outside == []


async def test_a_pinned_table_stands_first_and_stays_in_sight_of_later_turns(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        await page.locator("#tab-data").click()
        await (
            page.locator("#panel-body").get_by_role("button", name="Pin: Adjusted close of AAA and BBB").press("Enter")
        )
        await expect(page.locator("#panel-body").get_by_role("button", name="Unpin: Adjusted")).to_be_visible()
        # The next turn has a table of its own; a held run has none yet.
        house.planner.script.sheet.id, house.planner.script.sheet.title = "t_other", "Another table"
        house.planner.hold(before=4)
        await ask(page, "And the other one?")
        tables = page.locator("#panel-body section[data-sheet]")
        await expect(tables).to_have_count(1)
        await expect(tables).to_contain_text("of another turn")
        house.planner.release()
        await expect(page.locator(".trace.over")).to_have_count(2)
        await expect(tables.locator("strong")).to_have_text(["Adjusted close of AAA and BBB", "Another table"])
        await expect(page.locator("#tab-data .n")).to_have_text("2")
