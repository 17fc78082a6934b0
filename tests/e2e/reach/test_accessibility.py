"""Every state of the page: axe finds nothing serious in it, no text overlaps or is cut off, and nothing moves sideways."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page

from fathom.api.memory.v1 import memory_pb2 as memory
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.test_answer_page import make_script
from tests.e2e.test_reading_page import make_script as make_reading

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


async def check_panel(page: Page) -> None:
    for tab in ("sources", "data", "code", "trace", "memory"):
        await page.locator(f"#tab-{tab}").click()
        await expect(page.locator("#panel-body")).to_have_attribute("aria-labelledby", f"tab-{tab}")
        if tab == "data":
            await expect(page.locator("#panel-body .table tbody tr").first).to_be_visible()
        await check(page, tab)
        if tab == "code":
            await page.locator(".change-cell").first.click()
            await check(page, "cell")
            # Where the panel is a drawer, Escape would close all of it.
            await page.locator(".cell-again button[type=button]").click()


async def check_repeat(page: Page) -> None:
    """Look at the dialog in which a question is asked by schedule, with one that is."""
    await page.locator(".tools .repeat").click()
    await page.locator(".repeat-dialog .primary").click()
    await expect(page.locator("[data-schedule]")).to_be_visible()
    await check(page, "repeat")
    await page.keyboard.press("Escape")


async def check_answer_parts(page: Page) -> None:
    """Look at what a reader opens within an answer: cells that are marked, number forms, values, the way to the end."""
    marks = "(rows) => getSelection().setBaseAndExtent(rows[0].cells[0], 0, rows[1].cells[1], 1)"
    await page.locator(".answer .table tbody tr").evaluate_all(marks)
    await check(page, "marked cells")
    await page.evaluate("getSelection().removeAllRanges()")
    await page.locator(".answer .table .more").first.press("Enter")
    await expect(page.get_by_role("menuitemradio").first).to_be_visible()
    await check(page, "numbers")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("menu")).to_have_count(0)
    await page.locator(".list-values").press("Enter")
    await expect(page.locator(".values tbody tr").first).to_be_visible()
    await check(page, "values")
    await page.locator(".list-values").press("Enter")
    await page.locator("#thread").evaluate("(place) => { place.scrollTop = 0; }")
    await expect(page.locator("#to-end")).to_be_visible()
    await check(page, "way to the end")


async def check_rows(page: Page) -> None:
    """Look at what the rows of a trace have brought, and at the field of the question as it was read."""
    for tool in ("search", "data", "python"):
        row = page.locator(f".trace .row[data-tool={tool}]").last
        await row.locator("summary").press("Enter")
        await expect(row.locator(".way").first).to_be_visible()
        await check(page, f"row of {tool}")
        await row.locator("summary").press("Enter")
    await page.locator(".reading .whole button").press("Enter")
    await expect(page.locator(".reading textarea")).to_be_focused()
    await check(page, "edited reading")
    await page.keyboard.press("Escape")


async def check_settings(page: Page, house: ReplayHouse) -> None:
    """Look at every part of the settings."""
    house.memory.stances.append(memory.Stance(id="s1", entity="AAA", measure="close_adj/return", view="AAA rose."))
    await expect(page.locator(".settings")).to_be_visible()
    tabs = page.locator(".settings-dialog [role=tab]")
    for place in range(await tabs.count()):
        await tabs.nth(place).click()
        await expect(page.locator(".settings-dialog [role=tabpanel][data-state=active]")).to_be_visible()
        await check(page, f"settings {place}")


async def check_typing(page: Page) -> None:
    """Look at what is said while one types, and at the field in which a question is edited."""
    question = page.locator("#question")
    await question.press_sequentially("@a")
    await expect(page.locator(".picker [role=option]")).to_have_count(2)
    await check(page, "picker")
    await question.press("Escape")
    await question.fill("")
    await question.fill("/export odt")
    await expect(page.locator(".picker [role=status]")).to_contain_text("odt")
    await check(page, "unknown format")
    await question.press("Enter")
    await expect(page.locator("#problem")).to_contain_text("odt")
    await question.fill("x" * 8_001)
    await expect(page.locator("#count")).to_contain_text("8,000")
    await check(page, "too long a question")
    await question.fill("")
    await page.locator(".tools .edit").press("Enter")
    await expect(page.locator(".asked-form textarea")).to_be_focused()
    await check(page, "edited question")
    await page.keyboard.press("Escape")


@pytest.mark.parametrize(
    ("locale", "theme", "width"),
    [("en-US", "light", 1440), ("zh-CN", "dark", 1100), ("en-US", "dark", 900), ("zh-CN", "light", 420)],
)
async def test_no_state_of_the_page_has_a_serious_finding(
    browser: Browser, locale: str, theme: str, width: int
) -> None:
    """The states of a reader's way, from the welcome to the settings."""
    script = make_script()
    script.reading = make_reading().reading
    async with serve_script(script) as house:
        page = (await open_page(browser, house.url, width=width, locale=locale, theme=theme)).page
        await expect(page.locator("#welcome .example").first).to_be_visible()
        await check(page, "welcome")
        house.planner.hold(9)
        await ask(page)
        await expect(page.locator(".trace .row")).to_have_count(4)
        await check(page, "running")
        house.planner.release()
        await expect(page.locator(".plotly-figure .nsewdrag").first).to_be_visible()
        await expect(page.locator(".answer .table tbody tr").first).to_be_visible()
        await check(page, "answer")
        await check_answer_parts(page)
        await page.locator(".trace > details > summary").click()
        await check(page, "steps")
        await check_rows(page)
        await page.locator(".answer .cite").first.focus()
        await expect(page.locator("#card")).to_be_visible()
        await check(page, "card")
        await page.locator(".answer .cite").first.press("Enter")
        await expect(page.locator("#panel")).to_be_visible()
        await check_panel(page)
        if width < 1280:
            await page.keyboard.press("Escape")
            await expect(page.locator("#panel")).to_have_count(0)
        await page.locator(".tools .export").click()
        await expect(page.get_by_role("menu")).to_be_visible()
        await check(page, "menu")
        await page.keyboard.press("Escape")
        await page.locator(".tools .share").click()
        await (
            page.get_by_role("dialog")
            .get_by_role("button", name="Make the link" if locale == "en-US" else "生成链接")
            .click()
        )
        await expect(page.locator("[data-link]")).to_be_visible()
        await expect(page.locator("#made-link")).to_be_visible()
        await check(page, "share")
        await page.keyboard.press("Escape")
        await check_repeat(page)
        for keys, state in (("Control+k", "palette"), ("Control+/", "keys")):
            await page.keyboard.press(keys)
            await expect(page.get_by_role("dialog").last).to_be_visible()
            await check(page, state)
            await page.keyboard.press("Escape")
            await expect(page.locator(".dialog")).to_have_count(0)
        await check_typing(page)
        if width < 900:
            await page.locator("#sidebar-toggle").click()
            await check(page, "conversations")
        await page.get_by_role("button", name="Settings" if locale == "en-US" else "设置").click()
        await check_settings(page, house)
