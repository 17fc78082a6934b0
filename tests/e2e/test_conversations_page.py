"""The list of conversations in a real browser: renamed and pinned from the keyboard."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.pages import CHROMIUM, ask, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_a_conversation_is_renamed_and_pinned_from_the_keyboard(browser: Browser) -> None:
    expect.set_options(timeout=20_000)
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
