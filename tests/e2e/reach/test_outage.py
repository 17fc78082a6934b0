"""The gateway is away: one calm line says so, nothing fails, what was asked meanwhile is asked once it is back."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Page, Route

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.cable import lay_cable
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import QUESTION, Script
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
WORDS = {"en-US": ("Offline since", "questions wait"), "zh-CN": ("离线", "等待中的问题")}
FOLLOW_UP = "And how deep was the drawdown of BBB?"


async def require_calm(page: Page) -> None:
    """Fail if the page calls anything a failure."""
    await require_no_alert(page)
    assert await page.locator(".trace.over").count() == 0


async def require_no_alert(page: Page) -> None:
    """Fail with the words of an alert, if there is one."""
    assert await page.locator("[role=alert]").all_inner_texts() == []


@pytest.mark.parametrize(
    ("locale", "theme", "width"), [("en-US", "light", 1440), ("zh-CN", "dark", 1440), ("en-US", "dark", 420)]
)
async def test_an_outage_is_one_line_that_goes_by_itself(browser: Browser, locale: str, theme: str, width: int) -> None:
    """A run goes on meanwhile, and a question that was asked is sent once when the gateway is back."""
    async with serve_script(Script(days=30)) as house, lay_cable(house.url) as cable:
        page = (await open_page(browser, cable.url, width=width, locale=locale, theme=theme)).page
        house.planner.hold(before=8)
        await ask(page)
        await expect(page.locator(".trace .row")).to_have_count(4)
        cable.cut()
        for part in WORDS[locale]:
            await expect(page.locator("#offline")).to_contain_text(part)
        assert await page.locator("#offline p").count() == 1
        await require_calm(page)
        # What is written stays, while it waits and if it is taken back; the focus stays at the question.
        await ask(page, FOLLOW_UP)
        waiting = page.locator("#waiting-question")
        await expect(waiting).to_contain_text(FOLLOW_UP)
        await expect(page.locator("#question")).to_have_value(FOLLOW_UP)
        await expect(page.locator("#question")).to_be_focused()
        await require_calm(page)
        await check(page, "offline")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # Whoever is at the button when the question leaves goes on at the question.
        await waiting.get_by_role("button").focus()
        house.planner.release()
        cable.mend()
        await expect(page.locator("#offline p")).to_have_count(0)
        await expect(waiting.locator("p")).to_have_count(0)
        await expect(page.locator(".trace.over")).to_have_count(2)
        await expect(page.locator("#question")).to_have_value("")
        await expect(page.locator("#question")).to_be_focused()
        assert [run.request.question for run in house.planner.runs.values()] == [QUESTION, FOLLOW_UP]


async def test_a_part_of_the_page_that_is_first_wanted_in_an_outage_is_read_after_it(browser: Browser) -> None:
    """The rows of a trace read what lists their hits with the first hit; its file is on its way when the gateway goes."""
    async with serve_script(Script(days=30)) as house, lay_cable(house.url) as cable:
        page = (await open_page(browser, cable.url)).page
        gone = asyncio.Event()

        async def come_late(route: Route) -> None:
            await gone.wait()
            await route.continue_()

        await page.route("**/results-*.js", come_late)
        house.planner.hold(before=8)
        async with page.expect_request("**/results-*.js"):
            await ask(page)
        cable.cut()
        async with page.expect_event("requestfailed", lambda failed: "/results-" in failed.url):
            gone.set()
        await expect(page.locator("#offline")).to_contain_text("Offline since")
        await require_calm(page)
        house.planner.release()
        cable.mend()
        await expect(page.locator(".trace.over")).to_have_count(1)
        await expect(page.locator(".trace .row .hits").first).to_be_attached()
        await require_no_alert(page)


async def test_a_stream_without_pings_is_opened_again_and_one_with_them_is_not(browser: Browser) -> None:
    async with serve_script(Script(days=30), heartbeat_s=0.05) as house, lay_cable(house.url) as cable:
        page = (await open_page(browser, cable.url)).page
        # Time of the page alone: half a minute of silence passes at once.
        await page.clock.install()
        house.planner.hold(before=8)
        await ask(page)
        await expect(page.locator(".trace .row")).to_have_count(4)
        for _ in range(4):
            heard = cable.pings
            await eventually(lambda heard=heard: cable.pings > heard + 2)
            await page.clock.fast_forward(12_000)
        assert house.planner.watched == [0]
        cable.silence()
        house.planner.release()
        await page.clock.fast_forward(15_000)
        assert house.planner.watched == [0]
        await page.clock.fast_forward(16_000)
        await expect(page.locator(".trace.over")).to_have_count(1)
        await expect(page.locator("#offline p")).to_have_count(0)


async def test_a_question_that_waits_is_taken_back(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house, lay_cable(house.url) as cable:
        page = (await open_page(browser, cable.url)).page
        await expect(page.locator("#welcome")).to_be_visible()
        cable.cut()
        await ask(page)
        waiting = page.locator("#waiting-question")
        await expect(waiting).to_contain_text(QUESTION)
        await page.locator("#question").press("Escape")
        await expect(waiting.locator("p")).to_have_count(0)
        await expect(page.locator("#question")).to_have_value(QUESTION)
        cable.mend()
        await expect(page.locator("#offline p")).to_have_count(0)
        assert house.planner.asked == []
        # It can be asked after all.
        await page.locator("#question").press("Enter")
        await expect(page.locator(".trace.over")).to_have_count(1)
        assert len(house.planner.runs) == 1


async def test_a_question_whose_acceptance_is_lost_is_asked_once(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house, lay_cable(house.url) as cable:
        page = (await open_page(browser, cable.url)).page
        await expect(page.locator("#welcome")).to_be_visible()
        cable.loses_answers = True
        await ask(page)
        await cable.lost.wait()
        await expect(page.locator("#offline")).to_contain_text("Offline since")
        cable.mend()
        await expect(page.locator(".trace.over")).to_have_count(1)
        assert len(house.planner.runs) == 1
        assert await page.locator(".turn").count() == 1


async def test_a_browser_without_a_network_is_believed_only_if_the_gateway_is_not_reached(browser: Browser) -> None:
    """A gateway on the reader's own machine needs none."""
    async with serve_script(Script(days=30)) as house:
        page = (await open_page(browser, house.url)).page
        await expect(page.locator("#welcome")).to_be_visible()
        async with page.expect_response("**/healthz/live") as asked:
            await page.evaluate("dispatchEvent(new Event('offline'))")
        assert (await asked.value).ok
        await expect(page.locator("#offline p")).to_have_count(0)
        await page.context.set_offline(True)
        await expect(page.locator("#offline")).to_contain_text("Offline since")
        await page.context.set_offline(False)
        await expect(page.locator("#offline p")).to_have_count(0)
