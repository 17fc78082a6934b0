"""PRIME's loop on scripted roles: its steps in order, the four ways to learn and score, filters, refusals."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.core.config import ConfigError
from fathom.core.errors import InvalidField
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import ResourcePoolManager, Role
from fathom.trainers.prime.prime_ray_trainer import RayPRIMETrainer
from fathom.trainers.transfers import StoreTransfer
from tests.unit.trainers.algorithms.scripted import RECORDS, ScriptedGroup, ScriptedSource

ORDER = ["generate", "old_log_prob"]


class ScriptedRewardModel(StoreTransfer):
    """Scores that tell how often it has learned."""

    def __init__(self, calls: list[str]) -> None:
        # Its scores say in which order it was asked: 1 before its first lesson, 2 after one.
        self.calls, self.learned, self.worker = calls, 0, self
        self.seen: list[DataProto] = []

    def scores(self, data: DataProto) -> DataProto:
        values = torch.full(data.tensor("responses").shape, float(self.learned) + 1.0)
        found = values * data.tensor("response_mask")
        return DataProto({"rm_scores": found, "q": found}, {}, {"metrics": {"reward_model/dpo_acc": 0.5}})

    def compute_rm_score(self, data: DataProto) -> DataProto:
        self.calls.append("compute_rm_score")
        return self.scores(data)

    def update_rm(self, data: DataProto) -> DataProto:
        self.calls.append("update_rm")
        self.seen.append(data)
        found = self.scores(data)
        self.learned += 1
        return found.with_meta(metrics={"reward_model/dpo_loss": 0.7})

    def save_checkpoint(self, folder: Path) -> None:
        (folder / "state").write_text(str(self.learned))

    def load_checkpoint(self, folder: Path, fetch: Any) -> None:
        fetch("state")
        self.learned = int((folder / "state").read_text())


class Scene:
    """A PRIME trainer whose roles are scripted."""

    def __init__(self, *overrides: str, change: Any = None) -> None:
        self.calls: list[str] = []
        fixed = [
            "algorithm.adv_estimator=rloo", "reward_model.enable=true", "rollout.n=2", "data.train_batch_size=2",
            "actor.ppo_mini_batch_size=2", "trainer.total_training_steps=1", "trainer.val_before_train=false",
            "data.max_response_length=8",
        ]  # fmt: skip
        config = load_config([], [*fixed, *overrides])
        self.rewards, self.actor = ScriptedRewardModel(self.calls), ScriptedGroup(Role.ACTOR, self.calls)
        made: dict[Any, Any] = {Role.ACTOR: self.actor, Role.REWARD_MODEL: self.rewards}
        self.made: list[Any] = []

        def factory(worker: Any, config: Any, ranks: int) -> Any:
            self.made.append(worker)
            return made.get(worker) or ScriptedGroup(worker, self.calls)

        self.source = ScriptedSource(self.calls, change=change)
        self.trainer = RayPRIMETrainer(
            config, None, {role: role for role in Role}, ResourcePoolManager({"all": 1}, dict.fromkeys(Role, "all")),
            factory, context=TrainingContext(self.source, Prompts(RECORDS)),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "calls", "scores"),
    [
        ("none", ["compute_rm_score"], 1.0),
        ("after", ["update_rm"], 1.0),
        ("before", ["update_rm", "compute_rm_score"], 2.0),
        ("reverse", ["compute_rm_score", "update_rm"], 1.0),
    ],
)
def test_the_reward_model_learns_when_the_mode_says(mode: str, calls: list[str], scores: float) -> None:
    scene = Scene(f"reward_model.update={mode}")
    metrics = scene.trainer.fit()
    assert scene.calls == ["publish", *ORDER, *calls, "update_actor", "publish", "close"]
    [batch] = scene.actor.trained
    assert set(batch.tensor("rm_scores")[batch.tensor("response_mask").bool()].tolist()) == {scores}
    assert metrics["acc"] == 0.5
    assert ("reward_model/dpo_loss" in metrics) is (mode != "none")
    if mode == "reverse":
        [seen] = scene.rewards.seen
        assert seen.tensor("acc_bc").tolist() == [[0.0, 1.0]] * 4, "each row knows its whole group"
        assert seen.tensor("Q_bc").tolist() == [[2.0, 2.0]] * 4


def test_there_is_no_critic(tmp_path: Path) -> None:
    scene = Scene()
    metrics = scene.trainer.fit()
    assert scene.trainer.use_critic is RayPRIMETrainer.use_critic is False
    assert scene.made == [Role.ACTOR, Role.REWARD_MODEL]
    assert scene.trainer.critic is None
    assert not [name for name in metrics if name.startswith(("critic/vf", "critic/values"))]
    assert scene.trainer.learners().keys() == {"actor", "reward"}


def test_prompts_are_drawn_by_the_oversample_factor() -> None:
    # Eight of every 32 are kept.
    assert (
        Scene(
            "data.train_batch_size=8", "data.oversample_factor=4.0", "actor.ppo_mini_batch_size=8"
        ).trainer.prompts_per_step
        == 32
    )
    # 5 · 1.5 is no whole number of prompts: rounded down, and said.
    with pytest.warns(UserWarning, match="7 prompts"):
        assert (
            Scene(
                "data.train_batch_size=5", "data.oversample_factor=1.5", "actor.ppo_mini_batch_size=5"
            ).trainer.prompts_per_step
            == 7
        )


def grade_as(outcomes: list[list[float]]) -> Any:
    """Return a function that gives episodes these outcomes, by group."""

    # Graders give one outcome per episode, which stands at the last token.
    def change(batch: DataProto) -> DataProto:
        acc = torch.tensor([value for group in outcomes for value in group])
        scores = torch.zeros_like(batch.tensor("token_level_scores"))
        scores[:, -1] = acc
        return batch.with_tensors(acc=acc, token_level_scores=scores)

    return change


def test_groups_that_pass_come_first_and_failing_ones_fill() -> None:
    filters = ("data.oversample_factor=2.0", "data.filter_accuracy=true", "data.filter_truncate=true")
    # All right, half right, all wrong, half right: the second and the fourth teach something.
    scene = Scene(*filters, change=grade_as([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))
    metrics = scene.trainer.fit()
    [batch] = scene.actor.trained
    batch.require_groups(2)
    assert len(batch) == 4, "1 / oversample_factor of what was drawn"
    assert batch.tensor("acc").tolist() == [0.0, 1.0, 1.0, 0.0]
    # Metrics of what was drawn, not of what was kept: else every training would look half right.
    assert metrics["acc"] == 0.5, "over all rows that were drawn"
    assert (metrics["filter/pass_rate"], metrics["filter/too_easy"], metrics["filter/too_hard"]) == (0.5, 0.25, 0.25)
    few = Scene(*filters, change=grade_as([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]))
    # Only one group of four passes; the batch is filled from the others in their order.
    assert few.trainer.fit()["filter/filled_with_failing"] == 1.0
    assert few.actor.trained[0].tensor("acc").tolist() == [1.0, 0.0, 1.0, 1.0]
    off = Scene("data.oversample_factor=2.0", change=grade_as([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))
    off.trainer.fit()
    assert off.actor.trained[0].tensor("acc").tolist() == [1.0, 1.0, 0.0, 1.0], "the order stays"


def test_one_long_answer_demotes_its_group() -> None:
    scene = Scene(
        "data.oversample_factor=2.0", "data.filter_truncate=true", "data.max_response_length=4",
        change=lambda batch: batch.with_tensors(
            # One response of the fifth row is three tokens long where all others are two.
            attention_mask=torch.cat([torch.ones(8, 2), torch.tensor([[1.0, 1.0, 0.0]] * 4 + [[1.0, 1.0, 1.0]] + [[1.0, 1.0, 0.0]] * 3)], dim=1).long(),
            response_mask=torch.tensor([[1, 1, 0]] * 8),
            token_level_scores=torch.zeros(8, 3),
        ),
    )  # fmt: skip
    metrics = scene.trainer.fit()
    assert metrics["filter/truncated"] == 0.25
    uids = scene.actor.trained[0].array("uid").tolist()
    assert len(set(uids)) == 2
    # The fifth row is of the third prompt drawn.
    assert scene.source.seen[0].array("uid")[2] not in uids


def test_coefficients_weigh_the_sources() -> None:
    scene = Scene("algorithm.reward_dpo_coef=0.0")
    scene.trainer.fit()
    batch = scene.actor.trained[0]
    outcome_only = batch.tensor("returns")[:, 0]
    # Leave-one-out of (0, 1) is -1 and +1.
    assert outcome_only.tolist() == pytest.approx([-5.0, 5.0, -5.0, 5.0]), "5 times the leave-one-out advantage"
    both = Scene("algorithm.reward_dpo_coef=0.0", "algorithm.reward_gt_coef=0.0")
    with pytest.raises(InvalidField, match="sources"):
        both.trainer.fit()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.adv_estimator=grpo"], "rloo only"),
        (["rollout.n=1", "algorithm.adv_estimator=gae"], "rloo only"),
        (["reward_model.loss_type=dpo"], "reverse"),
        (["reward_model.update=sometimes"], "reward_model.update"),
        (["algorithm.use_kl_in_reward=true"], "no place in PRIME"),
        (["reward_model.enable=false"], "reward_model.enable: must be true"),
    ],
)
def test_settings_that_prime_has_not_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises((InvalidField, ConfigError), match=message):
        Scene(*overrides)


def test_an_outcome_that_is_none_is_refused_by_row() -> None:
    # A grader's partial credit is no outcome: the cross-entropy of the reward model wants 0 or 1.
    with pytest.raises(InvalidField, match=r"acc: row 1 is 1\.5"):
        Scene(change=lambda batch: batch.with_tensors(acc=torch.tensor([0.0, 1.5, 0.0, 1.0]))).trainer.fit()


def test_the_defaults_are_the_recipes() -> None:
    from fathom.trainers.jobs.registry import load_settings

    # The published recipe's figures, so that a change of ours shows.
    config = load_settings("prime", [], ["model.path=smollm2"])  # with a model of one's own: no built-in task
    algorithm, data, model = config.algorithm, config.data, config.reward_model
    assert (algorithm.reward_dpo_coef, algorithm.reward_gt_coef, algorithm.adv_estimator) == (5.0, 5.0, "rloo")
    assert (model.beta_train, model.loss_type, model.prime_granularity, model.prime_norm) == (
        0.05,
        "ce",
        "token",
        "batch_norm",
    )
    assert (config.reward.manager, data.oversample_factor, config.rollout.n) == ("prime", 4.0, 4)
    assert (data.filter_accuracy, data.accuracy_lower_bound, data.accuracy_upper_bound, data.filter_truncate) == (
        True,
        0.2,
        0.8,
        True,
    )
    assert (model.update, model.lambda_, model.optim.grad_clip, model.optim.lr) == ("before", 0.0, 10.0, 1e-6)
    for name, allowed in {
        "loss_type": ("ce", "dpo", "bon_acc", "bon_rm"), "prime_granularity": ("token", "whole"),
        "prime_norm": ("batch_norm", "none"), "update": ("none", "before", "after", "reverse"),
    }.items():  # fmt: skip
        for value in allowed:
            more = ["reward_model.update=reverse"] if name == "loss_type" else []
            assert (
                getattr(load_settings("prime", [], [f"reward_model.{name}={value}", *more]).reward_model, name) == value
            )
        with pytest.raises(ConfigError, match=name):
            load_settings("prime", [], [f"reward_model.{name}=other"])


def test_the_workers_reward_model_learns_on_a_tiny_model() -> None:
    """Real phi and reference: both kinds of scores, and phi moves while the reference stays."""
    from fathom.trainers.prime.prime_fsdp_workers import PRIMERewardModelWorker
    from tests.unit.trainers.learners.test_learners import batch, settings

    config = settings("reward_model.optim.lr=0.01", "reward_model.mini_batch_size=4", "reward_model.prime_norm=none")
    worker = PRIMERewardModelWorker(config)
    data = batch().with_tensors(acc=torch.tensor([0.0, 1.0] * 4))
    reference = worker.model.reference
    assert reference is not None
    before = [parameter.clone() for parameter in reference.parameters()]
    first = worker.compute_rm_score(data)
    # The implicit reward is a log-ratio of two equal models.
    assert not first.tensor("q").abs().max() > 1e-6, "phi starts as its reference"
    losses = [worker.update_rm(data).meta_info["metrics"]["reward_model/dpo_loss"] for _ in range(5)]
    assert losses[-1] < losses[0]
    after = worker.compute_rm_score(data)
    again = worker.model._forward_micro_batch(data)
    assert torch.allclose(again.detach(), after.tensor("q"), atol=1e-5)
    assert again.requires_grad
    # The policy learns from the scores; only the reward model's own loss goes through q.
    assert not after.tensor("q").requires_grad, "The gradient flows through q, not through scores"
    assert after.tensor("rm_scores")[data.tensor("response_mask") == 0].eq(0).all()
    assert after.tensor("q").abs().max() > 1e-3
    for one, other in zip(before, reference.parameters(), strict=True):
        assert torch.equal(one, other)
    small = PRIMERewardModelWorker(
        settings(
            "reward_model.optim.lr=0.01",
            "reward_model.mini_batch_size=4",
            "reward_model.prime_norm=none",
            "reward_model.use_dynamic_bsz=true",
            "reward_model.max_token_len_per_gpu=16",
        )
    )
    for _ in range(5):
        # Micro-batches by tokens must train the same reward model.
        small.update_rm(data)
    assert torch.allclose(small.compute_rm_score(data).tensor("rm_scores"), after.tensor("rm_scores"), atol=1e-5)
    # Its scores are sums over a whole sequence.
    with pytest.raises(InvalidField, match="must be 1"):
        PRIMERewardModelWorker(settings("reward_model.ulysses_sequence_parallel_size=2"))


@pytest.mark.parametrize(("scope", "largest"), [("global", 10.0), ("rank", 4.0)])
# The returns of [1, 3] and [0, -2] begin at 4 and -2: the largest here is 4.
def test_the_norm_is_of_all_ranks_or_of_ones_own(scope: str, largest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """``norm_scope``: another rank's largest return is 10, this one's 4; the recipe takes each rank's own."""
    from fathom.trainers.prime import prime_dp_rm
    from fathom.trainers.prime.prime_fsdp_workers import PRIMERewardModelWorker
    from tests.unit.trainers.learners.test_learners import settings

    worker = PRIMERewardModelWorker(settings(f"reward_model.norm_scope={scope}"))

    # Stands for torch.distributed with a second rank whose largest return is 10.
    class Group:
        ReduceOp = torch.distributed.ReduceOp

        @staticmethod
        def is_initialized() -> bool:
            return True

        @staticmethod
        def all_reduce(tensor: torch.Tensor, op: Any) -> None:
            assert op == torch.distributed.ReduceOp.MAX
            tensor.fill_(max(10.0, float(tensor)))

    monkeypatch.setattr(prime_dp_rm, "distributed", Group)
    found = worker.model.prime_norm(torch.tensor([[1.0, 3.0], [0.0, -2.0]]))
    assert found[0].tolist() == pytest.approx([1.0 / largest, 3.0 / largest], abs=1e-5)


