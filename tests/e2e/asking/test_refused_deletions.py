"""Test that what the server refuses to delete is not shown as deleted, and keeps the focus, in headless Chromium."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Locator, Page, Route

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.core.errors import NotReady
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
WHY = "memory is away"


async def confirm(page: Page, button: Locator) -> None:
    await button.press("Enter")
    await page.get_by_role("alertdialog").get_by_role("button").last.press("Enter")
    await expect(page.get_by_role("alertdialog")).to_have_count(0)


async def test_a_conversation_that_stays_says_why_and_one_that_goes_leaves_the_address(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        entry = page.locator("[data-conversation]")
        remove = entry.locator(".remove")
        house.memory.refusal = NotReady(WHY)
        await confirm(page, remove)
        await expect(entry.get_by_role("alert")).to_contain_text(WHY)
        await expect(remove).to_be_focused()
        await expect(page.locator(".turn")).to_have_count(1)
        assert "c=conv" in page.url
        house.memory.refusal = None
        await confirm(page, remove)
        await expect(entry).to_have_count(0)
        await expect(page.locator(".turn")).to_have_count(0)
        await expect(page.locator("#new")).to_be_focused()
        assert page.url.rstrip("#") == f"{house.url}/"


async def test_the_focus_survives_a_list_that_is_read_while_a_conversation_is_deleted(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        entry = page.locator("[data-conversation]")
        may_list, may_delete = asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            await {"GET": may_list, "DELETE": may_delete}[route.request.method].wait()
            await route.continue_()

        # The refused attempt reads the list anew, which is answered in the middle of the second attempt.
        house.memory.refusal = NotReady(WHY)
        await page.route("**/v1/conversations?*", hold)
        await confirm(page, entry.locator(".remove"))
        await expect(entry.get_by_role("alert")).to_contain_text(WHY)
        house.memory.refusal = None
        await page.route("**/v1/conversations/*", hold)
        await confirm(page, entry.locator(".remove"))
        may_list.set()
        await expect(page.locator("#conversations[aria-busy]")).to_have_count(0)
        may_delete.set()
        await expect(entry).to_have_count(0)
        await expect(page.locator("#new")).to_be_focused()


async def test_a_schedule_that_stays_is_not_called_deleted(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page

        async def refuse(route: Route) -> None:
            refused = {"status": 503, "detail": WHY, "culprit": "bus"}
            if route.request.method != "DELETE":
                return await route.fallback()
            # Without the type of problem details it would be a proxy's, whose gateway is away.
            await route.fulfill(status=503, json=refused, content_type="application/problem+json")

        await page.route("**/v1/schedules/*", refuse)
        await ask(page)
        await page.locator(".tools .repeat").press("Enter")
        dialog = page.get_by_role("dialog")
        await dialog.locator("form .primary").press("Enter")
        entry = dialog.locator("[data-schedule]")
        remove = entry.get_by_role("button", name="Delete")
        await confirm(page, remove)
        await expect(dialog.get_by_role("alert")).to_contain_text(WHY)
        await expect(entry).to_have_count(1)
        await expect(remove).to_be_focused()
        await expect(page.locator("#live")).not_to_contain_text("deleted")
        # Closed, the dialog gives the focus back to what opened it.
        await page.keyboard.press("Escape")
        await expect(page.locator(".tools .repeat")).to_be_focused()


async def test_a_fact_that_stays_keeps_the_focus(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        house.memory.facts["fact_1"] = memory.Fact(id="fact_1", text="Amounts in euros", version=1)
        house.memory.refusal = NotReady(WHY)
        page = (await open_page(browser, house.url)).page
        await page.locator("#tab-memory").click()
        entry = page.locator("[data-fact]")
        remove = entry.get_by_role("button", name="Delete")
        await remove.press("Enter")
        await expect(page.locator(".memory").get_by_role("alert")).to_contain_text(WHY)
        await expect(entry).to_have_count(1)
        await expect(remove).to_be_focused()
        house.memory.refusal = None
        await remove.press("Enter")
        await expect(entry).to_have_count(0)
        await expect(page.locator(".memory > form [name=text]")).to_be_focused()
