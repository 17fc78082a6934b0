"""Batch processing between rewards and losses: KL in the reward, advantages, metrics.

Names are verl's and Search-R1's. Shapes: B rows, T response columns. ``response_mask`` is the only mask: for KL,
advantages, value loss and policy loss alike (other implementations use the attention mask in some of them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.objectives.advantages import gae, group_advantages, overlong_penalty, rloo_advantages
from fathom.trainers.objectives.kl import Controller, kind_named, subtract_kl
from fathom.trainers.objectives.masked import at_last, decayed_sums, whiten

ESTIMATORS = ("gae", "grpo", "rloo", "reinforce", "gdpo")
QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9}
"""Share of the values below a quantile, by its name in metrics; the report draws them as bands."""


def apply_kl_penalty(
    data: DataProto, kl_ctrl: Controller, kl_penalty: str = "kl"
) -> tuple[DataProto, dict[str, float]]:
    """Set ``token_level_rewards`` = ``token_level_scores`` - beta * KL(old, ref) on the mask, 0 outside it.

    beta is the controller's value before this batch; the controller is then updated with the mean over rows of each
    row's mean KL and with the number of rows. Returns the batch and ``actor/reward_kl_penalty`` (nats per token) with
    its coefficient. Raises ``InvalidField`` naming a missing field or an unknown estimator.
    """
    beta = kl_ctrl.value
    rewards, measured = subtract_kl(
        data.tensor("token_level_scores"),
        data.tensor("old_log_probs"),
        data.tensor("ref_log_prob"),
        data.tensor("response_mask"),
        beta,
        kind_named(kl_penalty),
    )
    # After the batch was penalised: the coefficient that is logged is the one that was used.
    kl_ctrl.update(measured, len(data))
    metrics = {"actor/reward_kl_penalty": measured, "actor/reward_kl_penalty_coeff": beta}
    return data.with_tensors(token_level_rewards=rewards), metrics


def compute_advantage(
    data: DataProto,
    adv_estimator: str,
    gamma: float = 1.0,
    lam: float = 1.0,
    num_repeat: int = 1,
    *,
    norm_by_std: bool = True,
    whitened: bool = False,
    components: Mapping[str, float] | None = None,
) -> DataProto:
    """Add ``advantages`` and ``returns``, both [B, T] float32 and 0 outside ``response_mask``.

    ``gae`` reads ``values`` and whitens; ``grpo`` and ``rloo`` compare the outcomes (row sums of
    ``token_level_rewards``) of rows with equal ``uid``, contiguous or not, and give every model token of a row its
    outcome's advantage; ``gdpo`` does so for each of the reward ``components`` (``component_advantages``).
    ``reinforce`` takes the return from each model token on, G = r + gamma G', as the advantage. With ``whitened`` the
    advantages of the latter are normalised over all tokens of the batch: (A - mean) / std. Of ``reinforce`` that is
    REINFORCE++, of ``grpo`` without ``norm_by_std`` its baseline form (arXiv 2501.03262).

    With ``num_repeat`` above 1 groups must also be contiguous and of that size. Raises
    ``InvalidField`` for an unknown estimator, a missing field, or a non-finite reward (naming its row).
    """
    rewards, mask = data.tensor("token_level_rewards"), data.tensor("response_mask")
    if not bool(torch.isfinite(rewards).all()):
        row = int((~torch.isfinite(rewards)).any(dim=-1).nonzero()[0])
        raise InvalidField("token_level_rewards", f"row {row} is not finite")
    # Contiguity is only needed by callers that reshape to [groups, samples]; the estimators here go by name.
    if num_repeat > 1:
        data.require_groups(num_repeat)
    if adv_estimator == "gae":
        advantages, returns = gae(rewards, data.tensor("values"), mask, gamma=gamma, lam=lam)
    elif adv_estimator == "grpo":
        advantages = returns = compare_within_groups(
            data, lambda group: group_advantages(group, norm_by_std=norm_by_std)
        )
    elif adv_estimator == "rloo":
        advantages = returns = compare_within_groups(data, rloo_advantages)
    elif adv_estimator == "reinforce":
        advantages = returns = decayed_sums(rewards, mask, gamma).to(torch.float32)
    elif adv_estimator == "gdpo":
        advantages = returns = component_advantages(data, components or {})
    else:
        raise InvalidField("adv_estimator", f"{adv_estimator!r} is not one of {', '.join(ESTIMATORS)}")
    # Those of gae and gdpo are: doing it again would change nothing but the rounding.
    if whitened and adv_estimator not in ("gae", "gdpo"):
        advantages = whiten(advantages, mask)
    return data.with_tensors(advantages=advantages, returns=returns)


def component_advantages(data: DataProto, weights: Mapping[str, float]) -> Tensor:
    """Compute GDPO's advantages [B, T]: whiten(sum over k of w_k (R_k - mean) / (std + 1e-6)), arXiv 2601.05242.

    ``weights`` names the components ``reward/<name>``. Each is normalised within its group, so that one of a wide range
    does not drown the others; the sum is normalised over all tokens of the batch, so that its scale does not grow with
    the number of components. Raises ``InvalidField`` for a missing component, a non-finite value, or no name.
    """
    if not weights:
        raise InvalidField("weights", "name no component")
    parts = []
    for name, weight in weights.items():
        if f"reward/{name}" not in data:
            known = [other.removeprefix("reward/") for other in data.non_tensor_batch if other.startswith("reward/")]
            raise InvalidField(f"weights.{name}", f"has no component; there are {', '.join(sorted(known)) or 'none'}")
        values = torch.as_tensor(data.array(f"reward/{name}").astype("float32"))
        parts.append(weight * compare_within_groups(data, group_advantages, values))
    return whiten(torch.stack(parts).sum(dim=0), data.tensor("response_mask"))


def outcomes(data: DataProto, field: str = "token_level_rewards") -> Tensor:
    """Return the sum of each row's token rewards on the mask, [B] float32."""
    mask = data.tensor("response_mask").bool()
    return torch.where(mask, data.tensor(field), 0.0).sum(dim=-1).to(torch.float32)


