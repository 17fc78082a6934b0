"""The training loop on scripted roles: order of its steps, what counts when, resume, what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fathom.core.config import ConfigError
from fathom.core.errors import Conflict, InvalidField
from fathom.trainers.algorithms.context import TrainingDiverged
from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import ResourcePoolManager, Role
from fathom.trainers.objectives.kl import AdaptiveKLController, FixedKLController, kl_controller
from fathom.trainers.objectives.mismatch import OLD_IS_FIRST_PASS
from tests.unit.trainers.algorithms.scripted import RECORDS, Scene

GAE = ("algorithm.adv_estimator=gae", "algorithm.use_kl_in_reward=true", "algorithm.kl_coef=0.1")


def test_the_steps_of_ppo_come_in_order(tmp_path: Path) -> None:
    """Init → batches → interaction → rewards and advantages → updates → validation and checkpoint."""
    scene = Scene(tmp_path, *GAE, "trainer.total_training_steps=2", "trainer.test_freq=1", "trainer.save_freq=2")
    last = scene.trainer.fit()
    step = ["generate", "old_log_prob", "ref", "values", "update_critic", "update_actor", "publish", "validate"]
    assert scene.calls == ["publish", "validate", *step, *step, "save", "close"]
    assert [number for number, _ in scene.steps] == [0, 1, 2]
    assert last["training/global_step"] == 2
    assert {"timing_s/gen", "timing_s/update_actor", "timing_s/step", "timing_s/publish"} <= last.keys()


def test_a_critic_is_there_for_gae_and_for_nothing_else(tmp_path: Path) -> None:
    """Actor and critic for GAE; group estimators allocate none, and no reference that nobody reads."""
    for estimator, roles in (("gae", {Role.ACTOR, Role.CRITIC}), ("grpo", {Role.ACTOR}), ("rloo", {Role.ACTOR})):
        scene = Scene(tmp_path / estimator, f"algorithm.adv_estimator={estimator}", "trainer.total_training_steps=1")
        metrics = scene.trainer.fit()
        assert scene.groups.keys() == roles
        assert ("values" in scene.calls) is (estimator == "gae") is ("critic/values/mean" in metrics)
        [batch] = scene.groups[Role.ACTOR].trained
        off = ~batch.tensor("response_mask").bool()
        assert not batch.tensor("advantages")[off].any(), "observations have no advantage"


def test_kl_counts_once_and_before_the_advantages(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *GAE, "trainer.total_training_steps=1", "trainer.val_before_train=false")
    metrics = scene.trainer.fit()
    batch = scene.groups[Role.CRITIC].trained[0]
    # old - ref = -1.25 + 1.75 = 0.5 per model token, of which 0.1 comes off; the observation is left alone.
    assert batch.tensor("token_level_rewards")[0].tolist() == pytest.approx([-0.05, 0.0, -0.05])
    assert batch.tensor("token_level_rewards")[1].tolist() == pytest.approx([-0.05, 0.0, 0.95])
    assert (metrics["actor/reward_kl_penalty"], metrics["actor/reward_kl_penalty_coeff"]) == pytest.approx((0.5, 0.1))
    with pytest.raises(ConfigError, match="twice"):
        load_config(overrides=["algorithm.use_kl_in_reward=true", "actor.use_kl_loss=true"])
    loss_only = Scene(tmp_path / "loss", "actor.use_kl_loss=true", "trainer.total_training_steps=1")
    assert "actor/reward_kl_penalty" not in loss_only.trainer.fit()
    [batch] = loss_only.groups[Role.ACTOR].trained
    assert torch.equal(batch.tensor("token_level_rewards"), batch.tensor("token_level_scores"))
    assert "ref_log_prob" in batch, "the loss reads the reference"


def test_metrics_tell_of_reward_lengths_entropy_and_mismatch(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "trainer.total_training_steps=1")
    metrics = scene.trainer.fit()
    assert metrics["critic/score/mean"] == metrics["acc"] == 0.5
    assert (metrics["response_length/mean"], metrics["prompt_length/mean"]) == (3.0, 2.0)
    assert (metrics["state_tokens/total"], metrics["state_tokens/coverage"]) == pytest.approx((8.0, 2 / 3))
    assert metrics["actor/entropy"] == pytest.approx(0.5)
    # Scripted log-probabilities: the sampler's are -1, the learner's -1.25, on every sampled token.
    distance = 2.718281828**-1.0 - 2.718281828**-1.25
    assert metrics["mismatch/prob_diff/mean"] == pytest.approx(distance, abs=1e-6)
    assert metrics["mismatch/prob_diff/max"] == pytest.approx(distance, abs=1e-6)
    assert metrics["mismatch/kl"] == pytest.approx(0.25)
    # k3 of a log-ratio of -0.25: e^-0.25 + 0.25 - 1.
    assert metrics["mismatch/kl_k3"] == pytest.approx(2.718281828**-0.25 + 0.25 - 1.0, abs=1e-6)
    assert metrics["actor/updates"] == 1.0


def test_a_resume_gives_the_same_steps(tmp_path: Path) -> None:
    """Stopped after three of four steps, at an epoch's end and in the middle: the prompts are those of one go."""
    whole = Scene(tmp_path / "whole", "trainer.save_freq=1")
    whole.trainer.fit()
    # Step 0 is the validation before the first one.
    assert [step for step, _ in whole.steps] == [0, 1, 2, 3, 4]
    # Four prompts in batches of two: two steps are an epoch, three end in the middle of the second.
    for stop in (2, 3):
        root = tmp_path / f"stopped-{stop}"
        first = Scene(root, "trainer.save_freq=1", f"trainer.total_training_steps={stop}")
        first.trainer.fit()
        second = Scene(root, "trainer.save_freq=1")
        second.trainer.fit()
        assert [step for step, _ in second.steps] == list(range(stop + 1, 5))
        seen = [batch.array("uid").tolist() for batch in first.source.seen + second.source.seen]
        questions = [str(batch.array("prompt").tolist()) for batch in first.source.seen + second.source.seen]
        assert seen == [batch.array("uid").tolist() for batch in whole.source.seen]
        assert questions == [str(batch.array("prompt").tolist()) for batch in whole.source.seen]
        assert second.groups[Role.ACTOR].updates == whole.groups[Role.ACTOR].updates == 4


