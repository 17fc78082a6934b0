"""Files and questions that are too large for the gateway are refused by the page before they are sent, with the bound."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, Request

from tests.e2e.files.test_files_page import attach, file
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import SHEET_ID, Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
TABLES = 12


def note_posts(page: Page) -> list[str]:
    """Return a list that fills with the paths of what the page posts, without those that bring nothing of their own."""
    posted: list[str] = []

    def note(request: Request) -> None:
        if request.method == "POST" and not request.url.split("?")[0].endswith("/passages"):
            posted.append(request.url.split("?")[0].split("/v1/")[-1])

    page.on("request", note)
    return posted


@pytest.mark.parametrize(
    ("locale", "refusal"),
    [("en-US", "2,001 bytes; at most 2,000 are taken"), ("zh-CN", "2,001 字节，上限为 2,000 字节")],
)
async def test_a_file_over_the_limit_is_refused_unsent_and_spoils_no_other(
    browser: Browser, locale: str, refusal: str
) -> None:
    async with serve_script(Script(days=5), max_upload_bytes=2_000) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page, posted = watched.page, note_posts(watched.page)
        await attach(
            page, file("large.pdf", "x" * 2_001), file("large.csv", "x" * 2_001), file("exact.md", "x" * 2_000)
        )
        await expect(page.locator("#uploads li:not([aria-busy=true])")).to_have_count(1)
        await expect(page.locator("#uploads li")).to_contain_text("exact.md")
        await expect(page.locator("#problem")).to_have_text(f"large.pdf: {refusal}\nlarge.csv: {refusal}")
        assert posted == ["documents"]
        assert watched.complaints == []


async def test_more_tables_than_a_question_may_have_are_refused_unsent(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        house.datafetch.import_ids = [f"{SHEET_ID[:-2]}{index:02d}" for index in range(TABLES)]
        watched = await open_page(browser, house.url)
        page, posted = watched.page, note_posts(watched.page)
        await attach(page, *(file(f"prices_{index}.csv") for index in range(TABLES + 1)), file("memo.md"))
        await expect(page.locator("#uploads li:not([aria-busy=true])")).to_have_count(TABLES + 1)
        await expect(page.locator("#problem")).to_have_text("prices_12.csv: at most 12 tables go with a question")
        assert posted == ["tables"] * TABLES + ["documents"]
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        assert len(house.planner.asked[0].table_ids) == TABLES
        assert watched.complaints == []


async def test_a_workbook_is_sent_once_for_all_its_tables(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        ids = [f"{SHEET_ID[:-2]}{index:02d}" for index in range(TABLES)]
        house.datafetch.import_ids = ids
        watched = await open_page(browser, house.url)
        page, posted = watched.page, note_posts(watched.page)
        await attach(page, *(file(f"prices_{index}.csv") for index in range(TABLES - 2)), file("book.xlsx"))
        chips = page.locator("#uploads li:not([aria-busy=true])")
        # Room for two of its three tables: what is left out and what is none count beside the row that was not read.
        await expect(chips).to_have_count(TABLES)
        await expect(chips.last).to_contain_text("book.xlsx Costs")
        await expect(chips.nth(TABLES - 2)).to_contain_text("3")
        assert posted == ["tables"] * (TABLES - 1)
        assert watched.complaints == []


@pytest.mark.parametrize(
    ("locale", "excess"), [("en-US", "2 characters over the limit of 20"), ("zh-CN", "超出上限 20 个字符，多 2 个")]
)
async def test_a_question_over_the_limit_is_kept_and_not_sent(browser: Browser, locale: str, excess: str) -> None:
    async with serve_script(Script(days=5), max_question_chars=20) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page, posted = watched.page, note_posts(watched.page)
        question, status = page.locator("#question"), page.locator("#count")
        # A character beyond the basic plane is one; blanks around the question are not sent.
        await question.fill(f" {'😀' * 22} ")
        await expect(status).to_have_text(excess)
        await question.press("Enter")
        await expect(question).to_have_value(f" {'😀' * 22} ")
        await question.fill("x" * 20)
        await expect(status).to_be_empty()
        await question.press("Enter")
        await expect(page.locator(".trace.over")).to_be_visible()
        # The field in which a question is edited has the same bound.
        await page.locator(".tools .edit").press("Enter")
        edited = page.locator(".asked-form textarea")
        await edited.fill("x" * 22)
        await expect(page.locator(".asked-form [role=status]")).to_have_text(excess)
        await edited.press("Enter")
        await expect(edited).to_have_value("x" * 22)
        await edited.fill("why?")
        await edited.press("Enter")
        await expect(page.locator(".asked")).to_have_text("why?")
        assert [run.question for run in house.planner.asked] == ["x" * 20, "why?"]
        assert posted.count("runs") == 2
        assert watched.complaints == []


async def test_a_gateway_that_does_not_tell_its_limits_decides_itself(browser: Browser) -> None:
    async with serve_script(Script(days=5), max_upload_bytes=2_000) as house:
        page = (await open_page(browser, "about:blank")).page
        await page.route("**/v1/limits", lambda route: route.fulfill(status=404, json={"detail": "no such path"}))
        await page.goto(house.url)
        await attach(page, file("memo.md"), file("large.md", "x" * 2_001))
        await expect(page.locator("#uploads li:not([aria-busy=true])")).to_contain_text("memo.md")
        # The gateway's own words.
        await expect(page.locator("#problem")).to_contain_text(
            "large.md: payload of 2,001 bytes is over the limit of 2,000"
        )
