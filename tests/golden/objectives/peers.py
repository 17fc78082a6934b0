"""Generator of ``peers.json``: what verl's and TRL's own functions answer to drawn batches, saved as cases.

Not imported by a test. In an environment of its own, with torch, ``verl==0.9.1`` and ``trl==1.16.0``:
``python tests/golden/objectives/peers.py > tests/golden/objectives/peers.json``. The functions are called as they are
installed; only TRL's forward pass is replaced, by the drawn log-probabilities.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

Case = dict[str, Any]
SEEDS, GROUPS, SAMPLES, WIDTH = range(3), 2, 3, 6
LOW, HIGH = 0.2, 0.28


def draw(seed: int) -> dict[str, Tensor]:
    """Return a batch: ragged rows with gaps, log-ratios within and far beyond the clip range."""
    generator = torch.Generator().manual_seed(seed)
    rows = GROUPS * SAMPLES

    def normal(scale: float) -> Tensor:
        return (torch.randn(rows, WIDTH, generator=generator) * scale).round(decimals=3)

    mask = (torch.rand(rows, WIDTH, generator=generator) > 0.25).float()
    mask[:, 0] = 1
    old = -normal(1.0).abs() - 0.1
    return {
        "mask": mask,
        "old": old,
        "log_probs": (old + normal(0.4)).clamp(max=-0.01),
        "reference": (old + normal(0.5)).clamp(max=-0.01),
        "rollout": (old + normal(0.5)).clamp(max=-0.01),
        "advantages": normal(1.0)[:, :1].expand(rows, WIDTH).clone(),
        "token_advantages": normal(1.0),
        "rewards": normal(1.0) * mask,
        "components": torch.stack([normal(scale)[:, 0] for scale in (1.0, 30.0, 0.1)]),
    }


def to_lists(value: Tensor) -> list[Any]:
    found: list[Any] = [[round(x, 7) for x in row] for row in value.detach().double().tolist()]
    return found


def with_gradient(batch: dict[str, Tensor], loss: Callable[[Tensor], Tensor]) -> Case:
    """Return a loss and its gradient by the log-probabilities."""
    start = batch["log_probs"].clone().requires_grad_()
    value = loss(start)
    [gradient] = torch.autograd.grad(value, start)
    return {"loss": round(float(value.detach()), 7), "gradient": to_lists(gradient)}


def verl_losses(batch: dict[str, Tensor]) -> dict[str, Case]:
    """Return what verl's losses answer."""
    core = importlib.import_module("verl.trainer.ppo.core_algos")
    actor = importlib.import_module("verl.workers.config").ActorConfig
    mask, old = batch["mask"], batch["old"]

    def loss(name: str, mode: str, advantages: str, **more: Any) -> Case:
        config = actor(
            strategy="fsdp", rollout_n=SAMPLES, clip_ratio=LOW, clip_ratio_low=LOW, clip_ratio_high=HIGH,
            use_dynamic_bsz=True, **more,
        )  # fmt: skip
        function = core.get_policy_loss_fn(name)
        return with_gradient(batch, lambda x: function(old, x, batch[advantages], mask, mode, config)[0])

    def norm(divisor: float) -> Case:
        def compute(x: Tensor) -> Tensor:
            # Without a clip the objective is the ratio times the advantage: what is compared is the division.
            terms = -(x - old).exp() * batch["advantages"]
            found: Tensor = core.agg_loss(terms, mask, "seq-mean-token-sum-norm", loss_scale_factor=divisor)
            return found

        return with_gradient(batch, compute)

    return {
        "verl gspo": loss("gspo", "seq-mean-token-mean", "advantages"),
        "verl gspo, token advantages": loss("gspo", "seq-mean-token-mean", "token_advantages"),
        "verl cispo": loss("cispo", "token-mean", "advantages"),
        "verl clip-higher, token-mean": loss("vanilla", "token-mean", "advantages", clip_ratio_c=3.0),
        "verl dr_grpo, divisor 16": norm(16.0),
    }


