"""A question asked again, otherwise and behind an earlier turn, in headless Chromium."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Page, Route

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


def list_questions(house: ReplayHouse) -> list[tuple[str, int | None]]:
    """Return the questions with the turns that they were said to follow."""
    return [(one.question, one.parent_turn if one.HasField("parent_turn") else None) for one in house.planner.asked]


async def answer(page: Page, *questions: str) -> None:
    for question in questions:
        shown = await page.locator(".trace.over").count()
        await ask(page, question)
        await expect(page.locator(".trace.over")).to_have_count(shown + 1)


@pytest.mark.parametrize(
    ("locale", "edit", "again", "earlier"),
    [
        ("en-US", "Edit the question", "Ask again", "Earlier version"),
        ("zh-CN", "修改问题", "重新提问", "上一个版本"),
    ],
)
async def test_a_question_is_edited_in_its_place_and_both_versions_are_kept(
    browser: Browser, locale: str, edit: str, again: str, earlier: str
) -> None:
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await answer(page, "One?", "Two?", "Three?")
        second = page.locator(".turn").nth(1)
        await second.get_by_role("button", name=edit).press("Enter")
        field = page.get_by_role("textbox", name=edit)
        await expect(field).to_be_focused()
        await field.fill("not this")
        await field.press("Escape")
        await expect(second.get_by_role("button", name=edit)).to_be_focused()
        await second.get_by_role("button", name=edit).press("Enter")
        await field.fill("<b>Two</b>, otherwise?")
        await field.press("Enter")
        await expect(page.locator(".asked")).to_have_text(["One?", "<b>Two</b>, otherwise?"])
        await expect(page.locator(".trace.over")).to_have_count(2)
        assert list_questions(house)[-1] == ("<b>Two</b>, otherwise?", 1)
        assert await page.evaluate("document.activeElement !== document.body")
        await expect(page.locator(".versions")).to_contain_text("2 / 2")
        # The way through the first version has what was asked behind it.
        await page.get_by_role("button", name=earlier).press("Enter")
        await expect(page.locator(".asked")).to_have_text(["One?", "Two?", "Three?"])
        await expect(page.locator(".versions")).to_contain_text("1 / 2")
        await expect(page.locator(".trace.over")).to_have_count(3)
        # What is asked there follows what is shown, and not the newest turn.
        await answer(page, "Four?")
        assert list_questions(house)[-1] == ("Four?", 3)
        await page.locator(".turn").first.get_by_role("button", name=again).press("Enter")
        await expect(page.locator(".asked")).to_have_text(["One?"])
        await expect(page.locator(".trace.over")).to_have_count(1)
        assert list_questions(house)[-1] == ("One?", 0)
        await expect(page.locator(".versions")).to_contain_text("2 / 2")
        await page.reload()
        await expect(page.locator(".asked")).to_have_text(["One?"])
        assert watched.complaints == []


async def test_the_conversation_branches_behind_an_earlier_answer(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await answer(page, "One?", "Two?")
        await page.locator(".turn").first.locator(".branch").press("Enter")
        await expect(page.locator(".asked")).to_have_text(["One?"])
        await expect(page.locator("#question")).to_be_focused()
        await page.get_by_role("button", name="Show what was asked after it").press("Enter")
        await expect(page.locator(".asked")).to_have_text(["One?", "Two?"])
        await page.locator(".turn").first.locator(".branch").click()
        await expect(page.locator(".asked")).to_have_text(["One?"])
        await answer(page, "Two, otherwise?")
        assert list_questions(house)[-1] == ("Two, otherwise?", 1)
        await expect(page.locator(".versions")).to_contain_text("2 / 2")


async def test_a_question_that_is_asked_while_the_turns_are_read_follows_the_branch(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await answer(page, "One?", "Two?")
        is_read = asyncio.Event()

        async def read_late(route: Route) -> None:
            await is_read.wait()
            await route.continue_()

        await page.route("**/v1/conversations/*order=newest*", read_late)
        await page.locator(".turn").first.locator(".branch").click()
        await expect(page.locator(".asked")).to_have_text(["One?"])
        await ask(page, "Two, otherwise?")
        is_read.set()
        await expect(page.locator(".asked")).to_have_text(["One?", "Two, otherwise?"])
        assert list_questions(house)[-1] == ("Two, otherwise?", 1)


async def test_a_reload_in_mid_run_shows_the_version_that_runs(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await answer(page, "One?", "Two?")
        house.planner.hold(before=4)
        await page.locator(".turn").nth(1).get_by_role("button", name="Ask again").click()
        await expect(page.locator(".trace .stop")).to_be_visible()
        await page.reload()
        await expect(page.locator(".trace .stop")).to_be_visible()
        await expect(page.locator(".asked")).to_have_text(["One?", "Two?"])
        house.planner.release()
        await expect(page.locator(".trace.over")).to_have_count(2)
        await expect(page.locator(".versions")).to_contain_text("2 / 2")
