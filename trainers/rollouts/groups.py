"""Conversion of episode groups to tensors, in the layout of ``fathom.trainers.batch``.

Rows are group-major. An episode whose context was compacted has one row per segment; each of them carries the episode's
name in ``episode`` and its full score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, Segment, Trajectory
from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto, object_array
from fathom.trainers.interfaces import Metrics

Row = Mapping[str, Any]
OUTCOMES = ("correct", "acc")
"""Reward components that state whether an answer is correct; without either, the reward itself is the outcome."""


@dataclass(frozen=True)
class Group:
    """The episodes of one prompt, ordered by sample; ``row`` holds the prompt's fields, including ``uid``."""

    row: Row
    episodes: tuple[Trajectory, ...]

    @property
    def uid(self) -> str:
        return str(self.row["uid"])

    @property
    def oldest(self) -> int:
        """Return the policy version of the oldest token."""
        return min([item.version_min for item in self.episodes])

    @property
    def newest(self) -> int:
        return max([item.version_max for item in self.episodes])

    @property
    def single(self) -> bool:
        """Return whether a single policy version sampled all episodes."""
        return self.oldest == self.newest


Grade = Callable[[Sequence[Group]], Coroutine[Any, Any, tuple[list[Group], Metrics]]]
"""Grades groups that the planner's graders cannot grade; also returns metrics."""


@dataclass(frozen=True)
class Part:
    """One future row: its episode, and the token ids to split into prompt and response."""

    group: Group
    sample: int
    episode: Trajectory
    ids: Segment | Trajectory
    start: int
    """Index of the first sampled id, where the response begins."""


def parts(groups: Sequence[Group]) -> Iterator[Part]:
    """Yield the rows of all groups in order; raises ``InvalidField`` for an episode unfit for training."""
    for group in groups:
        for sample, episode in enumerate(group.episodes):
            for ids in checked_segments(episode):
                yield Part(group, sample, episode, ids, list(ids.mask).index(1))


def segments(item: Trajectory) -> Sequence[Segment | Trajectory]:
    """Return the episode's segments: stretches in which token ids were only appended.

    Without a compaction the episode's flat ids are the only segment. Each sampled id has mask 1 in exactly one segment;
    text that a compaction kept is rendered again with mask 0.
    """
    return list(item.segments) or [item]


def checked_segments(item: Trajectory) -> Sequence[Segment | Trajectory]:
    """Return the segments of an episode that is complete, exact and finite, whatever version sampled it.

    Raises ``InvalidField`` naming the field.
    """
    name = f"trajectory {item.run_id}"
    if item.stop_reason == STOP_REASON_FAILED:
        raise InvalidField("trajectory.stop_reason", f"{name} failed: {item.error}")
    # Ids rendered from text may differ from those sampled; their log-probabilities would belong to other tokens.
    if not item.exact:
        raise InvalidField("trajectory.exact", f"{name} lacks exact ids or log-probabilities: it cannot train")
    found = segments(item)
    for part in found:
        lengths = (len(part.token_ids), len(part.mask), len(part.log_probs))
        if len(set(lengths)) != 1 or not lengths[0]:
            raise InvalidField("trajectory.mask", f"{name} has {lengths} ids, mask and log-probabilities")
        if set(part.mask) - {0, 1} or not any(part.mask):
            raise InvalidField("trajectory.mask", f"{name} must be 0 or 1, and 1 somewhere")
        if not all(map(math.isfinite, part.log_probs)):
            raise InvalidField("trajectory.log_probs", f"{name} has a value that is not finite")
    if item.segments and len(item.steps):
        # A sampled id that two segments trained, or none, would weigh double or not at all, and nothing else would show
        # it.
        sampled = sum(len(step.completion.sampled_token_ids) for step in item.steps)
        if sampled != sum(sum(part.mask) for part in item.segments):
            raise InvalidField("trajectory.segments", f"{name} does not hold each of {sampled} sampled ids once")
    if not math.isfinite(item.reward):
        raise InvalidField("trajectory.reward", f"{name} has reward {item.reward}")
    return found


