"""Export of trajectories from the object store to JSONL files for SFT, DPO and PPO."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from google.protobuf.message import DecodeError

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import CorruptData, InvalidField
from fathom.trainers.data.export.choose import (
    NotTrainable,
    Pair,
    for_policy_gradient,
    pairs,
    redact_personal_data,
    successful,
)
from fathom.trainers.data.export.conversation import Conversation, Said, conversations, tools_of, with_question
from fathom.trainers.data.export.tokens import Renderer, Tokens, read_sampled_ids, render_ids
from fathom.transport.store import ObjectStore

Kind = Literal["sft", "dpo", "ppo"]
SOURCES = ("rollouts/", "runs/trajectories/")
SUFFIX = ".pb"
"""Key suffix of trajectories; other objects beside them are internal to the planner."""


@dataclass(frozen=True)
class Wanted:
    """Options of an export.

    ``model`` is the model to be trained, whose token ids are written; without it only messages are. ``production`` is
    the operator's confirmation that users have consented: without it no run of a user is exported.
    """

    kind: Kind
    model: str = ""
    least_reward: float = 1.0
    margin: float = 0.5
    production: bool = False
    prefix: str = ""
    """Restricts the export to keys with this prefix, e.g. ``rollouts/rollout-1/``."""
    tools: Sequence[policy.ToolSpec] = ()


@dataclass
class Exported:
    """Counts of rows and tokens written, and of episodes left out, by reason."""

    rows: int = 0
    tokens: int = 0
    learned_tokens: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


async def read_trajectories(store: ObjectStore, wanted: Wanted) -> AsyncIterator[Trajectory]:
    """Yield the recorded trajectories by key; raises ``CorruptData`` naming one that cannot be read."""
    for source in SOURCES:
        if wanted.prefix and not (wanted.prefix.startswith(source) or source.startswith(wanted.prefix)):
            continue
        for item in await store.list(wanted.prefix if wanted.prefix.startswith(source) else source):
            if not item.key.endswith(SUFFIX):
                continue
            try:
                yield Trajectory.FromString(await store.get(item.key, item.sha256))
            except DecodeError as error:
                raise CorruptData(item.key, str(error)) from error


async def export(store: ObjectStore, wanted: Wanted, target: Path, renderer: Renderer | None) -> Exported:
    """Write ``target`` atomically.

    Raises ``NotTrainable`` for a PPO export of an episode without ids or log-probabilities, and ``InvalidField`` for a
    PPO export without a model.
    """
    if wanted.kind == "ppo" and not wanted.model:
        raise InvalidField("model", "PPO learns from its own samples: name the model")
    done = Exported()
    found = [item async for item in read_trajectories(store, wanted) if is_allowed(item, wanted, done)]
    rows = {"sft": sft_rows, "dpo": dpo_rows, "ppo": ppo_rows}[wanted.kind](found, wanted, renderer, done)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    with part.open("w", encoding="utf-8") as lines:
        async for row in rows:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            done.rows += 1
    part.replace(target)
    return done


def is_allowed(trajectory: Trajectory, wanted: Wanted, done: Exported) -> bool:
    """Return whether the trajectory may be exported; a user's run without consent is counted as left out."""
    if trajectory.lane == common.LANE_INTERACTIVE and not wanted.production:
        done.left_out["a user's run, and consent was not given"] += 1
        return False
    return True


