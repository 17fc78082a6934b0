"""Windows, idempotent turns, pages, deletion, feedback; durable over a restart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fathom.core import errors
from fathom.services.memory.engine import Engine, Judgement, Turn
from tests.unit.memory.judgements import list_judgements


def turn(number: int) -> Turn:
    return Turn(
        f"question {number}?", f"rewritten {number}?", f"Answer {number}. It rose by {number}.5%.", f"run_{number}"
    )


@pytest.mark.parametrize("count", range(1, 13))
async def test_window_keeps_two_answers_and_ten_turns(engine: Engine, count: int) -> None:
    for number in range(1, count + 1):
        await engine.append(f"r{number}", "c1", turn(number))
    window, omitted = await engine.get_window("c1", 2, 10)
    kept = range(max(1, count - 9), count + 1)
    full = [number > count - 2 for number in kept]
    assert [item.number for item in window] == list(kept)
    assert [item.question for item in window] == [f"rewritten {number}?" for number in kept]
    assert [item.answer for item in window] == [
        turn(number).answer if is_full else "" for number, is_full in zip(kept, full, strict=True)
    ]
    assert [item.bullets for item in window] == [
        () if is_full else (f"Answer {number}.", f"It rose by {number}.5%.")
        for number, is_full in zip(kept, full, strict=True)
    ]
    assert omitted == max(0, count - 10)


@pytest.mark.parametrize("count", [1, 3, 11])
async def test_a_window_through_a_turn_is_the_one_that_there_was_then(engine: Engine, count: int) -> None:
    for number in range(1, count + 1):
        await engine.append(f"r{number}", "c1", turn(number))
    then = await engine.get_window("c1", 2, 10)
    for number in range(count + 1, 15):
        await engine.append(f"r{number}", "c1", turn(number))
    assert await engine.get_window("c1", 2, 10, through=count) == then
    assert await engine.get_window("c1", 2, 10, through=99) == await engine.get_window("c1", 2, 10)
    with pytest.raises(errors.InvalidField, match="through"):
        await engine.get_window("c1", 2, 10, through=-1)


async def test_a_window_of_no_turns_is_refused_for_what_is_wrong(engine: Engine) -> None:
    with pytest.raises(errors.InvalidField, match="max_turns: must be 1 or more"):
        await engine.get_window("c1", 0, 0)


@pytest.mark.parametrize(
    ("full_turns", "max_turns", "numbers", "answers"),
    [(1, 3, [2, 3, 4], 1), (5, 2, [3, 4], 2), (0, 1, [4], 0), (9, 9, [1, 2, 3, 4], 4)],
)
async def test_a_window_has_the_size_that_is_asked_for(
    engine: Engine, full_turns: int, max_turns: int, numbers: list[int], answers: int
) -> None:
    for number in range(1, 5):
        await engine.append(f"r{number}", "c1", turn(number))
    window, omitted = await engine.get_window("c1", full_turns, max_turns)
    assert [item.number for item in window] == numbers
    assert sum(bool(item.answer) for item in window) == answers
    assert omitted == 4 - len(numbers)


async def test_a_question_that_stands_alone_is_kept_as_asked(engine: Engine) -> None:
    await engine.append("r1", "c1", replace(turn(1), rewritten=""))
    assert (await engine.get_window("c1", 2, 10))[0][0].question == "question 1?"


async def test_an_unknown_conversation_has_an_empty_window(engine: Engine) -> None:
    assert await engine.get_window("none", 2, 10) == ([], 0)
    with pytest.raises(errors.NotFound):
        await engine.list_turns("none")


async def test_a_turn_is_appended_once_also_over_a_restart(engine: Engine, place: Path | str) -> None:
    first = await engine.append("r1", "c1", turn(1))
    assert await engine.append("r1", "c1", turn(1)) == first
    await engine.close()
    again = Engine(place)
    await again.start()
    assert await again.append("r1", "c1", turn(1)) == first
    assert await again.list_turns("c1") == ([first], "")
    await again.close()


@pytest.mark.parametrize(
    "other",
    [
        turn(2),
        replace(turn(1), answer="another answer"),
        replace(turn(1), run="run_9"),
        replace(turn(1), rewritten=""),
        replace(turn(1), bullets=("own point",)),
    ],
)
async def test_a_request_id_belongs_to_one_turn(engine: Engine, other: Turn) -> None:
    await engine.append("r1", "c1", turn(1))
    for conversation, said in (("c1", other), ("c2", turn(1))):
        with pytest.raises(errors.Conflict):
            await engine.append("r1", conversation, said)
    assert len((await engine.list_turns("c1"))[0]) == 1


async def test_given_bullets_are_kept(engine: Engine) -> None:
    stored = await engine.append("r1", "c1", replace(turn(1), bullets=("own point",)))
    assert stored.bullets == ("own point",)
    assert await engine.append("r1", "c1", replace(turn(1), bullets=("own point",))) == stored


async def test_turns_come_in_pages_that_add_up(engine: Engine) -> None:
    for number in range(1, 8):
        await engine.append(f"r{number}", "c1", turn(number))
    seen: list[int] = []
    page, token = await engine.list_turns("c1", 3)
    await engine.append("r8", "c1", turn(8))
    seen += [item.number for item in page]
    while token:
        page, token = await engine.list_turns("c1", 3, token)
        seen += [item.number for item in page]
    assert seen == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_conversations_come_in_pages_by_use(engine: Engine) -> None:
    for number in range(7):
        await engine.append(f"r{number}", f"c{number}", turn(number))
    await engine.update("c2", None, True)
    seen: list[str] = []
    page, token = await engine.list_conversations(2)
    await engine.append("late", "c9", turn(9))
    seen += [item.id for item in page]
    while token:
        page, token = await engine.list_conversations(2, token)
        seen += [item.id for item in page]
    assert seen == ["c2", "c6", "c5", "c4", "c3", "c1", "c0"], "what came meanwhile repeats nothing"


async def test_conversations_are_listed_renamed_pinned_deleted(engine: Engine) -> None:
    for name in ("c1", "c2"):
        await engine.append(f"r-{name}", name, turn(1))
    assert [item.id for item in (await engine.list_conversations())[0]] == ["c2", "c1"]
    changed = await engine.update("c1", "  A  title ", True)
    assert (changed.title, changed.pinned, changed.turns) == ("A title", True, 1)
    assert (await engine.update("c1", None, None)).title == "A title"
    assert [item.id for item in (await engine.list_conversations())[0]] == ["c1", "c2"]
    assert await engine.delete("c1") == 1
    assert [item.id for item in (await engine.list_conversations())[0]] == ["c2"]
    assert await engine.get_window("c1", 2, 10) == ([], 0)
    for missing in (engine.delete("c1"), engine.update("c1", "x", None), engine.list_turns("c1")):
        with pytest.raises(errors.NotFound):
            await missing


async def test_deletion_takes_the_judgements_along(engine: Engine) -> None:
    await engine.append("r1", "c1", turn(1))
    await engine.record_feedback("f1", Judgement("run_1", True, ("good",), ""))
    with pytest.raises(errors.Conflict):
        await engine.record_feedback("f1", Judgement("run_1", False, ("good",), ""))
    await engine.delete("c1")
    await engine.record_feedback("f1", Judgement("run_1", False, (), "the first one is gone, so this is no conflict"))


async def test_a_judgement_is_kept_once(engine: Engine) -> None:
    said = Judgement("run_1", True, ("good", "清楚"), "")
    for _ in range(2):
        await engine.record_feedback("f1", said)
    (kept,) = await list_judgements(engine)
    assert replace(kept, created=0.0) == said
    with pytest.raises(errors.Conflict):
        await engine.record_feedback("f1", replace(said, helpful=False))


async def test_an_edit_of_what_was_edited_meanwhile_is_refused(engine: Engine) -> None:
    await engine.append("r1", "c1", turn(1))
    (seen,), _ = await engine.list_conversations()
    assert seen.version == 1
    # A turn is no edit.
    await engine.append("r2", "c1", turn(2))
    assert (await engine.update("c1", "mine", None, seen.version)).version == 2
    with pytest.raises(errors.Conflict, match="is version 2, not 1") as stale:
        await engine.update("c1", "theirs", True, seen.version)
    assert (stale.value.code, stale.value.metadata["version"]) == ("ABORTED", "2")
    # Without a version the last one wins, as before.
    last = await engine.update("c1", None, True)
    assert (last.title, last.pinned, last.version) == ("mine", True, 3)
    with pytest.raises(errors.NotFound):
        await engine.update("c2", "t", None, 1)


A_TURN = turn(1)


@pytest.mark.parametrize(
    ("act", "field"),
    [
        (lambda e: e.append("../x", "c", A_TURN), "request_id"),
        (lambda e: e.append("r", "a b", A_TURN), "conversation_id"),
        (lambda e: e.append("r", "c", replace(A_TURN, question=" \n")), "turn.question"),
        (lambda e: e.append("r", "c", replace(A_TURN, question="x" * 100_001)), "turn.question"),
        (lambda e: e.append("r", "c", replace(A_TURN, answer="x" * 1_000_001)), "turn.answer"),
        (lambda e: e.append("r", "c", replace(A_TURN, bullets=("",))), "turn.bullets"),
        (lambda e: e.append("r", "c", replace(A_TURN, bullets=("x",) * 51)), "turn.bullets"),
        (lambda e: e.get_window("c", -1, 10), "full_turns"),
        (lambda e: e.get_window("c", 2, -1), "max_turns"),
        (lambda e: e.list_turns("c", -1), "page_size"),
        (lambda e: e.list_turns("c", 1_001), "page_size"),
        (lambda e: e.list_turns("c", 1, "²"), "page_token"),
        (lambda e: e.list_conversations(1, "1"), "page_token"),
        (lambda e: e.update("c", "", None), "title"),
        (lambda e: e.update("c", "x" * 201, None), "title"),
        (lambda e: e.update("c", "x\0", None), "title"),
        (lambda e: e.update("c", "x", None, -1), "version"),
        (lambda e: e.append("r", "c", replace(A_TURN, answer="x\0")), "turn.answer"),
        (lambda e: e.record_feedback("f", Judgement("../x", True, (), "")), "run_id"),
        (lambda e: e.record_feedback("f", Judgement("run", True, ("",), "")), "tags"),
        (lambda e: e.record_feedback("f", Judgement("run", True, ("x",) * 33, "")), "tags"),
        (lambda e: e.record_feedback("f", Judgement("run", True, (), "x" * 10_001)), "comment"),
    ],
)
async def test_bad_input_is_named(engine: Engine, act: Callable[[Engine], Awaitable[Any]], field: str) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        await act(engine)
    assert bad.value.field == field
