"""A conversation of 200 turns, in headless Chromium: what is out of sight costs no layout, and the keys work."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from fathom.api.planner.v1 import planner_pb2 as planner
from tests.e2e.doubles.planner import Replayed
from tests.e2e.pages import CHROMIUM, expect, open_page
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
TURNS = 200
WIDE = "\n".join(
    "| " + " | ".join(cells) + " |"
    for cells in (
        [f"measure number {column}" for column in range(30)],
        ["---"] * 30,
        [f"{column * 1234.5:,.2f}" for column in range(30)],
    )
)
LAID_OUT = (
    "() => [...document.querySelectorAll('.turn > .answer')]"
    ".filter((answer) => answer.checkVisibility({ contentVisibilityAuto: true })).length"
)


def fill(house: ReplayHouse, turns: int) -> str:
    """Let the planner have played that many runs of one conversation, and return its id."""
    for number in range(1, turns + 1):
        request = planner.RunRequest(
            request_id=f"run_{number}", question=f"Question {number}?", conversation_id="conv_long"
        )
        house.planner.runs[request.request_id] = Replayed(request, list(house.planner.script.events(request)))
    return "conv_long"


async def test_200_turns_with_wide_tables_are_laid_out_only_where_they_are_in_sight(browser: Browser) -> None:
    async with serve_script(Script(answer=f"A wide table:\n\n{WIDE}\n\n{'More words. ' * 60}", days=5)) as house:
        conversation = fill(house, TURNS)
        watched = await open_page(browser, f"{house.url}/#c={conversation}")
        page = watched.page
        await expect(page.locator(".turn")).to_have_count(TURNS)
        await expect(page.locator(".turn > .answer table")).to_have_count(TURNS)
        await expect(page.locator(".asked").last).to_be_in_viewport()
        assert 1 <= await page.evaluate(LAID_OUT) < 20
        # Thirty columns scroll within their table, one line each, and the page does not move sideways.
        table = page.locator(".typed").last
        assert await table.locator(".scroll").evaluate("(place) => place.scrollWidth > place.clientWidth")
        assert await table.locator("td").first.evaluate("(cell) => cell.getBoundingClientRect().height") < 40
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await page.locator("#question").press_sequentially("Still quick?")
        await expect(page.locator("#question")).to_have_value("Still quick?")
        await page.locator("#question").blur()
        await page.locator(".trace > details > summary").last.focus()
        for _ in range(3):
            await page.keyboard.press("k")
        await expect(page.locator(".trace > details > summary").nth(TURNS - 4)).to_be_focused()
        await expect(page.locator(".asked").nth(TURNS - 4)).to_be_in_viewport()
        await page.keyboard.press("j")
        await expect(page.locator(".trace > details > summary").nth(TURNS - 3)).to_be_focused()
        assert watched.complaints == []
