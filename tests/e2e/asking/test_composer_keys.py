"""Keys and size of the field for questions and of the export in a real browser, and the place of a run that waits."""

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


async def test_up_recalls_the_last_question_into_an_empty_field_alone(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        question = page.locator("#question")
        for text in ("First?", "Second?"):
            await ask(page, text)
            await expect(question).to_have_value("")
        await question.press("ArrowUp")
        await expect(question).to_have_value("Second?")
        await question.fill("Third")
        await question.press("ArrowUp")
        await expect(question).to_have_value("Third")


async def test_shift_and_enter_break_the_line_and_enter_sends_both(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        question = page.locator("#question")
        await question.fill("One line")
        await question.press("Shift+Enter")
        await question.press_sequentially("and another")
        await expect(question).to_have_value("One line\nand another")
        assert house.planner.asked == []
        await question.press("Enter")
        await expect(page.locator(".trace.over")).to_be_visible()
        assert [run.question for run in house.planner.asked] == ["One line\nand another"]


async def test_enter_that_takes_a_candidate_of_an_input_method_sends_nothing(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        question = page.locator("#question")
        await question.press_sequentially("What of ")
        keyboard = await page.context.new_cdp_session(page)
        await keyboard.send("Input.imeSetComposition", {"text": "pingguo", "selectionStart": 7, "selectionEnd": 7})
        await question.dispatch_event("keydown", {"key": "Enter", "isComposing": True, "bubbles": True})
        # Safari ends the composition first, and then reports the key with the code of input methods.
        await keyboard.send("Input.insertText", {"text": "苹果"})
        await question.dispatch_event("keydown", {"key": "Enter", "keyCode": 229, "bubbles": True})
        await expect(question).to_have_value("What of 苹果")
        assert house.planner.asked == []
        await question.press("Enter")
        await expect(page.locator(".trace.over")).to_be_visible()
        assert [run.question for run in house.planner.asked] == ["What of 苹果"]


async def test_the_field_grows_with_its_lines_up_to_a_bound_and_then_scrolls(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        question = page.locator("#question")
        heights = []
        for lines in (1, 4, 60):
            await question.fill("\n".join(str(line) for line in range(lines)))
            heights.append(await question.evaluate("(box) => [box.clientHeight, box.scrollHeight]"))
        (one, _), (four, four_needed), (most, most_needed) = heights
        assert one < four == four_needed < most == 200 < most_needed
        await question.fill("")
        assert await question.evaluate("(box) => box.clientHeight") == one


@pytest.mark.parametrize("width", [1440, 1100, 900, 420])
async def test_what_stands_below_the_question_stays_within_its_box(browser: Browser, width: int) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url, width=width)).page
        await expect(page.locator("#model option").first).to_be_attached()
        bar = await page.locator(".bar").evaluate("(bar) => [bar.scrollWidth, bar.clientWidth]")
        assert bar[0] == bar[1]
        button, box = await page.locator("#send").bounding_box(), await page.locator(".box").bounding_box()
        assert button is not None
        assert box is not None
        assert button["x"] + button["width"] <= box["x"] + box["width"]


async def test_e_leads_to_the_export_of_the_last_answer(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        for number, text in enumerate(("First?", "Second?"), 1):
            await ask(page, text)
            await expect(page.locator(".tools .export")).to_have_count(number)
        await page.locator("#thread").focus()
        await page.keyboard.press("e")
        await expect(page.locator(".tools .export").last).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("menuitem").first).to_be_visible()


async def test_a_run_that_waits_says_how_many_are_before_it(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        house.planner.before = 3
        house.planner.hold(before=1)
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await expect(page.locator(".trace")).to_contain_text("In the queue, runs before this one: 3")
        house.planner.release()
        await expect(page.locator(".trace.over")).to_be_visible()
        await expect(page.locator(".trace.over")).not_to_contain_text("In the queue")


async def test_enter_begins_a_line_where_the_reader_wants_it_and_control_sends(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await page.get_by_role("button", name="Settings", exact=True).click()
        await page.get_by_label("The Enter key in the question").select_option("line")
        await page.keyboard.press("Escape")
        for _ in range(2):
            question = page.locator("#question")
            await expect(page.locator(".hint")).to_contain_text("Ctrl+Enter sends")
            await question.fill("One line")
            await question.press("Enter")
            await question.press_sequentially("and another")
            await expect(question).to_have_value("One line\nand another")
            await question.press("Control+Enter")
            await expect(page.locator(".trace.over")).to_be_visible()
            # Kept with the browser.
            await page.reload()
        assert [run.question for run in house.planner.asked] == ["One line\nand another"] * 2
