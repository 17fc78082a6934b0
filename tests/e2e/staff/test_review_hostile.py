"""Hostile text in each field of an item, and in what a reviewer writes, stays text in the staff's area."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.async_api import Browser, Page

from fathom.services.datafetch.catalog.frameworks import load_frameworks
from tests.e2e.doubles.data import EXAMPLES
from tests.e2e.files.test_hostile_page import ALL, check_inert, count_shown
from tests.e2e.pages import CHROMIUM, Watched, ask, expect, open_page
from tests.e2e.payloads import PAYLOADS
from tests.e2e.replay import serve_script
from tests.e2e.script import Script
from tests.e2e.staff.queues import add_items, compare, correct, doubt, open_part, rewrite

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
# Markdown reads some of them as its own; in a fence each stands as it is.
FENCED = "\n\n".join(f"```\n{payload}\n```" for payload in PAYLOADS)
# Names are short: an owner's and a judge's have 200 characters at most, a verdict 64.
SHORT = min(PAYLOADS, key=len)


def poison(item: dict[str, Any]) -> dict[str, Any]:
    """Put the payloads into every text of an item."""
    # The rejected answer of a candidate is another one than the proposed.
    texts = [{"text": f"{ALL}\n\n{FENCED}\n\n{place}", "owner": SHORT} for place, _ in enumerate(item["texts"])]
    machine = {"grade": item.get("machine", {}).get("grade"), "verdict": SHORT, "reason": ALL, "by": SHORT}
    history = [{"question": payload, "answer": f"```\n{payload}\n```"} for payload in PAYLOADS]
    return {**item, "question": ALL, "texts": texts, "material": FENCED, "machine": machine, "history": history}


async def decide(page: Page, kind: str) -> None:
    """Decide with a reason and, where there is one, an edit of payloads."""
    if kind in ("comparison", "recheck"):
        # Even: two grades from the judge, so that it comes again as a recheck.
        await page.keyboard.press("3")
    else:
        await page.keyboard.press("e")
        await page.locator("#edited").fill(f"{FENCED}\n\nedited")
        await expect(page.locator(".difference ins").first).to_be_visible()
    await page.locator("[name='reason']").fill("\n".join(PAYLOADS)[:2_000])
    await page.locator("[name='reason']").press("Control+Enter")
    await expect(page.locator(".decided")).to_be_visible()


async def test_every_field_of_an_item_stays_text_before_and_after_the_decision(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        made = (compare("one", grade=2), rewrite("two"), doubt("three"), correct("four"))
        await add_items(house.url, *map(poison, made))
        watched: Watched = await open_page(browser, house.url)
        page = watched.page
        for kind in ("comparison", "recheck", "rewriting", "hallucination", "candidate"):
            await open_part(page, house.url, kind)
            await expect(page.locator(".text").first).to_be_visible()
            assert await count_shown(page, ".item > .asked") == len(PAYLOADS), kind
            assert await count_shown(page, ".text:first-child pre") == len(PAYLOADS), kind
            assert await count_shown(page, ".history .asked") == len(PAYLOADS), kind
            if kind != "comparison":
                assert await count_shown(page, ".judged") == len(PAYLOADS), kind
            if kind == "hallucination":
                assert await count_shown(page, ".material pre") == len(PAYLOADS)
            await check_inert(watched)
            await decide(page, kind)
            await expect(page.locator(".text .owner").first).to_contain_text(SHORT)
            await check_inert(watched)
        await open_part(page, house.url, "decisions")
        await expect(page.locator("[data-item]")).to_have_count(5)
        await check_inert(watched)
        await expect(page.locator("[data-item] .difference").first).to_be_visible()


async def test_questions_and_failures_of_runs_stay_text_on_the_dashboard(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        watched = await open_page(browser, house.url)
        page = watched.page
        await ask(page, ALL)
        await expect(page.locator(".trace.over")).to_be_visible()
        house.planner.failure = (SHORT, ALL)
        await open_part(page, house.url, "runs")
        await expect(page.locator("[data-cause]")).to_contain_text(SHORT)
        assert await count_shown(page, "[data-run] a") == len(PAYLOADS)
        assert await count_shown(page, "[data-cause]") == len(PAYLOADS)
        await check_inert(watched)


async def test_every_field_of_a_framework_and_what_is_wrong_with_a_draft_stay_text(
    browser: Browser, tmp_path: Path
) -> None:
    # A name has 80 characters at most and a hint 200; what may be longer has all payloads.
    names = [payload for payload in PAYLOADS if len(payload) < 70]
    whole = yaml.safe_load((EXAMPLES / "esg.yaml").read_text(encoding="utf-8"))
    aspect = whole["nodes"][0]["nodes"][0]
    aspect["nodes"] = [
        {"name": f"{at}a {name}", "zh": f"{at}排 {name}"[:40], "hint": name, "ids": [name]}
        for at, name in enumerate(names)
    ]
    whole |= {"about": SHORT, "name": f"ESG {SHORT}"[:80], "signals": {"strong": [SHORT[:60]]}}
    (tmp_path / "esg.yaml").write_text(yaml.safe_dump(whole, allow_unicode=True), encoding="utf-8")
    async with serve_script(Script(days=5)) as house:
        house.datafetch.library, house.datafetch.indicators = load_frameworks(tmp_path), {"mcoilwtico"}
        watched = await open_page(browser, house.url)
        page = watched.page
        await open_part(page, house.url, "frameworks")
        await expect(page.locator("[data-framework] pre")).to_be_visible()
        await expect(page.locator(".tree")).to_contain_text(names[0])
        await expect(page.locator("[data-framework]")).to_contain_text(SHORT)
        await check_inert(watched)
        await page.locator(".framework > .choice button").press("Enter")
        await page.locator("#draft").press("Control+Enter")
        await expect(page.locator(".faults li").first).to_contain_text(names[0])
        await check_inert(watched)
        await page.locator("#draft").fill("\n".join(PAYLOADS))
        await page.locator("#draft").press("Control+Enter")
        await expect(page.locator(".difference ins").first).to_be_visible()
        await expect(page.locator(".faults li")).to_have_count(1)
        await check_inert(watched)
