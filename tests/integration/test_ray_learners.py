"""Learners on Ray: two ranks make the step of one, results keep their rows, failures name the culprit."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray
import torch
from ray.util.placement_group import placement_group, remove_placement_group

from fathom.core.errors import DependencyFailed, InvalidField, NotReady
from fathom.trainers.learners.ranks.groups import LocalGroup, RayGroup, SharedRanks
from fathom.trainers.learners.workers import ActorWorker, CriticWorker, ReferenceWorker
from fathom.trainers.prime.prime_fsdp_workers import PRIMERewardModelWorker
from fathom.trainers.store_files import StoredFolder, StoreFolder
from tests.integration.dying_rank import DiesOnUpdate
from tests.unit.trainers.learners.test_learners import batch, settings

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]


def test_two_ranks_make_the_step_of_one(tmp_path: Path) -> None:
    config = settings("actor.ppo_mini_batch_size=2", "data.train_batch_size=4", "actor.entropy_coeff=0.01")
    one, two = LocalGroup(ActorWorker, config, 1), RayGroup(ActorWorker, config, 2)
    try:
        known = one.compute_log_prob(batch())
        found = two.compute_log_prob(batch())
        assert torch.allclose(known.tensor("old_log_probs"), found.tensor("old_log_probs"), atol=1e-6)
        data = batch().union(known.select(["old_log_probs"]))
        alone, together = one.update_policy(data), two.update_policy(data)
        # Sums over ranks are added in another order; a wrong divisor would be a factor of two.
        assert together["actor/grad_norm"] == pytest.approx(alone["actor/grad_norm"], rel=1e-4)
        for name, group in (("one", one), ("two", two)):
            target = StoreFolder((tmp_path / "store").as_uri(), name)
            StoredFolder(target.url, group.upload("export", target)).fetch_all(tmp_path / name)
        from safetensors.torch import load_file

        left, right = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
        assert max(float((left[key] - right[key]).abs().max()) for key in left) < 1e-4
        target = StoreFolder((tmp_path / "store").as_uri(), "checkpoint")
        files = two.upload("save_checkpoint", target)
        assert sorted(files) == [".metadata", "__0_0.distcp", "__1_0.distcp"]
        two.restore(StoredFolder(target.url, files))
        with pytest.raises(InvalidField, match="cannot be dealt"):
            # Six rows, in groups that two ranks cannot share evenly.
            two.compute_log_prob(batch()[:6])
    finally:
        two.close()


# In the second, two ranks share the policy's layers, and divide the rows of the critic's batch beside it.
@pytest.mark.parametrize("more", [[], ["actor.tensor_parallel_size=2"]], ids=["shards", "policy divided"])
def test_roles_that_share_ranks_make_the_steps_of_roles_alone(tmp_path: Path, more: list[str]) -> None:
    plain = settings("actor.ppo_mini_batch_size=4", "critic.ppo_mini_batch_size=4")
    config = settings("actor.ppo_mini_batch_size=4", "critic.ppo_mini_batch_size=4", *more)
    workers = {"actor": ActorWorker, "critic": CriticWorker, "reference": ReferenceWorker}
    alone = {name: LocalGroup(worker, plain, 1) for name, worker in workers.items()}
    # Two of the cluster's six places are left: three roles with ranks of their own would need six.
    occupied, shared = placement_group([{"CPU": 1}] * 4), SharedRanks()
    ray.get(occupied.ready(), timeout=60)
    together: dict[str, RayGroup] = {}
    try:
        for name, worker in workers.items():
            together[name] = shared(worker, config, 2)
        found = []
        for groups in (alone, together):
            data = batch().union(groups["actor"].compute_log_prob(batch()).select(["old_log_probs"]))
            data = data.union(groups["reference"].compute_ref_log_prob(data))
            data = data.with_tensors(values=groups["critic"].compute_values(data).tensor("values"))
            metrics = groups["critic"].update_critic(data) | groups["actor"].update_policy(data)
            after = groups["actor"].compute_log_prob(data).tensor("old_log_probs")
            found.append((metrics, data.tensor("ref_log_prob"), after))
        for name in ("actor/grad_norm", "critic/vf_loss", "critic/grad_norm"):
            assert found[1][0][name] == pytest.approx(found[0][0][name], rel=1e-4), name
        for place in (1, 2):
            assert torch.allclose(found[0][place], found[1][place], atol=1e-4)
        # A checkpoint of one role is that role's, not its neighbour's.
        target = StoreFolder((tmp_path / "store").as_uri(), "critic")
        together["critic"].restore(StoredFolder(target.url, together["critic"].upload("save_checkpoint", target)))
        together.pop("reference").close()
        # One role has ended: the others go on where they are.
        assert torch.equal(together["actor"].compute_log_prob(batch()).tensor("old_log_probs"), found[1][2])
    finally:
        for group in together.values():
            group.close()
        remove_placement_group(occupied)
    again = RayGroup(CriticWorker, config, 2)
    # The last one has given the places back.
    again.close()


def test_the_reward_model_of_prime_too() -> None:
    config = settings(
        "reward_model.optim.lr=0.01", "reward_model.mini_batch_size=4", "rollout.n=2",
        "reward_model.use_dynamic_bsz=true", "reward_model.max_token_len_per_gpu=24",
    )  # fmt: skip
    data = batch().with_tensors(acc=torch.tensor([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]))
    one, two = LocalGroup(PRIMERewardModelWorker, config, 1), RayGroup(PRIMERewardModelWorker, config, 2)
    try:
        # After several steps: a state of the optimiser that the ranks do not share shows in the second at the earliest.
        for _ in range(3):
            alone, together = one.update_rm(data).meta_info["metrics"], two.update_rm(data).meta_info["metrics"]
        assert together["reward_model/dpo_loss"] == pytest.approx(alone["reward_model/dpo_loss"], abs=1e-4)
        known, found = one.compute_rm_score(data), two.compute_rm_score(data)
        for name in ("rm_scores", "q"):
            assert torch.allclose(known.tensor(name), found.tensor(name), atol=1e-4), name
    finally:
        two.close()


def test_what_cannot_be_placed_fails_soon_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    # Had it waited, the error would say for how long.
    with pytest.raises(
        NotReady, match=r"ActorWorker: 64 ranks of .*CPU.* could not be placed: the cluster has .* in all"
    ):
        # More processors than the cluster has in all: no waiting can help, and none is done.
        RayGroup(ActorWorker, settings("trainer.schedule_timeout_s=60"), 64)
    occupied = placement_group([{"CPU": 1}] * 2)
    ray.get(occupied.ready(), timeout=60)
    try:
        with pytest.raises(NotReady, match=r"6 ranks of .* could not be placed within 1 s; the cluster has .* free"):
            RayGroup(ActorWorker, settings("trainer.schedule_timeout_s=1"), 6)
    finally:
        remove_placement_group(occupied)


def test_a_rank_that_dies_is_named() -> None:
    group = RayGroup(DiesOnUpdate, settings(), 2)
    try:
        with pytest.raises(DependencyFailed, match="DiesOnUpdate, rank 1"):
            group.update_policy(batch())
    finally:
        group.close()
