"""The page against its budgets, in headless Chromium: ``python -m tests.bench page``.

Of the real stack with ``rules``, a process per service: from Enter to what the run does, and to the answer's first
words, as they stand on the page; and from the request to its first event and to its start, over HTTP. Of a conversation of 200 turns,
each with a table of 30 columns: the time between frames while it is scrolled beside that of the same page at rest, and
the delay of a key (``long_thread``). Needs Chromium and the bundled data under ``.fathom`` (``make data``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import numpy as np
from playwright.async_api import Browser, Page, async_playwright

from fathom.services.local import LocalSettings, LocalStack
from tests.bench.page import long_thread
from tests.e2e.asking.test_long_thread import TURNS, WIDE, fill
from tests.e2e.pages import ARGUMENTS, CHROMIUM, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

COMPANIES = ("Apple", "Microsoft", "JPMorgan", "Pfizer", "Walmart", "Exxon Mobil")
ROUNDS = 2
# Pixels per frame: 40 of them at 60 frames a second is what a wheel that is spun does.
STEP_PX, FRAMES = 40, 240
LOADING_MS = 600_000
# Texts of events. The first one says that the run is accepted; it has begun when its question is read.
MARKS = {
    "first event": b"",
    "start": b'"started"',
    "first intent": b'"intent": "',
    "first words of the answer": b'"answer_delta"',
}
# Notes when what the run does, and then its answer, stands on the page; the text is looked at in each frame.
ASK = """async (question) => {
  const box = document.getElementById('question');
  const write = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set;
  write.call(box, question);
  box.dispatchEvent(new Event('input', { bubbles: true }));
  const turns = document.querySelectorAll('.turn').length;
  const start = performance.now();
  box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  const found = {};
  while (!found.content) {
    await new Promise((done) => requestAnimationFrame(done));
    const turn = document.querySelectorAll('.turn')[turns];
    const now = performance.now() - start;
    if (turn && !found.turn) found.turn = now;
    if (turn && !found.intent && turn.querySelector('.steps > *')) found.intent = now;
    if (turn && turn.querySelector('.answer')?.textContent.trim()) found.content = now;
    if (now > 120_000) throw new Error('no answer came');
  }
  return [found.turn, found.intent ?? found.content, found.content];
}"""
SCROLL = """async ([step, frames]) => {
  const place = document.getElementById('thread');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  place.scrollTop = 0;
  await frame();
  const times = [];
  let last = await frame();
  for (let at = 0; at < frames; at += 1) {
    place.scrollTop += step;
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return times;
}"""


def describe(name: str, times_ms: Sequence[float]) -> None:
    """Print median, 95th percentile and largest of some times."""
    tail = f"95th percentile {np.percentile(times_ms, 95):.0f}, most {max(times_ms):.0f} ms of {len(times_ms)}"
    print(f"{name}: median {np.median(times_ms):.0f}, {tail}", flush=True)


async def time_events(session: aiohttp.ClientSession, url: str, question: str) -> tuple[float, ...]:
    """Return the milliseconds from asking to each of ``MARKS``."""
    start, times = time.perf_counter(), dict[str, float]()
    async with session.post(f"{url}/v1/runs", json={"question": question}) as accepted:
        accepted.raise_for_status()
        run_id = (await accepted.json())["run_id"]
    async with session.get(f"{url}/v1/runs/{run_id}/events") as stream:
        async for line in stream.content:
            if not line.startswith(b"data: "):
                continue
            for name, mark in MARKS.items():
                if mark in line:
                    times.setdefault(name, (time.perf_counter() - start) * 1000)
            if b'"finished"' in line:
                # An answer that came in no parts came with the end.
                times.setdefault("first words of the answer", (time.perf_counter() - start) * 1000)
                break
    words = times["first words of the answer"]
    return tuple(times.get(name, words) for name in MARKS)


async def measure_asking(browser: Browser) -> None:
    """Ask each question over HTTP and on the page, and print what took how long."""
    settings = LocalSettings(
        home=Path(".fathom"), processes=True, gateway_port=0, models={"rules": {"engine": "rules"}}
    )
    async with LocalStack(settings).running() as endpoints, aiohttp.ClientSession() as session:
        page = (await open_page(browser, endpoints.gateway)).page
        # The first question reads tables and programs; no user but the first one of a day waits for it.
        await time_events(session, endpoints.gateway, "How did Apple do in 2019?")
        over_http: list[tuple[float, ...]] = []
        on_page: list[list[float]] = []
        for year in range(2018, 2018 + ROUNDS):
            for company in COMPANIES:
                over_http.append(await time_events(session, endpoints.gateway, f"How did {company} do in {year}?"))
                await page.locator("#new").click()
                on_page.append(await page.evaluate(ASK, f"What was the maximum drawdown of {company} in {year}?"))
        await page.context.close()
    for place, name in enumerate(MARKS):
        describe(f"over HTTP, {name}", [times[place] for times in over_http])
    for place, name in enumerate(("the turn", "first intent", "first words of the answer")):
        describe(f"on the page, {name}", [times[place] for times in on_page])


async def scroll(page: Page, step: int) -> list[float]:
    """Return the milliseconds between frames while the thread moves by so many pixels in each."""
    times: list[float] = await page.evaluate(SCROLL, [step, FRAMES])
    return times


async def measure_scrolling(browser: Browser) -> None:
    """Scroll a long conversation, and print its frames beside those of the page at rest."""
    async with serve_script(Script(answer=f"A wide table:\n\n{WIDE}\n\n{'More words. ' * 60}", days=5)) as house:
        page = (await open_page(browser, f"{house.url}/#c={fill(house, TURNS)}")).page
        # Each turn reads its run, one after the other; on a busy machine that takes minutes.
        await expect(page.locator(".turn > .answer table")).to_have_count(TURNS, timeout=LOADING_MS)
        rest: list[float] = []
        moving: list[float] = []
        for _ in range(ROUNDS):
            rest += await scroll(page, 0)
            moving += await scroll(page, STEP_PX)
        await page.context.close()
    for name, times in (("at rest", rest), (f"scrolled by {STEP_PX} px a frame", moving)):
        late = np.mean(np.array(times) > 1.5 * 1000 / 60)
        describe(f"{TURNS} turns with 30 columns, {name}, between frames", times)
        print(f"  frames that came late (over 25 ms): {late:.1%}", flush=True)


async def run() -> None:
    print(f"load {os.getloadavg()[0]:.0f}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        await measure_scrolling(browser)
        await measure_asking(browser)
        await browser.close()
    await long_thread.run()
