"""The page by keyboard alone: the palette, the map of keys, what lies over the text, and a focus that is never lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
FOCUSED = "document.activeElement !== document.body"


@pytest_asyncio.fixture(loop_scope="session")
async def house() -> AsyncIterator[ReplayHouse]:
    async with serve_script(Script(days=30)) as served:
        yield served


async def answer(page: Page, question: str = "Why?") -> None:
    turns = await page.locator(".turn").count()
    await ask(page, question)
    await expect(page.locator(".trace.over")).to_have_count(turns + 1)
    await expect(page.locator(".answer").nth(turns).locator(".table tbody tr").first).to_be_visible()


async def test_the_palette_finds_actions_and_conversations(browser: Browser, house: ReplayHouse) -> None:
    page = (await open_page(browser, house.url)).page
    await answer(page, "A question to come back to?")
    await page.keyboard.press("Control+Shift+O")
    await expect(page.locator(".turn")).to_have_count(0)
    await page.keyboard.press("Control+k")
    field = page.get_by_role("combobox")
    await expect(field).to_be_focused()
    await field.fill("come back")
    await expect(page.get_by_role("option")).to_have_count(1)
    await field.press("Enter")
    await expect(page.locator(".asked")).to_have_text("A question to come back to?")
    await page.keyboard.press("Control+k")
    await field.fill("no such thing anywhere")
    await expect(page.locator("[cmdk-empty]")).to_be_visible()
    await field.fill("switch to chinese")
    await field.press("Enter")
    await expect(page.locator("#send")).to_have_text("提问")
    assert await page.evaluate(FOCUSED)


async def test_keys_lead_through_turns_citations_and_tabs(browser: Browser, house: ReplayHouse) -> None:
    page = (await open_page(browser, house.url)).page
    for question in ("First?", "Second?"):
        await answer(page, question)
    # Keys are letters while one writes.
    await page.locator("#question").fill("")
    await page.locator("#question").press("d")
    await expect(page.locator("#question")).to_have_value("d")
    await page.locator("#thread").focus()
    await page.keyboard.press("k")
    await expect(page.locator(".trace summary").first).to_be_focused()
    await page.keyboard.press("j")
    await expect(page.locator(".turn").nth(1).locator(".trace > details > summary")).to_be_focused()
    await page.keyboard.press("]")
    await expect(page.locator(".answer .cite").first).to_be_focused()
    await page.keyboard.press("[")
    await expect(page.locator(".answer .cite").last).to_be_focused()
    for key, tab in (("d", "data"), ("c", "code"), ("t", "trace"), ("s", "sources")):
        await page.keyboard.press(key)
        await expect(page.locator(f"#tab-{tab}")).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("Control+/")
    sheet = page.get_by_role("dialog", name="Keys")
    await expect(sheet).to_contain_text("Next citation")
    # The card of the citation that had the focus is gone, and with it its own use of Escape.
    await expect(page.locator("#card")).to_have_count(0)
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)
    await expect(page.locator(".answer .cite").last).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.locator("#question")).to_be_focused()


async def test_escape_closes_what_is_open_before_it_stops_the_run(browser: Browser, house: ReplayHouse) -> None:
    house.planner.hold(before=6)
    page = (await open_page(browser, house.url, width=1100)).page
    await ask(page)
    await expect(page.locator(".trace .row")).to_have_count(3)
    await page.locator("#panel-toggle").press("Enter")
    panel = page.get_by_role("dialog", name="Details")
    # The focus goes round within what lies over the text, and what is behind cannot be reached.
    for _ in range(12):
        await page.keyboard.press("Tab")
        assert await panel.evaluate("(place) => place.contains(document.activeElement)")
    await page.keyboard.press("Escape")
    await expect(panel).to_have_count(0)
    await expect(page.locator("#panel-toggle")).to_be_focused()
    await expect(page.locator(".trace .stop")).to_be_visible()
    await page.locator(".trace .stop").press("Enter")
    await expect(page.locator(".trace.over")).to_contain_text("Stopped")
    # The button has gone, and the focus has not gone with it.
    await expect(page.locator(".trace > details > summary")).to_be_focused()
    await expect(page.locator(".after [role=alert]")).to_have_count(0)


async def test_settings_are_kept_and_change_the_page_at_once(browser: Browser, house: ReplayHouse) -> None:
    watched = await open_page(browser, house.url, theme="dark")
    page = watched.page
    settings = page.get_by_role("button", name="Settings")
    await settings.press("Enter")
    await page.get_by_label("Theme").select_option("light")
    await expect(page.locator("html")).to_have_attribute("data-theme", "light")
    await expect(page.locator("html")).to_have_attribute("data-rise", "green_up")
    await page.get_by_label("Colours").select_option("red_up")
    await expect(page.locator("html")).to_have_attribute("data-rise", "red_up")
    await page.get_by_label("Decimals").select_option("comma")
    await page.keyboard.press("Escape")
    await expect(settings).to_be_focused()
    await answer(page)
    # The reader's decimals hold for the numbers of tables.
    await expect(page.locator(".answer .table tbody td").nth(1)).to_have_text("100,00")
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-rise", "red_up")
    await settings.press("Enter")
    await page.get_by_label("Theme").select_option("system")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.get_by_label("Language of the page").select_option("zh")
    await expect(page.get_by_role("dialog")).to_contain_text("设置")
    assert watched.complaints == []


async def test_a_deleted_conversation_leaves_the_focus_in_the_list(browser: Browser, house: ReplayHouse) -> None:
    page = (await open_page(browser, house.url)).page
    for question in ("First?", "Second?"):
        await page.locator("#new").click()
        await answer(page, question)
    await expect(page.locator(".entry")).to_have_count(2)
    entry = page.locator(".entry", has_text="Second?")
    await entry.locator(".open").focus()
    await entry.locator(".remove").press("Enter")
    await page.get_by_role("alertdialog").get_by_role("button", name="Delete").press("Enter")
    await expect(entry).to_have_count(0)
    await expect(page.locator(".entry .open")).to_be_focused()


async def test_the_embedded_page_leads_to_a_new_question_and_to_earlier_ones(
    browser: Browser, house: ReplayHouse
) -> None:
    page = (await open_page(browser, f"{house.url}/?embed=1", width=420, height=780)).page
    await answer(page, "The first?")
    await page.get_by_role("button", name="New question").click()
    await expect(page.locator(".turn")).to_have_count(0)
    await page.get_by_role("button", name="Conversations").press("Enter")
    await expect(page.get_by_role("dialog", name="Conversations")).to_be_visible()
    await page.locator(".entry .open").click()
    await expect(page.locator(".asked")).to_have_text("The first?")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_columns_are_hidden_and_kept_in_sight_and_a_new_question_begins_at_the_top(
    browser: Browser, house: ReplayHouse
) -> None:
    page = (await open_page(browser, house.url)).page
    await answer(page, "First?")
    table = page.locator(".answer .table")
    await table.get_by_role("button", name="Columns").press("Enter")
    await page.get_by_role("menuitemcheckbox", name="AAA.close_adj").first.press("Enter")
    await page.keyboard.press("Escape")
    await expect(table.locator("th")).to_have_count(2)
    # A menu that is still closing would take the key that is to open it again.
    await expect(page.get_by_role("menu")).to_have_count(0)
    await table.get_by_role("button", name="Columns").press("Enter")
    await page.get_by_role("menuitemcheckbox", name="BBB.close_adj").last.press("Enter")
    await page.keyboard.press("Escape")
    await expect(table.locator("th.pinned")).to_have_count(2)
    await answer(page, "Second?")
    top = await page.locator("#thread").bounding_box()
    asked = await page.locator(".turn").nth(1).bounding_box()
    assert top is not None
    assert asked is not None
    assert abs(asked["y"] - top["y"]) < 60
