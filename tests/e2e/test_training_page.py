"""The report of trainings in headless Chromium: the file, and the gateway's page while a training writes."""

from __future__ import annotations

import asyncio
import statistics
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator

from fathom.trainers.commands.report_file import write_reports
from fathom.trainers.monitor.store_mirror import StoreMirror
from tests.e2e.pages import CHROMIUM, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script
from tests.support.training.metrics import read_lines
from tests.support.training.reports import SETTINGS, Writer
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]

# A machine that does other things takes its time to read a script of some megabytes.
PATIENCE_MS = 30_000
# Whether text is legible on what is painted behind it: WCAG's ratio, over translucent colours too.
CONTRAST = """(element) => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const layers = [];
  for (let one = element; one; one = one.parentElement) layers.unshift(parse(getComputedStyle(one).backgroundColor));
  const over = (below, [r, g, b, a = 1]) => [r, g, b].map((value, at) => value * a + below[at] * (1 - a));
  const ground = layers.filter((layer) => layer.length).reduce(over, [255, 255, 255]);
  const light = (rgb) => rgb.map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const [low, high] = [light(ground), light(parse(getComputedStyle(element).color))].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}"""


async def count_lines(chart: Locator) -> int:
    """Return the number of curves that a chart shows, bands aside."""
    found: int = await chart.evaluate("(card) => card.querySelector('.plot').data.filter((one) => one.name).length")
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_file_compares_trainings_and_shows_their_tokens(browser: Browser, tmp_path: Path, theme: str) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        writer = Writer(tmp_path / name, total=30, seed=seed, settings={**SETTINGS, "trainer.seed": seed})
        writer.write(*range(1, 31))
        writer.end()
    target = tmp_path / "report.html"
    await write_reports([str(tmp_path / "one"), str(tmp_path / "two")], "memory://", target, follow=False)
    watched = await open_page(browser, target.as_uri(), theme=theme)
    page = watched.page
    await expect(page.locator("#trainings tbody tr")).to_have_count(2)
    reward = page.locator('[data-panel="Reward"]')
    await expect(reward.locator(".js-plotly-plot")).to_be_visible(timeout=PATIENCE_MS)
    assert await count_lines(reward) == 2
    await expect(page.locator("#differences")).to_contain_text("1 differ")
    await expect(page.locator("#differences tbody td").first).to_have_text("trainer.seed")
    # A metric that no chart expects is there all the same, and what was not measured is named.
    await expect(page.locator('[data-panel="own/metric"]')).to_be_attached()
    await expect(page.locator("#missing")).to_contain_text("Importance weights")
    # One run less, and its colour and settings go with it.
    await page.locator('[data-training="two"] input').uncheck()
    await expect(page.locator("#summary tbody tr").first).to_contain_text("one")
    assert await count_lines(reward) == 1
    tokens = page.locator("#samples .tokens").last
    await expect(tokens.locator("span")).to_have_count(12)
    await expect(tokens.locator("span.masked")).to_have_count(2)
    await tokens.locator("span").first.hover()
    await expect(page.locator("#token-line")).to_contain_text("advantage 1.5 · log-probability: sampler")
    colours = [await tokens.locator("span").nth(place).evaluate("(one) => one.style.background") for place in (0, 4)]
    assert (bool(colours[0]), colours[1]) == (True, "")
    # The row of the lowest reward has the other sign, and another colour.
    await page.locator("#samples button", has_text="lowest reward").click()
    await page.locator("#samples .tokens").last.locator("span").first.hover()
    await expect(page.locator("#token-line")).to_contain_text("advantage -1.5")
    lowest = await page.locator("#samples .tokens").last.locator("span").first.evaluate("(one) => one.style.background")
    assert lowest != colours[0]
    await page.locator("#sample-colour").select_option("difference")
    await page.locator("#samples button[aria-label='Earlier step']").click()
    await expect(page.locator("#sample-step")).to_have_value("29")
    shown = page.locator("h1, #summary td, .card h3, #samples .tokens span, #samples p, #trainings td")
    contrasts = [await one.evaluate(CONTRAST) for one in await shown.all() if await one.is_visible()]
    assert min(contrasts) >= 4.5
    # What was chosen is in the address, so that a reload or a link shows it.
    await page.reload()
    await expect(page.locator("#sample-step")).to_have_value("29")
    await expect(page.locator('[data-training="two"] input')).not_to_be_checked()
    assert (watched.outside, watched.complaints) == ([], [])


