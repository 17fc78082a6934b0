"""The page below a path of another host: assets, streams, exports and shared links through a reverse proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import ClientSession, web
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script, draw_figure

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
PREFIX = "/desk/fathom"
# Of one connection each, so that a proxy must not pass them on (RFC 9110, 7.6.1).
HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})


@asynccontextmanager
async def serve_proxy(gateway: str, *, strips: bool) -> AsyncIterator[str]:
    """Serve a gateway below ``PREFIX`` on a port of its own, and nothing beside it; yield the address."""
    async with ClientSession(auto_decompress=False) as session:

        async def pass_on(request: web.Request) -> web.StreamResponse:
            path = request.path_qs.removeprefix(PREFIX) if strips else request.path_qs
            headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
            body = await request.read()
            async with session.request(
                request.method, gateway + path, headers=headers, data=body, allow_redirects=False
            ) as found:
                kept = {name: value for name, value in found.headers.items() if name.lower() not in HOP}
                answer = web.StreamResponse(status=found.status, headers=kept)
                # Piece by piece, as the events of a stream come; a page that is left takes no more of them.
                with suppress(ConnectionResetError):
                    await answer.prepare(request)
                    async for piece in found.content.iter_any():
                        await answer.write(piece)
                    await answer.write_eof()
                return answer

        app = web.Application()
        app.router.add_route("*", PREFIX + "/{rest:.*}", pass_on)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        try:
            yield f"http://{host}:{port}{PREFIX}"
        finally:
            await runner.cleanup()


@pytest.mark.parametrize("strips", [True, False])
async def test_the_whole_page_works_below_a_prefix(browser: Browser, strips: bool) -> None:
    script = Script()
    script.figures = [draw_figure(script)]
    async with serve_script(script, path_prefix=PREFIX) as house, serve_proxy(house.url, strips=strips) as url:
        watched = await open_page(browser, f"{url}/")
        page = watched.page
        await expect(page.locator("#model-label")).to_contain_text("reference policy")
        # The events come one by one: what is done is shown before the answer.
        house.planner.hold(before=8)
        await ask(page)
        await expect(page.locator(".trace .row")).to_have_count(4)
        house.planner.release()
        await expect(page.locator(".trace.over")).to_be_visible()
        await page.reload()
        await expect(page.locator(".plotly-figure .nsewdrag").first).to_be_visible()
        await expect(page.locator(".answer .table tbody tr").first).to_be_visible()
        await page.locator(".tools .export").click()
        async with page.expect_download() as saving:
            await page.get_by_role("menuitem", name="Markdown").click()
        assert await (await saving.value).failure() is None
        await page.locator(".tools .share").click()
        await page.get_by_role("dialog").get_by_role("button", name="Make the link").click()
        link = await page.locator("#made-link").input_value()
        assert link.startswith(f"{url}/shared/")
        seen = await page.context.new_page()
        await seen.goto(link)
        await expect(seen.get_by_role("heading").first).to_be_visible()
        await page.keyboard.press("Escape")
        await page.get_by_role("link", name="Analysis frameworks").click()
        await expect(page.locator("main")).to_contain_text("ESG")
        assert (watched.outside, watched.complaints) == ([], [])
