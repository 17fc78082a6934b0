"""Export, erasure and retention: all rows of a user or a tenant, of nobody else, and nothing that was derived stays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from fathom.core.call import Call, calling
from fathom.core.errors import InvalidField, PermissionDenied
from fathom.services.memory.engine import Engine, Judgement, Turn
from fathom.services.memory.retaining import erasing
from fathom.services.memory.retaining.erasing import DAY_S, Eraser, Keeping
from fathom.services.memory.retaining.exporting import Exporter, Row
from fathom.services.memory.retaining.scope import Scope, choose_scope
from fathom.services.memory.schema import METADATA
from fathom.services.memory.segments.middle import MiddleTerm

FUND = Call.new(tenant="fund-7")
ANNE, BERT = replace(FUND, principal="user:anne"), replace(FUND, principal="user:bert")
OTHER = Call.new(tenant="fund-8")
START = 1_767_225_600.0


async def fill(engine: Engine, *, clock: list[float] | None = None) -> None:
    """Let Anne and Bert speak in a conversation of both and one of their own; another tenant has the same ids."""
    for call, name in ((ANNE, "anne"), (BERT, "bert"), (OTHER, "other")):
        with calling(call):
            for conversation in ("both", f"own-{name}"):
                for number in (1, 2):
                    run = f"run-{name}-{conversation}-{number}"
                    said = Turn(f"Secret of {name} {number}?", "", f"It is {name}'s {number}.5%.", run)
                    await engine.append(run, conversation, said)
                    await engine.record_feedback(f"f-{run}", Judgement(run, True, (), f"by {name}"))
                    if clock is not None:
                        clock[0] += DAY_S
    middle = MiddleTerm(engine.database)
    while await middle.file_all() or await middle.summarise():
        pass


async def dump(engine: Engine) -> str:
    """Return all that the database holds, as text."""

    def work(db: Connection) -> str:
        rows = [row for table in METADATA.sorted_tables for row in db.execute(select(table)).all()]
        return "\n".join(map(repr, rows))

    return await engine.database.run_transaction(work)


async def export(engine: Engine, scope: Scope, size: int = 3) -> list[Row]:
    rows, token = [], ""
    while not rows or token:
        page, token = await Exporter(engine.database).export(scope, size, token)
        rows += page
        if not page:
            break
    return rows


async def erase(engine: Engine, scope: Scope) -> int:
    eraser, calls = Eraser(engine.database), 1
    while (await eraser.erase(scope)).has_more:
        calls += 1
    return calls


async def test_a_user_gets_all_of_his_own_and_nothing_of_others(engine: Engine) -> None:
    await fill(engine)
    rows = await export(engine, Scope("fund-7", "user:anne"))
    text = json.dumps([dict(row.values) for row in rows], ensure_ascii=False)
    assert {row.table for row in rows} >= {"conversations", "turns", "feedback", "segments", "pages"}
    assert sum(row.table == "turns" for row in rows) == sum(row.table == "feedback" for row in rows) == 4
    assert "anne's 2.5%" in text
    assert "bert" not in text.lower()
    assert "other" not in text
    whole = await export(engine, Scope("fund-7"), 1000)
    assert sum(row.table == "turns" for row in whole) == 8
    with pytest.raises(InvalidField, match="page_token"):
        await Exporter(engine.database).export(Scope("fund-7"), 10, "nonsense")


async def test_what_a_user_said_is_nowhere_afterwards(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "TURNS_AT_ONCE", 3)
    await fill(engine)
    before = await dump(engine)
    assert "anne" in before
    assert await erase(engine, Scope("fund-7", "user:anne")) == 2
    after = await dump(engine)
    # The conversation of both had Anne's question as its title.
    assert "anne" not in after
    assert after.count("bert") == before.count("bert") + 1, "only the title is another one"
    assert "Secret of other" in after
    with calling(BERT):
        assert [turn.number for turn in (await engine.list_turns("both"))[0]] == [3, 4]
    assert await erase(engine, Scope("fund-7", "user:anne")) == 1, "may be repeated"


async def test_a_tenant_is_erased_as_a_whole(engine: Engine) -> None:
    await fill(engine)
    await erase(engine, Scope("fund-7"))
    after = await dump(engine)
    assert "fund-7" not in after
    assert after.count("Secret of other") >= 4


async def test_what_is_older_than_its_tenant_keeps_goes(place: Path | str) -> None:
    clock = [START]
    engine = Engine(place, clock=lambda: clock[0])
    await engine.start()
    await fill(engine, clock=clock)
    clock[0] = START + 9.5 * DAY_S
    assert await Eraser(engine.database, clock=lambda: clock[0]).expire() == 0, "by default nothing goes"
    keeping = Keeping(days=0, by_tenant={"fund-7": 5})
    eraser = Eraser(engine.database, keeping, lambda: clock[0])
    assert await eraser.expire() > 0
    assert await eraser.expire() == 0
    with calling(FUND):
        # Of days 0 to 7 those before day 4.5: all of Anne's, and Bert's first.
        assert [turn.number for turn in (await engine.list_turns("own-bert"))[0]] == [1, 2]
        assert [turn.question for turn in (await engine.list_turns("both"))[0]] == ["Secret of bert 2?"]
        assert "own-anne" not in [item.id for item in (await engine.list_conversations())[0]]
    assert "anne" not in await dump(engine)
    with calling(OTHER):
        assert len((await engine.list_turns("both"))[0]) == 2
    await engine.close()


def test_others_memory_is_for_operators() -> None:
    assert choose_scope(ANNE, "", "", everybody=False) == Scope("fund-7", "user:anne")
    assert choose_scope(ANNE, "fund-7", "user:anne", everybody=False) == Scope("fund-7", "user:anne")
    for tenant, principal, everybody in (("", "user:bert", False), ("fund-8", "", False), ("", "", True)):
        with pytest.raises(PermissionDenied, match="scope"):
            choose_scope(ANNE, tenant, principal, everybody=everybody)
    operator = replace(Call.new(), is_operator=True)
    assert choose_scope(operator, "fund-8", "", everybody=True) == Scope("fund-8", None)
    with pytest.raises(InvalidField, match="tenant"):
        choose_scope(operator, "a b", "", everybody=True)
