"""Tables in a real browser: whole sheets that scroll, order, filter, the clipboard, and tables that a model has typed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator

from fathom.api.datafetch.v1.datafetch_pb2 import Column
from fathom.domain import frames
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import Script, trading_days

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]
DAYS = 1_510
WIDE = "| name |" + "".join(f" measure {i} |" for i in range(30)) + "\n|---|" + "---:|" * 30 + "\n"
WIDE += "| A rather long name of a company |" + " 12,345.67 |" * 30


@pytest_asyncio.fixture(loop_scope="session")
async def house() -> AsyncIterator[ReplayHouse]:
    async with serve_script(Script(answer=f"Prices.\n\n{{{{table:sheet_1}}}}\n\n{WIDE}", days=DAYS)) as served:
        yield served


async def show_table(browser: Browser, house: ReplayHouse, width: int = 1440) -> Locator:
    page = (await open_page(browser, house.url, width=width)).page
    await ask(page)
    await expect(page.locator(".trace.over")).to_be_visible()
    table = page.locator(".answer .table")
    await expect(table.locator("tbody tr").first).to_contain_text("2015-01-02")
    return table


async def test_a_whole_sheet_scrolls_and_draws_only_what_is_in_sight(browser: Browser, house: ReplayHouse) -> None:
    table = await show_table(browser, house)
    await expect(table.locator(".foot")).to_contain_text("of 1,510")
    scroll = table.locator(".scroll")
    await scroll.evaluate("(place) => { place.scrollTop = place.scrollHeight; }")
    last = trading_days(DAYS)[-1].isoformat()
    await expect(table.locator("tbody tr").last).to_contain_text(last)
    await expect(table.locator(".foot")).to_contain_text("1,510 of 1,510")
    assert await table.locator("tbody tr").count() < 60
    # The head stays at the top of what scrolls.
    head, place = await table.locator("th").first.bounding_box(), await scroll.bounding_box()
    assert head is not None
    assert place is not None
    assert abs(head["y"] - place["y"]) <= 2


async def test_sorting_keeps_the_focus_and_begins_at_the_top(browser: Browser, house: ReplayHouse) -> None:
    table = await show_table(browser, house)
    await table.locator(".scroll").evaluate("(place) => { place.scrollTop = 9000; }")
    await expect(table.locator("tbody tr").first).not_to_contain_text("2015-01-02")
    head = table.locator("th button").first
    await head.focus()
    await head.press("Enter")
    await expect(table.locator("th").first).to_have_attribute("aria-sort", "ascending")
    await head.press("Enter")
    await expect(table.locator("th").first).to_have_attribute("aria-sort", "descending")
    await expect(head).to_be_focused()
    await expect(table.locator("tbody tr").first).to_contain_text(trading_days(DAYS)[-1].isoformat())


async def test_a_filter_without_rows_says_so(browser: Browser, house: ReplayHouse) -> None:
    table = await show_table(browser, house)
    await table.get_by_role("searchbox").fill("2016-02 no such")
    await expect(table.locator(".none")).to_have_text("No row has all of these words.")
    await table.get_by_role("searchbox").fill("2016-02")
    await expect(table.locator("tbody tr").first).to_contain_text("2016-02-01")
    await expect(table.locator(".foot")).to_contain_text("of 21")
    await expect(table.locator(".none")).to_be_hidden()


async def test_rows_are_copied_for_a_spreadsheet_with_units_and_source(browser: Browser, house: ReplayHouse) -> None:
    table = await show_table(browser, house)
    await table.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await table.get_by_role("button", name="Copy").click()
    await expect(table.get_by_role("button", name="Copied")).to_be_visible()
    lines = (await table.page.evaluate("navigator.clipboard.readText()")).splitlines()
    assert lines[0] == "date\tAAA.close_adj (USD)\tBBB.close_adj (USD)"
    assert lines[1].split("\t") == ["2015-01-02", "100", ""]
    assert len(lines) == 1 + DAYS + 4
    assert lines[-4:] == ["", "Adjusted close of AAA and BBB", "source: synthetic 1.0", "data as of 2020-10-15"]


@pytest.mark.parametrize("width", [1440, 420])
async def test_a_wide_table_of_the_model_scrolls_and_keeps_its_numbers_whole(
    browser: Browser, house: ReplayHouse, width: int
) -> None:
    page = (await show_table(browser, house, width)).page
    typed = page.locator(".typed .scroll")
    assert await typed.evaluate("(place) => place.scrollWidth > place.clientWidth")
    number = await typed.locator("td").nth(5).bounding_box()
    assert number is not None
    assert number["width"] > 50
    await typed.evaluate("(place) => { place.scrollLeft = place.scrollWidth; }")
    await expect(typed.locator("td").first).to_be_in_viewport()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_details_lie_over_the_text_until_there_is_room_for_both(browser: Browser, house: ReplayHouse) -> None:
    page = (await show_table(browser, house, 1100)).page
    before = await page.locator("main").bounding_box()
    await page.locator("#panel-toggle").click()
    await expect(page.locator("#panel")).to_be_visible()
    assert await page.locator("main").bounding_box() == before
    await page.keyboard.press("Escape")
    await expect(page.locator("#panel")).to_be_hidden()
    await expect(page.locator("#panel-toggle")).to_be_focused()


async def test_a_run_that_ended_while_it_could_not_be_followed_is_shown(browser: Browser, house: ReplayHouse) -> None:
    page = (await open_page(browser, house.url)).page
    await page.route("**/events?*", lambda route: route.fulfill(status=503, body="{}"))
    await ask(page)
    await expect(page.locator(".trace.over")).to_contain_text("Done · 5 steps")
    await expect(page.locator(".answer .table tbody tr").first).to_be_visible()


class AmountScript(Script):
    """Replays a sheet of an amount, a share and a year."""

    def __post_init__(self) -> None:
        super().__post_init__()
        pa = frames.arrow()
        table = pa.table(
            {
                "name": ["AAA", "BBB"],
                "revenue": [1_234_567.25, -98_765_432.0],
                "margin": [12.5, None],
                "year": [2019, 2020],
            }
        )
        self.arrow = frames.write_table(table)
        self.sheet.rows = 2
        del self.sheet.columns[:]
        for name, kind, unit in (("name", "string", ""), ("revenue", "double", "USD"), ("margin", "double", "%")):
            self.sheet.columns.append(Column(name=name, type=kind, unit=unit))
        self.sheet.columns.append(Column(name="year", type="int64"))


@pytest.mark.parametrize(
    ("locale", "menu", "million", "thousand", "head"),
    [
        ("en-US", "Numbers", "millions", "thousands", "USD · millions"),
        ("zh-CN", "数字", "百万", "千", "USD · 百万"),
    ],
)
async def test_numbers_are_shown_as_the_reader_wants_them_for_this_table(
    browser: Browser, locale: str, menu: str, million: str, thousand: str, head: str
) -> None:
    async with serve_script(AmountScript(answer="{{table:sheet_1}}")) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await ask(page)
        table = page.locator(".answer .table")
        first, second = table.locator("tbody tr").first.locator("td"), table.locator("tbody tr").last.locator("td")
        await expect(first).to_have_text(["AAA", "1,234,567.25", "12.5", "2019"])
        await table.get_by_role("button", name=menu).press("Enter")
        # No column has billions.
        await expect(page.get_by_role("menuitemradio").nth(5)).to_have_attribute("aria-disabled", "true")
        await page.get_by_role("menuitemradio", name=million, exact=True).press("Enter")
        await expect(first).to_have_text(["AAA", "1.23", "12.5", "2019"])
        await expect(second).to_have_text(["BBB", "-98.77", "–", "2020"])
        await expect(table.locator("th small").nth(1)).to_have_text(head)
        # What would be a fraction of a million stays, and says so.
        await expect(table.locator("th small").nth(2)).to_have_text("%")
        await page.get_by_role("menuitemradio", name="0", exact=True).press("Enter")
        await expect(first).to_have_text(["AAA", "1", "13", "2019"])
        await expect(first.nth(1)).to_have_attribute("title", "1234567.25")
        await page.keyboard.press("Escape")
        await expect(table.get_by_role("button", name=menu)).to_be_focused()
        # The same table in the details follows, and all of it is there again after a reload.
        await page.locator("#tab-data").click()
        shown = page.locator("#panel-body .table tbody tr").first.locator("td")
        await expect(shown).to_have_text(["AAA", "1", "13", "2019"])
        await page.reload()
        await expect(first).to_have_text(["AAA", "1", "13", "2019"])
        await table.get_by_role("button", name=menu).press("Enter")
        await page.get_by_role("menuitemradio", name=thousand, exact=True).press("Enter")
        await expect(first).to_have_text(["AAA", "1,235", "13", "2019"])
        assert (watched.outside, watched.complaints) == ([], [])


@pytest.mark.parametrize(
    ("locale", "settings", "label", "copy", "numbers", "million"),
    [
        ("en-US", "Settings", "Negative numbers", "Copy", "Numbers", "millions"),
        ("zh-CN", "设置", "负数", "复制", "数字", "百万"),
    ],
)
async def test_negative_numbers_stand_in_parentheses_in_tables_copies_and_files(
    browser: Browser, locale: str, settings: str, label: str, copy: str, numbers: str, million: str
) -> None:
    async with serve_script(AmountScript(answer="{{table:sheet_1}}")) as house:
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await ask(page)
        table = page.locator(".answer .table")
        second = table.locator("tbody tr").last.locator("td")
        await expect(second).to_have_text(["BBB", "-98,765,432.00", "–", "2020"])
        await page.get_by_role("button", name=settings, exact=True).click()
        await page.get_by_label(label).select_option("parentheses")
        await page.keyboard.press("Escape")
        await expect(second).to_have_text(["BBB", "(98,765,432.00)", "–", "2020"])
        await table.get_by_role("button", name=numbers).press("Enter")
        await page.get_by_role("menuitemradio", name=million, exact=True).press("Enter")
        await page.keyboard.press("Escape")
        await expect(second.nth(1)).to_have_text("(98.77)")
        await table.get_by_role("button", name=copy, exact=True).click()
        # All pages of one browser have one clipboard: until the copy is there it has that of another test.
        await page.wait_for_function("navigator.clipboard.readText().then((text) => text.includes('98765432'))")
        assert "BBB\t(98765432)\t\t2020" in await page.evaluate("navigator.clipboard.readText()")
        async with page.expect_download() as event:
            await table.get_by_role("link", name="CSV").click()
        assert "BBB,(98765432.0),,2020" in (await (await event.value).path()).read_text("utf-8-sig")
        await page.locator(".tools .export").click()
        async with page.expect_download() as event:
            await page.get_by_role("menuitem", name="Markdown").click()
        assert "(98,765,432)" in (await (await event.value).path()).read_text("utf-8")
        # It is kept with the browser.
        await page.reload()
        await expect(second.nth(1)).to_have_text("(98.77)")
        assert (watched.outside, watched.complaints) == ([], [])


async def test_marked_cells_are_copied_as_a_spreadsheet_takes_them(browser: Browser, house: ReplayHouse) -> None:
    table = await show_table(browser, house)
    page = table.page
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await expect(table.locator("tbody tr").nth(2)).to_contain_text("2015-01-06")
    # From the first cell of one row to the second one of the next.
    marks = (
        """(rows) => getSelection().setBaseAndExtent(rows[1].cells[0].firstChild, 0, rows[2].cells[1].firstChild, 1)"""
    )
    await table.locator("tbody tr").evaluate_all(marks)
    exact = await table.locator("tbody td[title]").evaluate_all("(cells) => cells.map((cell) => cell.title)")
    await page.keyboard.press("Control+C")
    await page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('2015-01-05'))")
    copied = (await page.evaluate("navigator.clipboard.readText()")).split("\n")
    assert [line.split("\t")[0] for line in copied] == ["2015-01-05", "2015-01-06"]
    # All decimals that the table holds, and no sign between thousands.
    assert set(copied[0].split("\t")[1:] + copied[1].split("\t")[1:]) <= set(exact)
    assert [len(line.split("\t")) for line in copied] == [3, 2]


async def test_a_table_of_an_answer_leads_to_itself_among_the_data(browser: Browser, house: ReplayHouse) -> None:
    table = await show_table(browser, house)
    await table.get_by_role("button", name="Data", exact=True).press("Enter")
    await expect(table.page.locator("#tab-data")).to_have_attribute("aria-selected", "true")
    listed = table.page.locator("#panel-body [data-sheet]")
    await expect(listed).to_be_in_viewport()
    # It leads nowhere from there.
    await expect(listed.get_by_role("button", name="Data", exact=True)).to_have_count(0)
