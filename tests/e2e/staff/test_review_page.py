"""The staff's area in a real browser: each queue from its first item to the last, by keyboard, and what goes wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from fathom.services.datafetch.catalog.frameworks import load_frameworks, read_framework
from fathom.services.gateway.users import make_key
from fathom.services.planner.config import Config
from fathom.services.planner.prompts.catalogue import load_catalogue, read_prompt
from fathom.services.planner.prompts.listing import list_prompts
from fathom.services.planner.prompts.selection import Prompts
from tests.e2e.doubles.data import EXAMPLES
from tests.e2e.pages import CHROMIUM, Watched, ask, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script
from tests.e2e.staff.queues import (
    GOOD,
    OWNERS,
    add_items,
    compare,
    correct,
    doubt,
    open_part,
    read_decisions,
    rewrite,
)  # fmt: skip

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
    pytest.mark.asyncio(loop_scope="session"),
]
FOCUSED = "document.activeElement !== document.body"


async def find_good(page: Page) -> str:
    """Return under which letter the better answer of a comparison is shown: the sides are drawn."""
    card = page.locator(".text", has_text="148.2 %")
    label = await card.get_attribute("data-label")
    assert label in ("A", "B")
    return label


def read_text(path: Path) -> str:
    """Return what a file that the browser has saved holds."""
    return path.read_text(encoding="utf-8")


def expect_clean(watched: Watched) -> None:
    """Expect that the page asked nobody outside and complained of nothing."""
    assert (watched.outside, watched.complaints) == ([], [])


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
async def test_comparisons_are_graded_blind_and_by_keyboard(browser: Browser, locale: str) -> None:
    words = (
        ("Review", "Comparisons", "Nothing waits here") if locale == "en-US" else ("审核", "答案对比", "暂无待审核条目")
    )
    async with serve_script(Script(days=5)) as house:
        await add_items(house.url, compare("one", grade=2), compare("two"))
        watched = await open_page(browser, house.url, locale=locale)
        page = watched.page
        await page.get_by_role("link", name=words[0], exact=True).press("Enter")
        await expect(page.locator("[data-queue]")).to_have_count(5)
        await expect(page.locator("[data-queue='comparison'] .counts b")).to_have_text("2")
        await page.get_by_role("navigation").get_by_role("link", name=words[1]).press("Enter")
        await expect(page.locator(".item > .asked")).to_be_focused()
        # Neither whose the texts are nor the judge's grade is on the page before the decision, nor sent to it.
        shown = await page.content()
        assert not [name for name in (*OWNERS, "judge-model", "says how much") if name in shown]
        best = "1" if await find_good(page) == "A" else "5"
        await page.keyboard.press(best)
        await expect(page.locator(".grades :checked")).to_be_focused()
        await page.get_by_role("textbox").fill("It says how much, 1 figure.")
        await page.keyboard.press("Control+Enter")
        decided = page.locator(".decided")
        await expect(decided).to_contain_text("judge-model")
        await expect(page.locator(".text", has_text="148.2 %").locator(".owner")).to_contain_text(OWNERS[0])
        await expect(decided.locator("button.primary")).to_be_focused()
        # Taken back, it is blind again and may be decided anew.
        await page.keyboard.press("u")
        await expect(page.locator(".grades")).to_be_visible()
        await expect(page.locator(".owner")).to_have_count(0)
        assert await page.evaluate(FOCUSED)
        await page.keyboard.press(best)
        await page.keyboard.press("Enter")
        await expect(decided).to_be_visible()
        await page.keyboard.press("n")
        await expect(page.locator(".item > .asked")).to_contain_text("(two)")
        await page.keyboard.press("3")
        await page.keyboard.press("Enter")
        await expect(decided).to_be_visible()
        await page.keyboard.press("n")
        await expect(page.get_by_role("heading", name=words[2])).to_be_visible()
        assert await page.evaluate(FOCUSED)
        second, first = await read_decisions(house.url)
        assert (second["decision"]["grade"], first["key"]) == (0, "one")
        assert first["decision"]["grade"] == (2 if best == "1" else -2)
        expect_clean(watched)


async def test_a_person_and_a_judge_who_are_two_grades_apart_meet_in_the_rechecks(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        await add_items(house.url, compare("apart", grade=2), compare("near", grade=1))
        watched = await open_page(browser, house.url)
        page = watched.page
        await open_part(page, house.url, "comparison")
        for _ in range(2):
            # Even is two grades from the first judgement, one from the second.
            await expect(page.locator(".grades")).to_be_visible()
            await page.keyboard.press("3")
            await page.get_by_role("textbox").fill("Neither says why.")
            await page.keyboard.press("Control+Enter")
            await expect(page.locator(".decided")).to_be_visible()
            await page.keyboard.press("n")
        await expect(page.get_by_role("heading", name="Nothing waits here")).to_be_visible()
        await page.get_by_role("navigation").get_by_role("link", name="Rechecks 1 open").click()
        await expect(page.locator(".item > .asked")).to_contain_text("(apart)")
        better = await find_good(page)
        judged = page.locator(".judged")
        await expect(judged).to_contain_text("Even")
        await expect(judged).to_contain_text("Neither says why.")
        await expect(judged).to_contain_text(f"{better} is better")
        await expect(judged).to_contain_text("The first one says how much.")
        await page.get_by_role("button", name="The judge is right").click()
        await expect(page.locator(".decided")).to_contain_text(f"{better} is better")
        (recheck, *_) = await read_decisions(house.url)
        assert (recheck["kind"], recheck["decision"]["decision"]) == ("recheck", "accept")
        expect_clean(watched)


async def test_a_rewritten_question_is_edited_with_its_change_in_sight(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        await add_items(house.url, rewrite("one"), rewrite("two"), rewrite("three"))
        watched = await open_page(browser, house.url, locale="zh-CN")
        page = watched.page
        await open_part(page, house.url, "rewriting")
        await expect(page.locator(".history")).to_contain_text("1,275.54 亿元")
        await expect(page.locator(".judged")).to_contain_text("去年可以是两年")
        await page.keyboard.press("e")
        field = page.locator("#edited")
        await expect(field).to_be_focused()
        await expect(page.get_by_role("button", name="接受修改后的文本")).to_be_disabled()
        # Letters are text while one writes, and Escape gives the edit up.
        await page.keyboard.press("r")
        await page.keyboard.press("Escape")
        await expect(field).to_have_count(0)
        await expect(page.get_by_role("button", name="修改", exact=True)).to_be_focused()
        await page.keyboard.press("e")
        await field.fill("贵州茅台2021年归母净利润是多少？")
        await expect(page.locator(".difference del")).to_contain_text("的")
        await expect(page.locator(".difference ins")).to_contain_text("归母")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator(".decided .difference ins")).to_contain_text("归母")
        await page.keyboard.press("n")
        await expect(page.locator(".item > .asked")).to_contain_text("(two)")
        await page.keyboard.press("s")
        await expect(page.locator(".item > .asked")).to_contain_text("(three)")
        await page.keyboard.press("r")
        await expect(page.locator(".decided")).to_contain_text("已拒绝")
        await page.get_by_role("navigation").get_by_role("link", name="决定记录").click()
        await page.locator("[data-item] summary").click()
        await expect(page.locator("[data-item] .difference ins")).to_contain_text("归母")
        rejected, edited = await read_decisions(house.url)
        assert (rejected["key"], edited["key"]) == ("three", "one")
        assert (edited["decision"]["before"], edited["decision"]["after"]) == (
            "贵州茅台2021年的净利润是多少？", "贵州茅台2021年归母净利润是多少？",
        )  # fmt: skip
        expect_clean(watched)


async def test_answers_stand_beside_their_material_and_what_is_proposed_beside_what_failed(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        await add_items(house.url, doubt("one"), correct("two"))
        watched = await open_page(browser, house.url, width=900)
        page = watched.page
        for kind, titles in (("hallucination", ["Answer", "Material"]), ("candidate", ["Rejected", "Proposed"])):
            await open_part(page, house.url, kind)
            await expect(page.locator(".text > h2")).to_have_text(titles)
            left, right = [await page.locator(".text").nth(place).bounding_box() for place in (0, 1)]
            assert left
            assert right
            assert (left["y"], left["x"] + left["width"] < right["x"]) == (right["y"], True)
            # Below 900 px they stand one under the other.
            await page.set_viewport_size({"width": 420, "height": 860})
            left, right = [await page.locator(".text").nth(place).bounding_box() for place in (0, 1)]
            assert left
            assert right
            assert left["y"] + left["height"] <= right["y"]
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            await page.set_viewport_size({"width": 900, "height": 860})
            await page.keyboard.press("a")
            await expect(page.locator(".decided")).to_contain_text("accepted")
        assert [one["kind"] for one in await read_decisions(house.url)] == ["candidate", "hallucination"]
        expect_clean(watched)


async def test_a_candidate_without_a_proposal_is_written_or_rejected_but_not_accepted(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        await add_items(house.url, correct("one", texts=[{"text": "AAA rose."}, {"text": ""}]))
        page = (await open_page(browser, house.url)).page
        await open_part(page, house.url, "candidate")
        await expect(page.get_by_label("Proposed")).to_contain_text("Nobody has proposed a text yet")
        await expect(page.get_by_role("button", name="Accept")).to_have_count(0)
        await page.keyboard.press("a")
        await page.keyboard.press("e")
        await page.locator("#edited").fill(GOOD)
        await page.keyboard.press("Control+Enter")
        await expect(page.locator(".decided")).to_contain_text("edited and accepted")
        (kept,) = await read_decisions(house.url)
        assert (kept["decision"]["before"], kept["decision"]["after"]) == ("", GOOD)


async def test_an_item_that_another_has_decided_meanwhile_is_left(browser: Browser) -> None:
    """Without users everybody is the same reviewer: two windows show the same item."""
    async with serve_script(Script(days=5)) as house:
        await add_items(house.url, compare("one"), compare("two"))
        first, second = [(await open_page(browser, house.url)).page for _ in range(2)]
        for page in (first, second):
            await open_part(page, house.url, "comparison")
            await expect(page.locator(".item > .asked")).to_contain_text("(one)")
        await first.keyboard.press("2")
        await first.keyboard.press("Enter")
        await expect(first.locator(".decided")).to_be_visible()
        await second.keyboard.press("4")
        await second.keyboard.press("Enter")
        await expect(second.get_by_role("heading", name="This item has been decided")).to_be_visible()
        await expect(second.get_by_role("button", name="Next")).to_be_focused()
        await second.keyboard.press("Enter")
        await expect(second.locator(".item > .asked")).to_contain_text("(two)")
        (kept,) = await read_decisions(house.url)
        assert kept["decision"]["grade"] == 1


async def test_a_gateway_that_is_away_is_asked_again_and_nothing_written_is_lost(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        await add_items(house.url, compare("one"))
        page = (await open_page(browser, house.url)).page
        await open_part(page, house.url)
        await page.route(re.compile("/next$"), lambda route: route.abort())
        await page.get_by_role("navigation").get_by_role("link", name="Comparisons").click()
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await page.unroute(re.compile("/next$"))
        await page.get_by_role("button", name="Try again").press("Enter")
        await expect(page.locator(".grades")).to_be_visible()
        await page.route(re.compile("/decision$"), lambda route: route.abort())
        await page.keyboard.press("1")
        await page.get_by_role("textbox").fill("It says how much.")
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await page.unroute(re.compile("/decision$"))
        await expect(page.get_by_role("textbox")).to_have_value("It says how much.")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator(".decided")).to_contain_text("It says how much.")


async def test_who_may_not_review_is_not_led_there_and_is_told_why(browser: Browser, tmp_path: Path) -> None:
    keys = tmp_path / "keys.jsonl"
    made = [make_key(name, "acme", scopes=scopes) for name, scopes in (("ann", ["review"]), ("bob", []))]
    keys.write_text("".join(f"{line}\n" for _, line in made), encoding="utf-8")
    async with serve_script(Script(days=5), api_keys_file=str(keys)) as house:
        for (key, _), is_led in zip(made, (True, False), strict=True):
            page = (await open_page(browser, f"{house.url}/?access_token={key}")).page
            await expect(page.locator("#welcome")).to_be_visible()
            await expect(page.locator(".elsewhere").get_by_role("link", name="Trainings")).to_be_visible()
            await page.keyboard.press("Control+k")
            await page.get_by_role("combobox").fill("review")
            await expect(page.get_by_role("option", name="Review")).to_have_count(int(is_led))
            await page.keyboard.press("Escape")
            await expect(page.locator(".elsewhere").get_by_role("link", name="Review")).to_have_count(int(is_led))
            await open_part(page, house.url)
            if is_led:
                await expect(page.locator("[data-queue]")).to_have_count(5)
            else:
                await expect(page.get_by_role("heading", name="You may not review")).to_be_focused()
                await expect(page.get_by_role("alert")).to_contain_text('needs the scope "review"')
                await expect(page.get_by_role("navigation")).to_have_count(0)
            await page.context.close()


async def test_the_area_is_read_when_it_is_wanted_and_leads_back_to_the_conversation(browser: Browser) -> None:
    async with serve_script(Script(days=5)) as house:
        page = (await open_page(browser, house.url)).page
        loaded: list[str] = []
        page.on("request", lambda request: loaded.append(request.url))
        await ask(page, "Why?")
        await expect(page.locator(".trace.over")).to_be_visible()
        assert not [url for url in loaded if "/staff-" in url]
        conversation = page.url
        await page.get_by_role("link", name="Review", exact=True).click()
        await expect(page.locator("[data-queue]")).to_have_count(5)
        assert [url for url in loaded if "/staff-" in url and url.endswith(".js")]
        await page.get_by_role("navigation").get_by_role("link", name="Runs").click()
        await expect(page.locator("[data-run]")).to_contain_text("Why?")
        await expect(page.locator("[data-state='finished']")).to_contain_text("1")
        await page.get_by_title("Back to the questions").click()
        await expect(page.locator(".turn")).to_have_count(1)
        await expect(page.locator(".answer").first).to_be_visible()
        assert page.url == conversation
        await page.go_back()
        await expect(page.locator("[data-run]")).to_contain_text("Why?")


async def test_a_new_version_of_a_prompt_is_drafted_and_taken_as_a_file_that_the_planner_reads(
    browser: Browser,
) -> None:
    catalogue = load_catalogue()
    async with serve_script(Script(days=5)) as house:
        house.planner.prompts = list(list_prompts(Prompts.of(catalogue, Config())).prompts)
        watched = await open_page(browser, house.url)
        page = watched.page
        await open_part(page, house.url, "prompts")
        for line in ("research.en", "plan.zh"):
            await page.get_by_label("Stage").select_option(line)
            newest = catalogue.find(*line.split("."))  # type: ignore[arg-type]
            await expect(page.locator("[data-prompt] pre")).to_have_text(newest.body)
            await page.get_by_role("button", name="Draft a new version").press("Enter")
            await expect(page.locator("#draft")).to_be_focused()
            await page.locator("#draft").fill(f"{newest.body}\n\nAnd one thing more.")
            await expect(page.locator(".draft ins")).to_contain_text("And one thing more.")
            async with page.expect_download() as downloading:
                await page.get_by_role("button", name="Take the file").press("Enter")
            download = await downloading.value
            drafted = read_prompt(download.suggested_filename, read_text(await download.path()))
            assert drafted.body == f"{newest.body}\n\nAnd one thing more."
            changed = {"version": newest.header.version + 1, "issues": ()}
            assert drafted.header == newest.header.model_copy(update=changed)
            await page.get_by_role("button", name="Drop the draft").press("Enter")
            await expect(page.get_by_role("button", name="Draft a new version")).to_be_focused()
        await page.get_by_label("Stage").select_option("research.en")
        await page.get_by_label("Compared with").select_option("research.v3.en")
        await expect(page.locator(".prompt > .difference :is(ins, del)").first).to_be_visible()
        expect_clean(watched)


async def test_a_framework_is_drafted_checked_by_its_reader_and_taken_as_a_file(
    browser: Browser, tmp_path: Path
) -> None:
    async with serve_script(Script(days=5)) as house:
        house.datafetch.library = load_frameworks(EXAMPLES)
        house.datafetch.indicators = {"mcoilwtico", "gasdesm"}
        watched = await open_page(browser, house.url)
        page = watched.page
        await open_part(page, house.url)
        await page.get_by_role("link", name="Analysis frameworks").press("Enter")
        text = (EXAMPLES / "esg.yaml").read_text(encoding="utf-8")
        await expect(page.locator("[data-framework='esg'] pre")).to_have_text(text)
        await expect(page.locator(".tree summary", has_text="Environment")).to_be_visible()
        drafting = page.get_by_role("button", name="Draft a change")
        await drafting.press("Enter")
        await expect(page.locator("#draft")).to_be_focused()
        # An id that no table has: the line leads to its place in the text.
        await page.locator("#draft").fill(text.replace("mcoilwtico", "mcoilwti"))
        taking = page.get_by_role("button", name="Take the file")
        await expect(taking).to_be_disabled()
        await page.locator("#draft").press("Control+Enter")
        await expect(page.locator(".faults li")).to_contain_text("near: mcoilwtico")
        await expect(taking).to_be_disabled()
        await page.get_by_role("button", name="Line 25").press("Enter")
        await expect(page.locator("#draft")).to_be_focused()
        chosen = await page.evaluate("draft.value.slice(draft.selectionStart, draft.selectionEnd)")
        assert chosen.strip().startswith("- {name: fuel price exposure")
        # What was found in one text is not said of another.
        await page.locator("#draft").fill(text.replace("name: Emissions", "name: Releases"))
        await expect(page.locator(".faults")).to_have_count(0)
        await expect(page.locator(".draft > .difference ins")).to_contain_text("Releases")
        await page.locator("#draft").press("Control+Enter")
        await expect(page.locator(".verdict.accept")).to_contain_text("esg.yaml")
        await expect(page.locator(".draft > .tree")).to_contain_text("Releases")
        async with page.expect_download() as downloading:
            await taking.press("Enter")
        download = await downloading.value
        taken = tmp_path / download.suggested_filename
        taken.write_text(read_text(await download.path()), encoding="utf-8")
        assert (taken.name, read_framework(taken).nodes[0].nodes[0].name) == ("esg.yaml", "Releases")
        await page.get_by_role("button", name="Drop the draft").press("Enter")
        await expect(drafting).to_be_focused()
        expect_clean(watched)
