"""Test what the page makes of a reading, a question back, a model's thoughts and an effort, in headless Chromium."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb
from tests.e2e.pages import CHROMIUM, Watched, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import SHEET_ID, Script

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]

ASKED = "How volatile was 📈 Apple in 2020, weekly?"
THOUGHT = "I weigh weekly against daily prices. " * 12 + "Daily is all there is."
OPTIONS = ["How volatile was Apple in 2020?", "How volatile was Microsoft in 2020?"]


def read_slot(kind: str, text: str, value: str, state: str, detail: str = "") -> pb.Slot:
    """Return a slot at its words in the question, in code points as the contract counts them."""
    start = ASKED.index(text)
    return pb.Slot(
        kind=datafetch.MentionKind.Value(f"MENTION_KIND_{kind}"),  # type: ignore[arg-type]
        text=text,
        value=value,
        start=start,
        end=start + len(text),
        state=pb.SlotState.Value(f"SLOT_STATE_{state}"),  # type: ignore[arg-type]
        detail=detail,
    )


def make_script() -> Script:
    """Make a run whose answer leaves one of the question's slots open, played by a model that thinks."""
    slots = [
        read_slot("MEASURE", "volatile", "volatility", "FILLED"),
        read_slot("ENTITY", "Apple", "AAPL", "FILLED"),
        read_slot("PERIOD", "2020", "2020-01-01/2020-12-31", "FILLED"),
        read_slot("FREQUENCY", "weekly", "weekly", "OPEN", "the values are daily"),
        pb.Slot(text="no risk-free rate", state=pb.SLOT_STATE_UNSURE, source=pb.SLOT_SOURCE_MODEL),
    ]
    reading = pb.Reading(question=ASKED, line="Read as: Apple (AAPL) · volatile · weekly · 2020", slots=slots)
    notice = "**Not covered:** weekly (the values are daily)."
    return Script(answer=f"{notice}\n\nApple's volatility was 0.47 [3].", days=30, reading=reading, reasoning=THOUGHT)


@asynccontextmanager
async def show(browser: Browser, script: Script, **options: Any) -> AsyncIterator[tuple[Page, ReplayHouse]]:
    """Show the page with the run's answer; at the end nothing was asked for outside and nothing went wrong."""
    async with serve_script(script) as house:
        watched: Watched = await open_page(browser, house.url, **options)
        await ask(watched.page, ASKED)
        await expect(watched.page.locator(".trace.over")).to_be_visible()
        yield watched.page, house
        assert watched.outside == []
        assert watched.complaints == []
        await watched.page.context.close()


async def test_the_reading_is_a_line_of_chips_and_what_is_not_covered_comes_first(browser: Browser) -> None:
    async with show(browser, make_script()) as (page, _):
        line = page.get_by_role("group", name="Read as: Apple (AAPL) · volatile · weekly · 2020")
        # The whole of it is under the question's words, before what the run did and what it answers.
        await expect(line.locator(".line")).to_have_text("Read as: Apple (AAPL) · volatile · weekly · 2020")
        await expect(page.locator(".asked-line + .reading")).to_have_count(1)
        chips = line.get_by_role("listitem")
        assert await chips.all_inner_texts() == [
            "volatile", "Apple AAPL", "2020 2020-01-01 – 2020-12-31", "⚠ weekly", "no risk-free rate",
        ]  # fmt: skip
        weekly = line.get_by_role("button", name=re.compile("^weekly: not covered: the values are daily"))
        await expect(weekly).to_have_attribute("data-state", "open")
        await expect(page.locator(".answer > *").first).to_have_text("Not covered: weekly (the values are daily).")


async def test_a_chip_that_is_changed_asks_anew_with_that_slot_changed(browser: Browser) -> None:
    """By keyboard alone; a question half written in the composer stays."""
    async with show(browser, make_script()) as (page, house):
        await page.locator("#question").fill("a later question")
        await page.locator(".reading button", has_text="Apple").focus()
        await page.keyboard.press("Enter")
        field = page.get_by_role("textbox", name="Other words for Apple")
        await expect(field).to_be_focused()
        await page.keyboard.type("Microsoft")
        await page.keyboard.press("Enter")
        await expect(page.locator(".turn")).to_have_count(2)
        assert house.planner.asked[-1].question == "How volatile was 📈 Microsoft in 2020, weekly?"
        assert house.planner.asked[-1].conversation_id
        await expect(page.locator("#question")).to_have_value("a later question")


async def test_a_chip_left_with_escape_or_unchanged_asks_nothing(browser: Browser) -> None:
    async with show(browser, make_script()) as (page, house):
        weekly = page.locator(".reading button", has_text="weekly")
        await weekly.click()
        await page.keyboard.type("daily")
        await page.keyboard.press("Escape")
        await expect(weekly).to_be_focused()
        await weekly.press("Enter")
        await page.keyboard.press("Enter")
        await expect(weekly).to_be_focused()
        await weekly.click()
        await page.locator("#question").click()
        await expect(page.locator(".reading input")).to_have_count(0)
        assert len(house.planner.asked) == 1


