"""Files of one's own in a real browser: chosen, dropped, taken away, and cited with their page."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, FilePayload, Page

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import SHEET_ID, Script

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]
HOSTILE_NAME = "<img src=x onerror=window.hacked=1>.pdf"
DROP = """(place) => {
    const files = new DataTransfer();
    files.items.add(new File(["one\\ftwo"], "dropped.md"));
    place.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
}"""


def file(name: str, text: str = "a page") -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": text.encode()}


async def attach(page: Page, *files: FilePayload) -> None:
    await page.locator("#files").set_input_files(list(files))


@pytest.mark.parametrize(
    ("locale", "passages", "page_name"), [("en-US", "2 passages", "page 7"), ("zh-CN", "2 个段落", "第 7 页")]
)
async def test_documents_and_tables_go_with_the_question_and_are_cited_by_page(
    browser: Browser, locale: str, passages: str, page_name: str
) -> None:
    document = Document(id="own_1:memo:7", title="memo", source="memo.pdf", page=7, text="Margins fell to 12.5 %.")
    script = Script(answer="Margins fell to 12.5 % [9].", days=30)
    script.answer_material = [trajectory.Material(number=9, passage=document)]
    async with serve_script(script) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await attach(page, file("memo.pdf", "one\ftwo"), file("broken.docx", "unreadable"), file("prices.csv"))
        chips = page.locator("#uploads li:not([aria-busy=true])")
        await expect(chips).to_have_count(2)
        await expect(chips.filter(has_text="memo.pdf")).to_contain_text(passages)
        # One that cannot be read is named, and spoils no other.
        await expect(page.locator("#problem")).to_contain_text("broken.docx: ")
        await ask(page, "How did the margins do?")
        cite = page.locator('.answer [data-cite="9"]')
        await cite.hover()
        await expect(page.locator("#card")).to_contain_text(f"memo.pdf · {page_name}")
        assert (list(house.planner.asked[0].corpora), list(house.planner.asked[0].table_ids)) == (["own_1"], [SHEET_ID])
        # A follow-up has them, too; another conversation has not.
        await expect(chips).to_have_count(2)
        await page.locator("#new").click()
        await expect(page.locator("#uploads")).to_be_hidden()
        assert watched.complaints == [
            "Failed to load resource: the server responded with a status of 400 (Bad Request)"
        ]


async def test_a_document_that_was_taken_away_is_not_searched(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        page = (await open_page(browser, house.url, width=420)).page
        await attach(page, file(HOSTILE_NAME), file("secret.txt"))
        chips = page.locator("#uploads li:not([aria-busy=true])")
        await expect(chips).to_have_count(2)
        await page.locator("main").evaluate(DROP)
        await expect(chips).to_have_count(3)
        await chips.filter(has_text="secret.txt").get_by_role("button").press("Enter")
        await expect(page.locator("#attach")).to_be_focused()
        await expect(chips).to_have_count(2)
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        (corpus,) = house.planner.asked[0].corpora
        assert sorted(house.retrieval.corpora[corpus]) == [HOSTILE_NAME, "dropped.md"]
        assert await page.evaluate("window.hacked") is None
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_document_that_is_taken_away_while_it_is_read_is_not_searched(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        page = (await open_page(browser, house.url)).page
        await attach(page, file("prices.csv"))
        await expect(page.locator("#uploads li:not([aria-busy=true])")).to_have_count(1)
        house.retrieval.free.clear()
        async with page.expect_request("**/v1/documents*"):
            await attach(page, file("secret.txt"))
        await page.locator("#uploads li", has_text="secret.txt").get_by_role("button").press("Enter")
        house.retrieval.free.set()
        await expect(page.locator("#uploads li")).to_have_count(1)
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        (corpus,) = house.planner.asked[0].corpora
        assert house.retrieval.corpora[corpus] == ["prices.csv"]


async def test_rows_of_a_table_are_found_and_quoted_until_it_is_taken_away(browser: Browser) -> None:
    """They are in the corpus of the documents; a table whose rows nobody can index is computed on all the same."""
    async with serve_script(Script(days=30)) as house:
        house.datafetch.import_ids = [SHEET_ID, f"{SHEET_ID[:-1]}a"]
        watched = await open_page(browser, house.url)
        page = watched.page
        await attach(page, file("prices.csv"), file("memo.txt"), file("rates.csv"))
        chips = page.locator("#uploads li:not([aria-busy=true])")
        await expect(chips).to_have_count(3)
        await ask(page)
        await expect(page.locator(".trace.over")).to_have_count(1)
        (corpus,) = house.planner.asked[0].corpora
        assert house.retrieval.corpora[corpus] == ["prices.csv", "memo.txt", "rates.csv"]
        # Without the document there is another corpus, of the rows alone.
        await chips.filter(has_text="memo.txt").get_by_role("button").press("Enter")
        await expect(chips).to_have_count(2)
        await ask(page)
        await expect(page.locator(".trace.over")).to_have_count(2)
        (rest,) = house.planner.asked[1].corpora
        assert rest != corpus
        assert house.retrieval.corpora[rest] == ["prices.csv", "rates.csv"]
        assert watched.complaints == []
        house.retrieval.is_refusing = True
        await page.locator("#new").click()
        await attach(page, file("prices.csv"))
        await expect(page.locator("#problem")).to_contain_text("prices.csv: its rows cannot be quoted")
        await ask(page)
        await expect(page.locator(".trace.over")).to_have_count(1)
        assert (list(house.planner.asked[2].corpora), list(house.planner.asked[2].table_ids)) == ([], [SHEET_ID])


@pytest.mark.parametrize(
    ("locale", "width", "none", "attach_name"),
    [("en-US", 1440, "No answer has used it.", "Attach files"), ("zh-CN", 420, "尚无答案引用。", "附加文件")],
)
async def test_files_are_attached_in_the_panel_which_says_what_answers_use_them(
    browser: Browser, locale: str, width: int, none: str, attach_name: str
) -> None:
    document = Document(id="own_1:memo:7", title="memo", source="memo.pdf", page=7, text="Margins fell.", own=True)
    script = Script(answer="Margins fell [9]. {{table:sheet_1}}", days=30)
    script.answer_material, script.cited = [trajectory.Material(number=9, passage=document)], [9]
    async with serve_script(script) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        await page.locator("#question").blur()
        await page.keyboard.press("d")
        brought = page.locator("#panel-body .brought")
        async with page.expect_file_chooser() as choosing:
            await brought.get_by_role("button", name=attach_name).click()
        await (await choosing.value).set_files([file("memo.pdf", "one\ftwo"), file("prices.csv")])
        entries = brought.locator("li:not([aria-busy=true])")
        await expect(entries).to_have_count(2)
        await expect(entries.first).to_contain_text("memo.pdf")
        await expect(entries.first).to_contain_text(none)
        await check(page, "own files")
        if width < 1280:
            await page.keyboard.press("Escape")
        await ask(page, "How did the margins do?")
        await expect(page.locator(".trace.over")).to_be_visible()
        assert (list(house.planner.asked[0].corpora), list(house.planner.asked[0].table_ids)) == (["own_1"], [SHEET_ID])
        script.answer, script.cited = "Nothing is cited here.", []
        await ask(page, "And else?")
        await expect(page.locator(".trace.over")).to_have_count(2)
        await page.locator("#question").blur()
        await page.keyboard.press("d")
        # The first answer alone rests on the document, and on the table.
        used = entries.filter(has_text="memo.pdf").locator(".used-by button")
        await expect(used).to_have_text(["How did the margins do?"])
        table = page.locator(f"#panel-body [data-sheet={SHEET_ID}] .used-by button")
        await expect(table).to_have_text(["How did the margins do?"])
        await check(page, "used by")
        await used.press("Enter")
        await expect(page.locator(".turn").first.locator("summary").first).to_be_focused()
        assert (watched.outside, watched.complaints) == ([], [])
