"""A question that is asked again by schedule, and what has changed since, in headless Chromium."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import Browser, Route

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.hosting.host import Runtime, hosting_http
from fathom.services.gateway.config import Config
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.readiness import Readiness
from fathom.services.gateway.schedules.firing import Scheduler
from fathom.services.gateway.schedules.store import ScheduleStore
from fathom.transport.bus.streams import SCHEDULES
from fathom.transport.store.tenant import TenantStore
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import replay_house, serve_script
from tests.e2e.script import Script
from tests.support.clock import Clock
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
DAY_S = 86_400.0
WORDS = {
    "en-US": ("Repeat", "Every", "On", "week", "Friday", "Ask again", "Pause", "Go on", "Delete", "2 later times"),
    "zh-CN": ("定期", "周期", "日期", "每周", "星期五", "定期提问", "暂停", "继续", "删除", "2 次因 Fathom 停机而错过"),
}


class Later(Script):
    """The same run with another figure and a name that is no mark-up."""

    def material(self) -> list[pb.Material]:
        found = super().material()
        found[2].code.stdout = "AAA.close_adj   -0.387\nBBB.close_adj   -0.298\n<b>new</b> 7\n"
        return found


@pytest.mark.parametrize("locale", WORDS)
async def test_a_question_is_asked_again_and_says_what_has_changed(browser: Browser, locale: str) -> None:
    repeat, every, on, week, friday, make, pause, resume, remove, missed = WORDS[locale]
    async with replay_house(Script(days=5)) as (house, deps):
        store, clock = TenantStore(deps.store), Clock()
        engine = Engine(Config(), deps.clients, store, Readiness(deps.clients, deps.store, deps.bus))
        schedules = ScheduleStore(deps.bus.bucket(SCHEDULES), 20)
        scheduler = Scheduler(engine, schedules, store, deps.telemetry, clock)
        async with hosting_http(house.service, deps, Runtime(grace_s=1.0)) as hosted:
            watched = await open_page(browser, hosted.url, locale=locale)
            page = watched.page
            await ask(page, "<b>How</b> did AAA do?")
            await page.locator(".tools").get_by_role("button", name=repeat, exact=True).press("Enter")
            dialog = page.get_by_role("dialog")
            await dialog.get_by_label(every).select_option(label=week)
            await dialog.get_by_label(on, exact=True).select_option(label=friday)
            await dialog.get_by_role("button", name=make, exact=True).press("Enter")
            entry = dialog.locator("[data-schedule]")
            await expect(entry).to_contain_text("<b>How</b> did AAA do?")
            await expect(entry).to_contain_text(friday)
            await entry.get_by_role("button", name=pause).press("Enter")
            await entry.get_by_role("button", name=resume).press("Enter")
            await expect(entry.get_by_role("button", name=pause)).to_be_visible()
            # As when the gateway comes back after two further weeks.
            [schedule] = await schedules.list_own()
            assert schedule.ask["parent_turn"] == 0
            clock.now = schedule.due + 15 * DAY_S
            house.planner.script = Later(days=5)
            [run_id] = await scheduler.ask_due()
            await eventually(lambda: house.planner.runs[run_id].is_finished)
            # So that the gateway of this test, whose clock is the machine's, asks nothing meanwhile.
            await schedules.change(schedule.id, lambda one: replace(one, is_paused=True))
            await page.keyboard.press("Escape")
            await page.locator("#new").click()
            await page.locator(".entry .open").click()
            # The answer stands in the place of the turn, as another version of it.
            await expect(page.locator(".versions")).to_contain_text("2 / 2")
            note = page.locator(".changes")
            await expect(note).to_contain_text(missed)
            await expect(note.locator("tr")).to_have_count(2)
            await expect(note).to_contain_text("BBB.close_adj")
            await expect(note).to_contain_text("0.298")
            await expect(note).to_contain_text("<b>new</b>")
            await page.get_by_role("button", name=repeat, exact=True).click()
            await entry.get_by_role("button", name=remove).press("Enter")
            await page.get_by_role("alertdialog").get_by_role("button", name=remove).press("Enter")
            await expect(entry).to_have_count(0)
            assert await dialog.evaluate("(place) => place.contains(document.activeElement)")
            await page.keyboard.press("Escape")
            # What was asked stays, with its note.
            await page.reload()
            await expect(note).to_contain_text("BBB.close_adj")
            assert (watched.outside, watched.complaints) == ([], [])


async def test_a_schedule_whose_answer_was_lost_is_made_once(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await page.locator(".tools .repeat").click()
        lost: list[int] = []

        async def lose(route: Route) -> None:
            if route.request.method != "POST" or lost:
                await route.continue_()
                return
            # The gateway has carried it out, and the page does not hear of it.
            lost.append((await route.fetch()).status)
            await route.abort()

        async def count_made() -> int:
            return len((await (await page.request.get(f"{house.url}/v1/schedules")).json())["schedules"])

        await page.route("**/v1/schedules", lose)
        dialog = page.get_by_role("dialog")
        make = dialog.get_by_role("button", name="Ask again", exact=True)
        await make.press("Enter")
        await expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
        assert lost == [201]
        await make.press("Enter")
        await expect(dialog.get_by_role("status")).to_contain_text("It is asked next on")
        assert await count_made() == 1
        # Once it is made, the same wish is another one.
        await make.press("Enter")
        await expect(dialog.locator("[data-schedule]")).to_have_count(2)
        assert await count_made() == 2
