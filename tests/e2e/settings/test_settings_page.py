"""Settings of the page: which model new questions go to, what each is, and what questions can draw on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.services.gateway.users import make_key
from tests.e2e.pages import CHROMIUM, ask, expect, open_page
from tests.e2e.reach.looking import check
from tests.e2e.replay import serve_script
from tests.e2e.script import Script
from tests.e2e.settings.models import list_many_models
from tests.e2e.settings.sources import NOON, REFUSED

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
WORDS = {
    "en-US": {"settings": "Settings", "models": "Models", "sources": "Sources", "missing": "key not set", "off": "off"},
    "zh-CN": {"settings": "设置", "models": "模型", "sources": "数据来源", "missing": "密钥未设置", "off": "未启用"},
}


@pytest.fixture(autouse=True)
def _many_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.e2e.replay.ReplayPolicy.ListModels", list_many_models)


async def open_settings(page: Page, words: dict[str, str]) -> None:
    if await page.locator("#sidebar-toggle").is_visible():
        await page.locator("#sidebar-toggle").click()
    await page.get_by_role("button", name=words["settings"], exact=True).click()
    await expect(page.locator(".settings")).to_be_visible()


@pytest.mark.parametrize(
    ("locale", "theme", "width"),
    [("en-US", "light", 1440), ("zh-CN", "dark", 1100), ("en-US", "dark", 900), ("zh-CN", "light", 420)],
)
async def test_models_and_sources_are_shown_in_every_state(
    browser: Browser, locale: str, theme: str, width: int
) -> None:
    words = WORDS[locale]
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, width=width, locale=locale, theme=theme)
        page = watched.page
        await open_settings(page, words)
        await page.get_by_role("tab", name=words["models"]).click()
        entry = page.locator("[data-model=desk-large]")
        for part in ("deepseek", "65,536", "0.5", "0.05", "2.2"):
            await expect(entry).to_contain_text(part)
        await expect(page.locator("[data-model=other]")).to_contain_text(words["missing"])
        await expect(page.locator("[data-model=house-7b] .failed")).to_contain_text("has no tokenizer")
        # What no model is given goes to the default.
        for role, model in (
            ("planner", "rules"),
            ("coder", "rules"),
            ("writer", "desk-large"),
            ("judge", "desk-large"),
        ):
            await expect(page.locator(f"[data-role={role}]")).to_contain_text(model)
        await check(page, "models")
        # The arrow keys lead from one part to the next, as in every list of tabs.
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", name=words["sources"])).to_be_focused()
        await expect(page.locator("[data-source='vendor:edgar'] .failed")).to_have_text(REFUSED)
        fred = page.locator("[data-source='vendor:fred']")
        await expect(fred).to_contain_text(words["missing"])
        await expect(fred).to_contain_text(words["off"])
        await expect(page.locator("[data-source='tools:acme'] .warned")).to_contain_text("news")
        await expect(page.locator("[data-source='bundled:prices']")).to_contain_text("2022-12-28")
        await check(page, "sources")
        assert await page.evaluate(
            "document.querySelector('.dialog').scrollWidth <= document.querySelector('.dialog').clientWidth"
        )
        await page.keyboard.press("Escape")
        await expect(page.locator(".dialog")).to_have_count(0)
        assert (watched.outside, watched.complaints) == ([], [])


async def test_new_questions_go_to_the_model_that_is_set_and_it_stays(browser: Browser) -> None:
    words = WORDS["en-US"]
    async with serve_script(Script(days=30)) as house:
        page = (await open_page(browser, house.url)).page
        await open_settings(page, words)
        await page.get_by_role("tab", name=words["models"]).click()
        chosen = page.get_by_label("New questions go to")
        await expect(chosen.locator("option").first).to_have_text("this Fathom's default (rules)")
        await chosen.select_option("desk-large")
        await page.keyboard.press("Escape")
        await expect(page.locator("#model")).to_have_value("desk-large")
        await page.reload()
        await expect(page.locator("#model")).to_have_value("desk-large")
        await ask(page)
        await expect(page.locator(".trace.over")).to_have_count(1)
        assert house.planner.asked[-1].model == "desk-large"
        # Beside a question another one is chosen for this page alone.
        await page.locator("#model").select_option("rules")
        await page.reload()
        await expect(page.locator("#model")).to_have_value("desk-large")
        await open_settings(page, words)
        await page.get_by_role("tab", name=words["models"]).click()
        await chosen.select_option("")
        await page.keyboard.press("Escape")
        await expect(page.locator("#model")).to_have_value("rules")


async def test_a_service_that_is_away_takes_its_own_sources_with_it_alone(browser: Browser) -> None:
    words = WORDS["en-US"]
    async with serve_script(Script(days=30)) as house:
        page = (await open_page(browser, house.url)).page
        await open_settings(page, words)
        house.dispatchers["datafetch"].ready = False
        await page.get_by_role("tab", name=words["sources"]).click()
        await expect(page.locator(".sources .chip.warn").first).to_have_text(
            "datafetch does not answer; its sources are not shown."
        )
        await expect(page.locator("[data-source='tools:acme']")).to_be_visible()
        await expect(page.locator("[data-source='vendor:edgar']")).to_have_count(0)
        house.dispatchers["datafetch"].ready = True
        await page.get_by_role("button", name="Read again").click()
        await expect(page.locator("[data-source='vendor:edgar']")).to_be_visible()


@pytest.mark.parametrize(
    ("locale", "width", "tab", "none", "changed", "before"),
    [
        ("en-US", 1440, "Conclusions", "No answer has concluded anything yet.", "has changed", "Before that: 1"),
        ("zh-CN", 420, "结论", "尚无答案得出结论。", "有变化", "此前的结论：1 条"),
    ],
)
async def test_what_was_concluded_is_listed_with_its_run_and_what_was_said_before(
    browser: Browser, locale: str, width: int, tab: str, none: str, changed: str, before: str
) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        await ask(page)
        await expect(page.locator(".trace.over")).to_be_visible()
        (run_id,) = house.planner.runs
        await open_settings(page, WORDS[locale])
        await page.get_by_role("tab", name=tab).click()
        await expect(page.get_by_role("tabpanel")).to_contain_text(none)
        await page.keyboard.press("Escape")
        for number, value in enumerate((0.25, 0.2), 1):
            made = memory.Stance(id=f"s{number}", entity="AAA", measure="close_adj/return", value=value, run_id=run_id)
            made.view = f"<b>AAA</b> returned {value}"
            made.create_time.FromSeconds(NOON - number * 86_400)
            house.memory.stances.append(made)
        house.memory.stances.append(memory.Stance(id="s3", entity="BBB", measure="close_adj/return", view="flat"))
        await page.reload()
        await open_settings(page, WORDS[locale])
        await page.get_by_role("tab", name=tab).click()
        entries = page.locator("[data-stance]")
        await expect(entries).to_have_count(2)
        await expect(entries.first).to_contain_text("<b>AAA</b> returned 0.25")
        await expect(entries.first).to_contain_text(changed)
        await expect(entries.last).not_to_contain_text(changed)
        await entries.first.locator("summary").press("Enter")
        await expect(entries.first.locator("details")).to_contain_text(before)
        await expect(entries.first.locator("details li p").first).to_have_text("<b>AAA</b> returned 0.2")
        await check(page, "conclusions")
        link = await entries.first.locator("a").first.get_attribute("href")
        assert link == f"?child=1#run={run_id}"
        assert (watched.outside, watched.complaints) == ([], [])


@pytest.mark.parametrize(
    ("locale", "width", "test", "answers"), [("en-US", 1440, "Test", "It answers"), ("zh-CN", 420, "测试", "有应答")]
)
async def test_a_source_is_tried_and_says_why_it_does_not_answer(
    browser: Browser, locale: str, width: int, test: str, answers: str
) -> None:
    words = WORDS[locale]
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        await open_settings(page, words)
        await page.get_by_role("tab", name=words["sources"]).click()
        akshare, edgar = page.locator("[data-source='vendor:akshare']"), page.locator("[data-source='vendor:edgar']")
        await akshare.get_by_role("button", name=test).press("Enter")
        await expect(akshare.get_by_role("status")).to_have_text(f"{answers} · 420 ms")
        await edgar.get_by_role("button", name=test).press("Enter")
        await expect(edgar.get_by_role("status")).to_contain_text(REFUSED)
        await expect(edgar.get_by_role("button", name=test)).to_be_focused()
        desk = page.locator("[data-source='database:desk']")
        await desk.get_by_role("button", name=test).press("Enter")
        await expect(desk.get_by_role("status")).to_contain_text(answers)
        acme, tools = page.locator("[data-source='tools:acme']"), page.locator("[data-source='tools:desk']")
        await acme.get_by_role("button", name=test).press("Enter")
        await expect(acme.get_by_role("status")).to_contain_text(answers)
        await tools.get_by_role("button", name=test).press("Enter")
        await expect(tools.get_by_role("status")).to_contain_text("No such file or directory")
        notes = page.locator("[data-source='documents:notes']")
        await notes.get_by_role("button", name=test).press("Enter")
        await expect(notes.get_by_role("status")).to_contain_text(answers)
        # Bundled tables are read at the start, and what is off is not asked.
        await expect(page.locator("[data-source='bundled:prices'] button")).to_have_count(0)
        await expect(page.locator("[data-source='vendor:fred'] button")).to_have_count(0)
        await check(page, "tried sources")
        assert (watched.outside, watched.complaints) == ([], [])


async def test_who_lacks_the_right_sees_how_sources_stand_and_not_why(browser: Browser, tmp_path: Path) -> None:
    words = WORDS["en-US"]
    key, line = make_key("desk", "fund-7")
    assert "scopes" not in json.loads(line)
    (tmp_path / "keys.jsonl").write_text(f"{line}\n")
    async with serve_script(Script(days=30), api_keys_file=str(tmp_path / "keys.jsonl")) as house:
        page = (await open_page(browser, f"{house.url}/?access_token={key}")).page
        await open_settings(page, words)
        await page.get_by_role("tab", name=words["sources"]).click()
        edgar = page.locator("[data-source='vendor:edgar']")
        await expect(edgar).to_contain_text("fails")
        await expect(page.locator(".sources")).not_to_contain_text(REFUSED)
        await expect(page.locator(".sources")).not_to_contain_text("key not set")
        await expect(page.locator(".sources .things button")).to_have_count(0)


@pytest.mark.parametrize(("locale", "width", "mode"), [("en-US", 1440, "Workflow"), ("zh-CN", 420, "工作流")])
async def test_the_mode_of_new_questions_is_set_and_stays(browser: Browser, locale: str, width: int, mode: str) -> None:
    async with serve_script(Script(days=30)) as house:
        watched = await open_page(browser, house.url, locale=locale, width=width)
        page = watched.page
        await open_settings(page, WORDS[locale])
        chosen = page.locator(".settings select:has(option[value=workflow])")
        await expect(chosen).to_have_value("research")
        await chosen.select_option("workflow")
        await expect(chosen.locator("option:checked")).to_contain_text(mode)
        await check(page, "mode of new questions")
        await page.keyboard.press("Escape")
        await expect(page.locator("#mode")).to_have_value("workflow")
        await page.reload()
        await expect(page.locator("#mode")).to_have_value("workflow")
        assert (watched.outside, watched.complaints) == ([], [])


async def test_staff_reach_frameworks_and_prompts_from_the_settings_and_others_read_frameworks(
    browser: Browser, tmp_path: Path
) -> None:
    words = WORDS["en-US"]
    (reviewer, first), (reader, second) = make_key("desk", "fund-7", scopes=("review",)), make_key("desk", "fund-8")
    (tmp_path / "keys.jsonl").write_text(f"{first}\n{second}\n")
    async with serve_script(Script(days=30), api_keys_file=str(tmp_path / "keys.jsonl")) as house:
        page = (await open_page(browser, f"{house.url}/?access_token={reader}")).page
        await open_settings(page, words)
        parts = page.get_by_role("region", name="Frameworks and prompts")
        await expect(parts.get_by_role("link")).to_have_text(["Analysis frameworks"])
        page = (await open_page(browser, f"{house.url}/?access_token={reviewer}")).page
        for link, title in (("Edit frameworks", "Analysis frameworks"), ("Prompts and their variants", "Prompts")):
            await open_settings(page, words)
            await page.get_by_role("link", name=link).press("Enter")
            await expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
            await page.go_back()
