"""The list of conversations in a real browser: renamed and pinned from the keyboard."""

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


async def test_a_conversation_is_renamed_and_pinned_from_the_keyboard(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        for question in ("First question?", "Second question?"):
            await page.locator("#new").click()
            await ask(page, question)
            await expect(page.locator(".entry", has_text=question)).to_be_visible()
        first = page.locator(".entry", has_text="First question?")
        await first.locator(".open").focus()
        await first.get_by_role("button", name="Rename: First question?").press("Enter")
        field = page.locator(".entry .title")
        await expect(field).to_be_focused()
        # Escape keeps the old title, and stops nothing.
        await field.fill("Not this")
        await field.press("Escape")
        await expect(first.locator(".open")).to_be_focused()
        await first.get_by_role("button", name="Rename: First question?").press("Enter")
        await field.fill("<b>Prices</b> of 苹果")
        await field.press("Enter")
        renamed = page.locator(".entry", has_text="<b>Prices</b> of 苹果")
        await expect(renamed.locator(".open")).to_be_focused()
        await renamed.get_by_role("button", name="Pin: <b>Prices</b> of 苹果").press("Enter")
        await expect(page.locator("#conversations h3").first).to_have_text("Pinned")
        await expect(page.locator(".entry .open").first).to_have_text("<b>Prices</b> of 苹果")
        await page.reload()
        await expect(page.locator(".entry .open").first).to_have_text("<b>Prices</b> of 苹果")
        assert watched.complaints == []
        await page.context.close()


@pytest.mark.parametrize(
    ("locale", "older", "none"),
    [("en-US", "Older conversations", "No conversation has"), ("zh-CN", "更早的对话", "没有同时包含这些词的对话")],
)
async def test_what_was_said_is_found_and_older_conversations_are_reached(
    browser: Browser, locale: str, older: str, none: str
) -> None:
    async with serve_script(Script(answer="The yield of 国债 fell to 0.93 %.", days=30)) as house:
        house.memory.page_size = 2
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        entries = page.locator(".entry")
        for number, question in enumerate(("First <b>question</b>?", "Second question?", "Third question?"), 1):
            await page.locator("#new").click()
            await ask(page, question)
            await expect(page.locator(".trace.over")).to_be_visible()
            await expect(entries).to_have_count(min(number, 2))
        await page.get_by_role("button", name=older).press("Enter")
        await expect(entries).to_have_count(3)
        await expect(entries.nth(2).locator(".open")).to_be_focused()
        search = page.locator("#filter")
        await search.fill("国债 first")
        await expect(entries).to_have_count(1)
        await expect(entries.locator("mark")).to_have_text(["国债", "First"])
        await search.fill("国债 nothing")
        await expect(page.locator(".found")).to_contain_text(none)
        await search.fill("first")
        await expect(entries).to_have_count(1)
        await entries.locator(".open").click()
        await expect(page.locator(".asked")).to_have_text("First <b>question</b>?")
        assert watched.complaints == []


async def test_a_conversation_is_listed_while_its_first_run_goes_on(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        page = (await open_page(browser, house.url)).page
        house.planner.hold(4)
        await ask(page, "A long question?")
        entry = page.locator(".entry", has_text="A long question?")
        await expect(entry.locator(".spin")).to_be_visible()
        await page.locator("#new").click()
        await expect(page.locator(".turn")).to_have_count(0)
        await entry.locator(".open").click()
        await expect(page.locator(".asked")).to_have_text("A long question?")
        house.planner.release()
        await expect(page.locator(".trace.over")).to_be_visible()
        await expect(entry.get_by_role("button", name="Rename")).to_have_count(1)


async def test_a_conversation_opens_in_another_window_when_a_key_asks_for_it(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        await ask(page, "First question?")
        await expect(page.locator(".trace.over")).to_be_visible()
        await page.locator("#new").click()
        await expect(page.locator(".turn")).to_have_count(0)
        async with page.context.expect_page() as opened:
            await page.locator(".entry .open").click(modifiers=["Control"])
        other = await opened.value
        await expect(other.locator("h2.asked")).to_have_text("First question?")
        # This window stays where it was, until the entry is opened here, by key as well.
        await expect(page.locator(".turn")).to_have_count(0)
        await page.locator(".entry .open").press("Enter")
        await expect(page.locator("h2.asked")).to_have_text("First question?")
        assert (watched.outside, watched.complaints) == ([], [])


async def test_the_palette_has_conversations_as_links(browser: Browser) -> None:
    """Pointer and keys that open another window leave this one, and the palette, as they are."""
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        await ask(page, "First question?")
        await expect(page.locator(".trace.over")).to_be_visible()
        await page.locator("#new").click()
        await page.keyboard.press("Control+k")
        await page.get_by_role("combobox").fill("first")
        link = page.get_by_role("option", name="First question?")
        await expect(link).to_have_attribute("aria-selected", "true")
        await check(page, "palette with a conversation")
        for act in (
            lambda: link.click(modifiers=["Control"]),
            lambda: link.click(button="middle"),
            lambda: page.keyboard.press("Control+Enter"),
        ):
            async with page.context.expect_page() as opened:
                await act()
            other = await opened.value
            await expect(other.locator("h2.asked")).to_have_text("First question?")
            await other.close()
            await expect(link).to_be_visible()
            await expect(page.locator(".turn")).to_have_count(0)
        await link.click()
        await expect(page.locator("h2.asked")).to_have_text("First question?")
        await expect(link).to_have_count(0)
        assert (watched.outside, watched.complaints) == ([], [])