def test_a_resume_with_nothing_left_trains_nothing(tmp_path: Path) -> None:
    Scene(tmp_path, "trainer.save_freq=0").trainer.fit()
    again = Scene(tmp_path)
    assert again.trainer.fit() == {}
    # Nothing is asked for and nothing learned, but a server that restarted has only the untrained weights.
    assert again.calls == ["publish", "close"], "the trained weights are served all the same"


def test_another_models_or_algorithms_checkpoint_is_refused(tmp_path: Path) -> None:
    """Checkpoints are known by the name of the output folder, which two trainings may share."""
    # One step, and its checkpoint lies under the output folder's name.
    Scene(tmp_path, "trainer.total_training_steps=1").trainer.fit()
    with pytest.raises(Conflict, match="is of the model 'tiny', not 'other'"):
        Scene(tmp_path, "model.name=other").trainer.fit()
    with pytest.raises(Conflict, match="is of the algorithm 'grpo', not 'rloo'"):
        Scene(tmp_path, "algorithm.adv_estimator=rloo").trainer.fit()
    # Whoever wants to begin anew says so, and loses the old checkpoints knowingly.
    anew = ("trainer.resume_mode=disable", "trainer.total_training_steps=2", "trainer.save_freq=0")
    assert Scene(tmp_path, "model.name=other", *anew).trainer.fit()["training/global_step"] == 2


def test_prompts_are_submitted_ahead_and_come_in_order(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ahead=2)
    scene.trainer.fit()
    assert [batch.meta_info["step"] for batch in scene.source.seen] == [1, 2, 3, 4]
    # Prompts submitted and never trained on would be lost to the next epoch.
    assert scene.source.queue == [], "nothing is begun that the training does not want"


