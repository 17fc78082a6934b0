"""PRIME's reward model on two ranks, copied and sharded, makes the scores and steps of one; it goes on from its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from fathom.trainers.batch import DataProto
from fathom.trainers.learners.ranks.fsdp import rank, whole_state, world
from fathom.trainers.learners.ranks.groups import shard_by_group
from fathom.trainers.prime.prime_fsdp_workers import PRIMERewardModelWorker
from tests.unit.trainers.learners.ranks import as_ranks
from tests.unit.trainers.learners.test_learners import batch, settings

pytestmark = pytest.mark.slow

OFFLOAD = "trainer.cpu_offload"
KINDS = {
    "shards": [],
    "copies": ["trainer.strategy=replicate"],
    "offloaded": [f"{OFFLOAD}=true", "trainer.world_size=2"],
    "shards by tokens": ["reward_model.use_dynamic_bsz=true", "reward_model.max_token_len_per_gpu=24"],
    "shards without a reference": ["reward_model.ref_type=policy"],
    "shards in pairs": ["reward_model.loss_type=dpo"],
}


def worker(*overrides: str) -> PRIMERewardModelWorker:
    # Clipping would hide a gradient that is wrong by a factor.
    fixed = ["reward_model.optim.lr=0.001", "reward_model.optim.grad_clip=1000", "reward_model.mini_batch_size=2"]
    # One rank has nothing to offload, and refuses it.
    own = [one for one in overrides if world() > 1 or not one.startswith(OFFLOAD)]
    return PRIMERewardModelWorker(settings(*fixed, *own))


def rows() -> DataProto:
    """This rank's of four groups."""
    # Groups with one right of two, two, none and one.
    data = batch().with_tensors(acc=torch.tensor([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]))
    # Any log-probabilities will do, as long as every rank has the same.
    data = data.with_tensors(old_log_probs=-torch.rand(data.tensor("responses").shape, generator=make_generator()))
    return data[shard_by_group(data, world())[rank()]]


def make_generator() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def steps(kind: str, folder: Path | None = None) -> dict[str, Any]:
    """Scores before and after two updates; with a folder, the second from a checkpoint of the first."""
    torch.set_num_threads(1)
    model, data = worker(*KINDS[kind]), rows()
    if world() > 1:
        parts = [parameter for parameter in model.model.phi.parameters() if isinstance(parameter, DTensor)]
        # A parameter of which each rank has the whole is no shard, whatever its type says.
        assert bool(parts) == (kind != "copies"), "divided where the settings say so"
        assert all(part.to_local().numel() < part.numel() for part in parts)
    found: dict[str, Any] = {"uids": data.array("uid").tolist(), "before": model.compute_rm_score(data)}
    for step in range(2):
        if step and folder is not None:
            model.save_checkpoint(folder)
            model = worker(*KINDS[kind])
            model.load_checkpoint(folder)
        grouped = data.with_tensors(**model.compute_rm_score(data).batch)
        if kind == "shards in pairs":
            from fathom.trainers.prime.prime_dp_rm import broadcast_groups

            # Pairs of a group may lie on two ranks: their sums must be exchanged before the update.
            grouped = broadcast_groups(grouped)
        found["metrics"] = model.update_rm(grouped).meta_info["metrics"]
    found["after"] = model.compute_rm_score(data)
    found["phi"] = whole_state(model.model.phi)
    return found


def all_kinds(folder: Path) -> dict[str, dict[str, Any]]:
    return {kind: steps(kind) for kind in KINDS} | {"resumed": steps("shards", folder)}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Any]]]:
    """Return what two ranks found: one start of processes for all kinds."""
    folder = tmp_path_factory.mktemp("ranks")
    return as_ranks(2, folder, all_kinds, folder / "checkpoint")


def merge_ranks(ranks: list[dict[str, dict[str, Any]]], kind: str, when: str, name: str) -> dict[str, list[Tensor]]:
    """Return a field of all ranks, by group."""
    found: dict[str, list[Tensor]] = {}
    for one in ranks:
        for uid, value in zip(one[kind]["uids"], one[kind][when].tensor(name), strict=True):
            found.setdefault(uid, []).append(value)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks_score_and_learn_as_one(kind: str, together: list[dict[str, dict[str, Any]]]) -> None:
    alone = [{kind: steps(kind)}]
    for when in ("before", "after"):
        for name in ("q", "rm_scores"):
            one, two = merge_ranks(alone, kind, when, name), merge_ranks(together, kind, when, name)
            assert one.keys() == two.keys()
            for uid, values in one.items():
                assert torch.allclose(torch.stack(values), torch.stack(two[uid]), atol=2e-5), (when, name, uid)
    # Equal zeros would prove nothing.
    assert (
        max(float(v.abs().max()) for values in merge_ranks(alone, kind, "after", "q").values() for v in values) > 1e-3
    )
    for name in ("reward_model/dpo_loss", "reward_model/grad_norm"):
        # Sums over ranks are taken in another order than over rows.
        assert together[0][kind]["metrics"][name] == pytest.approx(alone[0][kind]["metrics"][name], rel=1e-3), name
    for name, value in alone[0][kind]["phi"].items():
        assert torch.allclose(value, together[0][kind]["phi"][name], atol=2e-5), name


def test_a_sharded_reward_model_goes_on_from_its_parts(together: list[dict[str, dict[str, Any]]]) -> None:
    straight, resumed = together[0]["shards"], together[0]["resumed"]
    # No tolerance for a resume.
    assert straight["metrics"] == resumed["metrics"]
    assert all(torch.equal(value, resumed["phi"][name]) for name, value in straight["phi"].items())
