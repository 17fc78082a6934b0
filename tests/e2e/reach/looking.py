"""Look at a state of the page: what a designer would call broken, and a picture for people."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from deploy.web import WEB

LAYOUT = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
# Animations end before anybody looks; endless ones, as of a spinner, never do.
SETTLED = "() => Promise.all(document.getAnimations().filter((one) => one.effect.getTiming().iterations !== Infinity).map((one) => one.finished))"
FOLDER = "FATHOM_SCREENSHOTS"
"""Variable with the folder for the pictures; without it none are made."""


async def find_broken(page: Page) -> list[str]:
    """Return what is broken in the page's layout: overlapping or cut text, what leaves the window, empty panels."""
    found: list[str] = await page.evaluate(LAYOUT)
    return found


async def save_picture(page: Page, state: str) -> None:
    """Save a picture of the window, named after its width, language, theme and state, where a folder is given."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    kind = await page.evaluate(
        "[innerWidth, navigator.language, matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light']"
    )
    name = "-".join([*map(str, kind), re.sub(r"\W+", "-", state)])
    await page.screenshot(path=Path(folder) / f"{name}.png")


async def check(page: Page, state: str) -> None:
    """Look at the page as it is, also with axe; fail with what is broken, and with what axe finds of weight."""
    await page.evaluate(SETTLED)
    await save_picture(page, state)
    assert await find_broken(page) == [], state
    # Half a megabyte: it stays in the page from state to state, and a reload takes it away.
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text(encoding="utf-8"))
    violations: list[dict[str, Any]] = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })"))[
        "violations"
    ]
    heavy = [
        (one["id"], one["nodes"][0]["html"][:200]) for one in violations if one["impact"] in ("serious", "critical")
    ]
    assert heavy == [], state
    # Whoever enlarges the text has a narrow page, and would lose the ends of all lines.
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state
