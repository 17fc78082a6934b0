"""Two replicas of memory on one PostgreSQL, killed in turn: the short form of ``python -m tests.bench memory``."""

from __future__ import annotations

from tests.bench.memory.replicas import kill_in_turn
from tests.support.postgres import serve_postgres


async def test_no_turn_is_lost_or_doubled_by_kills() -> None:
    with serve_postgres() as url:
        report = await kill_in_turn(url, turns=500, kills_every=120)
    assert (report.lost, report.doubled, report.gaps) == (0, 0, 0)
    assert report.kills >= 2, "both were killed"
