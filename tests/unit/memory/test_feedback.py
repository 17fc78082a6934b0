"""Judgements as they are read: by thumb, tag, run, time and edit, each with its turn, page by page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import InvalidField
from fathom.services.memory.engine import Engine, Judgement, Turn
from fathom.services.memory.feedback import Feedback, Filter


async def fill(engine: Engine, clock: list[float]) -> None:
    await engine.append("r1", "c", Turn("why?", "", "so", "run_1"))
    for number, judgement in enumerate(
        (
            Judgement("run_1", True, ("clear",), "good"),
            Judgement("run_1", False, ("unclear", "wrong number"), "bad"),
            Judgement("run_2", False, ("错误",), "", "It is seven."),
        )
    ):
        clock[0] = 1000.0 + number
        await engine.record_feedback(f"f{number}", judgement)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (Filter(), [0, 1, 2]),
        (Filter(helpful=True), [0]),
        (Filter(helpful=False), [1, 2]),
        (Filter(tag="clear"), [0]),  # and not "unclear"
        (Filter(tag="wrong number"), [1]),
        (Filter(tag="错误"), [2]),
        (Filter(tag="cle%"), []),
        (Filter(run="run_1"), [0, 1]),
        (Filter(is_edited=True), [2]),
        (Filter(after=1001), [1, 2]),
        (Filter(after=1000.5, before=1002), [1]),
        (Filter(helpful=False, run="run_1", tag="unclear"), [1]),
        (Filter(conversation="c"), [0, 1]),
        (Filter(conversation="another"), []),
    ],
)
async def test_judgements_are_filtered(place: Path | str, chosen: Filter, expected: list[int]) -> None:
    clock = [1.0]
    engine = Engine(place, clock=lambda: clock[0])
    await engine.start()
    await fill(engine, clock)
    found, token, feedback = [], "", Feedback(engine.database)
    while True:
        page, token = await feedback.list(chosen, 1, token, with_turn=True)
        found += page
        if not token:
            break
    assert [round(item.judgement.created - 1000) for item in found] == expected
    for item in found:
        known = item.judgement.run == "run_1"
        assert (item.conversation, item.turn.question if item.turn else "") == (("c", "why?") if known else ("", ""))
    await engine.close()


async def test_the_newest_of_the_callers_own_comes_first(engine: Engine) -> None:
    anna = replace(Call.new(), principal="anna")
    for number, (principal, helpful) in enumerate((("anna", True), ("anna", False), ("ben", True))):
        with calling(replace(anna, principal=principal)):
            await engine.record_feedback(f"f{number}", Judgement("run_1", helpful, (), str(number)))
    feedback, own = Feedback(engine.database), Filter(run="run_1", is_own=True)
    with calling(anna):
        newest, token = await feedback.list(own, 1, is_newest_first=True)
        oldest, _ = await feedback.list(own, 1, token, is_newest_first=True)
        assert [item.judgement.comment for item in (*newest, *oldest)] == ["1", "0"]
        everybody, _ = await feedback.list(is_newest_first=True)
        assert [item.judgement.comment for item in everybody] == ["2", "1", "0"]
        with pytest.raises(InvalidField, match="page_token"):
            await feedback.list(own, 1, token)


@pytest.mark.parametrize(
    ("chosen", "field"),
    [(Filter(tag="x" * 99), "tag"), (Filter(run="a\0"), "run_id"), (Filter(after=2, before=1), "before")],
)
async def test_bad_filters_are_named(engine: Engine, chosen: Filter, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        await Feedback(engine.database).list(chosen)
    assert refused.value.field == field
