"""Threads: a question that is asked again, or otherwise, follows the turn that the first one followed."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from fathom.core import errors
from fathom.services.memory.engine import Engine, Turn
from fathom.services.memory.schema import TURNS

Said = tuple[str, int | None]
# Two turns, the second asked again (3) and followed (4); then the first asked otherwise (5) and followed (6).
BRANCHED: tuple[Said, ...] = (("one", None), ("two", None), ("again", 1), ("on", 3), ("other", 0), ("on other", 5))


async def fill(engine: Engine, said: tuple[Said, ...] = BRANCHED) -> list[Turn]:
    turns = [
        Turn(f"{text}?", "", f"It is {text}.", f"run_{text}".replace(" ", "_"), parent=after) for text, after in said
    ]
    return [await engine.append(f"r{place}", "c1", turn) for place, turn in enumerate(turns)]


async def read_window(engine: Engine, through: int = 0) -> list[int]:
    return [turn.number for turn in (await engine.get_window("c1", 2, 10, through))[0]]


async def test_a_window_has_the_turns_that_lead_to_its_last(engine: Engine) -> None:
    stored = await fill(engine)
    assert [turn.parent for turn in stored] == [0, 1, 1, 3, 0, 5]
    assert await read_window(engine) == [5, 6]
    assert [await read_window(engine, number) for number in range(1, 6)] == [[1], [1, 2], [1, 3], [1, 3, 4], [5]]
    window, omitted = await engine.get_window("c1", 1, 2, 4)
    assert ([(turn.number, turn.answer) for turn in window], omitted) == ([(3, ""), (4, "It is on.")], 1)


async def test_turns_are_listed_with_what_they_follow_in_either_direction(engine: Engine) -> None:
    await fill(engine)
    listed, _ = await engine.list_turns("c1")
    assert [(turn.number, turn.parent) for turn in listed] == [(1, 0), (2, 1), (3, 1), (4, 3), (5, 0), (6, 5)]
    for through, expected in ((0, [6, 5, 4, 3, 2, 1]), (4, [4, 3, 1])):
        for is_newest_first in (True, False):
            seen, token = [], ""
            while not seen or token:
                page, token = await engine.list_turns("c1", 2, token, through, is_newest_first=is_newest_first)
                seen += [turn.number for turn in page]
            assert seen == (expected if is_newest_first else expected[::-1])
    _, token = await engine.list_turns("c1", 2, is_newest_first=True)
    with pytest.raises(errors.InvalidField, match="page_token"):
        await engine.list_turns("c1", 2, token)
    with pytest.raises(errors.InvalidField, match="through"):
        await engine.list_turns("c1", through=-1)


async def test_a_turn_that_follows_nothing_that_is_there_follows_the_newest(engine: Engine) -> None:
    await fill(engine, BRANCHED[:2])
    assert (await engine.append("late", "c1", Turn("late?", "", "Yes.", "", parent=9))).parent == 2
    # The conversation was deleted while the question was worked on.
    assert (await engine.append("first", "c2", Turn("first?", "", "Yes.", "", parent=3))).parent == 0
    with pytest.raises(errors.InvalidField, match=r"turn\.parent"):
        await engine.append("wrong", "c1", Turn("why?", "", "So.", "", parent=-1))


async def test_a_repeated_append_returns_the_turn_where_it_stands(engine: Engine) -> None:
    (first, second, again, *_) = await fill(engine)
    repeated = await engine.append("r2", "c1", Turn("again?", "", "It is again.", "run_again", parent=1))
    assert repeated == again
    # A caller that named no turn meant the one that was the newest then.
    assert await engine.append("r1", "c1", Turn("two?", "", "It is two.", "run_two")) == second
    assert first.number == 1


async def test_turns_of_before_there_were_threads_follow_the_one_before(engine: Engine) -> None:
    await fill(engine, BRANCHED[:2])
    await engine.database.run_transaction(lambda db: db.execute(update(TURNS).values(parent=None)).rowcount)
    await engine.append("new", "c1", Turn("three?", "", "It is three.", "", parent=1))
    assert (await read_window(engine, 2), await read_window(engine)) == ([1, 2], [1, 3])
    assert [turn.parent for turn in (await engine.list_turns("c1"))[0]] == [0, 1, 1]


async def test_a_thread_goes_on_past_a_turn_that_is_gone(engine: Engine) -> None:
    await fill(engine, (("one", None), ("two", None), ("three", None)))
    await engine.database.run_transaction(lambda db: db.execute(TURNS.delete().where(TURNS.c.number == 2)).rowcount)
    assert await read_window(engine) == [1, 3]
