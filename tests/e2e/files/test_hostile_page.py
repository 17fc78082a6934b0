"""Hostile text on the page as it is built, in a real browser: wherever a text from outside is shown it stays text.

Each of the payloads stands in each place: question, thoughts, intents, arguments, results, documents, tables, code with
output and traceback, figures, answer, titles of conversations and names of files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1.datafetch_pb2 import Column
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.domain import frames
from tests.e2e.doubles.planner import Replayed
from tests.e2e.pages import CHROMIUM, Watched, ask, expect, open_page
from tests.e2e.payloads import PAYLOADS
from tests.e2e.replay import serve_script
from tests.e2e.script import SHEET_ID, Script

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]
ALL = "\n\n".join(PAYLOADS)
# Touches every element as a reader's hand might; a click on a link could leave the page, so links are read instead.
TOUCH = """() => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const element of document.querySelectorAll("*"))
    for (const kind of ["mouseover", "mouseenter", "focus", "focusin", "pointerover", "toggle", "load", "error"])
      element.dispatchEvent(new Event(kind, { bubbles: ["mouseover", "focusin", "pointerover"].includes(kind) }));
}"""
FOUND = """(own) => {
  const bad = [];
  // Data beside a figure run as little as a text does.
  const isOwn = (script) => script.src.startsWith(location.origin) || script.type === "application/json" || own.includes(script.text);
  for (const element of document.querySelectorAll("body *")) {
    if (["SCRIPT", "IFRAME", "OBJECT", "EMBED", "BASE", "META", "MATH", "MARQUEE"].includes(element.tagName))
      if (!(element.tagName === "SCRIPT" && isOwn(element))) bad.push(element.outerHTML);
    for (const { name, value } of element.attributes) {
      if (name.startsWith("on")) bad.push(`${element.tagName} ${name}=${value}`);
      if (/^(javascript|vbscript|data:text)/i.test(value.replace(/[\\s\\0]/g, "")) && ["href", "src", "action",
        "xlink:href", "srcdoc", "data"].includes(name)) bad.push(`${element.tagName} ${name}=${value}`);
    }
  }
  return bad;
}"""


class HostileScript(Script):
    """A run with a call, a document, a cell and a missing item per payload, and a table and a figure of them all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        pa = frames.arrow()
        columns: dict[str, Any] = {payload: [1.0] * len(PAYLOADS) for payload in PAYLOADS}
        self.arrow = frames.write_table(pa.table({"text": list(PAYLOADS), **columns}))
        self.sheet.title, self.sheet.rows = PAYLOADS[3], len(PAYLOADS)
        del self.sheet.columns[:]
        self.sheet.columns.append(Column(name="text", type="string"))
        for payload in PAYLOADS:
            self.sheet.columns.append(
                Column(name=payload, type="double", unit=payload, indicator=payload, entity=payload, source=payload)
            )

    def material(self) -> list[trajectory.Material]:
        refs = iter(self.figure_refs)
        figure = [trajectory.Figure(id="fig_1", title=PAYLOADS[3], ref=next(refs))]
        found = [trajectory.Material(number=1, sheet=self.sheet, variable="sheet_1")]
        for index, payload in enumerate(PAYLOADS):
            passage = Document(id=f"note-{index}", title=payload, source=payload, type=payload, text=payload)
            code = trajectory.CodeRecord(
                id=f"call_{index}", code=payload, stdout=payload, traceback=payload, ok=bool(index % 2)
            )
            if not index:
                code.ok, code.traceback = True, ""
                code.figures.extend(figure)
            missing = common.MissingItem(
                subject=payload, reason=common.MISSING_REASON_UNKNOWN_ENTITY, nearest=[payload], detail=payload
            )
            for what in ({"passage": passage}, {"code": code}, {"missing": missing}):
                found.append(trajectory.Material(number=len(found) + 1, **what))  # type: ignore[arg-type]
        return found

    def calls(self) -> Iterator[tuple[policy.ToolCall, trajectory.ToolResult, list[trajectory.Material]]]:
        material = self.material()
        for index, payload in enumerate(PAYLOADS):
            name = ("search", "python", "vendor_tool")[index % 3]
            arguments = json.dumps({"intent": payload, "query": payload, "code": payload})
            call = policy.ToolCall(id=f"call_{index}", name=name, arguments_json=arguments)
            given = material[:4] if not index else material[3 * index + 1 : 3 * index + 4]
            is_failed = bool(index % 2)
            status = trajectory.TOOL_STATUS_FAILED if is_failed else trajectory.TOOL_STATUS_OK
            said = {
                "tool": name,
                "status": "failed" if is_failed else "ok",
                "error": payload,
                "hits": [{"title": payload}],
            }
            result = trajectory.ToolResult(
                tool_call_id=call.id, tool=name, intent=payload, content=f"{json.dumps(said)}\n\n{payload}",
                status=status, material=[item.number for item in given],
            )  # fmt: skip
            yield call, result, given