def test_a_resume_goes_on_with_the_prompts_that_were_under_way(tmp_path: Path) -> None:
    """Sampled ahead, given out in any order: what the checkpoint has pending comes first, nothing comes twice."""
    whole = Scene(tmp_path / "whole", ahead=2)
    whole.trainer.fit()
    first = Scene(tmp_path / "broken", "trainer.save_freq=1", ahead=2)
    # The newest batch comes back first, so that the older two are what is pending at the kill.
    first.source.newest_first = True
    first.trainer.init_workers()
    for _ in range(2):
        first.source.submit(first.trainer.next_prompts())
    first.trainer.run_step()
    assert first.source.pending() == [f"{batch}-{place}" for batch in (0, 1) for place in range(2)]
    # With another batch size the positions of the pending prompts would mean other prompts.
    with pytest.raises(Conflict, match="4 prompts under way, drawn by 2; now 1"):
        Scene(tmp_path / "broken", "data.train_batch_size=1", ahead=2).trainer.fit()
    second = Scene(tmp_path / "broken", ahead=2)
    second.trainer.fit()
    seen, known = ([batch.array("uid").tolist() for batch in s] for s in (second.source.seen, whole.source.seen))
    # Batches 0 and 1 were under way; 2 is trained; 3 is the next to draw.
    assert seen == [known[0], known[1], known[3]], "batch 2 was trained on before the kill"
    texts = [str(batch.array("prompt").tolist()) for batch in second.source.seen]
    assert texts == [str(whole.source.seen[place].array("prompt").tolist()) for place in (0, 1, 3)]


def test_epochs_are_permutations_and_uids_never_repeat() -> None:
    prompts = Prompts(RECORDS, seed=1)
    assert prompts.batches(2) == 2
    drawn = [prompts.batch(position, 2) for position in range(40)]
    uids = [uid for batch in drawn for uid in batch.array("uid")]
    assert len(set(uids)) == len(uids)
    orders = set()
    # Five records in batches of two: each epoch leaves one out, another one each time.
    for epoch in range(20):
        rows = [row["index"] for b in drawn[2 * epoch : 2 * epoch + 2] for row in b.array("extra_info")]
        assert len(set(rows)) == 4
        orders.add(tuple(rows))
    # Of 120 possible orders twenty draws give far more than five.
    assert len(orders) > 5, "epochs differ"
    with pytest.raises(InvalidField, match="there are 5 prompts"):
        prompts.batch(0, 6)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda b: b.with_tensors(token_level_scores=b.tensor("token_level_scores") * float("nan")), "token_level_scores"),
        (lambda b: b.with_tensors(token_level_scores=torch.ones(len(b), 3)), "token_level_scores"),
        (lambda b: b.with_tensors(response_mask=b.tensor("response_mask") * 0), "response_mask"),
        (lambda b: b.select([n for n, _ in b.columns() if n != "token_level_scores"]), "token_level_scores"),
        (lambda b: b.with_tensors(attention_mask=b.tensor("attention_mask").float()), "attention_mask"),
    ],
)  # fmt: skip
def test_rollouts_that_cannot_train_are_refused_by_field(tmp_path: Path, change: object, field: str) -> None:
    scene = Scene(tmp_path, change=change)  # type: ignore[arg-type]
    with pytest.raises(InvalidField) as bad:
        scene.trainer.fit()
    assert bad.value.field == field
    assert scene.calls[-1] == "close"
    assert "update_actor" not in scene.calls


def test_a_loss_that_is_not_finite_is_never_served(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "trainer.save_freq=1", "trainer.val_before_train=false")
    scene.trainer.init_workers()
    scene.trainer.init_workers = lambda: None  # type: ignore[method-assign]
    scene.groups[Role.ACTOR].metrics = {"actor/pg_loss": float("nan")}
    with pytest.raises(TrainingDiverged, match="actor/pg_loss is nan at step 1"):
        scene.trainer.fit()
    # No checkpoint and no publication behind the update: what is served stays the last good version.
    assert scene.calls == ["publish", "generate", "old_log_prob", "update_actor", "close"]


