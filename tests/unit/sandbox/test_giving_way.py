"""A cell that computes for long runs behind those that have just begun, and a training's cells always do."""

from __future__ import annotations

from types import SimpleNamespace

from fathom.services.sandbox.config import Config
from fathom.services.sandbox.supervisor.worker.process import WorkerProcess


async def test_a_long_cell_gives_way_until_its_end_and_a_training_for_good() -> None:
    weights: list[int] = []
    worker = WorkerProcess(Config(), SimpleNamespace())  # type: ignore[arg-type]
    worker._group = SimpleNamespace(weigh=weights.append)  # type: ignore[assignment]
    worker.give_way_for_now()
    worker.take_turn()
    assert weights == [10, 100]
    worker.give_way()
    worker.give_way_for_now()
    worker.take_turn()
    assert weights == [10, 100, 10]
    worker._init.close()
    for end in (worker._ours, worker._theirs):
        end.close()
    for pipe in (worker.stdout, worker.stderr):
        pipe.close()
