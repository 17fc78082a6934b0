"""Items for the queues of the review, put there as a program does it."""

from __future__ import annotations

from typing import Any

import httpx
from playwright.async_api import Page

from tests.e2e.pages import expect

GOOD, POOR = "AAA rose by **148.2 %** from 2015 to 2020 [1].", "AAA rose. | a | b |"
TABLE = "| measure | AAA |\n|---|---:|\n| total return | 148.2 % |"
# Only a failure takes so long; the first item makes the database.
PATIENCE_S = 60.0
OWNERS = ("first-model", "second-model")


def compare(key: str, *, grade: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a comparison, judged by a machine where there is a grade of the first text against the second."""
    texts = [{"text": text, "owner": owner} for text, owner in zip((GOOD, POOR), OWNERS, strict=True)]
    item = {"key": key, "kind": "comparison", "question": f"How did AAA do? ({key})", "language": "en", "texts": texts}
    if grade is not None:
        item["machine"] = {"grade": grade, "reason": "The first one says how much.", "by": "judge-model"}
    return {**item, **more}


def rewrite(key: str, **more: Any) -> dict[str, Any]:
    """Return a follow-up that was made whole, with its conversation."""
    history = [
        {"question": "贵州茅台2022年的营业收入是多少？", "answer": f"营业收入为 **1,275.54 亿元** [1]。\n\n{TABLE}"}
    ]
    item = {
        "key": key,
        "kind": "rewriting",
        "question": f"它去年的利润呢？({key})",
        "language": "zh",
        "history": history,
    }
    machine = {"verdict": "unsure", "reason": "去年可以是两年"}
    return {**item, "texts": [{"text": "贵州茅台2021年的净利润是多少？"}], "machine": machine, **more}


def doubt(key: str, **more: Any) -> dict[str, Any]:
    """Return an answer and the material that it has to rest on."""
    item = {"key": key, "kind": "hallucination", "question": "How did AAA do?", "language": "en", "material": TABLE}
    return {**item, "texts": [{"text": GOOD, "owner": OWNERS[0]}], **more}


def correct(key: str, **more: Any) -> dict[str, Any]:
    """Return an answer that failed and the one that is proposed in its place."""
    item = {"key": key, "kind": "candidate", "question": "How did AAA do?", "language": "en"}
    machine = {"verdict": "too_short", "reason": "two words"}
    return {**item, "texts": [{"text": POOR}, {"text": GOOD}], "machine": machine, **more}


async def add_items(url: str, *items: dict[str, Any]) -> None:
    """Put items into their queues."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        answer = await client.post("/v1/review/items", json={"items": list(items)})
    assert (answer.status_code, answer.json()) == (201, {"added": len(items), "known": 0}), answer.text


async def read_decisions(url: str) -> list[dict[str, Any]]:
    """Return what was decided, newest first."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        answer = await client.get("/v1/review/decisions")
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["decisions"]
    return found


async def open_part(page: Page, url: str, part: str = "") -> None:
    """Turn to a part of the staff's area; the page is there already or comes with it."""
    await page.goto(f"{url}/#/review{part and f'/{part}'}")
    await expect(page.locator(".staff main")).to_be_visible()