def verl_batches(batch: dict[str, Tensor]) -> dict[str, Case]:
    """Return what verl's advantages and rollout corrections answer."""
    core = importlib.import_module("verl.trainer.ppo.core_algos")
    correction = importlib.import_module("verl.trainer.ppo.rollout_corr_helper")
    mask, old, index = batch["mask"], batch["old"], np.repeat(np.arange(GROUPS), SAMPLES)

    def weights(level: str, threshold: Any) -> Case:
        found, _ = correction.compute_rollout_correction_weights(old - batch["rollout"], mask, level, threshold)
        return {"weights": to_lists(found)}

    def plus_plus(gamma: float) -> Case:
        advantages, returns = core.compute_reinforce_plus_plus_outcome_advantage(
            batch["rewards"], mask, SimpleNamespace(gamma=gamma)
        )
        return {"advantages": to_lists(advantages), "returns": to_lists(returns)}

    def gdpo(chosen: list[float]) -> Case:
        names = ["a", "b", "c"]
        config = {"gdpo_reward_keys": names, "gdpo_reward_weights": chosen}
        arrays = {name: values.numpy() for name, values in zip(names, batch["components"], strict=True)}
        # Its score stands on the last attended token, ours on the last of the mask: the sum of a row is the same.
        whole = {
            "prompts": torch.zeros(len(mask), 1),
            "attention_mask": torch.ones(len(mask), 1 + WIDTH, dtype=torch.int64),
        }
        found, _ = core.compute_gdpo_outcome_advantage(
            batch["rewards"], mask, index, config=config, non_tensor_batch=arrays, batch=whole
        )
        return {"advantages": to_lists(found)}

    baseline, _ = core.compute_reinforce_plus_plus_baseline_outcome_advantage(batch["rewards"].clone(), mask, index)
    plain, _ = core.compute_grpo_outcome_advantage(batch["rewards"].clone(), mask, index, norm_adv_by_std_in_grpo=False)
    return {
        "verl reinforce++, gamma 0.9": plus_plus(0.9),
        "verl reinforce++ baseline": {"advantages": to_lists(baseline)},
        "verl gdpo": gdpo([1.0, 0.5, 2.0]),
        "verl grpo without std": {"advantages": to_lists(plain)},
        "verl weights, token, truncated": weights("token", 1.5),
        "verl weights, sequence, truncated": weights("sequence", 1.5),
        "verl weights, token, masked": weights("token", "0.6_1.5"),
        "verl weights, sequence, masked": weights("sequence", "0.3_2.5"),
    }


def trl_cases(batch: dict[str, Tensor]) -> dict[str, Case]:
    """Return what TRL's loss answers by type, level and correction of the KL; its length punishment once."""
    trainer = importlib.import_module("trl.trainer.grpo_trainer").GRPOTrainer
    mask = batch["mask"]

    def loss(kind: str, level: str = "token", beta: float = 0.0, high: float = HIGH, corrected: bool = False) -> Case:
        def compute(x: Tensor) -> Tensor:
            accelerator = SimpleNamespace(
                num_processes=1, gather=lambda value: value, reduce=lambda value, reduction: value
            )
            stub = SimpleNamespace(
                _get_per_token_logps_and_entropies=lambda *_, **__: (x, torch.zeros_like(x), None),
                aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None, beta=beta,
                importance_sampling_level=level, loss_type=kind, epsilon_low=LOW, epsilon_high=high, use_vllm=False,
                args=SimpleNamespace(delta=None, use_bias_correction_kl=corrected, steps_per_generation=1),
                model=SimpleNamespace(training=True), current_gradient_accumulation_steps=1, max_completion_length=16,
                accelerator=accelerator, _entropy_bonus_enabled=False, vllm_importance_sampling_correction=False,
                _metrics={"train": defaultdict(list)},
            )  # fmt: skip
            ids = torch.zeros_like(x, dtype=torch.int64)
            given = {
                "prompt_ids": ids[:, :1], "prompt_mask": mask[:, :1], "completion_ids": ids, "completion_mask": mask,
                "advantages": batch["advantages"][:, 0], "old_per_token_logps": batch["old"],
                "ref_per_token_logps": batch["reference"], "num_items_in_batch": mask.sum(),
            }  # fmt: skip
            found: Tensor = trainer._compute_loss(stub, None, given)
            return found

        return with_gradient(batch, compute)

    punish = importlib.import_module("trl.rewards").get_soft_overlong_punishment(20, 8)
    lengths = [0, 11, 12, 13, 16, 19, 20, 21, 40]
    return {
        "trl dapo": loss("dapo"),
        "trl dr_grpo, divisor 16": loss("dr_grpo"),
        "trl grpo, sequence": loss("grpo", "sequence"),
        "trl cispo, at most 1.3": loss("cispo", high=1.3),
        "trl dapo, k3 of weight 0.1": loss("dapo", beta=0.1),
        "trl dapo, corrected k3 of weight 0.1": loss("dapo", beta=0.1, corrected=True),
        "trl overlong": {"lengths": lengths, "penalties": punish([[1] * length for length in lengths])},
    }


def main() -> None:
    """Print the cases of all seeds."""
    random.seed(0)
    cases = []
    for seed in SEEDS:
        batch = draw(seed)
        given = {name: to_lists(value) for name, value in batch.items()}
        cases.append(
            {"seed": seed, "given": given, "answers": verl_losses(batch) | verl_batches(batch) | trl_cases(batch)}
        )
    versions = {name: importlib.import_module(name).__version__ for name in ("verl", "trl", "torch")}
    text = json.dumps({"made_with": versions, "cases": cases})
    sys.stdout.write(
        text.replace('{"seed"', '\n{"seed"').replace('"verl ', '\n"verl ').replace('"trl ', '\n"trl ') + "\n"
    )


if __name__ == "__main__":
    main()
