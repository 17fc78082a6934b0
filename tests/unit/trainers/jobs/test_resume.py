"""A training that is killed in the middle of a save goes on from the step before it, to the same bits."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.learners.ranks.groups import LocalGroup
from fathom.trainers.learners.workers import ActorWorker
from fathom.transport.store import open_store
from fathom.transport.store.base import StoredObject
from tests.unit.trainers.learners.test_learners import batch, settings

GROUPS, PER_STEP = 4, 2
STEPS_PER_EPOCH = GROUPS // PER_STEP


@dataclass
class KillingStore:
    """A store whose process ends by SIGKILL when the files of this step are there and its manifest is not yet."""

    inner: Any
    step: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        if key.endswith(f"/{self.step:08d}/manifest.json"):
            os.kill(os.getpid(), signal.SIGKILL)
        stored: StoredObject = await self.inner.put(key, data, content_type)
        return stored


def train(root: Path, until: int, killed_at: int = 0) -> tuple[int, dict[str, torch.Tensor]]:
    """Steps from the newest checkpoint to ``until``, saving each; gives where it began and the parameters.

    Every step draws from all three sources of random numbers.
    """
    torch.set_num_threads(1)
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    url = f"file://{root / 'store'}"
    store: Any = open_store(url)
    kept = StoreCheckpoints(KillingStore(store, killed_at) if killed_at else store, url, "toy", 2)
    group = LocalGroup(ActorWorker, settings("actor.optim.lr_warmup_steps=3", "trainer.total_training_steps=4"))
    worker = group.worker
    prompts = Prompts(
        [{"group": group} for group in range(GROUPS)], collate=lambda rows: {"group": [row["group"] for row in rows]}
    )
    found = kept.load()
    if found is not None:
        group.restore(found.folder)
    first = int(found.state["step"]) if found else 0
    for step in range(first, until):
        chosen = {f"g{group}" for group in prompts.batch(step, PER_STEP).array("group").tolist()}
        rows = batch()
        rows = rows[torch.tensor([uid in chosen for uid in rows.array("uid").tolist()])]
        noise = torch.randn(rows.tensor("advantages").shape) * random.random() * float(np.random.rand())
        rows = rows.with_tensors(advantages=rows.tensor("advantages") + noise)
        worker.update_policy(rows.union(worker.compute_log_prob(rows).select(["old_log_probs"])))
        kept.save(step + 1, partial(group.upload, "save_checkpoint"), {"step": step + 1})
    return first, worker.learner.model.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("killed_at", [STEPS_PER_EPOCH + 1, STEPS_PER_EPOCH])
def test_a_killed_training_ends_bit_for_bit_where_an_unbroken_one_does(killed_at: int, tmp_path: Path) -> None:
    """Killed while the step after an epoch's end is saved (it goes on at the boundary), and within an epoch."""
    process = multiprocessing.get_context("spawn").Process(target=train, args=(tmp_path / "broken", 4, killed_at))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    began, straight = train(tmp_path / "straight", 4)
    went_on, resumed = train(tmp_path / "broken", 4)
    assert (began, went_on) == (0, killed_at - 1)
    for name, value in straight.items():
        assert torch.equal(value, resumed[name]), name
