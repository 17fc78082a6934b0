"""DAPO's dynamic sampling (arXiv 2503.14476, section 3.2): groups of one score teach nothing and are replaced.

Every advantage within such a group is 0. A step draws further prompts until it has as many groups as it wants whose
scores differ, so that the number of rows with a gradient does not shrink as the policy gets better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import compare_within_groups, outcomes
from fathom.trainers.interfaces import Metrics


def select_informative(drawn: Sequence[DataProto], *, wanted: int, is_last: bool, metrics: Metrics) -> DataProto | None:
    """Return ``wanted`` groups of the draws, those whose scores differ first; None when these are too few yet.

    After the last draw groups of one score fill up, so that every step has as many rows, on every rank. Order is that
    of the draws. Metrics are of all groups drawn: ``filter/informative`` (share), ``filter/draws``, ``filter/filled``
    (groups of one score that are trained on), ``filter/score`` and ``acc``.
    """
    batch = join_draws(drawn)
    differs = has_differing_scores(batch)
    uids = [str(uid) for uid in batch.array("uid")]
    informative = dict.fromkeys(uid for uid, differing in zip(uids, differs.tolist(), strict=True) if differing)
    every = dict.fromkeys(uids)
    if len(informative) < wanted and not is_last:
        return None
    others = [uid for uid in every if uid not in informative]
    kept = set([*informative, *others][:wanted])
    metrics |= {
        "filter/informative": len(informative) / len(every),
        "filter/draws": float(len(drawn)),
        "filter/filled": float(len(kept - informative.keys())),
        "filter/score": float(outcomes(batch, "token_level_scores").mean()),
    }
    if "acc" in batch:
        metrics["acc"] = float(batch.tensor("acc").mean())
    return batch[torch.tensor([uid in kept for uid in uids])]


def has_differing_scores(batch: DataProto) -> Tensor:
    """Return for each row [B] whether the scores of its group differ."""

    def differ(scores: Tensor) -> Tensor:
        return (scores != scores[:, :1]).any(dim=1, keepdim=True).expand_as(scores).float()

    return compare_within_groups(batch, differ, outcomes(batch, "token_level_scores")).any(dim=-1)


def join_draws(drawn: Sequence[DataProto]) -> DataProto:
    """Concatenate batches of different widths: prompts are padded on the left, responses on the right.

    A reward component that no episode of a draw has counts as 0 there.
    """
    if len(drawn) == 1:
        return drawn[0]
    prompts = max(part.tensor("prompts").shape[1] for part in drawn)
    responses = max(part.tensor("responses").shape[1] for part in drawn)
    rewards = {name for part in drawn for name in part.non_tensor_batch if name.startswith("reward/")}
    parts = []
    for part in drawn:
        absent = {name: np.zeros(len(part)) for name in sorted(rewards - part.non_tensor_batch.keys())}
        parts.append(DataProto(widen(part.batch, prompts, responses), part.non_tensor_batch | absent, part.meta_info))
    return DataProto.concat(parts)


def widen(fields: Mapping[str, Tensor], prompts: int, responses: int) -> dict[str, Tensor]:
    """Pad the columns of all fields with 0: attention and loss masks leave such columns out, whatever the ids are."""
    own, width = fields["prompts"].shape[1], fields["responses"].shape[1]
    left, right, found = prompts - own, responses - width, {}
    for name, value in fields.items():
        columns = value.shape[1] if value.dim() > 1 else 0
        if name == "prompts":
            value = pad(value, (left, 0))
        elif columns == own + width:
            value = pad(value, (left, right))
        elif columns == width:
            value = pad(value, (0, right))
        found[name] = value
    return found
