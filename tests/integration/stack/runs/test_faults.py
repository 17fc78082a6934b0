"""The bench of faults in short: services killed, stalled and cut off beside training and people, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.chaos.chaos import Plan, hurt
from tests.integration.stack.conftest import prepare

pytestmark = pytest.mark.slow
# Some of each kind, and those that hold what could be lost: the queue, the runs, the sessions.
FAULTS = ("duplicate and reorder", "kill -9 nats", "kill -9 sandbox", "store away", "kill -9 planner")


async def test_faults_beside_training_and_people_lose_duplicate_and_spoil_nothing(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path, models_dir: Path
) -> None:
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    (home / "models").symlink_to(models_dir)
    account, faults = await hurt(home, Plan(steps=160, pause_s=1.0, rounds=10, names=FAULTS, limit_s=300.0))
    assert account.is_within_bounds(), account.describe()
    assert (account.steps >= 160, account.people > 0, set(FAULTS) <= faults.made.keys()) == (True, True, True)