def draw_hostile_figure() -> dict[str, Any]:
    """Draw a figure whose title, axes, names, texts, links and notes are the payloads."""
    traces = [{"type": "scatter", "x": [0, 1], "y": [n, n], "name": text, "text": [text, text], "hovertemplate": text}
              for n, text in enumerate(PAYLOADS)]  # fmt: skip
    notes = [{"x": 0, "y": n, "text": text, "hovertext": text} for n, text in enumerate(PAYLOADS)]
    links = {"text": f'<a href="javascript:{PAYLOADS[0]}">x</a>', "x": 1, "y": 1}
    layout = {"title": {"text": ALL}, "xaxis": {"title": {"text": ALL}}, "yaxis": {"title": {"text": ALL}}}
    return {"data": traces, "layout": {**layout, "annotations": [*notes, links]}}


async def check_inert(watched: Watched, scripts: Sequence[str] = ()) -> None:
    """Touch everything on the page, and see that no payload has acted, become an element or left the page.

    ``scripts`` are the texts of those that a page holds in itself.
    """
    page = watched.page
    # Twice: what is opened at the first touch may draw more.
    for _ in range(2):
        await page.evaluate(TOUCH)
        await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert await page.evaluate("window.hacked") is None
    assert await page.evaluate(FOUND, list(scripts)) == []
    assert (watched.outside, watched.complaints) == ([], [])


async def count_shown(page: Page, anchor: str) -> int:
    """Return how many payloads stand on the page as text below such elements."""
    text = "".join(await page.locator(anchor).all_text_contents())
    # A line break or tabulator in a text is white space on the page.
    return sum(" ".join(payload.split()) in " ".join(text.split()) for payload in PAYLOADS)


async def test_text_of_a_run_stays_text_wherever_it_is_shown(browser: Browser) -> None:
    fenced = "\n\n".join(f"```\n{payload}\n```" for payload in PAYLOADS)
    script = HostileScript(answer=f"{ALL}\n\n{{{{table:sheet_1}}}}\n\n{{{{figure:fig_1}}}}\n\n{fenced}", reasoning=ALL)
    script.figures = [draw_hostile_figure()]
    script.findings = [
        trajectory.Finding(start=3 * n, end=3 * n + 2, kind=trajectory.FINDING_KIND_NUMBER, text=text, detail=text)
        for n, text in enumerate(PAYLOADS)
    ]
    async with serve_script(script) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        await ask(page, ALL)
        await expect(page.locator(".trace.over")).to_be_visible()
        await expect(page.locator(".answer .plotly-figure .nsewdrag").first).to_be_visible()
        await page.locator(".trace > details > summary").click()
        await expect(page.locator(".trace .row .hits").first).to_be_attached()
        await check_inert(watched)
        assert await count_shown(page, ".trace .row") == len(PAYLOADS)
        # Titles of hits, and of what the calls have brought.
        assert await count_shown(page, ".trace ol.hits") == len(PAYLOADS)
        assert await count_shown(page, ".trace .made") == len(PAYLOADS)
        assert await count_shown(page, ".answer pre") == len(PAYLOADS)
        for tab in ("sources", "data", "code", "trace"):
            await page.locator(f"#tab-{tab}").click()
            await check_inert(watched)
            if tab in ("sources", "code"):
                assert await count_shown(page, "#panel-body") == len(PAYLOADS), tab
        await page.context.close()


async def test_titles_of_conversations_and_names_of_files_stay_text(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        for index, payload in enumerate(PAYLOADS):
            request = planner.RunRequest(request_id=f"run_{index}", question=payload)
            end = planner.RunEvent(
                sequence=1, run_id=request.request_id, finished=house.planner.script.finish_run(request)
            )
            house.planner.runs[request.request_id] = Replayed(request, [end])
        house.datafetch.import_ids = [f"{SHEET_ID[:-2]}{index:02d}" for index in range(len(PAYLOADS))]
        watched = await open_page(browser, house.url)
        page = watched.page
        await expect(page.locator("#conversations .entry")).to_have_count(len(PAYLOADS))
        assert await count_shown(page, "#conversations .entry") == len(PAYLOADS)
        await page.evaluate(
            """(names) => {
              const given = new DataTransfer();
              for (const name of names) given.items.add(new File(["a,b\\n1,2\\n"], name));
              const field = document.querySelector("#files");
              field.files = given.files;
              field.dispatchEvent(new Event("change", { bubbles: true }));
            }""",
            [f"{payload}.csv" for payload in PAYLOADS],
        )
        await expect(page.locator("#attach")).to_be_enabled()
        await expect(page.locator("#uploads li")).to_have_count(len(PAYLOADS))
        await check_inert(watched)
        await page.locator("#conversations .entry .open").first.click()
        await expect(page.locator(".answer").first).to_be_visible()
        await check_inert(watched)
        await page.context.close()