async def sft_rows(
    found: Iterable[Trajectory], wanted: Wanted, renderer: Renderer | None, done: Exported
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row per conversation of each successful episode."""
    for trajectory in found:
        if not successful(trajectory, wanted.least_reward):
            done.left_out["it did not succeed"] += 1
            continue
        for plain in conversations(trajectory):
            conversation = with_question(plain, redact_personal_data)
            if not conversation.loss_message_count:
                done.left_out["it has nothing to learn"] += 1
                continue
            own = read_sampled_ids(plain, wanted.model) if wanted.model and conversation == plain else None
            yield sft_row(conversation, wanted, own or await by_template(conversation, renderer), done)


def sft_row(conversation: Conversation, wanted: Wanted, tokens: Tokens | None, done: Exported) -> dict[str, Any]:
    """Build a row of messages, tools and, given tokens, ids with their loss mask."""
    row: dict[str, Any] = {
        "id": f"{conversation.run_id}#{conversation.part}",
        "messages": [item.chat() for item in conversation.said],
        "tools": tools_of(wanted.tools) if conversation.tools else [],
    }
    if tokens is None:
        return row
    done.tokens += len(tokens.ids)
    done.learned_tokens += sum(tokens.mask)
    return row | {"token_ids": list(tokens.ids), "loss_mask": list(tokens.mask), "exact": tokens.exact}


async def by_template(conversation: Conversation, renderer: Renderer | None) -> Tokens | None:
    """Render ids with the chat template of the model to be trained; None without a renderer."""
    return await render_ids(conversation, renderer) if renderer is not None else None


async def dpo_rows(
    found: Sequence[Trajectory], wanted: Wanted, renderer: Renderer | None, done: Exported
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row per preference pair."""
    for pair in pairs(found, wanted.margin):
        prompt = with_question(pair.conversation, redact_personal_data)
        row: dict[str, Any] = {
            "id": f"{prompt.run_id}#{pair.rejected.step}",
            "why": pair.why,
            "prompt": [item.chat() for item in prompt.said],
            "chosen": pair.chosen.chat(),
            "rejected": pair.rejected.chat(),
            "tools": tools_of(wanted.tools) if prompt.tools else [],
        }
        if renderer is not None:
            row |= await pair_ids(prompt, pair, renderer)
        yield row


async def pair_ids(prompt: Conversation, pair: Pair, renderer: Renderer) -> dict[str, Any]:
    """Render ``prompt_ids``, ``chosen_ids`` and ``rejected_ids``; raises ``InvalidField`` when the prompts differ."""
    sides = [await render_ids(append_target(prompt, said), renderer) for said in (pair.chosen, pair.rejected)]
    starts = [tokens.mask.index(1) for tokens in sides]
    heads = [tokens.ids[:start] for tokens, start in zip(sides, starts, strict=True)]
    if heads[0] != heads[1]:
        raise InvalidField("prompt", f"{prompt.run_id}: chosen and rejected do not follow the same ids")
    bodies = [
        [token for token, learned in zip(tokens.ids[start:], tokens.mask[start:], strict=True) if learned]
        for tokens, start in zip(sides, starts, strict=True)
    ]
    return {"prompt_ids": list(heads[0]), "chosen_ids": bodies[0], "rejected_ids": bodies[1]}


def append_target(prompt: Conversation, said: Said) -> Conversation:
    """Append a message to the prompt as its only training target."""
    before = tuple(Said(item.message, False, item.step) for item in prompt.said)
    return replace(prompt, said=(*before, said))


async def ppo_rows(
    found: Iterable[Trajectory], wanted: Wanted, renderer: Renderer | None, done: Exported
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row per conversation with ids and log-probabilities as sampled.

    The first episode without them raises ``NotTrainable``.
    """
    for trajectory in found:
        for conversation in conversations(for_policy_gradient(trajectory, wanted.model), keep_failed=True):
            tokens = read_sampled_ids(conversation, wanted.model)
            if tokens is None:
                raise NotTrainable(trajectory.run_id, "steps", "has no sampled ids: not for PPO")
            log_probs = [
                value
                for step in conversation.steps
                for value in (*[0.0] * len(step.completion.prompt_token_ids), *step.completion.log_probs)
            ]
            done.tokens += len(tokens.ids)
            done.learned_tokens += sum(tokens.mask)
            yield {
                "id": f"{conversation.run_id}#{conversation.part}",
                "token_ids": list(tokens.ids),
                "loss_mask": list(tokens.mask),
                "log_probs": log_probs,
                "reward": trajectory.reward,
                "task_index": trajectory.task_index,
                "sample_index": trajectory.sample_index,
                "version_min": trajectory.version_min,
                "version_max": trajectory.version_max,
            }
