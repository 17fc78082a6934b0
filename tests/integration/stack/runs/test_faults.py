"""The bench of faults in short: services killed, stalled and cut off beside training and people, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.chaos.chaos import Plan, hurt
from tests.bench.chaos.traffic import Account
from tests.integration.s3_server import needs_rclone
from tests.integration.stack.conftest import prepare

pytestmark = pytest.mark.slow
S3_FAULTS = ("store errors", "store answers half", "store hangs")
# Some of each kind, and those that hold what could be lost: the queue, the runs, the sessions.
FAULTS = (
    "duplicate and reorder", "kill -9 nats", "kill -9 sandbox", "store away", "disk full", "disk slow",
    "kill -9 planner",
)  # fmt: skip


@pytest.mark.parametrize(
    ("names", "on_s3"),
    [(FAULTS, False), pytest.param(S3_FAULTS, True, marks=needs_rclone)],
    ids=["folder", "s3"],
)
async def test_faults_beside_training_and_people_lose_duplicate_and_spoil_nothing(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path, names: tuple[str, ...], on_s3: bool
) -> None:
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    plan = Plan(steps=160, pause_s=1.0, rounds=10, names=names, limit_s=600.0, on_s3=on_s3)
    account = Account()
    faults = await hurt(home, plan, account)
    assert account.is_within_bounds(), account.describe()
    assert (account.steps >= 160, account.people > 0, set(names) <= faults.made.keys()) == (True, True, True)
