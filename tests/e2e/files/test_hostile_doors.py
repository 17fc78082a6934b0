"""Hostile text at the doors beside an answer, in a real browser: the page of a shared link and the list of facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.services.gateway.page import read_script
from fathom.services.gateway.reports import web_page
from tests.e2e.files.test_hostile_page import ALL, HostileScript, check_inert, count_shown, draw_hostile_figure
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.payloads import PAYLOADS
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]
DRAW = Path(web_page.__file__).with_name("draw.js")


@pytest.mark.parametrize("shared", ["run", "conversation"])
async def test_text_behind_a_shared_link_stays_text(browser: Browser, shared: str) -> None:
    fenced = "\n\n".join(f"```\n{payload}\n```" for payload in PAYLOADS)
    script = HostileScript(answer=f"{ALL}\n\n{{{{table:sheet_1}}}}\n\n{{{{figure:fig_1}}}}\n\n{fenced}", reasoning=ALL)
    script.figures = [draw_hostile_figure()]
    async with serve_script(script) as house:
        own = (await open_page(browser, house.url)).page
        await ask(own, ALL)
        await expect(own.locator(".trace.over")).to_be_visible()
        (request,) = house.planner.asked
        named = {"run": request.request_id, "conversation": script.conversation(request)}
        made = await own.request.post(f"{house.url}/v1/links", data={f"{shared}_id": named[shared]})
        assert made.status == 201, await made.text()
        watched = await open_page(browser, f"{house.url}{(await made.json())['path']}")
        page = watched.page
        await expect(page.locator(".nsewdrag").first).to_be_visible()
        await check_inert(watched, [read_script()[0].decode(), DRAW.read_text(encoding="utf-8")])
        assert await count_shown(page, "pre") == len(PAYLOADS)


async def test_text_of_facts_stays_text_where_they_are_listed_and_edited(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        for index, payload in enumerate(PAYLOADS):
            house.memory.facts[f"fact_{index}"] = memory.Fact(
                id=f"fact_{index}",
                text=payload,
                value=payload,
                subject=payload,
                kind=memory.FACT_KIND_WATCH_LIST,
                version=1,
            )
        watched = await open_page(browser, house.url)
        page = watched.page
        await page.locator("#tab-memory").click()
        facts = page.locator("#panel-body [data-fact]")
        await expect(facts).to_have_count(len(PAYLOADS))
        assert await count_shown(page, "#panel-body [data-fact]") == len(PAYLOADS)
        await check_inert(watched)
        await facts.first.get_by_role("button", name="Edit").click()
        await expect(facts.first.locator("[name=text]")).to_have_value(PAYLOADS[0])
        await check_inert(watched)
