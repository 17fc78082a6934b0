"""Views that answers took: once per request, newest first, one user's own, bounded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from fathom.core.call import Call, calling
from fathom.core.errors import Conflict, InvalidField, NotFound
from fathom.services.memory.engine import Engine
from fathom.services.memory.profile import stances as module
from fathom.services.memory.profile.stances import Stance

ROSE = Stance("AAPL", "close_adj/return", "2020-01-01", "2020-12-31", 82.3, "%", "2022-12-28", "Apple rose.", "run_1")


async def test_a_view_is_recorded_once_per_request_and_found_by_its_entity(engine: Engine) -> None:
    stored = await engine.stances.record("r1", ROSE)
    assert await engine.stances.record("r1", ROSE) == stored
    later = await engine.stances.record("r2", replace(ROSE, value=75.1, run="run_2"))
    await engine.stances.record("r3", replace(ROSE, entity="MSFT"))
    assert await engine.stances.list(["AAPL"]) == ([later, stored], "")
    assert [one.entity for one in (await engine.stances.list())[0]] == ["MSFT", "AAPL", "AAPL"]
    assert [one.entity for one in (await engine.stances.list((), 1))[0]] == ["MSFT"]
    with pytest.raises(Conflict):
        await engine.stances.record("r1", replace(ROSE, value=1.0))


async def test_another_tenant_or_user_sees_no_view(engine: Engine) -> None:
    anna = replace(Call.new(tenant="fund-7"), principal="anna")
    with calling(anna):
        await engine.stances.record("r1", ROSE)
    for other in (replace(anna, principal="ben"), replace(anna, tenant="fund-8"), Call.new()):
        with calling(other):
            assert await engine.stances.list(["AAPL"]) == ([], "")


@pytest.mark.parametrize(
    ("field", "stance"),
    [
        ("stance.entity", replace(ROSE, entity="")),
        ("stance.measure", replace(ROSE, measure="x" * 201)),
        ("stance.start_date", replace(ROSE, first="2020-13-01")),
        ("stance.as_of", replace(ROSE, as_of="yesterday")),
        ("stance.value", replace(ROSE, value=float("inf"))),
        ("stance.view", replace(ROSE, view="a\0b")),
        ("stance.run_id", replace(ROSE, run="../x")),
    ],
)
async def test_a_view_that_is_none_names_its_field(engine: Engine, field: str, stance: Stance) -> None:
    with pytest.raises(InvalidField, match=field):
        await engine.stances.record("r1", stance)


async def test_the_oldest_views_go_beyond_the_bound(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STANCES", 3)
    for number in range(5):
        await engine.stances.record(f"r{number}", replace(ROSE, value=float(number)))
    assert [one.value for one in (await engine.stances.list())[0]] == [4.0, 3.0, 2.0]


async def test_pages_go_on_where_the_one_before_ended_though_views_come_and_go(engine: Engine) -> None:
    for number in range(5):
        # Two of the same moment: their number decides.
        await engine.stances.record(f"r{number}", replace(ROSE, value=float(number), created=100.0 + number // 2))
    first, token = await engine.stances.list((), 2)
    await engine.stances.record("r5", replace(ROSE, value=5.0, created=200.0))
    await engine.stances.delete(first[1].id)
    second, token = await engine.stances.list((), 2, token)
    third, end = await engine.stances.list((), 2, token)
    assert [one.value for one in (*first, *second, *third)] == [4.0, 3.0, 2.0, 1.0, 0.0]
    assert end == ""
    with pytest.raises(InvalidField, match="page_token"):
        await engine.stances.list((), 2, "facts")


async def test_a_view_is_deleted_by_its_owner_alone_and_no_longer_found(engine: Engine) -> None:
    anna = replace(Call.new(tenant="fund-7"), principal="anna")
    with calling(anna):
        gone, stays = [await engine.stances.record(f"r{n}", replace(ROSE, value=float(n))) for n in range(2)]
    for other in (replace(anna, principal="ben"), replace(anna, tenant="fund-8")):
        with calling(other), pytest.raises(NotFound, match="stance"):
            await engine.stances.delete(gone.id)
    with calling(anna):
        await engine.stances.delete(gone.id)
        assert (await engine.stances.list())[0] == [stays]
        for unknown in (gone.id, "a\0b"):
            with pytest.raises(NotFound):
                await engine.stances.delete(unknown)


async def test_a_deleted_view_does_not_come_back_when_its_request_is_delivered_again(engine: Engine) -> None:
    stored = await engine.stances.record("r1", ROSE)
    await engine.stances.delete(stored.id)
    again = await engine.stances.record("r1", ROSE)
    assert replace(again, created=stored.created) == stored
    assert await engine.stances.list() == ([], "")
    with pytest.raises(NotFound):
        await engine.stances.delete(again.id)
    # Nothing of what it said is kept.
    rows = await engine.database.run_transaction(lambda db: db.execute(text("select * from stances")).mappings().all())
    assert [(row["entity"], row["measure"], row["view"], row["run"], row["value"]) for row in rows] == [
        ("", "", "", "", 0)
    ]


async def test_what_a_deletion_leaves_goes_after_its_time(place: Path | str) -> None:
    now = [1_000_000.0]
    engine = Engine(place, clock=lambda: now[0])
    await engine.start()
    try:
        await engine.stances.delete((await engine.stances.record("r1", ROSE)).id)
        now[0] += module.TOMBSTONE_S + 1
        await engine.stances.record("r2", replace(ROSE, value=1.0))
        assert (await engine.stances.record("r1", ROSE)).value == ROSE.value
        assert [one.value for one in (await engine.stances.list())[0]] == [ROSE.value, 1.0]
    finally:
        await engine.close()
