"""The look at a page's layout: it names what is broken, and leaves in peace what is meant."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM
from tests.e2e.reach.looking import find_broken

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
BROKEN = {
    "overlap": "<span>Growth of both</span><span style='margin-left: -30px'>Drawdown of both</span>",
    "beyond the window": '<p style="position: absolute; left: 380px; white-space: nowrap">a line that goes on</p>',
    "cut off": '<p style="width: 60px; overflow: hidden; white-space: nowrap">a line that goes on</p>',
    "empty": '<aside style="width: 200px; height: 100px"><div></div></aside>',
}
MEANT = {
    "an ellipsis": (
        '<p style="width: 60px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis">a line that goes on</p>'
        '<button style="position: absolute; left: 80px; top: 16px">Delete</button>'
    ),
    "a place that scrolls": '<pre style="width: 60px; overflow: auto">a line that goes on</pre>',
    "a card over the text": (
        "<p>Growth of both</p>"
        '<div style="position: fixed; top: 20px; left: 60px"><p style="background: white; margin: 0">A card</p></div>'
    ),
    "a panel with a picture": '<aside><svg width="20" height="20"></svg></aside>',
    "words for screen readers": '<span style="position: absolute; width: 1px; height: 1px; overflow: hidden">a b c</span>',
}


async def look(browser: Browser, body: str) -> list[str]:
    page = await browser.new_page(viewport={"width": 420, "height": 300})
    try:
        await page.set_content(f'<!doctype html><body style="margin: 0; font: 16px sans-serif">{body}</body>')
        return await find_broken(page)
    finally:
        await page.close()


@pytest.mark.parametrize("kind", BROKEN)
async def test_what_is_broken_is_named(browser: Browser, kind: str) -> None:
    found = await look(browser, BROKEN[kind])
    assert [line.partition(":")[0] for line in found] == [kind]


@pytest.mark.parametrize("kind", MEANT)
async def test_what_is_meant_is_left_in_peace(browser: Browser, kind: str) -> None:
    assert await look(browser, MEANT[kind]) == []
