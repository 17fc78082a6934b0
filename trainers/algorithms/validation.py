"""Validation: the policy's scores on prompts it is not trained on."""

from __future__ import annotations

from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import check_scores
from fathom.trainers.config import TrainConfig
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import Metrics, RewardFunction, RolloutSource


def score_validation(
    rollouts: RolloutSource, prompts: Prompts, config: TrainConfig, *, step: int, reward_fn: RewardFunction | None
) -> Metrics:
    """Compute mean scores by data source, one episode per prompt, sampled with ``rollout.val_temperature``.

    Returns ``val/test_score/<source>``, and ``val/test_score`` over all rows; ``reward_fn`` scores ungraded episodes.
    """
    by_source: dict[str, list[float]] = {}
    for batch in prompts.in_order(config.data.val_batch_size or prompts.rows):
        asked = batch.with_meta(
            # One episode per prompt, greedy by default: that is the answer which a user of the model would get.
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
    """Return one score per row: the outcome ``acc`` if present, else the sum of the row's scores."""
    if "acc" in batch:
        return [float(value) for value in batch.tensor("acc")]
    if "token_level_scores" not in batch and reward_fn is not None:
        batch = batch.with_tensors(token_level_scores=reward_fn(batch))
    scores = check_scores(batch.tensor("token_level_scores"), batch)
    return [float(value) for value in scores.sum(dim=-1)]
