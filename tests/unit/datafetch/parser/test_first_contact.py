"""Forty questions of tests/golden/datafetch/first_contact.yaml: answered right, refused by name, never silently wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from fathom.domain import frames
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Result
from tests.golden.datafetch.schema import FOLDER

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUESTIONS = yaml.safe_load((FOLDER / "first_contact.yaml").read_text("utf-8"))["questions"]


def numbers(result: Result) -> list[float]:
    """The one value of each column that has one; empty for series."""
    found = []
    for sheet in result.sheets:
        frame = frames.from_arrow(sheet.arrow)
        columns = [column.name for column in sheet.columns if column.indicator and column.name in frame]
        found += [float(frame[name].iloc[0]) for name in columns if len(frame) == 1]
    return found


def judge(result: Result, expect: dict[str, Any]) -> str:
    """Return what is wrong with a result; "" when nothing is."""
    named = " ".join(item.subject for item in result.missing)
    if "refuse" in expect:
        return "" if not result.sheets and expect["refuse"] in named else f"not refused by name: {named!r}"
    if "nobody" in expect:
        return "" if not result.sheets and result.missing else "answered for somebody"
    if "names" in expect:
        refused = not result.sheets and result.missing
        return "" if refused or expect["names"] in named else f"not named: {named!r}"
    if "panels" in expect:
        units = {column.unit for sheet in result.sheets for column in sheet.columns if column.indicator}
        return "" if len(units) >= expect["panels"] and not result.missing else f"units {units}, missing {named!r}"
    if result.missing:
        return "" if "either" in expect and not result.sheets else f"missing: {named!r}"
    if "rows" in expect:
        given = [sheet.rows for sheet in result.sheets]
        return "" if given == [expect["rows"]] else f"{given} rows"
    value = expect.get("value", expect.get("either"))
    return "" if any(math.isclose(value, one, rel_tol=1e-6) for one in numbers(result)) else f"{numbers(result)[:4]}"  # type: ignore[arg-type]


@pytest.mark.parametrize("question", QUESTIONS, ids=[item["id"] for item in QUESTIONS])
async def test_a_question_is_answered_right_or_refused_by_name(engine: Engine, question: dict[str, Any]) -> None:
    assert judge(await engine.ask(question["ask"], None), question["expect"]) == ""