async def test_runs_that_differ_in_their_seeds_are_one_curve_with_the_range_of_the_seeds(
    browser: Browser, tmp_path: Path
) -> None:
    # The third has not come so far: its last step is not that of the others, which go on without it.
    for name, seed, steps in (("one", 1, 30), ("two", 2, 30), ("three", 3, 20)):
        settings = {**SETTINGS, "trainer.seed": seed, "trainer.output": f"out/{name}"}
        writer = Writer(tmp_path / name, total=30, seed=seed, settings=settings)
        writer.write(*range(1, steps + 1))
        writer.end()
    other = Writer(tmp_path / "other", total=30, settings={**SETTINGS, "actor.optim.lr": 1e-4})
    other.write(*range(1, 31))
    other.end()
    target = tmp_path / "report.html"
    folders = [str(tmp_path / name) for name in ("one", "two", "three", "other")]
    await write_reports(folders, "memory://", target, follow=False)
    watched = await open_page(browser, target.as_uri())
    page = watched.page
    reward = page.locator('[data-panel="Reward"]')
    await expect(reward.locator(".js-plotly-plot")).to_be_visible(timeout=PATIENCE_MS)
    assert await count_lines(reward) == 4
    # A fainter band from the least to the most of a batch, and one of its quantiles within: two edges each.
    assert (
        await reward.evaluate("(card) => card.querySelector('.plot').data.filter((one) => !one.name).length") == 4 * 4
    )
    written = {
        name: {step: metrics["critic/score/mean"] for step, metrics in read_lines(tmp_path / name / "metrics.jsonl").items()}
        for name in ("one", "two", "three")
    }  # fmt: skip
    await page.locator("#seeds").check()
    assert await count_lines(reward) == 2
    joined, low, high = await reward.evaluate(
        "(card) => { const all = card.querySelector('.plot').data; const at = all.findIndex((one) => /3 seeds/.test(one.name));"
        " return [all[at].y, all[at - 2].y, all[at - 1].y]; }"
    )
    assert joined[9] == pytest.approx(statistics.median(one[10] for one in written.values()), rel=1e-4)
    assert joined[29] == pytest.approx((written["one"][30] + written["two"][30]) / 2, rel=1e-4)
    assert all(least <= middle <= most for least, middle, most in zip(low, joined, high, strict=True))
    # One colour for the seeds of an experiment, in the list as in the charts.
    swatch = "(row) => row.querySelector('.swatch').style.background"
    colours = [
        await page.locator(f'[data-training="{name}"]').evaluate(swatch) for name in ("one", "two", "three", "other")
    ]
    assert (len(set(colours[:3])), len(set(colours))) == (1, 2)
    await expect(page.locator("#bands-are")).to_contain_text("Of several seeds")
    # Phases side by side have their names, and their seconds.
    time = page.locator('[data-panel="Time per phase"]')
    await time.scroll_into_view_if_needed()
    await expect(time.locator(".js-plotly-plot")).to_be_visible(timeout=PATIENCE_MS)
    phases = await time.evaluate("(card) => card.querySelector('.plot').data.map((one) => [one.y, one.x])")
    assert phases == [[["gen", "update_actor"], [2, 1]]] * 2
    # Without a second seed there is nothing to join.
    for name in ("two", "three"):
        await page.locator(f'[data-training="{name}"] input').uncheck()
    await expect(page.locator("#seeds")).to_have_count(0)
    assert (watched.outside, watched.complaints) == ([], [])


async def test_the_gateways_page_follows_a_training_that_writes(browser: Browser, tmp_path: Path) -> None:
    script = Script(days=30, figures=[])
    async with serve_script(script) as house:
        loop = asyncio.get_running_loop()
        writer, steps = Writer(tmp_path / "live", total=60), threading.Semaphore(0)

        def start(work: Coroutine[Any, Any, None]) -> Future[None]:
            # The double's store lives in this loop; a real training has a loop of its own. Waited for, so that what
            # the page can know is what was written.
            done = asyncio.run_coroutine_threadsafe(work, loop)
            done.result()
            return done

        clock = iter(range(0, 10_000_000, 100))
        writer.mirror(StoreMirror(house.store, start, tmp_path / "live", lambda: float(next(clock))))

        def train() -> None:
            for step in range(1, 61):
                steps.acquire()
                writer.write(step)
            writer.end()

        training = threading.Thread(target=train)
        training.start()
        try:
            steps.release(20)
            watched = await open_page(browser, f"{house.url}/")
            page = watched.page
            # Time of the page alone: its ten seconds between two looks pass at once.
            await page.clock.install()
            await page.get_by_role("link", name="Trainings").click()
            await expect(page.locator('[data-training="live"]')).to_contain_text("running", timeout=PATIENCE_MS)
            await expect(page.locator('[data-panel="Reward"] .js-plotly-plot')).to_be_visible(timeout=PATIENCE_MS)

            row = page.locator('[data-training="live"]')

            async def wait_for(step: int) -> None:
                async def shows() -> bool:
                    await page.clock.fast_forward(10_000)
                    return f"{step} of 60" in await row.inner_text()

                await eventually(shows, every_s=0.05)

            last = "() => document.querySelector('[data-panel=\"Reward\"] .plot').data.at(-1).x.at(-1)"
            for written in (20, 40):
                await wait_for(written)
                assert await page.evaluate(last) == written
                steps.release(20)
            await expect(page.locator("#sample-step")).not_to_have_value("")
            await wait_for(60)
            await expect(page.locator('[data-training="live"]')).to_contain_text("finished")
            assert (watched.outside, watched.complaints) == ([], [])
        finally:
            steps.release(1_000)
            await asyncio.to_thread(training.join)
