"""A table that an answer computed says in a real browser which cell made it, and of which tables."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from tests.e2e.pages import CHROMIUM, expect
from tests.e2e.script import Script
from tests.e2e.test_answer_page import show_answer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: browser tests need one"),
]


async def test_a_computed_table_names_its_cell_and_the_tables_it_read(browser: Browser) -> None:
    script = Script(answer="{{table:sheet_1}}\n\n{{table:sheet_2}}", days=5)
    # The cell numbered 3 made it of the table that was fetched.
    computed = trajectory.Material(number=5, sheet=script.sheet, variable="sheet_2", computed_by=3)
    computed.computed_from.append("sheet_1")
    script.answer_material = [computed]
    async with show_answer(browser, script) as watched:
        page = watched.page
        origin = page.locator('.answer [data-table="sheet_2"] .origin')
        await expect(origin).to_contain_text("computed by [3] ← sheet_1")
        fetched = page.locator('.answer [data-table="sheet_1"] .origin')
        await expect(fetched).to_contain_text("source: synthetic 1.0")
        await expect(fetched).not_to_contain_text("computed by")