def to_data(groups: Sequence[Group], meta_info: Mapping[str, Any] | None = None, pad: int = 0) -> DataProto:
    """Build the batch of groups of equal size; ids, masks and log-probabilities are the episodes' own.

    Adds to the prompt's fields ``rollout_log_probs``, ``token_level_scores`` (the reward on the row's last sampled
    token), ``acc``, ``reward/<component>``, ``episode``, ``version_min`` and ``version_max``. ``pad`` is the padding
    id. Raises ``InvalidField`` for an episode unfit for training and for prompts whose sets of fields differ.
    """
    rows = list(parts(groups))
    if not rows:
        raise InvalidField("groups", "is empty")
    # The prompt's width is that of the longest one here, not a setting: no prompt is ever cut.
    prompt = max([part.start for part in rows])
    width = max([len(part.ids.token_ids) - part.start for part in rows])
    tensors = {
        "prompts": torch.full((len(rows), prompt), pad, dtype=torch.int64),
        "responses": torch.full((len(rows), width), pad, dtype=torch.int64),
        "attention_mask": torch.zeros((len(rows), prompt + width), dtype=torch.int64),
        "response_mask": torch.zeros((len(rows), width), dtype=torch.int64),
        "rollout_log_probs": torch.zeros((len(rows), width), dtype=torch.float32),
        "token_level_scores": torch.zeros((len(rows), width), dtype=torch.float32),
    }
    for index, part in enumerate(rows):
        fill(tensors, index, part, prompt)
    tensors["input_ids"] = torch.cat([tensors["prompts"], tensors["responses"]], dim=1)
    tensors["position_ids"] = (tensors["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
    tensors["acc"] = torch.tensor([outcome(part.episode) for part in rows], dtype=torch.float32)
    return DataProto(tensors, arrays(rows), dict(meta_info or {}))


def drop_scores(data: DataProto) -> DataProto:
    """Remove the grader's fields, for batches scored by a reward manager of the trainer (``reward.manager``)."""
    return data.select([name for name, _ in data.columns() if name not in ("token_level_scores", "acc")])


def fill(tensors: dict[str, torch.Tensor], index: int, part: Part, prompt: int) -> None:
    """Write one row: the prompt ends before column ``prompt``, the response starts there."""
    ids, start = torch.tensor(part.ids.token_ids), part.start
    size = len(ids) - start
    mask = torch.tensor(part.ids.mask)[start:]
    tensors["prompts"][index, prompt - start :] = ids[:start]
    tensors["responses"][index, :size] = ids[start:]
    tensors["attention_mask"][index, prompt - start : prompt + size] = 1
    tensors["response_mask"][index, :size] = mask
    tensors["rollout_log_probs"][index, :size] = torch.tensor(part.ids.log_probs)[start:]
    tensors["token_level_scores"][index, int(mask.nonzero()[-1])] = part.episode.reward


def outcome(episode: Trajectory) -> float:
    """Return whether the answer is correct (1 or 0), else the reward."""
    for name in OUTCOMES:
        if name in episode.reward_components:
            return float(episode.reward_components[name])
    return float(episode.reward)


def arrays(rows: Sequence[Part]) -> dict[str, np.ndarray[Any, Any]]:
    """Build the non-tensor fields; a reward component missing in an episode counts as 0.

    Raises ``InvalidField`` naming a field that not every prompt has.
    """
    names = set(rows[0].group.row)
    for part in rows:
        odd = names ^ set(part.group.row)
        if odd:
            raise InvalidField(min(odd), "is not a field of every prompt")
    found = {name: object_array([part.group.row[name] for part in rows]) for name in sorted(names)}
    # Segments of one episode share this name, by which advantages count them once.
    found["episode"] = object_array([f"{part.group.uid}/{part.sample}" for part in rows])
    for name in ("version_min", "version_max"):
        found[name] = np.array([getattr(part.episode, name) for part in rows], dtype=np.int64)
    for name in sorted({name for part in rows for name in part.episode.reward_components}):
        values = [part.episode.reward_components.get(name, 0.0) for part in rows]
        found[f"reward/{name}"] = np.array(values, dtype=np.float64)
    return found
