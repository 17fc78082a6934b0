"""Queries of stored conversations: of consenting users of one tenant, clean, once, and with their origin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import InvalidField
from fathom.domain.consent import Consent, ConsentRecords
from fathom.services.memory.engine import Engine, Turn
from fathom.services.memory.retaining.exporting import Exporter
from fathom.services.memory.retaining.scope import Scope
from fathom.trainers.data.export.scrub import Scrubber
from fathom.trainers.data.queries.importing import (
    NEAR,
    NO_RUN,
    NOT_ALLOWED,
    OTHER_TENANT,
    TOO_LONG,
    import_turns,
    read_turns,
)
from fathom.trainers.data.queries.record import read_queries, write_queries
from fathom.transport.store.memory import MemoryStore
from tests.unit.trainers.data.test_production_exports import keep, run

TENANT = "fund-7"
# Question, self-contained form, run, and whether its user consented.
TURNS = (
    ("What was Apple's net margin in 2021?", "", "r1", True),
    ("and in 2020?", "What was Apple's net margin in 2020? Write to ann@example.com", "r2", True),
    ("What was the net margin of Apple in 2021??", "", "r3", True),
    ("what was the net margin of apple in 2021", "", "r4", True),
    ("苹果2021年的净利率是多少？", "", "r5", True),
    ("How much do I owe?", "", "r6", False),
    ("Is this stored without a run?", "", "", True),
    ("x" * 4_001, "", "r8", True),
)


async def store_turns(path: Path, tenant: str) -> list[str]:
    """Store the turns in a real memory service, and return its export as lines."""
    engine = Engine(path)
    await engine.start()
    try:
        with calling(Call.new(tenant=tenant)):
            for number, (question, rewritten, run_id, _) in enumerate(TURNS):
                await engine.append(f"request-{number}", "conv-1", Turn(question, rewritten, "It was so [1].", run_id))
        lines, token = list[str](), ""
        while True:
            rows, token = await Exporter(engine.database).export(Scope(tenant), 3, token)
            lines += [json.dumps({"table": row.table, **row.values}, ensure_ascii=False) for row in rows]
            if not token:
                return lines
    finally:
        await engine.close()


async def make_store() -> MemoryStore:
    """Return a store with the records of the runs."""
    store = MemoryStore()
    for _, _, run_id, has_consented in TURNS:
        if run_id:
            await keep(store, run(run_id), consent=has_consented)
    return store


async def test_the_questions_of_consenting_users_come_clean_and_once(tmp_path: Path) -> None:
    lines = await store_turns(tmp_path / "memory.sqlite3", TENANT)
    others = await store_turns(tmp_path / "other.sqlite3", "fund-8")
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, *others]), encoding="utf-8")
    turns = read_turns(tmp_path / "rows.jsonl")
    assert len(turns) == 2 * len(TURNS)
    done = await import_turns(turns, await make_store(), TENANT, Scrubber(), 0.8)
    assert [(query.text, query.language) for query in done.queries] == [
        ("What was Apple's net margin in 2021?", "en"),
        ("What was Apple's net margin in 2020? Write to <email>", "en"),
        ("What was the net margin of Apple in 2021??", "en"),
        ("苹果2021年的净利率是多少？", "zh"),
    ]
    assert done.queries[1].source == "conversation conv-1 turn 2, run r2"
    assert done.left_out == {NEAR: 1, NOT_ALLOWED: 1, NO_RUN: 1, TOO_LONG: 1, OTHER_TENANT: len(TURNS)}
    # What was written is read by the other steps, and a repetition gives the same rows.
    write_queries(done.queries, tmp_path / "asked.jsonl")
    assert read_queries(tmp_path / "asked.jsonl") == done.queries
    assert (await import_turns(turns, await make_store(), TENANT, Scrubber(), 0.8)).queries == done.queries


async def test_consent_that_is_taken_back_counts(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(await store_turns(tmp_path / "m.sqlite3", TENANT)), encoding="utf-8")
    store = await make_store()
    await ConsentRecords(store).put_run("r1", Consent.REFUSED, "user:ann")
    done = await import_turns(read_turns(tmp_path / "rows.jsonl"), store, TENANT, Scrubber(), 0.8)
    assert done.left_out[NOT_ALLOWED] == 2
    assert "run r1" not in " ".join(query.source for query in done.queries)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "rows.jsonl:1 is no JSON"),
        ("[1]", "rows.jsonl:1 names no table"),
        ('{"question": "q"}', "rows.jsonl:1 names no table"),
        ('{"table": "facts"}', "has no turn"),
        (
            '{"table": "turns", "tenant": "t", "conversation": "c", "number": 0, "question": "q"}',
            "rows.jsonl:1: number",
        ),
        ('{"table": "turns", "tenant": "t", "conversation": "c", "number": 1}', "rows.jsonl:1: question"),
    ],
)
def test_a_file_that_is_no_export_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidField, match=message):
        read_turns(tmp_path / "rows.jsonl")
