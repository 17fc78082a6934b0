"""Test how an answer is judged, and what it leads to, in headless Chromium."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as pb
from tests.e2e.asking.test_long_thread import fill
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.mark.parametrize(
    ("locale", "thumb", "reason", "words", "send"),
    [
        ("en-US", "Not helpful", "a number is wrong", "In your words", "Send"),
        ("zh-CN", "没帮助", "数字有误", "补充说明", "提交"),
    ],
)
async def test_a_thumb_down_says_what_was_wrong(
    browser: Browser, locale: str, thumb: str, reason: str, words: str, send: str
) -> None:
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await ask(page)
        button = page.locator(".tools").get_by_role("button", name=thumb, exact=True)
        await button.press("Enter")
        first = page.get_by_label(reason)
        await expect(first).to_be_focused()
        # Escape leaves it as it was, and the focus is not lost.
        await page.keyboard.press("Escape")
        await expect(page.locator(".reasons")).to_have_count(0)
        await expect(button).to_be_focused()
        assert house.memory.feedback == []
        await button.press("Enter")
        await first.press("Space")
        await page.get_by_label(words).fill("<b>148 %</b> is 184 %")
        await page.get_by_role("button", name=send, exact=True).press("Enter")
        await expect(button).to_have_attribute("aria-pressed", "true")
        [said] = house.memory.feedback
        assert (said.helpful, list(said.tags), said.comment) == (False, ["number"], "<b>148 %</b> is 184 %")
        # What was said is there after a reload, and the other thumb takes its place.
        await page.reload()
        await expect(button).to_have_attribute("aria-pressed", "true")
        helpful = page.locator(".tools button", has_text="Helpful" if locale == "en-US" else "有帮助").first
        await helpful.press("Enter")
        await expect(helpful).to_have_attribute("aria-pressed", "true")
        await page.reload()
        await expect(helpful).to_have_attribute("aria-pressed", "true")
        await expect(button).to_have_attribute("aria-pressed", "false")
        assert watched.complaints == []


async def test_the_judgements_of_a_conversation_are_read_at_once(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        conversation = fill(house, 12)
        for run_id, helpful in (("run_3", True), ("run_9", True), ("run_9", False)):
            house.memory.feedback.append(memory.RecordFeedbackRequest(run_id=run_id, helpful=helpful))
        page = (await open_page(browser, f"{house.url}/#c={conversation}")).page
        judged = page.locator(".tools [aria-pressed=true]")
        await expect(page.locator(".tools")).to_have_count(12)
        await expect(judged).to_have_text(["Helpful", "Not helpful"])
        [request] = house.memory.listed_feedback
        assert (request.conversation_id, request.own, request.newest_first) == (conversation, True, True)
        # One that is said now stands beside them, and takes no further reading.
        await page.locator(".tools").last.get_by_role("button", name="Helpful", exact=True).press("Enter")
        await expect(judged).to_have_text(["Helpful", "Not helpful", "Helpful"])
        assert len(house.memory.listed_feedback) == 1


async def test_a_name_without_data_leads_to_the_nearest_that_has_some(browser: Browser) -> None:
    class Misspelt(Script):
        def material(self) -> list[pb.Material]:
            reason = common.MISSING_REASON_UNKNOWN_ENTITY
            missing = common.MissingItem(subject="Alpa", reason=reason, nearest=["<i>Alpha</i>"])
            return [*super().material()[:3], pb.Material(number=4, missing=missing)]

    async with serve_script(Misspelt(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page, "Did Alpa fall?")
        led = page.locator(".suggestions button")
        await expect(led).to_have_text("Did <i>Alpha</i> fall?")
        await led.press("Enter")
        await expect(page.locator(".asked").last).to_have_text("Did <i>Alpha</i> fall?")
        assert house.planner.asked[-1].question == "Did <i>Alpha</i> fall?"
