"""Events that a stream skips or reorders are asked for again, and each is shown once, in headless Chromium."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, Route

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


class Muddler:
    """Proxy of a page's first stream, which gives the run's events in another order and some of them twice or never."""

    def __init__(self, order: list[int]) -> None:
        self._order = order
        self.streams: list[str] = []

    async def pass_on(self, route: Route) -> None:
        """Answer a request for events."""
        self.streams.append(route.request.url)
        if len(self.streams) > 1:
            return await route.continue_()
        # Read to the run's end, which comes at once here.
        response = await route.fetch()
        events = [part for part in (await response.text()).split("\r\n\r\n") if "event: run" in part]
        assert len(events) > max(self._order)
        body = "".join(f"{events[place]}\r\n\r\n" for place in self._order)
        await route.fulfill(status=200, content_type="text/event-stream", body=body)


async def read_answer(page: Page) -> tuple[str, int]:
    """Return the text of the finished answer, and the number of steps in the trace."""
    await expect(page.locator(".trace.over")).to_contain_text("Done · 5 steps")
    await expect(page.locator(".answer .table tbody tr").first).to_be_visible()
    return await page.locator(".answer").inner_text(), await page.locator(".trace .row[data-tool]").count()


@pytest.mark.parametrize("order", [[0, 1, 4, 2, 3], [0, 1, 1, 0, 3], [2, 1, 0]], ids=["reordered", "repeated", "late"])
async def test_what_a_stream_skips_is_asked_for_again(browser: Browser, order: list[int]) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        usual = await read_answer(page)
        muddler = Muddler(order)
        muddled = (await open_page(browser, house.url)).page
        await muddled.route("**/events?*", muddler.pass_on)
        await ask(muddled)
        assert await read_answer(muddled) == usual
        # The first gap ended the stream: what came behind it was not taken for the newest.
        assert len(muddler.streams) > 1