@pytest.mark.parametrize(
    ("grader", "targets", "acc"),
    [
        ("em", ["1/2", "1/2"], [1.0, 0.0]), ("math", ["0.5", "0.5"], [1.0, 1.0]), ("number", ["0.505", "0.6"], [0.0, 1.0]),
        ("sub_em", ["1/2", "it is 1/2"], [1.0, 0.0]),
    ],
)  # fmt: skip
def test_any_grader_is_the_loops_verifier(grader: str, targets: list[str], acc: list[float]) -> None:
    """A setting swaps the outcome; acc, the filter and the advantages follow from it."""
    from fathom.trainers.jobs.assembly import build_reward_function
    from tests.unit.trainers.prime.test_prime_reward_manager import TOKENIZER
    from tests.unit.trainers.prime.test_prime_reward_manager import batch as written

    rows = written(["<answer> 1/2 </answer>", "about <answer> 0.5 </answer>"] * 2, [[one] for one in targets] * 2)
    if grader == "number":
        rows = written(["<answer> 7 </answer>", "<answer> 0.5 </answer>"] * 2, [[one] for one in targets] * 2)

    def change(episodes: DataProto) -> DataProto:
        names = [name for name, _ in episodes.columns() if name not in ("acc", "token_level_scores", "reward_model")]
        width = rows.tensor("responses").shape[1]
        mask = rows.tensor("response_mask")
        kept = {
            name: episodes.array(name) for name in names if name in episodes.non_tensor_batch and name != "extra_info"
        }
        prompts = episodes.tensor("prompts")
        tensors = {
            "prompts": prompts, "responses": rows.tensor("responses"), "response_mask": mask,
            "input_ids": torch.cat([prompts, rows.tensor("responses")], dim=1),
            "attention_mask": torch.cat([torch.ones_like(prompts), mask], dim=1),
            "position_ids": torch.arange(2 + width).repeat(4, 1), "rollout_log_probs": torch.zeros(4, width),
        }  # fmt: skip
        return DataProto(tensors, kept | rows.non_tensor_batch, dict(episodes.meta_info))

    parameters = "{rel_tol: 0.2}" if grader == "number" else "{}"
    # A tolerance of 20 % makes 0.5 right for 0.6 and not for 0.505 beside 7.
    scene = Scene("reward.manager=prime", f"reward.grader={grader}", f"reward.parameters={parameters}", change=change)
    scene.trainer.reward_fn = build_reward_function(scene.trainer.config, TOKENIZER)
    metrics = scene.trainer.fit()
    assert scene.actor.trained[0].tensor("acc").tolist() == acc * 2
    assert metrics["acc"] == sum(acc) / 2


