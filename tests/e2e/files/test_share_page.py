"""Links to answers, made, copied, opened and withdrawn on the page in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]
WORDS = {
    "en-US": (
        "Share",
        "What is shown",
        "Who may open it",
        "Make the link",
        "The address",
        "Copy",
        "Copied",
        "Withdraw",
    ),
    "zh-CN": ("分享", "显示内容", "谁可以打开", "生成链接", "链接地址", "复制", "已复制", "撤回"),
}


@pytest.mark.parametrize("locale", WORDS)
async def test_a_conversation_is_shared_by_keyboard_opened_and_withdrawn(browser: Browser, locale: str) -> None:
    share, what, _, make, address, copy, copied, withdraw = WORDS[locale]
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await ask(page, "<b>Why</b> did AAA fall?")
        await page.locator(".tools").get_by_role("button", name=share, exact=True).press("Enter")
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label(what).select_option("conversation")
        await dialog.get_by_role("button", name=make).press("Enter")
        field = dialog.get_by_label(address)
        await expect(field).to_be_focused()
        await dialog.get_by_role("button", name=copy, exact=True).press("Enter")
        await expect(dialog.get_by_role("button", name=copied)).to_be_visible()
        link = await page.evaluate("navigator.clipboard.readText()")
        assert link == await field.input_value()
        assert link.startswith(f"{house.url}/shared/")
        seen = await page.context.new_page()
        await seen.goto(link)
        await expect(seen.get_by_role("heading", name="<b>Why</b> did AAA fall?").first).to_be_visible()
        entry = dialog.locator("[data-link]")
        await expect(entry).to_contain_text("<b>Why</b> did AAA fall?")
        await entry.get_by_role("button", name=withdraw).press("Enter")
        await page.get_by_role("alertdialog").get_by_role("button", name=withdraw).press("Enter")
        await expect(entry).to_have_count(0)
        assert await dialog.evaluate("(place) => place.contains(document.activeElement)")
        answer = await seen.goto(link)
        assert answer is not None
        assert answer.status == 404
        # Escape closes the dialog, and the focus is where it was.
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await expect(page.locator(".tools .share")).to_be_focused()
        assert (watched.outside, watched.complaints) == ([], [])


async def test_who_may_open_a_link_is_the_gateways_to_decide(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        page = (await open_page(browser, house.url, width=420)).page
        await ask(page)
        await page.locator(".tools .share").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Who may open it").select_option("anyone")
        await dialog.get_by_role("button", name="Make the link").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("links for anyone are off")
        await dialog.get_by_label("Who may open it").select_option("tenant")
        await dialog.get_by_label("Ends after").select_option("1")
        # Files of one's own are given out only where their maker says so.
        files = dialog.get_by_label("Also show files of my own")
        await expect(files).not_to_be_checked()
        await files.press("Space")
        await dialog.get_by_role("button", name="Make the link").click()
        await expect(dialog.get_by_label("The address")).to_be_visible()
        await expect(dialog.locator("[data-link]")).to_contain_text("with own files")
        await expect(dialog.get_by_role("alert")).to_have_count(0)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