def compare_within_groups(data: DataProto, compare: Callable[[Tensor], Tensor], scores: Tensor | None = None) -> Tensor:
    """Apply ``compare`` ([G, N] outcomes to [G, N] advantages) within each ``uid``.

    ``scores`` [B] replace the outcomes. Returns [B, T], broadcast over model tokens. Rows with equal ``episode``, if
    that field exists, count once: they are segments of one sample.
    """
    scores, uids = outcomes(data) if scores is None else scores, data.array("uid")
    rows = np.arange(len(data))
    first, episode_of = rows, rows
    # An episode whose context was compacted has several rows with one reward: counted per row, long episodes would
    # dominate the group's mean.
    if "episode" in data:
        _, first, episode_of = np.unique(data.array("episode").astype(str), return_index=True, return_inverse=True)
    _, groups, sizes = np.unique(uids[first].astype(str), return_inverse=True, return_counts=True)
    found = torch.zeros(len(first), dtype=torch.float32)
    # Groups may differ in size and be interleaved: after sorting, each is a stretch, and equal sizes are compared
    # together as one [G, N] tensor instead of a loop over prompts.
    order = np.argsort(groups, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    for size in np.unique(sizes):
        places = torch.as_tensor(np.stack([order[s : s + size] for s in starts[sizes == size]]))
        found[places] = compare(scores[torch.as_tensor(first)][places])
    return found[torch.as_tensor(episode_of)].unsqueeze(-1) * data.tensor("response_mask").to(torch.float32)


def punish_length(data: DataProto, longest: float, buffer: float, penalty: float) -> DataProto:
    """Add ``overlong_penalty`` of an episode's length to its rows' ``token_level_rewards``, on the last model token.

    The length is that of what the model wrote, over all rows (segments) of the episode; tool output is not its doing.
    Sets ``reward/overlong``.
    """
    mask = data.tensor("response_mask")
    lengths = mask.bool().sum(dim=-1).to(torch.float32)
    if "episode" in data:
        _, episode_of = np.unique(data.array("episode").astype(str), return_inverse=True)
        places = torch.as_tensor(episode_of)
        lengths = torch.zeros(int(places.max()) + 1).index_add(0, places, lengths)[places]
    found = penalty * overlong_penalty(lengths, longest, buffer)
    rewards = data.tensor("token_level_rewards") + at_last(found, mask)
    arrays = data.non_tensor_batch | {"reward/overlong": found.double().numpy()}
    return DataProto(data.batch | {"token_level_rewards": rewards}, arrays, data.meta_info)


def extend_loss_mask(data: DataProto) -> DataProto:
    """Extend the loss mask to tool and environment tokens, for the ablation.

    ``model_mask`` keeps the sampled tokens.
    """
    width = data.tensor("responses").shape[1]
    return data.with_tensors(
        model_mask=data.tensor("response_mask"), response_mask=data.tensor("attention_mask")[:, -width:]
    )


def check_scores(scores: Tensor, data: DataProto) -> Tensor:
    """Return the scores [B, T] as float32 after checking them.

    Raises ``InvalidField("token_level_scores")`` for another shape, and naming the row whose score is not finite or is
    on a token the model did not write.
    """
    mask = data.tensor("response_mask")
    if scores.shape != mask.shape:
        raise InvalidField("token_level_scores", f"has shape {list(scores.shape)}, must be {list(mask.shape)}")
    if not bool(torch.isfinite(scores).all()):
        row = int((~torch.isfinite(scores)).any(dim=-1).nonzero()[0])
        raise InvalidField("token_level_scores", f"row {row} is not finite")
    # Such a score would be ignored silently.
    if bool((scores[~mask.bool()] != 0).any()):
        row = int(((scores != 0) & ~mask.bool()).any(dim=-1).nonzero()[0])
        raise InvalidField("token_level_scores", f"row {row} has a score on a token that the model did not write")
    return scores.to(torch.float32)


def spread(prefix: str, values: Any) -> dict[str, float]:
    """Return ``prefix/mean``, ``/max``, ``/min``, and the quantiles, of the values; empty without values."""
    numbers = torch.as_tensor(values, dtype=torch.float32)
    if not numbers.numel():
        return {}
    return {
        f"{prefix}/mean": float(numbers.mean()),
        f"{prefix}/max": float(numbers.max()),
        f"{prefix}/min": float(numbers.min()),
        **quantiles(prefix, numbers.detach().cpu().numpy()),
    }


def quantiles(prefix: str, values: Any) -> dict[str, float]:
    """Return ``prefix/median``, and ``/p10`` and ``/p90``, between which four fifths of the values are."""
    # Of numpy: torch refuses more than 16 million values, which the tokens of a large batch are.
    found = np.quantile(values, list(QUANTILES.values()))
    return {f"{prefix}/{name}": float(value) for name, value in zip(QUANTILES, found, strict=True)}


def batch_metrics(data: DataProto, max_response_length: int | None = None) -> dict[str, float]:
    """Compute metrics of a batch: reward by component, lengths, advantages, returns, values, trained tokens.

    ``response_length/clip_ratio`` is the share of rows that reach ``max_response_length`` (by default the padded
    width).
    """
    mask = data.tensor("response_mask").bool()
    width = mask.shape[1]
    # Lengths are of all response tokens, tool output included: that is what fills the window.
    attention = data.tensor("attention_mask")
    lengths = attention[:, -width:].sum(dim=-1)
    metrics = spread("response_length", lengths) | spread("prompt_length", attention[:, :-width].sum(dim=-1))
    metrics["response_length/clip_ratio"] = float((lengths >= (max_response_length or width)).float().mean())
    metrics["state_tokens/total"] = float(mask.sum())
    metrics["state_tokens/coverage"] = float(mask.sum()) / max(1.0, float(lengths.sum()))
    for field, name in (("token_level_scores", "critic/score"), ("token_level_rewards", "critic/rewards")):
        if field in data:
            metrics |= spread(name, torch.where(mask, data.tensor(field), 0.0).sum(dim=-1))
    for field in ("advantages", "returns", "values"):
        if field in data:
            metrics |= spread(f"critic/{field}", data.tensor(field)[mask])
    if "acc" in data:
        metrics["acc"] = float(data.tensor("acc").mean())
    for name, values in data.non_tensor_batch.items():
        if name.startswith("reward/"):
            metrics[name] = float(np.mean(values.astype(float)))
            metrics[f"reward_std/{name.removeprefix('reward/')}"] = float(np.std(values.astype(float)))
            metrics |= quantiles(name, values.astype(float))
    return metrics | group_metrics(data)


def group_metrics(data: DataProto) -> dict[str, float]:
    """Compute how much rewards differ within groups; empty without groups of several samples.

    ``group/reward_std`` is the mean of the groups' standard deviations, ``group/flat`` the share of groups whose
    samples all have one reward: within such a group no sample is better than another, so that nothing is learned.
    """
    if "uid" not in data or "token_level_scores" not in data:
        return {}
    scores, uids = outcomes(data, "token_level_scores").double().numpy(), data.array("uid").astype(str)
    if "episode" in data:
        _, first = np.unique(data.array("episode").astype(str), return_index=True)
        scores, uids = scores[first], uids[first]
    groups = [group for uid in np.unique(uids) if len(group := scores[uids == uid]) > 1]
    if not groups:
        return {}
    return {
        "group/reward_std": sum(float(group.std()) for group in groups) / len(groups),
        # By the range: rounding may give equal values a deviation above 0.
        "group/flat": sum(bool(np.ptp(group) == 0.0) for group in groups) / len(groups),
    }
