"""The page in headless Chromium: one question from asking to hovering the chart, and what must never happen.

The page is replayed from a script; ``test_stack_page.py`` takes the same journey through every real service.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import HOSTILE, QUESTION, Script, draw_figure

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]


@pytest_asyncio.fixture(loop_scope="session")
async def house() -> AsyncIterator[ReplayHouse]:
    script = Script()
    script.figures = [draw_figure(script)]
    async with serve_script(script) as found:
        yield found


async def journey(page: Page, question: str) -> None:
    """Asks, waits for the answer, reads a citation, hovers the chart, sorts the table: on any gateway."""
    await expect(page.locator("#model-label")).to_contain_text("reference policy")
    await expect(page.locator("#window option")).to_have_count(5)
    await ask(page, question)
    await expect(page.locator(".trace.over")).to_contain_text(re.compile(r"Done · \d+ step"))
    await page.locator(".trace > details > summary").click()
    rows = page.locator(".trace .row[data-tool]")
    assert await rows.count() >= 2
    await rows.first.locator("summary").click()
    await expect(rows.first.locator("pre").first).to_be_visible()

    # Tables and figures push the text about while they load; a reader waits for that too.
    await expect(page.locator(".answer .plotly-figure .nsewdrag").first).to_be_visible()
    await expect(page.locator(".answer .table tbody tr").first).to_be_visible()
    chip = page.locator(".answer .cite").first
    await chip.scroll_into_view_if_needed()
    # A scroll hides the card: let the page paint before the hover, as a hand would.
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    await chip.hover()
    await expect(page.locator("#card")).to_be_visible()
    assert len(await page.locator("#card").inner_text()) > 20
    number = await chip.get_attribute("data-cite")
    await chip.click()
    await expect(page.locator(f'#panel-body [data-number="{number}"]')).to_be_in_viewport()

    table = page.locator(".answer .table").first
    await expect(table.locator("tbody tr").first).to_be_visible()
    before = await table.locator("tbody tr").first.inner_text()
    await table.locator("th button").nth(1).click()
    await expect(table.locator("th").nth(1)).to_have_attribute("aria-sort", "ascending")
    await table.get_by_role("searchbox").fill("no row has this")
    await expect(table.locator("tbody tr")).to_have_count(0)
    await table.get_by_role("searchbox").fill("")
    await expect(table.locator("tbody tr").first).to_be_visible()
    await expect(table.locator("tbody tr").first).not_to_have_text(before)

    figure = page.locator(".answer .plotly-figure").first
    await figure.scroll_into_view_if_needed()
    drag = figure.locator(".nsewdrag").first
    await expect(drag).to_be_visible()
    box = await drag.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    await page.mouse.move(box["x"] + box["width"] * 0.52, box["y"] + box["height"] * 0.5)
    await expect(figure.locator(".hoverlayer .legend, .hoverlayer .hovertext").first).to_be_visible()


async def test_one_question_is_asked_answered_and_inspected(browser: Browser, house: ReplayHouse) -> None:
    watched = await open_page(browser, house.url)
    await journey(watched.page, QUESTION)
    page = watched.page
    assert await page.locator(".answer .plotly-figure .scatterlayer .trace").count() == 2
    await expect(page.locator(".answer [data-unknown=sheet_9]")).to_contain_text("does not exist")
    await expect(page.locator(".answer .typed td").first).to_be_visible()
    await expect(page.locator(".gaps .chip")).to_contain_text("CCC")
    await expect(page.locator(".after .gaps")).to_contain_text("Attach a file that has it")
    await expect(page.locator(".tools .badge")).to_contain_text("not a language model")
    await expect(page.locator("#conversations .entry")).to_have_count(1)
    assert watched.outside == []
    assert watched.complaints == []


async def test_the_intent_is_shown_before_the_result_and_a_reload_goes_on(browser: Browser, house: ReplayHouse) -> None:
    # With the first tool under way: its intent is known, and its result is not.
    house.planner.hold(before=8)
    page = (await open_page(browser, house.url)).page
    await ask(page)
    line = page.locator(".trace > details > summary .intent")
    await expect(line).to_have_text("get the daily prices of AAA, BBB and CCC")
    await expect(page.locator(".trace .stop")).to_be_visible()
    await page.reload()
    await expect(line).to_have_text("get the daily prices of AAA, BBB and CCC")
    # The reload follows the run that is there, and asks nothing again.
    assert len(house.planner.runs) == 1
    house.planner.release()
    await expect(page.locator(".answer h2")).to_have_text("AAA returned more, BBB fell less deeply")
    await page.reload()
    await expect(page.locator(".trace.over")).to_contain_text("5 steps · 2 sources · 1 sheet")
    await expect(page.locator(".answer .table tbody tr").first).to_be_visible()


async def test_a_stream_that_breaks_is_taken_up(browser: Browser, house: ReplayHouse) -> None:
    house.planner.break_after = 5
    page = (await open_page(browser, house.url)).page
    await ask(page)
    await expect(page.locator(".trace.over")).to_contain_text("Done · 5 steps")
    # Taken up behind what had come, instead of from the start.
    assert house.planner.watched[-1] > 0


async def test_escape_stops_the_run(browser: Browser, house: ReplayHouse) -> None:
    house.planner.hold(before=6)
    page = (await open_page(browser, house.url)).page
    await ask(page)
    await expect(page.locator(".trace .row")).to_have_count(3)
    await page.locator("#question").press("Escape")
    await expect(page.locator(".trace.over")).to_contain_text("Stopped")


async def test_hostile_markup_stays_text(browser: Browser) -> None:
    async with serve_script(Script(answer=HOSTILE, days=5)) as house:
        watched = await open_page(browser, house.url)
        await ask(watched.page, "<img src=x onerror=window.hacked=1>")
        await expect(watched.page.locator(".trace.over")).to_be_visible()
        await expect(watched.page.locator(".answer h1")).to_have_text('<img src=x onerror="window.hacked=1">')
        assert await watched.page.evaluate("window.hacked") is None
        assert await watched.page.locator("#thread :is(script, img, svg, iframe)").count() == 0
        hrefs = await watched.page.locator(".answer a").evaluate_all("links => links.map(link => link.href)")
        # A picture in the answer becomes a link: loading it would tell a stranger's server who reads what.
        assert hrefs == ["https://example.com/x.png"]
        assert watched.outside == []


async def test_a_refused_question_says_why(browser: Browser, house: ReplayHouse) -> None:
    page = (await open_page(browser, house.url)).page
    # One more than the gateway's limit, of which this page does not hear: it has none of its own, which could differ.
    await page.route("**/v1/limits", lambda route: route.fulfill(status=404, json={"title": "unknown"}))
    await page.reload()
    await ask(page, "x" * 8_001)
    await expect(page.locator("#problem")).to_contain_text("question: has 8,001 characters")
    assert house.planner.asked == []


@pytest.mark.parametrize("width", [420, 360])
async def test_the_embedded_page_has_no_chrome_and_no_sideways_scroll(
    browser: Browser, house: ReplayHouse, width: int
) -> None:
    page = (await open_page(browser, f"{house.url}/?embed=1", width=width, height=780)).page
    await expect(page.locator("header")).to_be_hidden()
    await expect(page.locator("nav")).to_be_hidden()
    await ask(page)
    await expect(page.locator(".plotly-figure .nsewdrag").first).to_be_visible(timeout=20_000)
    await expect(page.locator(".answer .table tbody tr").first).to_be_visible()
    # Wide tables and figures scroll within themselves; either of these would move the whole page.
    for place in ("document.documentElement", "document.getElementById('thread')"):
        assert await page.evaluate(f"{place}.scrollWidth <= {place}.clientWidth"), place
    await page.locator(".answer .cite").first.click()
    await expect(page.locator("#panel")).to_be_visible()


async def test_language_and_theme_follow_the_browser_and_the_reader(browser: Browser, house: ReplayHouse) -> None:
    page = (await open_page(browser, house.url, locale="zh-CN")).page
    await expect(page.locator("#send")).to_have_text("提问")
    await page.locator("#language").click()
    await expect(page.locator("#send")).to_have_text("Ask")
    await page.locator("#theme").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.reload()
    await expect(page.locator("#send")).to_have_text("Ask")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_a_conversation_is_opened_again_and_deleted(browser: Browser, house: ReplayHouse) -> None:
    page = (await open_page(browser, house.url)).page
    await ask(page)
    await expect(page.locator(".trace.over")).to_be_visible(timeout=20_000)
    await ask(page, "And over ten years?")
    await expect(page.locator(".trace.over")).to_have_count(2)
    assert len({request.conversation_id for request in house.planner.asked[1:]} - {""}) == 1
    await page.locator("#new").click()
    await expect(page.locator(".turn")).to_have_count(0)
    await page.locator(".entry .open").click()
    await expect(page.locator(".turn .answer h2")).to_have_count(2)
    # Deleting asks first: the first answer is no.
    await page.locator(".entry").hover()
    await page.locator(".entry .remove").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Cancel").press("Enter")
    await expect(page.locator(".entry .remove")).to_be_focused()
    await page.locator(".entry .remove").press("Enter")
    await page.get_by_role("alertdialog").get_by_role("button", name="Delete").press("Enter")
    await expect(page.locator(".entry")).to_have_count(0)
    await expect(page.locator("#welcome")).to_be_visible()


async def test_the_todo_list_is_live_and_editable_while_the_run_runs(browser: Browser, house: ReplayHouse) -> None:
    house.planner.hold(before=6)
    watched = await open_page(browser, house.url)
    page = watched.page
    await ask(page)
    await expect(page.locator(".trace .row")).to_have_count(3)
    run_id = next(iter(house.planner.runs))
    # Markup in an item is text, as in an answer.
    plan = [planner.TodoItem(text="prices", state="done"), planner.TodoItem(text="<b>drawdown</b>", state="open")]
    await house.planner.tell(run_id, todo_changed=planner.TodoChanged(items=plan))
    entries = page.locator(".todo li")
    await expect(entries).to_have_count(2)
    await expect(entries.nth(0).locator("input")).to_be_checked()
    await expect(entries.nth(1)).to_contain_text("<b>drawdown</b>")
    await page.locator(".todo form input").fill("compare with the index")
    await page.locator(".todo form input").press("Enter")
    await expect(entries).to_have_count(3)
    await entries.nth(1).locator("input").click()
    await expect(page.locator(".todo li.done")).to_have_count(2)
    await entries.nth(0).get_by_role("button", name="Remove").click()
    await expect(entries).to_have_count(2)
    kept = [(item.text, item.state) for item in house.planner.runs[run_id].todo]
    assert kept == [("<b>drawdown</b>", "done"), ("compare with the index", "open")]
    house.planner.release()
    await expect(page.locator(".trace.over")).to_contain_text("Done")
    await expect(page.locator(".todo form")).to_be_hidden()
    assert watched.complaints == []


async def test_a_stopped_run_goes_on_at_a_click(browser: Browser, house: ReplayHouse) -> None:
    house.planner.hold(before=6)
    watched = await open_page(browser, house.url)
    page = watched.page
    await ask(page)
    await expect(page.locator(".trace .row")).to_have_count(3)
    await page.locator(".trace .stop").click()
    await expect(page.locator(".trace.over")).to_contain_text("Stopped")
    house.planner.release()
    await page.locator(".trace .resume").click()
    await expect(page.locator(".trace.over")).to_contain_text("Done · 5 steps")
    await expect(page.locator(".answer h2")).to_have_text("AAA returned more, BBB fell less deeply")
    await expect(page.locator(".trace .resume")).to_be_hidden()
    await page.reload()
    await expect(page.locator(".trace.over")).to_contain_text("Done · 5 steps")
    assert watched.complaints == []


async def test_kinds_of_thought_the_meter_and_the_compaction_are_shown(browser: Browser, house: ReplayHouse) -> None:
    house.planner.hold(before=6)
    page = (await open_page(browser, house.url)).page
    await ask(page)
    await expect(page.locator(".trace .row")).to_have_count(3)
    run_id = next(iter(house.planner.runs))
    kinds = ("argument decomposition", "viewpoint attack", "data insight", "logical attribution", "plain")
    for kind in kinds:
        await house.planner.tell(run_id, thought=planner.Thought(text=f"a {kind}", kind=kind))
    # Longer than what is shown unfolded, with its conclusion at the end.
    long = "I weigh prices. " * 40 + "So growth comes first."
    await house.planner.tell(run_id, thought=planner.Thought(text=long, kind="reasoning"))
    folded = page.locator('.trace details[data-kind="reasoning"]')
    await expect(folded.locator("pre")).to_be_hidden()
    await folded.locator("summary").click()
    await expect(folded.locator("pre")).to_contain_text("So growth comes first.")
    sampled = planner.Sampled(step=1, prompt_tokens=18_000, completion_tokens=500, window_tokens=24_000)
    await house.planner.tell(run_id, sampled=sampled)
    await expect(page.locator(".trace meter")).to_have_attribute("title", "18,500 / 24,000 tokens")
    icons = [
        await page.locator(f'.thought[data-kind="{kind}"]', has_text=f"a {kind}").locator(".icon").inner_text()
        for kind in kinds
    ]
    assert len(set(icons)) == len(kinds)
    compacted = planner.Compacted(
        step=2, dropped_steps=[0, 1], tokens_before=18_500, tokens_after=9_000, policy="hybrid"
    )
    await house.planner.tell(run_id, compacted=compacted)
    await expect(page.locator(".row.mark")).to_contain_text("hybrid · 2 steps · 18,500 → 9,000 tokens")


async def test_the_window_policy_is_a_setting_that_stays(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        await page.select_option("#window", "delete")
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        assert house.planner.asked[0].window.policy == trajectory.STEP_POLICY_DELETE
        await page.reload()
        await expect(page.locator("#window")).to_have_value("delete")
        await page.context.close()


async def test_a_step_says_in_short_what_its_call_was_made_with(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        house.planner.hold(before=9)
        watched = await open_page(browser, house.url, width=900)
        page = watched.page
        await ask(page)
        brief = page.locator(".trace .row .args")
        await expect(brief).to_have_text(["maximum drawdown", "note-drawdown", '["AAA","BBB","CCC"]'])
        await expect(brief.first).to_be_visible()
        await page.set_viewport_size({"width": 420, "height": 900})
        # No room beside the intent: they stand below it, where the step is opened.
        await expect(brief.first).to_be_hidden()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert watched.complaints == []
