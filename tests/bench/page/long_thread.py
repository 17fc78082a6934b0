"""Input delay in a conversation of 200 turns against one of a single turn, as the page in headless Chromium has it.

``python -m tests.bench long_thread`` types 60 characters in each, in turn, and prints the median and 95th percentile of
script and layout per key, and their ratio. Needs Chromium.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from playwright.async_api import Browser, async_playwright

from tests.e2e.asking.test_long_thread import TURNS, WIDE, fill
from tests.e2e.pages import ARGUMENTS, CHROMIUM, expect, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script

PAIRS, KEYS = 3, 60
# From the key to a page that is laid out; the wait for the next frame would hide what is below 16 ms.
TYPE = """async (keys) => {
  const box = document.getElementById('question');
  const write = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set;
  const times = [];
  for (let key = 0; key < keys; key += 1) {
    const start = performance.now();
    write.call(box, box.value + 'x');
    box.dispatchEvent(new Event('input', { bubbles: true }));
    await Promise.resolve();
    document.getElementById('thread').getBoundingClientRect();
    times.push(performance.now() - start);
    await new Promise((done) => requestAnimationFrame(done));
  }
  return times;
}"""


async def measure(browser: Browser, turns: int) -> list[float]:
    """Return the milliseconds per key in a conversation of so many turns."""
    async with serve_script(Script(answer=f"A wide table:\n\n{WIDE}\n\n{'More words. ' * 60}", days=5)) as house:
        page = (await open_page(browser, f"{house.url}/#c={fill(house, turns)}")).page
        await expect(page.locator(".turn > .answer table")).to_have_count(turns)
        times: list[float] = await page.evaluate(TYPE, KEYS)
        await page.context.close()
        return times


async def run() -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        short: list[float] = []
        long: list[float] = []
        for _ in range(PAIRS):
            short += await measure(browser, 1)
            long += await measure(browser, TURNS)
        await browser.close()
    for name, times in (("1 turn", short), (f"{TURNS} turns", long)):
        print(f"{name}: median {np.median(times):.1f} ms, 95th percentile {np.percentile(times, 95):.1f} ms per key")
    print(f"ratio of medians {np.median(long) / np.median(short):.2f}, of 95th percentiles", end=" ")
    print(f"{np.percentile(long, 95) / np.percentile(short, 95):.2f}")


def main(argv: Sequence[str]) -> None:
    asyncio.run(run())
