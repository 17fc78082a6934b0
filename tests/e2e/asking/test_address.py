"""The address says what is shown, also where it names a run of another conversation, in headless Chromium."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser

from fathom.api.planner.v1 import planner_pb2 as planner
from tests.e2e.doubles.planner import Replayed
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


def play(house: ReplayHouse, conversation: str, *runs: str) -> None:
    """Let the planner have played these runs of a conversation."""
    for run_id in runs:
        request = planner.RunRequest(request_id=run_id, question=f"Ask {run_id}?", conversation_id=conversation)
        house.planner.runs[run_id] = Replayed(request, list(house.planner.script.events(request)))


@pytest.mark.parametrize("address", ["run=run_b2", "c=conv_a&run=run_b2"])
async def test_a_run_of_another_conversation_is_shown_in_its_own(browser: Browser, address: str) -> None:
    async with serve_script(Script(days=5)) as house:
        play(house, "conv_a", "run_a1")
        play(house, "conv_b", "run_b1", "run_b2")
        page = (await open_page(browser, f"{house.url}/#{address}")).page
        await expect(page.locator(".asked")).to_have_text(["Ask run_b1?", "Ask run_b2?"])
        await expect(page).to_have_url(re.compile("c=conv_b"))
        await ask(page, "And then?")
        await expect(page.locator(".asked")).to_have_count(3)
        assert house.planner.asked[-1].conversation_id == "conv_b"


async def test_an_address_that_is_changed_on_the_page_is_followed(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        play(house, "conv_a", "run_a1")
        play(house, "conv_b", "run_b1")
        page = (await open_page(browser, f"{house.url}/#c=conv_a")).page
        await expect(page.locator(".asked")).to_have_text(["Ask run_a1?"])
        await page.evaluate("location.hash = '#c=conv_b'")
        await expect(page.locator(".asked")).to_have_text(["Ask run_b1?"])
        # The keyboard's way past the conversations is no address.
        await page.evaluate("document.querySelector('.skip').click()")
        await expect(page.locator("#question")).to_be_focused()
        await expect(page.locator(".asked")).to_have_text(["Ask run_b1?"])
