"""Answers taken out of the page in a real browser: files by the menu, the clipboard, and the exported page itself."""

from __future__ import annotations

import io
from pathlib import Path

import docx
import pytest
from playwright.async_api import Browser

from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script, draw_figure

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]


def draw_script() -> Script:
    script = Script(days=60)
    script.figures.append(draw_figure(script))
    return script


@pytest.mark.parametrize(
    ("locale", "export", "word", "web", "references"),
    [
        ("en-US", "Export", "Word (DOCX)", "Web page (HTML)", "References"),
        ("zh-CN", "导出", "Word（DOCX）", "网页（HTML）", "参考来源"),
    ],
)
async def test_an_answer_is_taken_as_word_and_as_a_page_that_draws_offline(
    browser: Browser, tmp_path: Path, locale: str, export: str, word: str, web: str, references: str
) -> None:
    async with serve_script(draw_script()) as house:
        watched = await open_page(browser, house.url, locale=locale, theme="dark")
        page = watched.page
        await ask(page)
        await expect(page.locator(".plot .main-svg").first).to_be_visible()
        menu = page.locator(".tools").get_by_role("button", name=export)
        await menu.press("Enter")
        async with page.expect_download() as saved:
            await page.get_by_role("menuitem", name=word).press("Enter")
        path = await (await saved.value).path()
        file = docx.Document(io.BytesIO(path.read_bytes()))
        assert (await saved.value).suggested_filename.endswith("2015 to 2020.docx")
        assert len(file.inline_shapes) == 1, "the figure is a picture"
        assert references in [paragraph.text for paragraph in file.paragraphs]
        await expect(page.get_by_role("menu")).to_have_count(0)
        await expect(menu).to_have_attribute("aria-busy", "false")
        await menu.press("Enter")
        async with page.expect_download() as saved:
            await page.get_by_role("menuitem", name=web).click()
        report = tmp_path / "report.html"
        await (await saved.value).save_as(report)
        assert watched.complaints == []
        # As a file of the disk, where no server adds a policy.
        alone = await open_page(browser, report.as_uri(), width=420)
        await expect(alone.page.locator(".plot .main-svg").first).to_be_visible()
        await expect(alone.page.get_by_role("heading", name=references)).to_be_visible()
        assert await alone.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert (alone.outside, alone.complaints) == ([], [])


async def test_every_other_format_is_in_the_menu(browser: Browser) -> None:
    """Each begins as such a file does; what cannot be made is said beside the menu."""
    beginnings = {
        "PDF": (".pdf", b"%PDF-"),
        "Slides (PPTX)": (".pptx", b"PK"),
        "Notebook (IPYNB)": (".ipynb", b"{"),
        "Script of the cells (PY)": (".py", b"# "),
        "Workbook of all tables (XLSX)": (".xlsx", b"PK"),
        "Trace (JSON)": (".json", b"{"),
    }
    async with serve_script(draw_script()) as house:
        page = (await open_page(browser, house.url)).page
        await ask(page)
        await expect(page.locator(".plot .main-svg").first).to_be_visible()
        menu = page.locator(".tools .export")
        for name, (end, beginning) in beginnings.items():
            await menu.press("Enter")
            async with page.expect_download(timeout=120_000) as saved:
                await page.get_by_role("menuitem", name=name, exact=True).press("Enter")
            file = await saved.value
            assert file.suggested_filename.endswith(end)
            assert (await file.path()).read_bytes().startswith(beginning), name
            await expect(menu).to_have_attribute("aria-busy", "false")
        await page.route(
            "**/export",
            lambda route: route.fulfill(
                status=503, json={"detail": "no writer is free"}, content_type="application/problem+json"
            ),
        )
        await menu.press("Enter")
        await page.get_by_role("menuitem", name="PDF", exact=True).press("Enter")
        await expect(page.locator(".tools [role=alert]")).to_have_text("no writer is free")


async def test_copied_text_has_rows_and_references(browser: Browser) -> None:
    async with serve_script(Script(days=30)) as house:
        page = (await open_page(browser, house.url)).page
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await ask(page)
        await page.locator(".tools").get_by_role("button", name="Copy").click()
        await expect(page.locator(".tools").get_by_role("button", name="Copied")).to_be_visible()
        text = await page.evaluate("navigator.clipboard.readText()")
        assert "| 2015-01-02 | 100 | – |" in text
        assert "## References" in text
        assert "{{" not in text
        # Word and mail take the same text with its headings and tables, and nothing of it as markup of the model's.
        rich = await page.evaluate(
            "navigator.clipboard.read().then(([item]) => item.getType('text/html')).then((blob) => blob.text())"
        )
        for part in ("<h2>AAA returned more", "<th", "<td", ">2015-01-02</td>", "<em>far more</em>", "[2]"):
            assert part in rich, part
        # Escape closes the menu and stops nothing.
        menu = page.locator(".tools").get_by_role("button", name="Export")
        await menu.press("Enter")
        await expect(page.get_by_role("menu")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("menu")).to_have_count(0)
        await expect(menu).to_be_focused()
