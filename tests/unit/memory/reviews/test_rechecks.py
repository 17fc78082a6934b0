"""A comparison whose grades by person and judge are two apart or more is looked at again."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.core.errors import Conflict, FailedPrecondition
from fathom.services.memory.engine import Engine
from fathom.services.memory.reviews.items import Decision, Item, Kind, Machine, NewItem, Text, Verdict
from fathom.services.memory.reviews.store import Reviews

PAIR = NewItem("k1", Kind.COMPARISON, "Why?", (Text("It rose.", "ours"), Text("It fell.", "rival")))


@pytest_asyncio.fixture
async def reviews(place: Path | str) -> AsyncIterator[Reviews]:
    engine = Engine(place)
    await engine.start()
    yield engine.reviews
    await engine.close()


def of_first(item: Item, grade: int) -> int:
    """Return a grade of the text that rose, as seen from the side on which it stands."""
    return grade if item.texts[0].text == "It rose." else -grade


async def grade_next(reviews: Reviews, grade: int) -> Item:
    item = await reviews.claim(Kind.COMPARISON)
    assert item is not None
    return await reviews.decide(item.id, item.version, Decision(Verdict.GRADE, of_first(item, grade), "I think so"))


@pytest.mark.parametrize("is_machine_first", [True, False])
async def test_grades_two_apart_are_rechecked_and_nearer_ones_are_not(reviews: Reviews, is_machine_first: bool) -> None:
    for person, machine in itertools.product(range(-2, 3), repeat=2):
        judged = replace(PAIR, key=f"{person}{machine}", machine=Machine("", machine, "as it is true", "judge"))
        await reviews.add([judged if is_machine_first else replace(judged, machine=None)])
        await grade_next(reviews, person)
        if not is_machine_first:
            assert await reviews.claim(Kind.RECHECK) is None
            # The same key with the judge's grade, which comes second; and once more, which changes nothing.
            assert await reviews.add([judged]) == await reviews.add([judged]) == (0, 1)
        found = await reviews.claim(Kind.RECHECK)
        assert (found is not None) == (abs(person - machine) >= 2), (person, machine)
        if found is not None:
            assert found.machine is not None
            assert found.previous is not None
            assert (found.machine.grade, found.machine.reason) == (of_first(found, machine), "as it is true")
            assert (found.previous.grade, found.previous.reason) == (of_first(found, person), "I think so")
            # Blind still, but for what the two have said.
            assert [one.owner for one in found.texts] == ["", ""]
            assert found.machine.by == ""
            await reviews.decide(found.id, 1, Decision(Verdict.ACCEPT))


@pytest.mark.parametrize(
    ("decision", "expected"),
    [(Decision(Verdict.ACCEPT), -2), (Decision(Verdict.REJECT), 2), (Decision(Verdict.GRADE, 0), 0)],
)
async def test_a_recheck_ends_with_a_grade(reviews: Reviews, decision: Decision, expected: int) -> None:
    await reviews.add([replace(PAIR, machine=Machine("", -2))])
    comparison = await grade_next(reviews, 2)
    found = await reviews.claim(Kind.RECHECK)
    assert found is not None
    decided = await reviews.decide(found.id, 1, decision)
    assert decided.decision is not None
    assert decided.decision.grade == of_first(decided, expected)
    assert decided.key == comparison.id


async def test_a_recheck_goes_with_the_grade_that_made_it_unless_it_is_decided(reviews: Reviews) -> None:
    await reviews.add([replace(PAIR, machine=Machine("", -2))])
    comparison = await grade_next(reviews, 2)
    assert (await reviews.list_queues())[Kind.RECHECK] == (1, 0)
    await reviews.undo(comparison.id)
    assert (await reviews.list_queues())[Kind.RECHECK] == (0, 0)
    await grade_next(reviews, 1)
    found = await reviews.claim(Kind.RECHECK)
    assert found is not None
    await reviews.decide(found.id, 1, Decision(Verdict.ACCEPT))
    with pytest.raises(FailedPrecondition):
        await reviews.undo(comparison.id)


async def test_a_judge_who_says_something_else_the_second_time_is_refused(reviews: Reviews) -> None:
    await reviews.add([replace(PAIR, machine=Machine("", 1))])
    with pytest.raises(Conflict):
        await reviews.add([replace(PAIR, machine=Machine("", 2))])
    # Without a verdict it is the item that is there.
    assert await reviews.add([PAIR]) == (0, 1)
