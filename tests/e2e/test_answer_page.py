"""The answer on the page in headless Chromium: marks and their reasons, chips, inline figures, citations, hostile text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, Route

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from tests.e2e.pages import CHROMIUM, Watched, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import HOSTILE, Script, draw_figure, walk

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]

REQUEST = planner.RunRequest(request_id="run_1", question="why?")
TEXT = """## Result 📈

AAA's drawdown was -0.387 [3] and BBB returned 999.9 % [2], on 2015-01-02 AAA stood at 100 [2].

A drawdown is the loss from a peak to a later trough [1]. Nobody expected it.

{{figure:fig_1}}

{{figure:code_5}}

{{table:sheet_1}}

**Missing:** CCC [4].
"""


def finding(text: str, words: str, kind: pb.FindingKind, detail: str, cited: int = 2) -> pb.Finding:
    start = text.index(words)
    return pb.Finding(start=start, end=start + len(words), kind=kind, text=words, detail=detail, cited=[cited])


def make_script() -> Script:
    """Make a run whose answer has a wrong number, an event that no material says, a removed citation, a failed figure."""
    script = Script(answer=TEXT)
    script.figures = [draw_figure(script)]
    script.findings = [
        finding(TEXT, "999.9 %", pb.FINDING_KIND_NUMBER, "neither in [2] nor in other material"),
        finding(TEXT, "Nobody expected it.", pb.FINDING_KIND_EVENT, "<img src=x onerror=window.hacked=1>", 1),
        finding(TEXT, "A drawdown is the loss from a peak to a later trough [1].", pb.FINDING_KIND_REPEATED, "above"),
        pb.Finding(start=len(TEXT), end=len(TEXT), kind=pb.FINDING_KIND_UNRESOLVED, text="[9]", detail="removed [9]"),
        finding(TEXT, "{{figure:code_5}}", pb.FINDING_KIND_FIGURE, "KeyError: 'Date'"),
    ]
    failed = pb.CodeRecord(id="f", code="px.line(sheet_1['Date'])", traceback="Traceback\nKeyError: 'Date'")
    script.answer_material = [pb.Material(number=5, code=failed)]
    return script


@asynccontextmanager
async def show_answer(browser: Browser, script: Script) -> AsyncIterator[Watched]:
    """Show the page with the run's answer on it; at the end nothing was asked for outside and nothing went wrong."""
    async with serve_script(script) as house:
        watched = await open_page(browser, house.url)
        await ask(watched.page)
        await expect(watched.page.locator(".trace.over")).to_be_visible()
        yield watched
        assert watched.outside == []
        assert watched.complaints == []
        assert await watched.page.evaluate("window.hacked") is None
        await watched.page.context.close()


async def card(page: Page, anchor: str) -> str:
    """The hover card of the first such element."""
    place = page.locator(anchor).first
    await place.scroll_into_view_if_needed()
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    await place.hover()
    await expect(page.locator("#card")).to_be_visible()
    return await page.locator("#card").inner_text()


