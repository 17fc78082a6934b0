"""The cells of a run as files, taken where the code stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


def read_text(path: Path) -> str:
    """Return the text of a file that the browser has taken."""
    return path.read_text()


@pytest.mark.parametrize(
    ("locale", "width", "notebook", "script"),
    [
        ("en-US", 1440, "Notebook (IPYNB)", "Script of the cells (PY)"),
        ("zh-CN", 420, "笔记本（IPYNB）", "代码脚本（PY）"),
    ],
)
async def test_the_code_panel_gives_notebook_and_script(
    browser: Browser, locale: str, width: int, notebook: str, script: str
) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        house.planner.hold(8)
        await ask(page)
        await expect(page.locator(".trace summary .step")).to_be_visible()
        if width < 1280:
            await page.locator("#panel-toggle").click()
        await page.locator("#tab-code").click()
        # While the run goes on there is no whole of it yet.
        await expect(page.locator(".code-files")).to_have_count(0)
        house.planner.release()
        files = page.locator(".code-files")
        async with page.expect_download() as taken:
            await files.get_by_role("button", name=notebook).press("Enter")
        kept = json.loads(read_text(await (await taken.value).path()))
        assert any("px.line(growth" in "".join(cell["source"]) for cell in kept["cells"])
        async with page.expect_download() as taken:
            await files.get_by_role("link", name=script).press("Enter")
        assert "px.line(growth" in read_text(await (await taken.value).path())
        await check(page, "files of the code")
        assert (watched.outside, watched.complaints) == ([], [])