def test_switches_for_warm_up_bypass_importance_and_masking(tmp_path: Path) -> None:
    warm = Scene(tmp_path / "warm", *GAE, "trainer.critic_warmup=3")
    warm.trainer.fit()
    # The critic learns in all four steps, the actor only after the first three.
    assert (warm.calls.count("update_critic"), warm.calls.count("update_actor")) == (4, 1)
    bypass = Scene(tmp_path / "bypass", "algorithm.bypass_mode=true", "trainer.total_training_steps=1")
    bypass.trainer.fit()
    [batch] = bypass.groups[Role.ACTOR].trained
    assert torch.equal(batch.tensor("old_log_probs"), batch.tensor("rollout_log_probs"))
    once = Scene(tmp_path / "once", "algorithm.old_log_probs=update", "trainer.total_training_steps=1")
    once.trainer.fit()
    assert "old_log_prob" not in once.calls, "the update's own pass gives them"
    [batch] = once.groups[Role.ACTOR].trained
    assert batch.meta_info[OLD_IS_FIRST_PASS]
    weighted = Scene(tmp_path / "weighted", "rollout.importance_cap=2.0", "trainer.total_training_steps=1")
    # Behaviour policy -1, learner -1.25: the weight is e^-0.25, below the cap.
    assert weighted.trainer.fit()["mismatch/importance/mean"] == pytest.approx(2.718281828**-0.25, abs=1e-5)
    [batch] = weighted.groups[Role.ACTOR].trained
    assert batch.tensor("rollout_is_weights")[0].tolist() == pytest.approx([0.7788, 0.0, 0.7788], abs=1e-4)
    # Search-R1's ablation: observations are trained on too.
    unmasked = Scene(tmp_path / "unmasked", "algorithm.state_masking=false", "trainer.total_training_steps=1")
    assert unmasked.trainer.fit()["state_tokens/coverage"] == 1.0
    [batch] = unmasked.groups[Role.ACTOR].trained
    assert batch.tensor("response_mask").all()
    assert batch.tensor("advantages")[0].all()


def test_validation_says_its_own_sampling_and_scores_by_source(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "trainer.total_training_steps=1")
    asked: list[DataProto] = []
    generate = scene.source.generate

    def note_prompts(prompts: DataProto) -> DataProto:
        asked.append(prompts)
        return generate(prompts)

    scene.source.generate = note_prompts  # type: ignore[method-assign]
    scene.trainer.fit()
    before = asked[0]
    # Greedy, one sample, whatever the training samples with.
    assert (before.meta_info["validate"], before.meta_info["temperature"], before.meta_info["n"]) == (True, 0.0, 1)
    assert len(before) == len(RECORDS)
    assert {"val/test_score", "val/test_score/toy", "val/test_score/other"} <= scene.steps[0][1].keys()
    training = next(prompts for prompts in asked if not prompts.meta_info["validate"])
    assert (training.meta_info["temperature"], training.meta_info["n"]) == (1.0, 2)


def test_roles_and_pools_that_are_missing_are_named(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *GAE)
    with pytest.raises(InvalidField, match="critic"):
        type(scene.trainer)(
            scene.config, None, {Role.ACTOR: 1}, scene.trainer.pools, scene.make, context=scene.trainer.context
        )
    with pytest.raises(InvalidField, match=r"resource_pool\.actor"):
        ResourcePoolManager({"a": 1}, {Role.ACTOR: "b"})
    with pytest.raises(InvalidField, match=r"resource_pool\.critic"):
        ResourcePoolManager({"a": 1}, {Role.ACTOR: "a"}).ranks(Role.CRITIC)


def test_rewards_come_from_a_function_where_the_source_does_not_grade(tmp_path: Path) -> None:
    scene = Scene(
        tmp_path, "trainer.total_training_steps=1", "trainer.val_before_train=false", "trainer.test_freq=0",
        change=lambda b: b.select([n for n, _ in b.columns() if n not in {"token_level_scores", "acc"}]),
    )  # fmt: skip
    trainer = scene.trainer
    trainer.context = replace(trainer.context, validation=None)
    # 0.5 on the last column of each row, as a reward manager writes it.
    trainer.reward_fn = lambda data: torch.zeros(len(data), 3).index_fill(1, torch.tensor([2]), 0.5)
    assert trainer.fit()["critic/score/mean"] == 0.5


def test_the_controller_is_the_settings() -> None:
    assert kl_controller(load_config(overrides=["algorithm.kl_coef=0.2"]).algorithm) == FixedKLController(0.2)
    adaptive = kl_controller(load_config(overrides=["algorithm.kl_ctrl=adaptive", "algorithm.kl_coef=0.2"]).algorithm)
    assert adaptive == AdaptiveKLController(0.2, 0.1, 10_000)