def test_the_files_are_there_and_the_pure_functions_need_torch_only() -> None:
    """Six files with the seed's names; of what is installed beside this project the functions import torch alone."""
    import subprocess
    import sys

    folder = Path(str(resources.files("fathom.trainers.prime")))
    names = ("main_prime", "prime_ray_trainer", "prime_core_algos", "prime_dp_rm", "prime_fsdp_workers")
    assert all((folder / f"{name}.py").is_file() for name in names)
    assert (folder / "config" / "prime_trainer.yaml").is_file()
    probe = (
        "import torch, sys; before = set(sys.modules); import fathom.trainers.prime.prime_core_algos as algos; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names); "
        "print(sorted(new), algos.compute_rloo_advantage_return.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    # The functions are to be copied into other trainers: nothing of the services may come with them.
    assert done.stdout.strip() == "['fathom'] compute_rloo_advantage_return"


def test_without_a_reference_the_old_policy_is_one() -> None:
    from fathom.trainers.learners.workers import ActorWorker
    from fathom.trainers.prime.prime_fsdp_workers import PRIMERewardModelWorker
    from tests.unit.trainers.learners.test_learners import batch, settings

    config = settings("reward_model.ref_type=policy")
    # Only right ones: the outcomes do not matter to q.
    worker, data = PRIMERewardModelWorker(config), batch().with_tensors(acc=torch.ones(8))
    with pytest.raises(InvalidField, match="old_log_probs"):
        worker.compute_rm_score(data)
    old = ActorWorker(config).compute_log_prob(data).tensor("old_log_probs")
    found = worker.compute_rm_score(data.with_tensors(old_log_probs=old)).tensor("q")
    # The policy and its own old log-probabilities: no difference.
    assert found.abs().max() < 1e-5
    shifted = worker.compute_rm_score(data.with_tensors(old_log_probs=old - 1.0)).tensor("q")
    # One nat less for each token of the old policy is a q of one per trained token.
    assert torch.allclose(shifted, data.tensor("response_mask").float(), atol=1e-5)