@pytest.mark.parametrize(
    ("locale", "theme", "width", "said", "name"),
    [
        ("en-US", "light", 1440, "Question understood as:", "Edit the question as it was read, and ask it again"),
        ("zh-CN", "dark", 420, "问题理解为：", "修改所理解的问题并重新提问"),
    ],
)
async def test_a_follow_up_shows_the_whole_question_that_was_made_of_it(
    browser: Browser, locale: str, theme: str, width: int, said: str, name: str
) -> None:
    """While the run is followed and from its record; what is edited there is asked as a whole."""
    script = make_script()
    assert script.reading is not None
    script.reading.question = "How volatile was 📈 Microsoft in 2020, <b>weekly</b>?"
    async with show(browser, script, locale=locale, theme=theme, width=width) as (page, house):
        for _again in range(2):
            understood = page.locator(".asked-line + .reading .understood")
            await expect(understood).to_have_text(said + script.reading.question)
            await check(page, "understood")
            await page.get_by_role("button", name=name).press("Enter")
            field = page.get_by_role("textbox", name=name)
            await expect(field).to_have_value(script.reading.question)
            await check(page, "edited reading")
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("button", name=name)).to_be_focused()
            await page.reload()
        await page.get_by_role("button", name=name).press("Enter")
        await page.keyboard.type("How volatile was Oracle in 2020?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".turn")).to_have_count(2)
        assert [request.question for request in house.planner.asked] == [ASKED, "How volatile was Oracle in 2020?"]


async def test_the_reading_and_the_page_speak_the_readers_language(browser: Browser) -> None:
    async with show(browser, make_script(), locale="zh-CN") as (page, _):
        await expect(page.locator(".reading")).to_contain_text("修改其中一项：")
        await expect(page.get_by_role("button", name=re.compile("weekly: 未涵盖"))).to_be_visible()
        await page.locator("#language").click()
        await expect(page.locator(".reading")).to_contain_text("Change a part:")
        await expect(page.get_by_role("button", name=re.compile("weekly: not covered"))).to_be_visible()


async def test_a_table_is_attached_named_and_sent_with_the_question(browser: Browser) -> None:
    async with show(browser, make_script()) as (page, house):
        file = {"name": "prices.csv", "mimeType": "text/csv", "buffer": b"date,a\n2020-01-02,1\n"}
        async with page.expect_file_chooser() as chooser:
            await page.get_by_role("button", name="Attach files").press("Enter")
        await (await chooser.value).set_files([file])  # type: ignore[arg-type, list-item]
        attached = page.get_by_role("list", name="Attached files")
        await expect(attached).to_contain_text("30 rows · 3 columns · rows not read: 1")
        await attached.get_by_role("button", name="Delete: prices.csv").press("Enter")
        await expect(attached).to_be_hidden()
        await page.locator("#files").set_input_files([file])  # type: ignore[arg-type, list-item]
        await expect(attached).to_contain_text("prices.csv")
        await ask(page, ASKED)
        await expect(page.locator(".trace.over")).to_have_count(2)
        assert list(house.planner.asked[-1].table_ids) == [SHEET_ID]
        # It stays for follow-ups, and with this conversation alone.
        await expect(attached).to_be_visible()
        await page.locator("#new").click()
        await expect(attached).to_be_hidden()


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
async def test_the_effort_is_chosen_beside_the_question_and_goes_with_it(browser: Browser, locale: str) -> None:
    names = {"en-US": ["Standard", "Quick", "Deep"], "zh-CN": ["标准", "快速", "深入"]}[locale]
    async with show(browser, make_script(), locale=locale) as (page, house):
        select = page.get_by_label("Effort" if locale == "en-US" else "投入", exact=True)
        assert await select.locator("option").all_inner_texts() == names
        for count, effort in enumerate(("quick", "deep"), 2):
            await select.select_option(effort)
            await ask(page, ASKED)
            await expect(page.locator(".trace.over")).to_have_count(count)
        await page.reload()
        await expect(select).to_have_value("deep")
    efforts = [request.effort for request in house.planner.asked]
    assert efforts == [planner.EFFORT_STANDARD, planner.EFFORT_QUICK, planner.EFFORT_DEEP]


async def test_a_thought_is_folded_and_never_in_the_answer(browser: Browser) -> None:
    """While the run is followed, and from its record after a reload."""
    async with show(browser, make_script()) as (page, _):
        for _again in range(2):
            thought = page.locator('.trace details[data-kind="reasoning"]')
            await page.locator(".trace > details > summary").click()
            await expect(thought).to_have_count(1)
            await expect(thought.locator("pre")).to_be_hidden()
            await thought.locator("summary").press("Enter")
            await expect(thought.locator("pre")).to_contain_text("Daily is all there is.")
            await expect(page.locator(".answer")).not_to_contain_text("I weigh weekly")
            await page.reload()
            await expect(page.locator(".trace.over")).to_be_visible()


@pytest.mark.parametrize(
    ("locale", "label"), [("en-US", "Which question do you mean?"), ("zh-CN", "您指的是哪个问题？")]
)
async def test_a_question_back_offers_its_options_as_buttons(browser: Browser, locale: str, label: str) -> None:
    lead = "Please say which question you mean: “it” can mean several things."
    text = "\n".join([lead, *(f"- {option}" for option in OPTIONS)])
    script = Script(answer=text, days=30, clarification=pb.Clarification(reference="it", options=OPTIONS))
    async with show(browser, script, locale=locale) as (page, house):
        await expect(page.locator(".answer")).to_have_text(lead)
        choices = page.get_by_role("list", name=label)
        assert await choices.get_by_role("button").all_inner_texts() == OPTIONS
        await choices.get_by_role("button").nth(1).focus()
        await page.keyboard.press("Enter")
        await expect(page.locator(".turn")).to_have_count(2)
        assert house.planner.asked[-1].question == OPTIONS[1]
        assert house.planner.asked[-1].conversation_id
        await page.reload()
        await expect(page.get_by_role("list", name=label).first.get_by_role("button")).to_have_count(2)
