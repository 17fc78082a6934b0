"""Steps on a GPU against the same steps on the CPU: packed rows, and shards that are offloaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from fathom.trainers.learners.ranks.fsdp import whole_state
from fathom.trainers.learners.workers import ActorWorker
from tests.unit.trainers.learners.test_learners import batch, settings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def take_step(*overrides: str) -> dict[str, Tensor]:
    actor = ActorWorker(settings("actor.optim.lr=0.001", "actor.entropy_coeff=0.01", *overrides))
    data = batch()
    data = data.union(actor.compute_log_prob(data).select(["old_log_probs"]))
    actor.update_policy(data)
    return {name: value.cpu() for name, value in whole_state(actor.learner.network).items()}


@pytest.mark.parametrize(
    "more", [["actor.use_remove_padding=false"], ["actor.use_remove_padding=true"]], ids=["padded", "packed"]
)
def test_a_gpu_takes_the_step_of_the_cpu(more: list[str]) -> None:
    alone, found = take_step(), take_step("trainer.device=cuda", *more)
    for name, value in alone.items():
        # Sums in another order; float32 products of this size stay within it with TF32 off, torch's default.
        torch.testing.assert_close(found[name], value, atol=5e-5, rtol=1e-3, msg=name)


def test_offloaded_shards_take_the_step_of_the_cpu(tmp_path: Path) -> None:
    alone = take_step()
    torch.distributed.init_process_group(
        "cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1
    )
    try:
        found = take_step("trainer.device=cuda", "trainer.use_ray=true", "trainer.cpu_offload=true")
    finally:
        torch.distributed.destroy_process_group()
    for name, value in alone.items():
        torch.testing.assert_close(found[name], value, atol=5e-5, rtol=1e-3, msg=name)
