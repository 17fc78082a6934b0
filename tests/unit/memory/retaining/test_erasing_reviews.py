"""Items of review go with the turns and the users that they are of; a decision goes with its reviewer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.core.call import Call, calling
from fathom.services.memory.engine import Engine, Turn
from fathom.services.memory.retaining.erasing import DAY_S, Eraser, Keeping
from fathom.services.memory.retaining.scope import Scope
from fathom.services.memory.reviews.items import Decision, Item, Kind, Machine, NewItem, Text, Verdict
from tests.unit.memory.retaining.test_erasing import ANNE, BERT, FUND, OTHER, START, dump, erase, export

PAIR = NewItem("pair", Kind.COMPARISON, "Why?", (Text("It rose."), Text("It fell.")), machine=Machine("", -2))


def candidate(run: str, key: str = "") -> NewItem:
    return NewItem(key or run, Kind.CANDIDATE, "What?", (Text("Bad."), Text("Good.")), run=run)


async def append(engine: Engine, call: Call, runs: Sequence[str], conversation: str = "c") -> None:
    with calling(call):
        for run in runs:
            await engine.append(run, conversation, Turn("What?", "", "So.", run))


async def decide(engine: Engine, call: Call, kind: Kind, decision: Decision) -> Item:
    with calling(call):
        item = await engine.reviews.claim(kind)
        assert item is not None
        return await engine.reviews.decide(item.id, item.version, decision)


async def count(engine: Engine, call: Call = FUND) -> dict[Kind, tuple[int, int]]:
    with calling(call):
        return {kind: counts for kind, counts in (await engine.reviews.list_queues()).items() if any(counts)}


async def test_what_a_user_asked_is_his_own_also_in_a_queue(engine: Engine) -> None:
    await append(engine, ANNE, ["run-a"])
    await append(engine, BERT, ["run-b"])
    with calling(FUND):
        await engine.reviews.add([candidate("run-a"), candidate("run-b"), PAIR])
    await decide(engine, BERT, Kind.CANDIDATE, Decision(Verdict.ACCEPT))
    tables = [row.table for row in await export(engine, Scope("fund-7", "user:anne"))]
    assert tables.count("review_items") == 1
    assert "review_decisions" not in tables, "the decision is Bert's"
    await erase(engine, Scope("fund-7", "user:anne"))
    assert await count(engine) == {Kind.CANDIDATE: (1, 0), Kind.COMPARISON: (1, 0)}
    assert "run-a" not in await dump(engine)
    await erase(engine, Scope("fund-7"))
    assert await count(engine) == {}


async def test_an_item_goes_with_its_turn_also_where_the_turn_came_later(engine: Engine) -> None:
    with calling(FUND):
        await engine.reviews.add([candidate("run-a"), candidate("run-b"), candidate("run-c")])
    await append(engine, ANNE, ["run-a"], "c1")
    await append(engine, ANNE, ["run-b"], "c2")
    with calling(OTHER):
        await engine.reviews.add([candidate("run-a")])
    with calling(ANNE):
        await engine.delete("c1")
    assert await count(engine) == {Kind.CANDIDATE: (2, 0)}
    await erase(engine, Scope("fund-7", "user:anne"))
    assert await count(engine) == {Kind.CANDIDATE: (1, 0)}
    assert await count(engine, OTHER) == {Kind.CANDIDATE: (1, 0)}


async def grade_apart(engine: Engine, call: Call) -> None:
    """Let a person grade the pair against the judge, whichever text is shown first."""
    with calling(call):
        item = await engine.reviews.claim(Kind.COMPARISON)
        assert item is not None
        best = 2 if item.texts[0].text == "It rose." else -2
        await engine.reviews.decide(item.id, item.version, Decision(Verdict.GRADE, best, "Anne says so"))


async def test_what_a_reviewer_decided_is_open_again_without_him(engine: Engine) -> None:
    with calling(FUND):
        await engine.reviews.add([PAIR])
    await grade_apart(engine, ANNE)
    await decide(engine, BERT, Kind.RECHECK, Decision(Verdict.REJECT))
    assert await count(engine) == {Kind.COMPARISON: (0, 1), Kind.RECHECK: (0, 1)}
    await erase(engine, Scope("fund-7", "user:anne"))
    # The recheck repeats her words.
    assert await count(engine) == {Kind.COMPARISON: (1, 0)}
    assert "nne" not in await dump(engine)
    await grade_apart(engine, BERT)
    assert await count(engine) == {Kind.COMPARISON: (0, 1), Kind.RECHECK: (1, 0)}


async def test_an_item_that_a_reviewer_held_is_free_without_him(engine: Engine) -> None:
    with calling(ANNE):
        await engine.reviews.add([PAIR])
        assert await engine.reviews.claim(Kind.COMPARISON) is not None
    await erase(engine, Scope("fund-7", "user:anne"))
    assert "user:anne" not in await dump(engine)
    with calling(BERT):
        assert await engine.reviews.claim(Kind.COMPARISON) is not None


@pytest.mark.parametrize("days", [0, 5])
async def test_items_older_than_their_tenant_keeps_go(place: Path | str, days: int) -> None:
    clock = [START]
    engine = Engine(place, clock=lambda: clock[0])
    await engine.start()
    with calling(FUND):
        await engine.reviews.add([PAIR])
    await decide(engine, BERT, Kind.COMPARISON, Decision(Verdict.GRADE, 0))
    clock[0] += 6 * DAY_S
    with calling(FUND):
        await engine.reviews.add([replace(PAIR, key="new")])
    with calling(OTHER):
        await engine.reviews.add([PAIR])
    clock[0] += DAY_S
    await Eraser(engine.database, Keeping(0, {"fund-7": days}), lambda: clock[0]).expire()
    left = (await count(engine))[Kind.COMPARISON]
    assert left == ((1, 0) if days else (1, 1))
    assert (await count(engine, OTHER))[Kind.COMPARISON] == (1, 0)
    await engine.close()