async def test_what_does_not_hold_is_underlined_and_says_why(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page = watched.page
        await expect(page.locator(".answer .doubt.number")).to_have_text("999.9 %")
        assert "neither in [2]" in await card(page, ".answer .doubt.number")
        await expect(page.locator(".answer .doubt.event")).to_have_text("Nobody expected it.")
        assert "<img src=x" in await card(page, ".answer .doubt.event")
        assert "said before" in (await card(page, ".answer .doubt.point.repeated")).lower()
        await expect(page.locator(".after .chip.bad")).to_contain_text("[9]")
        await expect(page.locator(".after .chip.warn")).to_contain_text("unknown entity")
        assert "\ue000" not in await page.locator(".answer").inner_text()


async def test_a_failed_figure_is_shown_though_its_code_comes_after_the_text_was_drawn(browser: Browser) -> None:
    async with serve_script(make_script()) as house:
        page = (await open_page(browser, house.url)).page
        streams = 0

        async def hold_back_the_end(route: Route) -> None:
            nonlocal streams
            streams += 1
            if streams > 1:
                await expect(page.locator(".answer [data-unknown='code_5']")).to_be_visible()
                return await route.continue_()
            # The scripted run has ended when its stream is read, and its last event names the code.
            events = (await (await route.fetch()).text()).split("\r\n\r\n")
            body = "".join(
                f"{event}\r\n\r\n" for event in events if "event: run" in event and '"finished"' not in event
            )
            await route.fulfill(status=200, content_type="text/event-stream", body=body)

        await page.route("**/events?*", hold_back_the_end)
        await ask(page)
        await expect(page.locator(".answer .broken-figure .chip")).to_contain_text("KeyError: 'Date'")


async def test_marks_are_there_again_after_a_reload(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page = watched.page
        await expect(page.locator(".answer .doubt.number")).to_be_visible()
        await page.reload()
        await page.locator("#conversations .open").first.click()
        await expect(page.locator(".answer .doubt.number")).to_have_text("999.9 %")
        await expect(page.locator(".answer .broken-figure")).to_contain_text("KeyError: 'Date'")


async def test_a_conversation_opened_while_the_reload_still_reads_it_is_shown_once(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page, asked, late = watched.page, asyncio.Queue[str](), asyncio.Event()

        async def hold(route: Route) -> None:
            asked.put_nowait(route.request.url)
            if not late.is_set():
                await late.wait()
            await route.continue_()

        await page.route("**/v1/conversations/*", hold)
        await page.reload()
        await asked.get()
        await page.locator("#conversations .open").first.click()
        await asked.get()
        late.set()
        await expect(page.locator(".answer .doubt.number")).to_have_text("999.9 %")
        await page.wait_for_load_state("networkidle")
        await expect(page.locator(".turn")).to_have_count(1)


async def test_an_answer_that_comes_after_the_reader_left_is_not_shown(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page, asked, late = watched.page, asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            asked.set()
            await late.wait()
            await route.continue_()

        await page.route("**/v1/runs/*", hold)
        await page.locator("#conversations .open").first.click()
        await asked.wait()
        await page.locator("#new").click()
        late.set()
        await page.wait_for_load_state("networkidle")
        await expect(page.locator(".turn")).to_have_count(0)
        await expect(page.locator("#welcome")).to_be_visible()


async def test_a_failed_figure_is_a_chip_with_its_code_beside_the_table(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page = watched.page
        await expect(page.locator(".answer .broken-figure .chip")).to_contain_text("KeyError: 'Date'")
        await expect(page.locator(".answer .table tbody tr").first).to_be_visible()
        await page.locator(".answer .broken-figure button").click()
        await expect(page.locator('#panel-body [data-number="5"]')).to_contain_text("sheet_1['Date']")


async def test_citations_show_the_cell_the_printed_line_and_the_sentence(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page = watched.page
        await expect(page.locator(".answer .table tbody tr").first).to_be_visible()
        assert (await card(page, '.answer .cite[data-cite="3"]')).splitlines()[3].startswith("AAA.close_adj   -0.387")
        assert "largest loss from a peak to a later trough" in await card(page, '.answer .cite[data-cite="1"]')
        await page.locator('.answer .cite[data-cite="2"]').nth(1).hover()
        await expect(page.locator("#card .mono")).to_have_text("2015-01-02 · AAA.close_adj: 100")


@pytest.mark.parametrize(("locale", "page_name"), [("en-US", "page 7"), ("zh-CN", "第 7 页")])
async def test_a_card_shows_every_line_that_the_sentence_rests_on(
    browser: Browser, locale: str, page_name: str
) -> None:
    text = (
        "Sales in Europe fell by a tenth. Only Germany grew. <i>Nobody</i> knows why. The closure costs 12.5 million."
    )
    answer = (
        "The drawdowns were -0.387 for AAA and -0.312 for BBB [3]. "
        "Sales in Europe fell by a tenth, and the closure costs 12.5 million [9]. "
        "From 2015-01-02 to 2015-01-06 AAA went from {} to {}, and BBB stood at {} [2]."
    )
    first, _, third, *_ = walk(5, 0.0008, 1)
    # The second series begins a day later.
    other = walk(4, 0.0005, 2)[1]
    script = Script(answer=answer.format(first, third, other), days=5)
    document = Document(id="own_1:memo:7", title="memo", source="memo.pdf", page=7, text=text)
    script.answer_material = [pb.Material(number=9, passage=document)]
    async with serve_script(script) as house:
        page = (await open_page(browser, house.url, locale=locale)).page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        printed = (await card(page, '.answer .cite[data-cite="3"]')).splitlines()
        assert printed[3:5] == ["AAA.close_adj   -0.387", "BBB.close_adj   -0.312"]
        await page.locator('.answer .cite[data-cite="9"]').hover()
        await expect(page.locator("#card blockquote")).to_have_text(
            [
                f"{page_name} Sales in Europe fell by a tenth. Only Germany grew.",
                f"{page_name} The closure costs 12.5 million.",
            ]
        )
        await page.locator('.answer .cite[data-cite="2"]').hover()
        await expect(page.locator("#card .mono")).to_have_text(
            [
                f"2015-01-02 · AAA.close_adj: {first:g}",
                f"2015-01-06 · AAA.close_adj: {third}",
                f"2015-01-06 · BBB.close_adj: {other}",
            ]
        )


async def test_an_inline_figure_hovers_zooms_and_toggles(browser: Browser) -> None:
    async with show_answer(browser, make_script()) as watched:
        page = watched.page
        figure = page.locator(".answer .plotly-figure")
        await figure.scroll_into_view_if_needed()
        drag = figure.locator(".nsewdrag").first
        await expect(drag).to_be_visible()
        order = await page.evaluate(
            "() => [...document.querySelectorAll('.answer > *')].map((e) => e.className || e.tagName)"
        )
        assert order.index("plotly-figure") < order.index("gaps broken-figure") < order.index("table")
        box = await drag.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        await page.mouse.move(box["x"] + box["width"] * 0.4, middle)
        await page.mouse.move(box["x"] + box["width"] * 0.42, middle)
        await expect(figure.locator(".hoverlayer .legend, .hoverlayer .hovertext").first).to_be_visible()
        before = await page.evaluate("() => document.querySelector('.plot').layout.xaxis.range.join()")
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=8)
        await page.mouse.up()
        changed = "(before) => document.querySelector('.plot').layout.xaxis.range.join() !== before"
        await page.wait_for_function(changed, arg=before)
        await figure.locator(".legend .legendtoggle").first.click()
        await page.wait_for_function(
            "() => document.querySelector('.plot').data.some((t) => t.visible === 'legendonly')"
        )


async def test_hostile_text_is_inert_with_marks_in_it(browser: Browser) -> None:
    text = (
        HOSTILE + "\n\n\ue0000\ue002<script>window.hacked=1</script>\ue003 <figure onload=window.hacked=1>12.5</figure>"
    )
    script = Script(answer=text)
    script.findings = [
        finding(text, "12.5", pb.FINDING_KIND_NUMBER, '"><script>window.hacked=1</script>'),
        finding(text, "bold", pb.FINDING_KIND_UNSUPPORTED, "x"),
        pb.Finding(start=-5, end=10**6, kind=pb.FINDING_KIND_EVENT, text="?", detail="out of range"),
        pb.Finding(start=9, end=3, kind=pb.FINDING_KIND_TIME, text="?", detail="turned round"),
    ]
    async with show_answer(browser, script) as watched:
        page = watched.page
        await expect(page.locator(".answer .doubt").first).to_be_visible()
        assert "</script>" in await card(page, ".answer .doubt.number")
        assert (
            await page.locator(".answer script, .answer img, .answer iframe, .answer svg:not(.main-svg)").count() == 0
        )


async def test_a_draft_is_shown_as_one_and_goes_when_a_check_takes_it_back(browser: Browser) -> None:
    script = Script(drafts=["AAA returned 999.9 % [3], which nobody expected."])
    async with serve_script(script) as house:
        before = next(index for index, event in enumerate(script.events(REQUEST)) if event.HasField("answer_replaced"))
        house.planner.hold(before + 1)
        watched = await open_page(browser, house.url)
        page = watched.page
        await ask(page)
        await expect(page.locator(".answer.draft")).to_contain_text("AAA returned 999.9 %")
        await expect(page.locator(".trace summary").first).to_contain_text("not checked yet")
        house.planner.release()
        await expect(page.locator(".trace.over")).to_be_visible()
        await expect(page.locator(".answer.draft")).to_have_count(0)
        await expect(page.locator(".answer")).not_to_contain_text("999.9")
        await expect(page.locator('.row.mark[data-why="correction"]')).to_have_count(1)
        assert watched.complaints == []
        await page.context.close()


async def test_a_report_is_said_to_be_one_in_the_trace(browser: Browser) -> None:
    script = make_script()
    script.form = planner.ANSWER_FORM_REPORT
    async with show_answer(browser, script) as watched:
        mark = watched.page.locator('.trace .row.mark[data-form="report"]')
        await expect(mark).to_have_text("☰The answer is a report in fixed sections")
