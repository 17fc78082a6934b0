"""The page in a real browser over a real stack: ask, read a citation, sort the table, hover the chart."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
ANSWER_MS = 30_000


@pytest.fixture
def page(browser: Browser, page_url: str) -> Iterator[Page]:
    """A fresh page that must neither fail nor ask anything from outside."""
    context = browser.new_context(viewport={"width": 1360, "height": 900}, locale="en-US")
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: problems.append(request.url) if not inside(request.url, page_url) else None)
    page.goto(page_url)
    yield page
    context.close()
    assert not problems


def inside(url: str, page_url: str) -> bool:
    return url.startswith((page_url, "data:", "blob:"))


def ask(page: Page, question: str) -> None:
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")


def test_a_question_is_asked_read_and_explored(page: Page) -> None:
    expect(page.locator("#model")).to_contain_text("reference policy, not a language model")
    ask(page, QUESTION)
    answer = page.locator(".answer")
    expect(answer).to_contain_text("maximum drawdown was -38.5%", timeout=ANSWER_MS)

    chip = answer.locator("button.cite.code").first
    chip.hover()
    expect(page.locator("#card")).to_be_visible()
    expect(page.locator("#card")).to_contain_text("code", ignore_case=True)
    chip.click()
    expect(page.locator(".source.flash")).to_be_visible()

    table = answer.locator(".table")
    expect(table).to_contain_text("/ 1,511")
    table.locator("th", has_text="date").click()
    expect(table.locator("tbody tr").first).to_contain_text("2015-01-02")
    table.locator("th", has_text="date").click()
    expect(table.locator("tbody tr").first).to_contain_text("2020-12-31")
    table.get_by_role("button", name="Next").click()
    expect(table).to_contain_text("51–100")
    with page.expect_download() as download:
        table.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename.endswith(".csv")

    figure = answer.locator(".figure[data-drawn=fig_1]")
    expect(figure).to_be_visible(timeout=ANSWER_MS)
    box = figure.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    figure.scroll_into_view_if_needed()
    figure.locator(".nsewdrag").first.hover()
    expect(figure.locator(".hoverlayer")).to_contain_text("Apple")

    for tab, words in (
        ("Sources", "Maximum drawdown"),
        ("Data", "AAPL.close_adj"),
        ("Code", "def "),
        ("Trace", "search"),
    ):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator("#panel-body")).to_contain_text(words)


def test_the_trace_shows_intents_and_a_reload_brings_the_run_back(page: Page) -> None:
    ask(page, "What is maximum drawdown?")
    expect(page.locator(".answer")).to_contain_text("largest loss from a peak", timeout=ANSWER_MS)
    page.locator("details.trace > summary").click()
    expect(page.locator("details.step").first).to_contain_text(re.compile("search|fetch"))
    page.reload()
    expect(page.locator(".answer")).to_contain_text("largest loss from a peak", timeout=ANSWER_MS)
    expect(page.locator("#conversations")).to_contain_text("What is maximum drawdown?")


def test_what_is_missing_is_shown(page: Page) -> None:
    ask(page, "Compare the share price of Tencent and Alibaba since 2018")
    expect(page.locator(".chip").first).to_contain_text("missing: Tencent", timeout=ANSWER_MS)


def test_markup_in_a_question_stays_text(page: Page) -> None:
    ask(page, "<img src=x onerror=alert(1)> What is CAGR?")
    expect(page.locator(".asked").first).to_contain_text("<img src=x")
    expect(page.locator(".answer")).not_to_be_empty(timeout=ANSWER_MS)
    assert page.locator("#thread img").count() == 0


def test_chinese_dark_and_narrow(page: Page, page_url: str) -> None:
    page.locator("#language").click()
    expect(page.locator("#send")).to_have_text("提问")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.set_viewport_size({"width": 420, "height": 800})
    page.goto(f"{page_url}/?embed=1")
    ask(page, QUESTION)
    expect(page.locator(".figure[data-drawn]")).to_be_visible(timeout=ANSWER_MS)
    assert page.evaluate("document.documentElement.scrollWidth <= 420")
    expect(page.locator("header")).to_be_hidden()
