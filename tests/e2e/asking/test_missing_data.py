"""Data that an answer lacks are looked for again by a press, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]


async def test_looking_again_asks_the_same_question_after_the_answer_that_lacked_data(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        await ask(page, "Compare AAA, BBB and CCC")
        again = page.locator(".retry")
        await expect(again).to_have_count(1)
        # What is being written meanwhile is another question, and stays.
        await page.locator("#question").fill("Something else")
        await again.click()
        await expect(page.locator(".trace.over")).to_have_count(2)
        assert [run.question for run in house.planner.asked] == ["Compare AAA, BBB and CCC"] * 2
        assert house.planner.asked[-1].conversation_id == house.planner.script.conversation(house.planner.asked[0])
        await expect(page.locator("#question")).to_have_value("Something else")
        assert (watched.outside, watched.complaints) == ([], [])
