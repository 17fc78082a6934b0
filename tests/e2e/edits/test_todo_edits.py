"""The plan of a running run under the reader's hands: its steps rewritten and moved, from the keyboard."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Browser

from fathom.api.planner.v1 import planner_pb2 as planner
from tests.e2e.pages import CHROMIUM, Watched, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]
PLAN = (("prices", "done"), ("<b>drawdown</b>", "open"), ("the index", "open"))
WORDS = {"en-US": ("Move up", "Move down", "Change the text"), "zh-CN": ("上移", "下移", "修改文字")}


async def open_plan(
    browser: Browser, house: ReplayHouse, **options: Any
) -> tuple[Watched, str, list[planner.TodoItem]]:
    """Return a page on which a held run has told its plan, with the run's id and the plan."""
    house.planner.hold(before=6)
    watched = await open_page(browser, house.url, **options)
    await ask(watched.page)
    await expect(watched.page.locator(".trace .row")).to_have_count(3)
    run_id = next(iter(house.planner.runs))
    items = [planner.TodoItem(text=text, state=state) for text, state in PLAN]
    await house.planner.tell(run_id, todo_changed=planner.TodoChanged(items=items, change_id="1-call"))
    return watched, run_id, items


@pytest.mark.parametrize(("locale", "width"), [("en-US", 1440), ("zh-CN", 420)])
async def test_steps_are_rewritten_and_moved(browser: Browser, locale: str, width: int) -> None:
    up, down, change = WORDS[locale]
    async with serve_script(Script(days=30)) as house:
        watched, run_id, _ = await open_plan(browser, house, locale=locale, width=width)
        page = watched.page
        steps = page.locator(".todo li .text")
        await expect(steps).to_have_text([text for text, _ in PLAN])
        await expect(page.get_by_role("button", name=f"{up}: prices")).to_be_disabled()
        await expect(page.get_by_role("button", name=f"{down}: the index")).to_be_disabled()
        await check(page, "a plan that can be edited")
        # The button keeps the focus while its step moves, to the end and back.
        await page.get_by_role("button", name=f"{up}: the index").press("Enter")
        await expect(steps).to_have_text(["prices", "the index", "<b>drawdown</b>"])
        await expect(page.get_by_role("button", name=f"{up}: the index")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(steps).to_have_text(["the index", "prices", "<b>drawdown</b>"])
        await expect(page.get_by_role("button", name=f"{change}: the index")).to_be_focused()
        await page.get_by_role("button", name=f"{down}: prices").press("Enter")
        await expect(steps).to_have_text(["the index", "<b>drawdown</b>", "prices"])
        # Escape leaves the text as it was, and does not stop the run.
        await page.get_by_role("button", name=f"{change}: <b>drawdown</b>").press("Enter")
        field = page.locator(".todo .title")
        await expect(field).to_be_focused()
        await check(page, "a step that is rewritten")
        await field.fill("not this")
        await field.press("Escape")
        await expect(page.get_by_role("button", name=f"{change}: <b>drawdown</b>")).to_be_focused()
        await page.keyboard.press("Enter")
        await field.fill("最大回撤 <i>")
        await field.press("Enter")
        await expect(steps).to_have_text(["the index", "最大回撤 <i>", "prices"])
        await expect(page.get_by_role("button", name=f"{change}: 最大回撤 <i>")).to_be_focused()
        kept = [(item.text, item.state) for item in house.planner.runs[run_id].todo]
        assert kept == [("the index", "open"), ("最大回撤 <i>", "open"), ("prices", "done")]
        house.planner.release()
        await expect(page.locator(".trace.over")).to_be_visible()
        await expect(page.locator(".todo .act")).to_have_count(0)
        assert watched.complaints == []


async def test_a_step_that_the_model_takes_away_is_not_brought_back(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        watched, run_id, items = await open_plan(browser, house)
        page = watched.page
        await page.get_by_role("button", name="Change the text: the index").press("Enter")
        await page.locator(".todo .title").fill("the index of 2015")
        # Changes elsewhere in the list leave what is being written alone.
        await house.planner.tell(run_id, todo_changed=planner.TodoChanged(items=items[1:]))
        await expect(page.locator(".todo li")).to_have_count(2)
        await expect(page.locator(".todo .title")).to_have_value("the index of 2015")
        await house.planner.tell(run_id, todo_changed=planner.TodoChanged(items=items[:1]))
        await expect(page.locator(".todo li .text")).to_have_text(["prices"])
        await expect(page.locator(".todo .title")).to_have_count(0)
        assert house.planner.runs[run_id].todo == []
        assert watched.complaints == []


@pytest.mark.parametrize(
    ("locale", "width", "change", "add", "outdated"),
    [
        ("en-US", 1440, "Change the text", "Add a step", "The plan was changed meanwhile"),
        ("zh-CN", 420, "修改文字", "添加步骤", "计划已在此期间更改"),
    ],
)
async def test_an_edit_of_an_earlier_plan_shows_the_newer_one_and_keeps_what_was_typed(
    browser: Browser, locale: str, width: int, change: str, add: str, outdated: str
) -> None:
    async with serve_script(Script(days=30)) as house:
        watched, run_id, items = await open_plan(browser, house, locale=locale, width=width)
        page = watched.page
        steps, field, added = (
            page.locator(".todo li .text"),
            page.locator(".todo .title"),
            page.locator(".todo form input"),
        )
        await expect(steps).to_have_text([text for text, _ in PLAN])
        # What another reader does reaches the server before it reaches this page.
        await house.planner.change_silently(run_id, planner.TodoChanged(items=items[:2], change_id="theirs"))
        await page.get_by_role("button", name=f"{change}: prices").press("Enter")
        await field.fill("prices of 2015")
        await field.press("Enter")
        await expect(page.locator(".todo [role=status]")).to_contain_text(outdated)
        await expect(field).to_have_value("prices of 2015")
        await expect(field).to_be_focused()
        await expect(page.locator(".todo li")).to_have_count(2)
        await check(page, "an edit of an earlier plan")
        # Made again, it is an edit of the plan that is shown now.
        await field.press("Enter")
        await expect(steps).to_have_text(["prices of 2015", "<b>drawdown</b>"])
        await expect(page.locator(".todo [role=status]")).to_have_count(0)
        await house.planner.change_silently(run_id, planner.TodoChanged(items=items[1:2], change_id="theirs again"))
        await added.fill("the index of 2015")
        await added.press("Enter")
        await expect(page.locator(".todo [role=status]")).to_contain_text(outdated)
        await expect(steps).to_have_text(["<b>drawdown</b>"])
        await expect(added).to_have_value("the index of 2015")
        await added.press("Enter")
        await expect(steps).to_have_text(["<b>drawdown</b>", "the index of 2015"])
        await expect(added).to_have_value("")
        assert [item.text for item in house.planner.runs[run_id].todo] == ["<b>drawdown</b>", "the index of 2015"]
        await expect(page.get_by_label(add).first).to_be_visible()
        assert len(watched.complaints) == 2
        assert all("409" in one for one in watched.complaints)


async def test_two_edits_at_once_are_both_kept(browser: Browser) -> None:
    """The second one waits for the first, and is one of the plan that the first has made."""
    async with serve_script(Script(days=30)) as house:
        watched, run_id, _ = await open_plan(browser, house)
        page = watched.page
        await expect(page.locator(".todo li")).to_have_count(3)
        await page.evaluate("""() => {
            for (const box of document.querySelectorAll(".todo input[type=checkbox]")) box.click();
        }""")
        for name, is_done in (("prices", False), ("<b>drawdown</b>", True), ("the index", True)):
            await expect(page.get_by_role("checkbox", name=name)).to_be_checked(checked=is_done)
        kept = [(item.text, item.state) for item in house.planner.runs[run_id].todo]
        assert kept == [("prices", "open"), ("<b>drawdown</b>", "done"), ("the index", "done")]
        assert watched.complaints == []
