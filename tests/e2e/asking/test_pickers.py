"""Commands, names and material picked in the question by keyboard alone, in headless Chromium."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Route

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
FORMATS = "pdf docx pptx ipynb py xlsx html md json"


@pytest.mark.parametrize(
    ("locale", "typed", "picked"),
    [("en-US", "Did @a", "Did Apple Inc. (AAPL) rise?"), ("zh-CN", "比较@a", "比较苹果（AAPL） rise?")],
)
async def test_a_name_of_the_catalogue_is_picked_while_typing(
    browser: Browser, locale: str, typed: str, picked: str
) -> None:
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page, question = watched.page, watched.page.locator("#question")
        await question.press_sequentially(typed)
        options = page.locator(".picker [role=option]")
        await expect(options).to_have_count(2)
        # Names are text, whatever stands in them.
        if locale == "en-US":
            await expect(options.first).to_contain_text("Alpha <b>Industries</b>")
        await expect(question).to_have_attribute("aria-activedescendant", "picker-0")
        await question.press("ArrowDown")
        await expect(question).to_have_attribute("aria-activedescendant", "picker-1")
        await expect(options.nth(1)).to_have_attribute("aria-selected", "true")
        await question.press("Enter")
        await expect(options).to_have_count(0)
        await question.press_sequentially("rise?")
        await expect(question).to_have_value(picked)
        await expect(question).to_be_focused()
        assert house.planner.asked == [], "the key that picked sent nothing"
        await question.press("Enter")
        await expect(page.locator(".asked")).to_have_text(picked)
        assert (watched.outside, watched.complaints) == ([], [])


async def test_a_pick_waits_for_the_names_that_go_with_what_was_typed(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        question, late, asked = page.locator("#question"), asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            asked.set()
            await late.wait()
            await route.continue_()

        await question.press_sequentially("@a")
        await expect(page.locator(".picker [role=option]")).to_have_count(2)
        await page.route("**/v1/entities?query=app*", hold)
        await question.press_sequentially("pp")
        await asked.wait()
        # The list still shows what goes with less.
        await question.press("Enter")
        late.set()
        await expect(question).to_have_value("Apple Inc. (AAPL) ")
        assert house.planner.asked == []


async def test_escape_closes_the_list_and_stops_nothing(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        house.planner.hold(before=6)
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await expect(page.locator(".trace .row")).to_have_count(3)
        question = page.locator("#question")
        await question.press_sequentially("@a")
        await expect(page.locator(".picker [role=option]")).to_have_count(2)
        await question.press("Escape")
        await expect(page.locator(".picker [role=option]")).to_have_count(0)
        # It stays closed at this sign.
        await question.press_sequentially("a")
        await expect(page.locator(".picker")).to_have_count(0)
        await expect(page.locator(".trace .stop")).to_be_visible()
        await question.press("Escape")
        await expect(page.locator(".trace.over")).to_contain_text("Stopped")


async def test_tables_of_the_conversation_commands_and_frameworks_are_picked(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        question = page.locator("#question")
        await question.press_sequentially("Draw #adjust")
        await expect(page.locator(".picker [role=option]")).to_have_text(["Adjusted close of AAA and BBBTable"])
        await question.press("Tab")
        await expect(question).to_have_value("Draw “Adjusted close of AAA and BBB” ")
        await question.fill("")
        await question.press_sequentially("/valu")
        await question.press("Enter")
        await expect(question).to_have_value("Valuation: ")
        await question.fill("")
        await question.press_sequentially("/settings")
        await question.press("Enter")
        await expect(page.get_by_role("dialog", name="Settings")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(question).to_be_focused()
        await expect(question).to_have_value("")


@pytest.mark.parametrize(
    ("locale", "unknown", "nothing", "page_format"),
    [
        ("en-US", f"/export does not know “odt”; it takes {FORMATS}.", "There is no command /frob.", "Web page (HTML)"),
        ("zh-CN", f"/export 没有“odt”，可选 {FORMATS}。", "没有命令 /frob。", "网页（HTML）"),
    ],
)
async def test_commands_are_completed_with_what_they_take_and_unknown_ones_are_named(
    browser: Browser, locale: str, unknown: str, nothing: str, page_format: str
) -> None:
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page, question = watched.page, watched.page.locator("#question")
        options, problem = page.locator(".picker [role=option]"), page.locator("#problem")
        await question.press_sequentially("/export pdf")
        await question.press("Enter")
        await expect(problem).to_contain_text("/export")
        await expect(question).to_have_value("/export pdf")
        await ask(page, "Why?")
        await expect(page.locator(".trace.over")).to_be_visible()
        await question.press_sequentially("/exp")
        await question.press("Enter")
        await expect(question).to_have_value("/export ")
        await expect(options).to_have_count(9)
        await question.press_sequentially("htm")
        await expect(options).to_have_text([f"{page_format}/export html"])
        async with page.expect_download() as waiting:
            await question.press("Enter")
        assert (await waiting.value).suggested_filename.endswith(".html")
        await expect(question).to_have_value("")
        await question.fill("/export odt")
        await expect(page.locator(".picker [role=status]")).to_have_text(unknown)
        await question.press("Enter")
        await expect(problem).to_have_text(unknown)
        await expect(question).to_have_value("/export odt")
        await question.fill("/frob")
        await question.press("Enter")
        await expect(problem).to_contain_text(nothing)
        # Written to its end, where the list was closed.
        await question.fill("/Model smollm2-135M")
        await expect(options).to_have_count(1)
        await question.press("Escape")
        await question.press("Enter")
        await expect(page.locator("#model")).to_have_value("smollm2-135m")
        await expect(problem).to_have_count(0)
        await expect(question).to_have_value("")
        assert len(house.planner.asked) == 1
        # What only looks like a command is asked behind a space.
        await question.fill(" /frob")
        await question.press("Enter")
        await expect(page.locator(".asked").last).to_have_text("/frob")
        assert house.planner.asked[-1].model == "smollm2-135m"
        assert watched.complaints == []


@pytest.mark.parametrize(
    ("locale", "width", "wanted", "notes"),
    [
        ("en-US", 1440, "/compact wants one of standard off delete summarize hybrid.", "notes that keep their numbers"),
        ("zh-CN", 420, "/compact 之后应为 standard off delete summarize hybrid 之一。", "较早步骤改为保留数字的摘要"),
    ],
)
async def test_what_becomes_of_earlier_steps_is_chosen_by_a_command(
    browser: Browser, locale: str, width: int, wanted: str, notes: str
) -> None:
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page, question = watched.page, watched.page.locator("#question")
        await question.fill("/compact")
        await question.press("Escape")
        await question.press("Enter")
        await expect(page.locator("#problem")).to_have_text(wanted)
        # A list that was closed at a sign stays closed there.
        await question.fill("")
        await question.fill("/compact ")
        options = page.locator(".picker [role=option]")
        await expect(options).to_have_count(5)
        await check(page, "what becomes of earlier steps")
        await question.press_sequentially("summ")
        await expect(options).to_contain_text([notes])
        await question.press("Enter")
        await expect(question).to_have_value("")
        # The choice beside the question says the same, where there is room for it.
        await expect(page.locator("#window")).to_have_value("summarize")
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        assert house.planner.asked[-1].window.policy == trajectory.STEP_POLICY_SUMMARIZE
        # It stays for the questions after it, and is kept with the browser.
        await page.reload()
        await expect(page.locator("#window")).to_have_value("summarize")
        await question.fill("/compact standard")
        await question.press("Escape")
        await question.press("Enter")
        await expect(page.locator("#window")).to_have_value("")
        await ask(page, "And since then?")
        await expect(page.locator(".trace.over")).to_have_count(2)
        assert not house.planner.asked[-1].HasField("window")
        assert watched.complaints == []
