"""Facts about users: one of each preference, edits by version, deletions that last, one user's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.core.call import Call, calling
from fathom.core.errors import Conflict, FailedPrecondition, InvalidField, NotFound
from fathom.domain.profile.kinds import Kind
from fathom.services.memory.engine import Engine
from fathom.services.memory.profile import facts as module
from fathom.services.memory.profile.facts import LEARNT, STATED, Fact
from tests.support.clock import Clock

ANNA, BEN = Call.new(tenant="fund-7"), Call.new(tenant="fund-8")


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


@pytest_asyncio.fixture
async def engine(place: Path | str, clock: Clock) -> AsyncIterator[Engine]:
    engine = Engine(place, clock=clock)
    await engine.start()
    yield engine
    await engine.close()


async def texts(engine: Engine) -> list[str]:
    return [fact.text for fact in (await engine.facts.list())[0]]


def learnt(text: str, kind: Kind = Kind.STATEMENT, value: str = "", updated: float = 1.0) -> Fact:
    return Fact(text, kind, value, run="run_1", origin=LEARNT, confidence=0.9, updated=updated)


async def test_a_fact_is_stored_once_per_request_and_listed_newest_first(engine: Engine) -> None:
    first = await engine.facts.put("r1", learnt("I run a pension fund.", updated=5.0))
    assert (first.version, first.origin, first.confidence, first.run) == (1, LEARNT, 0.9, "run_1")
    assert await engine.facts.put("r1", learnt("Something else", updated=9.0)) == first
    await engine.facts.put("r2", Fact("I hold Nvidia.", subject="NVDA", updated=7.0))
    assert await texts(engine) == ["I hold Nvidia.", "I run a pension fund."]
    found, token = await engine.facts.list(1)
    rest, last = await engine.facts.list(1, token)
    assert [fact.subject for fact in found + rest] == ["NVDA", ""]
    assert not last


async def test_of_two_contradictory_preferences_the_later_one_holds_in_whatever_order_they_arrive(
    engine: Engine,
) -> None:
    # Delivered in the wrong order.
    await engine.facts.put("later", learnt("Show me pounds from now on.", Kind.CURRENCY, "gbp", updated=20.0))
    standing = await engine.facts.put("earlier", learnt("Always use euros.", Kind.CURRENCY, "EUR", updated=10.0))
    assert (standing.value, standing.text) == ("GBP", "Show me pounds from now on.")
    await engine.facts.put("latest", learnt("Dollars after all.", Kind.CURRENCY, "USD", updated=30.0))
    (held,), _ = await engine.facts.list()
    assert (held.value, held.version) == ("USD", 2)


async def test_two_tabs_cannot_overwrite_each_other(engine: Engine) -> None:
    made = await engine.facts.put("r1", Fact("I hold Nvidia."))
    # Both tabs have seen version 1.
    edit = Fact("I hold Nvidia and AMD.", id=made.id, version=1)
    other = Fact("I sold Nvidia.", id=made.id, version=1)
    results = await asyncio.gather(
        engine.facts.put("tab1", edit), engine.facts.put("tab2", other), return_exceptions=True
    )
    (conflict,) = [one for one in results if isinstance(one, Exception)]
    assert isinstance(conflict, Conflict)
    assert conflict.metadata == {"field": "fact.version", "version": "2"}
    (held,), _ = await engine.facts.list()
    assert held.version == 2
    assert [held.text] == [one.text for one in results if isinstance(one, Fact)]


async def test_an_edit_is_the_users_word_and_keeps_where_the_fact_came_from(engine: Engine, clock: Clock) -> None:
    made = await engine.facts.put("r1", learnt("Use euros.", Kind.CURRENCY, "EUR"))
    clock.now += 60
    edited = await engine.facts.put("r2", Fact("Use pounds.", Kind.CURRENCY, "GBP", id=made.id, version=made.version))
    assert (edited.origin, edited.confidence, edited.run, edited.version) == (STATED, 1.0, "run_1", 2)
    assert edited.updated == clock()
    # What was said before the edit and is delivered late changes nothing.
    await engine.facts.put("late", learnt("Use yen.", Kind.CURRENCY, "JPY", updated=clock() - 30))
    assert (await engine.facts.list())[0][0].value == "GBP"


async def test_a_deleted_fact_is_erased_and_its_turn_does_not_bring_it_back(engine: Engine, clock: Clock) -> None:
    said = learnt("I live in Zurich.", updated=clock())
    made = await engine.facts.put("r1", said)
    clock.now += 1
    await engine.facts.delete(made.id)
    assert await texts(engine) == []
    await engine.facts.put("r1", said)
    assert await texts(engine) == []
    with pytest.raises(NotFound):
        await engine.facts.delete(made.id)
    with pytest.raises(NotFound):
        await engine.facts.put("r2", Fact("I live in Bern.", id=made.id))
    # Said once more after the deletion, it is a new fact.
    await engine.facts.put("r3", learnt("I live in Zurich.", updated=clock() + 1))
    assert await texts(engine) == ["I live in Zurich."]


async def test_a_deleted_preference_comes_back_only_by_what_is_said_later(engine: Engine, clock: Clock) -> None:
    made = await engine.facts.put("r1", learnt("Euros.", Kind.CURRENCY, "EUR", updated=clock()))
    clock.now += 10
    await engine.facts.delete(made.id)
    await engine.facts.put("r2", learnt("Pounds.", Kind.CURRENCY, "GBP", updated=clock() - 5))
    assert await texts(engine) == []
    await engine.facts.put("r3", learnt("Yen.", Kind.CURRENCY, "JPY", updated=clock() + 5))
    assert await texts(engine) == ["Yen."]


async def test_a_fact_ends_to_hold(engine: Engine, clock: Clock) -> None:
    await engine.facts.put("r1", Fact("I am on leave.", expires=clock() + 60))
    assert await texts(engine) == ["I am on leave."]
    clock.now += 61
    assert await texts(engine) == []


async def test_another_tenant_or_user_who_guesses_ids_finds_nothing(engine: Engine) -> None:
    with calling(ANNA):
        made = await engine.facts.put("r1", Fact("I hold Nvidia."))
    for caller in (BEN, Call.new()):
        with calling(caller):
            assert await texts(engine) == []
            for ask in (engine.facts.delete(made.id), engine.facts.put("r2", Fact("mine", id=made.id, version=1))):
                with pytest.raises(NotFound):
                    await ask
            # The same request id is another request.
            assert (await engine.facts.put("r1", Fact("own"))).text == "own"
    with calling(ANNA):
        assert await texts(engine) == ["I hold Nvidia."]


async def test_users_of_one_tenant_have_facts_of_their_own(engine: Engine) -> None:
    with calling(replace(ANNA, principal="anna")):
        made = await engine.facts.put("r1", Fact("Euros.", Kind.CURRENCY, "EUR"))
    with calling(replace(ANNA, principal="carl")):
        assert await texts(engine) == []
        with pytest.raises(NotFound):
            await engine.facts.delete(made.id)
        await engine.facts.put("r1", Fact("Yen.", Kind.CURRENCY, "JPY"))
    with calling(replace(ANNA, principal="anna")):
        assert await texts(engine) == ["Euros."]


@pytest.mark.parametrize(
    ("field", "fact"),
    [
        ("fact.text", Fact("  ")),
        ("fact.text", Fact("x" * 501)),
        ("fact.text", Fact("a\0b")),
        ("fact.subject", Fact("x", subject="y" * 65)),
        ("fact.value", Fact("x", Kind.CURRENCY, "euro")),
        ("fact.value", Fact("x", Kind.DEPTH, "bottomless")),
        ("fact.value", Fact("x", Kind.WATCH_LIST, "AAPL,<script>")),
        ("fact.value", Fact("x", Kind.WATCH_LIST, ",".join(f"E{n}" for n in range(31)))),
        ("fact.value", Fact("x", Kind.STATEMENT, "EUR")),
        ("fact.confidence", Fact("x", confidence=float("nan"))),
        ("fact.version", Fact("x", version=-1)),
        ("fact.run_id", Fact("x", run="a b")),
    ],
)
async def test_a_fact_that_is_none_names_its_field(engine: Engine, field: str, fact: Fact) -> None:
    with pytest.raises(InvalidField, match=field):
        await engine.facts.put("r1", fact)


async def test_a_text_in_two_languages_on_two_lines_is_one_line(engine: Engine) -> None:
    stored = await engine.facts.put("r1", Fact("我关注\nNvidia 和 贵州茅台"))
    assert stored.text == "我关注 Nvidia 和 贵州茅台"


async def test_a_preference_keeps_its_kind(engine: Engine) -> None:
    made = await engine.facts.put("r1", Fact("Euros.", Kind.CURRENCY, "EUR"))
    with pytest.raises(InvalidField, match=r"fact\.kind"):
        await engine.facts.put("r2", Fact("Deep.", Kind.DEPTH, "deep", id=made.id))


async def test_a_full_memory_refuses_new_facts_and_still_takes_edits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FACTS", 2)
    first = await engine.facts.put("r1", Fact("one"))
    await engine.facts.put("r2", Fact("two"))
    with pytest.raises(FailedPrecondition, match="delete some"):
        await engine.facts.put("r3", Fact("three"))
    assert (await engine.facts.put("r4", Fact("uno", id=first.id))).text == "uno"
    await engine.facts.delete(first.id)
    assert (await engine.facts.put("r5", Fact("three"))).version == 1
