"""How good the policy is on prompts that it does not learn from."""

from __future__ import annotations

from trainers.config import TrainConfig
from trainers.data_proto import DataProto
from trainers.prompts import Prompts
from trainers.roles import Metrics, RewardFunction, RolloutSource
from trainers.steps import checked_scores


def validated(
    rollouts: RolloutSource, prompts: Prompts, config: TrainConfig, *, step: int, reward_fn: RewardFunction | None
) -> Metrics:
    """Mean score by data source, one episode per prompt, sampled as ``rollout.val_temperature`` says.

    ``val/test_score/<source>`` and ``val/test_score`` over all rows; ``reward_fn`` scores what comes ungraded.
    """
    by_source: dict[str, list[float]] = {}
    for batch in prompts.in_order(config.data.val_batch_size or prompts.rows):
        asked = batch.with_meta(
            n=1,
            step=step,
            seed=config.trainer.seed,
            validate=True,
            temperature=config.rollout.val_temperature,
            top_p=1.0,
        )
        played = rollouts.generate(asked)
        for source, score in zip(played.array("data_source"), validation_scores(played, reward_fn), strict=True):
            by_source.setdefault(str(source), []).append(score)
    metrics = {f"val/test_score/{name}": sum(found) / len(found) for name, found in by_source.items()}
    every = [score for found in by_source.values() for score in found]
    return metrics | {"val/test_score": sum(every) / len(every)}


def validation_scores(batch: DataProto, reward_fn: RewardFunction | None) -> list[float]:
    """One score per row: the outcome where the source knows it, else the row's scores together."""
    if "acc" in batch:
        return [float(value) for value in batch.tensor("acc")]
    if "token_level_scores" not in batch and reward_fn is not None:
        batch = batch.with_tensors(token_level_scores=reward_fn(batch))
    scores = checked_scores(batch.tensor("token_level_scores"), batch)
    return [float(value) for value in scores.sum(dim=-1)]
