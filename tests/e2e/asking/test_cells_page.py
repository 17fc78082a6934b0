"""A cell of an answer's code that is changed and run again from the panel, in headless Chromium."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Browser

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.errors import NotReady
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.sandbox import ReplaySandbox
from tests.e2e.script import CODE, Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
HOSTILE = "<img src=x onerror=window.hacked=1>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="window.hacked=1"><rect/></svg>'
# A script, a request of its own, and ways out of the frame: all without effect.
HTML = (
    "<style>b{color:rgb(1,2,3)}</style><b>a table of its own</b><script>parent.hacked=1</script>"
    f"{HOSTILE}<img src='/healthz/live?from=frame'><a href='javascript:parent.hacked=1'>out</a>"
).encode()
WORDS = {
    "en-US": ("Change and run again", "Python of this cell", "Run", "Run again now; not part of the answer"),
    "zh-CN": ("修改并重新运行", "此单元的 Python 代码", "运行", "刚才重新运行的结果，不属于答案"),
}


@pytest.mark.parametrize("locale", WORDS)
async def test_a_cell_is_changed_and_its_result_stands_below_what_is_recorded(browser: Browser, locale: str) -> None:
    change, code, run, given = WORDS[locale]
    sandbox = ReplaySandbox()
    plot = json.dumps({"data": [{"type": "bar", "x": ["a", "b"], "y": [1, 2]}], "layout": {}}).encode()
    chunk = pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDOUT, text=HOSTILE)
    sandbox.answers["print(2)"] = [
        pb.ExecuteResponse(output=chunk),
        pb.ExecuteResponse(display=pb.Display(media_type="application/vnd.plotly.v1+json", data=plot)),
        pb.ExecuteResponse(display=pb.Display(media_type="image/svg+xml", data=SVG)),
        pb.ExecuteResponse(display=pb.Display(media_type="text/html", data=HTML)),
        pb.ExecuteResponse(outcome=pb.Outcome(status=pb.EXECUTE_STATUS_OK, duration_ms=3)),
    ]
    async with serve_script(Script(days=5), sandbox) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        await page.locator("#tab-code").click()
        cell = page.locator("#panel-body .source.code")
        await cell.get_by_role("button", name=change).press("Enter")
        field = cell.get_by_role("textbox", name=code)
        await expect(field).to_be_focused()
        await expect(field).to_have_value(CODE)
        # Escape leaves it, and the focus is not lost.
        await field.press("Escape")
        await expect(cell.get_by_role("button", name=change)).to_be_focused()
        await cell.get_by_role("button", name=change).press("Enter")
        await field.fill("print(2)")
        await field.press("Control+Enter")
        now = cell.get_by_role("region", name=given)
        await expect(now).to_contain_text(HOSTILE)
        await expect(now.locator(".plotly-figure .barlayer")).to_be_visible()
        await expect(now.locator("img")).to_have_js_property("naturalWidth", 9)
        frame = now.locator("iframe")
        # No right at all: neither scripts nor an origin.
        await expect(frame).to_have_attribute("sandbox", "")
        bold = frame.content_frame.locator("b")
        await expect(bold).to_have_text("a table of its own")
        await expect(bold).to_have_css("color", "rgb(1, 2, 3)")
        # What is recorded stays beside it.
        await expect(cell).to_contain_text("AAA.close_adj")
        assert sandbox.executed == ["print(2)"]
        sandbox.refusal = NotReady("no sandbox is there")
        await cell.get_by_role("button", name=run, exact=True).press("Enter")
        await expect(cell.get_by_role("alert")).to_contain_text("no sandbox is there")
        assert await page.evaluate("window.hacked") is None
        assert watched.outside == []
        await page.reload()
        await page.locator("#tab-code").click()
        await expect(cell).to_contain_text("AAA.close_adj")
        await expect(now).to_have_count(0)
