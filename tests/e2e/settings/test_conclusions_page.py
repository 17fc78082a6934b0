"""Conclusions in the settings: older ones are read when asked for, and one is deleted once it was confirmed."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.core.errors import DependencyFailed
from tests.e2e.pages import CHROMIUM, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import Script
from tests.e2e.settings.test_settings_page import WORDS, open_settings

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.mark.parametrize(
    ("locale", "width", "tab", "older", "delete"),
    [
        ("en-US", 1440, "Conclusions", "Older conclusions", "Delete"),
        ("zh-CN", 1100, "结论", "更早的结论", "删除"),
        ("en-US", 900, "Conclusions", "Older conclusions", "Delete"),
        ("zh-CN", 420, "结论", "更早的结论", "删除"),
    ],
)
async def test_a_conclusion_is_deleted_and_older_ones_are_read(
    browser: Browser, locale: str, width: int, tab: str, older: str, delete: str
) -> None:
    async with serve_script(Script(days=30)) as house:
        house.memory.page_size = 2
        for number, entity in enumerate(("AAA", "BBB", "CCC")):
            made = memory.Stance(id=f"s{number}", entity=entity, measure="close/return", view=f"{entity} rose.")
            house.memory.stances.append(made)
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        await open_settings(page, WORDS[locale])
        await page.get_by_role("tab", name=tab).click()
        entries = page.locator("[data-stance]")
        await expect(entries).to_have_count(2)
        await page.get_by_role("button", name=older).press("Enter")
        await expect(entries).to_have_count(3)
        await expect(page.get_by_role("button", name=older)).to_have_count(0)
        # Escape leaves the question alone, and the conclusion as it is.
        removal = page.locator("[data-stance=s1]").get_by_role("button", name=f"{delete}: BBB rose.")
        await removal.press("Enter")
        question = page.get_by_role("alertdialog")
        await expect(question).to_contain_text("BBB rose.")
        await check(page, "deletion of a conclusion")
        await page.keyboard.press("Escape")
        await expect(removal).to_be_focused()
        assert [one.id for one in house.memory.stances] == ["s0", "s1", "s2"]
        await removal.press("Enter")
        await question.get_by_role("button", name=delete).press("Enter")
        await expect(entries).to_have_count(2)
        await expect(page.locator(".settings .note")).to_be_focused()
        assert [one.id for one in house.memory.stances] == ["s0", "s2"]
        assert (watched.outside, watched.complaints) == ([], [])


async def test_a_deletion_that_fails_says_why_and_keeps_the_conclusion(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        house.memory.stances.append(memory.Stance(id="s1", entity="AAA", measure="close/return", view="AAA rose."))
        house.memory.refusal = DependencyFailed("database", "is being moved")
        page = (await open_page(browser, house.url)).page
        await open_settings(page, WORDS["en-US"])
        await page.get_by_role("tab", name="Conclusions").click()
        await page.get_by_role("button", name="Delete: AAA rose.").press("Enter")
        await page.get_by_role("alertdialog").get_by_role("button", name="Delete").press("Enter")
        await expect(page.locator(".settings [role=alert]")).to_contain_text("is being moved")
        await expect(page.locator("[data-stance=s1]")).to_be_visible()
