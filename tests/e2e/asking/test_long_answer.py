"""A long answer while it grows, in headless Chromium: the way to its end, and what is written on behind it."""

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
LONG = "\n\n".join(f"Line {number} of an answer that is longer than any window." for number in range(200))
# Events before which the answer pauses, each a screen or more behind the one before.
FIRST, SECOND = 60, 100


@pytest.mark.parametrize(("locale", "width", "name"), [("en-US", 1440, "↓ To the end"), ("zh-CN", 420, "↓ 到末尾")])
async def test_the_end_of_a_growing_answer_is_reached_and_followed_until_the_reader_leaves_it(
    browser: Browser, locale: str, width: int, name: str
) -> None:
    async with serve_script(Script(answer=LONG, days=5)) as house:
        house.planner.hold(before=FIRST)
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        button, thread, lines = page.locator("#to-end"), page.locator("#thread"), page.locator(".answer p")
        await ask(page)
        await expect(page.locator(".answer")).to_contain_text("Line 70 ")
        # The question stays in sight, and the end is below.
        await expect(page.locator(".asked")).to_be_in_viewport()
        await expect(button).to_have_text(name)
        await thread.focus()
        await page.keyboard.press("End")
        await expect(lines.last).to_be_in_viewport()
        await expect(button).to_have_count(0)
        await expect(thread).to_be_focused()
        house.planner.release()
        house.planner.hold(before=SECOND)
        await expect(page.locator(".answer")).to_contain_text("Line 140 ")
        await expect(lines.last).to_be_in_viewport()
        await expect(button).to_have_count(0)
        await thread.evaluate("(place) => { place.scrollTop -= 900; }")
        await expect(button).to_be_visible()
        house.planner.release()
        await expect(page.locator(".answer")).to_contain_text("Line 199 ")
        await expect(page.locator(".tools .export")).to_be_attached()
        await expect(lines.last).not_to_be_in_viewport()
        # In the field for questions the key is that of the field.
        await page.locator("#question").fill("next")
        await page.locator("#question").press("End")
        await expect(button).to_be_visible()
        await button.click()
        await expect(page.locator(".tools .export")).to_be_in_viewport()
        await expect(button).to_have_count(0)
        await expect(thread).to_be_focused()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert (watched.outside, watched.complaints) == ([], [])


async def test_an_answer_that_fits_offers_no_way_to_its_end(browser: Browser) -> None:
    async with serve_script(Script(answer="Short.", days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await expect(page.locator("#welcome")).to_be_visible()
        await ask(page)
        await expect(page.locator(".tools .export")).to_be_in_viewport()
        await expect(page.locator("#to-end")).to_have_count(0)
