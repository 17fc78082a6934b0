"""Meaning of the columns of an uploaded table: proposed, edited and taken, in both languages."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.core.errors import InvalidField
from tests.e2e.files.test_files_page import attach, file
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import SHEET_ID, Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]
WORDS = {
    "en-US": ("What the columns mean: prices.csv", "What questions may call it", "Holds", "Use this", "Columns"),
    "zh-CN": ("各列的含义: prices.csv", "提问时可用的名称", "内容", "采用", "列"),
}


@pytest.mark.parametrize(("locale", "width"), [("en-US", 1440), ("zh-CN", 420), ("en-US", 900), ("zh-CN", 1100)])
async def test_a_meaning_is_edited_and_taken(browser: Browser, locale: str, width: int) -> None:
    button, names, holds, take, short = WORDS[locale]
    async with serve_script(Script(days=30)) as house:
        house.datafetch.import_ids = ["t_raw"]
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        await attach(page, file("prices.csv"))
        opener = page.get_by_role("button", name=button)
        # It asks for a look, since the table's own names and types do not say it all.
        await expect(opener).to_have_text(f"{short} ?")
        await opener.press("Enter")
        column = page.locator(".meanings fieldset", has_text="AAA.close_adj")
        await expect(column.get_by_label(names)).to_have_value("AAA")
        await check(page, "meanings of columns")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await column.get_by_label(names).fill("AAA, Inc.\n<b>Alpha</b>\n\n 阿尔法 ")
        await column.locator("select").nth(1).select_option("sum")
        await page.get_by_role("button", name=take, exact=True).press("Enter")
        await expect(page.locator(".meanings")).to_have_count(0)
        await expect(opener).to_be_focused()
        await expect(opener).to_have_text(f"{short} ✓")
        said = house.datafetch.meanings[0].columns
        assert list(said[1].names) == ["AAA, Inc.", "<b>Alpha</b>", "阿尔法"]
        assert said[1].aggregation == data.AGGREGATION_SUM
        # The question goes with what was made of the file; its column of days leaves nothing for the file itself.
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        assert list(house.planner.asked[-1].table_ids) == [SHEET_ID]
        # The dialog shows again what was taken. Without days, what the series leave out stays with the question.
        await opener.press("Enter")
        await expect(column.get_by_label(names)).to_have_value("AAA, Inc.\n<b>Alpha</b>\n阿尔法")
        await page.locator(".meanings fieldset").first.get_by_label(holds).select_option("ignored")
        await column.locator("input").last.fill("2020")
        await page.get_by_role("button", name=take, exact=True).press("Enter")
        await expect(page.locator(".meanings")).to_have_count(0)
        assert house.datafetch.meanings[1].columns[1].year == 2020
        await ask(page, "And without days?")
        await expect(page.locator(".trace.over")).to_have_count(2)
        assert list(house.planner.asked[-1].table_ids) == [SHEET_ID, "t_raw"]
        assert watched.complaints == []


async def test_a_meaning_that_does_not_fit_is_refused_with_its_column_and_stays(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        house.datafetch.import_ids = ["t_raw"]
        page = (await open_page(browser, house.url, width=420)).page
        await attach(page, file("prices.csv"))
        opener = page.get_by_role("button", name=WORDS["en-US"][0])
        await opener.press("Enter")
        column = page.locator(".meanings fieldset", has_text="AAA.close_adj")
        await column.locator("input").first.fill("USD")
        house.datafetch.refusal = InvalidField("meaning.columns[1].role", "'AAA.close_adj' has no numbers")
        await page.get_by_role("button", name="Use this").press("Enter")
        await expect(page.locator(".meanings [role=alert]")).to_contain_text("'AAA.close_adj' has no numbers")
        await expect(column.locator("input").first).to_have_value("USD")
        await check(page, "a meaning that was refused")
        # What was refused is not used.
        await page.keyboard.press("Escape")
        await expect(opener).to_have_text("Columns ?")
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        assert list(house.planner.asked[-1].table_ids) == ["t_raw"]
