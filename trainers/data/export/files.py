"""Export of trajectories from the object store to training data: JSONL for SFT, DPO and PPO, parquet for RL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from google.protobuf.message import DecodeError

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import CorruptData, InvalidField
from fathom.domain.consent import SHADOW_PREFIX, Consent, ConsentRecords, asker_of
from fathom.trainers.data.export.choose import NotTrainable, for_policy_gradient, successful
from fathom.trainers.data.export.conversation import Conversation, Said, conversations, tools_of
from fathom.trainers.data.export.feedback import UnusableEdit, is_liked, pair_edit, preferences
from fathom.trainers.data.export.pairs import Pair, corrections, siblings
from fathom.trainers.data.export.prompts import RlPrompts
from fathom.trainers.data.export.scrub import Scrubber
from fathom.trainers.data.export.tokens import Renderer, Tokens, read_sampled_ids, render_ids
from fathom.transport.store import ObjectStore

Kind = Literal["sft", "dpo", "ppo", "rl"]
ROLLOUTS, RUNS = "rollouts/", "runs/trajectories/"
SUFFIX = ".pb"
"""Key suffix of trajectories; other objects beside them are internal to the planner."""
UNREVIEWED = "its user's judgement was not reviewed: fathom review collect, or --unreviewed"


@dataclass(frozen=True)
class Wanted:
    """Options of an export.

    ``model`` is the model to be trained, whose token ids are written; without it only messages are. ``production``
    includes users' runs, of which only those with consent are exported.
    """

    kind: Kind
    model: str = ""
    least_reward: float = 1.0
    margin: float = 0.5
    production: bool = False
    prefix: str = ""
    """Restricts the export to keys with this prefix, e.g. ``rollouts/rollout-1/``."""
    tools: Sequence[policy.ToolSpec] = ()
    judged: Mapping[str, memory.Feedback] = field(default_factory=dict)
    """The last judgement of each run by its user."""
    reviewed: Mapping[str, str] = field(default_factory=dict)
    """The better answer of each run that a reviewer has accepted or written; "" where that was refused."""
    unreviewed: bool = False
    """True to write pairs of users' own judgements without a reviewer's word."""
    grader: str = "f1"
    """Grader of RL prompts, which compares with the answer that a user approved."""
    scrubber: Scrubber = field(default_factory=Scrubber)

    def dislikes(self, run_id: str) -> bool:
        """Return whether the run's user judged its answer as unhelpful, or wrote another one."""
        found = self.judged.get(run_id)
        return found is not None and not is_liked(found)


@dataclass(frozen=True)
class Stored:
    """A recorded episode; ``group`` is the key that the episodes of one task share, ``is_run`` says it is a user's."""

    trajectory: Trajectory
    is_run: bool
    group: str


@dataclass
class Exported:
    """Counts of rows and tokens written, and of episodes left out, by reason."""

    rows: int = 0
    tokens: int = 0
    learned_tokens: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


async def read_trajectories(store: ObjectStore, wanted: Wanted) -> AsyncIterator[Stored]:
    """Yield the recorded episodes by key; raises ``CorruptData`` naming one that cannot be read."""
    for source in (ROLLOUTS, RUNS):
        if wanted.prefix and not (wanted.prefix.startswith(source) or source.startswith(wanted.prefix)):
            continue
        listed = await store.list(wanted.prefix if wanted.prefix.startswith(source) else source)
        # Shadow evaluation plays users' questions again: they are theirs still, and no rollouts of a training.
        shadows = ROLLOUTS + SHADOW_PREFIX
        items = [item for item in listed if item.key.endswith(SUFFIX) and not item.key.startswith(shadows)]
        if source == RUNS:
            # Each end of a run has the whole of it: the last one counts, and by its folder each run is read once.
            items = list({item.key.rpartition("/")[0] or item.key: item for item in items}.values())
        for item in items:
            try:
                found = Trajectory.FromString(await store.get(item.key, item.sha256))
            except DecodeError as error:
                raise CorruptData(item.key, str(error)) from error
            yield Stored(found, source == RUNS, f"{item.key.rpartition('/')[0]}#{found.task_index}")


async def export(store: ObjectStore, wanted: Wanted, target: Path, renderer: Renderer | None) -> Exported:
    """Write ``target`` atomically; without any row nothing is written, and a file that is there stays.

    ``store`` is the view of one tenant, whose episodes alone are read. Raises ``NotTrainable`` for a PPO export of an
    episode without ids or log-probabilities, and ``InvalidField`` for a PPO export without a model, or a target that
    cannot hold the kind.
    """
    if wanted.kind == "ppo" and not wanted.model:
        raise InvalidField("model", "PPO learns from its own samples: name the model")
    done = Exported()
    target.parent.mkdir(parents=True, exist_ok=True)
    found = read_allowed(store, wanted, done)
    if wanted.kind == "rl":
        prompts = RlPrompts(wanted.judged, wanted.grader, wanted.scrubber)
        async for item in found:
            if reason := prompts.add(item.trajectory, is_run=item.is_run):
                done.left_out[reason] += 1
        done.rows = prompts.write(target)
        return done
    rows = {"sft": sft_rows, "dpo": dpo_rows, "ppo": ppo_rows}[wanted.kind](found, wanted, renderer, done)
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("w", encoding="utf-8") as lines:
            async for row in rows:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                done.rows += 1
        if done.rows:
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return done


async def read_allowed(store: ObjectStore, wanted: Wanted, done: Exported) -> AsyncIterator[Stored]:
    """Yield the episodes that may be exported; users' runs without consent are counted as left out."""
    consents = ConsentRecords(store)
    async for item in read_trajectories(store, wanted):
        if item.is_run and not wanted.production:
            done.left_out["a user's run, and --production was not given"] += 1
        elif item.is_run and (await consents.find(asker_of(item.trajectory)))[0] is not Consent.GIVEN:
            done.left_out["a user's run, and its user has not consented"] += 1
        else:
            yield item


async def sft_rows(
    found: AsyncIterator[Stored], wanted: Wanted, renderer: Renderer | None, done: Exported
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row per conversation of each successful episode."""
    async for item in found:
        trajectory = item.trajectory
        if not successful(trajectory, wanted.least_reward, is_run=item.is_run):
            done.left_out["it did not succeed"] += 1
            continue
        if item.is_run and wanted.dislikes(trajectory.run_id):
            done.left_out["its user was not content with the answer"] += 1
            continue
        for plain in conversations(trajectory):
            conversation, _ = wanted.scrubber.clean(plain)
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
    found: AsyncIterator[Stored], wanted: Wanted, renderer: Renderer | None, done: Exported
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row per preference pair."""
    async for pair in find_pairs(found, wanted, done):
        prompt, (chosen, rejected) = wanted.scrubber.clean(
            pair.conversation, pair.chosen.message, pair.rejected.message
        )
        clean = replace(
            pair,
            conversation=prompt,
            chosen=replace(pair.chosen, message=chosen),
            rejected=replace(pair.rejected, message=rejected),
        )
        row: dict[str, Any] = {
            "id": f"{prompt.run_id}#{clean.rejected.step}",
            "why": clean.why,
            "prompt": [item.chat() for item in prompt.said],
            "chosen": [clean.chosen.chat()],
            "rejected": [clean.rejected.chat()],
            "tools": tools_of(wanted.tools) if prompt.tools else [],
        }
        if renderer is not None:
            row |= await pair_ids(prompt, clean, renderer)
        yield row


async def find_pairs(found: AsyncIterator[Stored], wanted: Wanted, done: Exported) -> AsyncIterator[Pair]:
    """Yield the pairs of all episodes; in memory are one group of rollouts, and the runs that users have judged."""
    group: list[Trajectory] = []
    name, judged = "", list[Trajectory]()
    async for item in found:
        for pair in corrections(item.trajectory):
            yield pair
        if item.is_run:
            is_judged = item.trajectory.run_id in wanted.judged or item.trajectory.run_id in wanted.reviewed
            judged += [item.trajectory] if is_judged else []
            continue
        if item.group != name:
            for pair in siblings(group, wanted.margin):
                yield pair
            name, group = item.group, []
        group.append(item.trajectory)
    for pair in siblings(group, wanted.margin):
        yield pair
    for pair in find_judged_pairs(judged, wanted, done):
        yield pair


def find_judged_pairs(judged: Sequence[Trajectory], wanted: Wanted, done: Exported) -> Iterator[Pair]:
    """Yield pairs of users' runs: what a reviewer accepted, and users' own judgements where nobody has to review them.

    A user may edit in what is wrong, or dislike what is right: such a pair trains when a second person has agreed.
    """
    for run in judged:
        if run.run_id in wanted.reviewed:
            answer, why = wanted.reviewed[run.run_id], "a reviewer accepted another answer"
            done.left_out["a reviewer has refused the better answer"] += not answer
        else:
            answer, why = wanted.judged[run.run_id].edited_answer, "its user edited the answer"
            done.left_out[UNREVIEWED] += bool(answer) and not wanted.unreviewed
            answer = answer if wanted.unreviewed else ""
        if answer:
            try:
                yield pair_edit(run, answer, why)
            except UnusableEdit as error:
                done.left_out[error.message] += 1
    # What has been reviewed has its pair already.
    rest = [run for run in judged if run.run_id in wanted.judged and run.run_id not in wanted.reviewed]
    for preferred in preferences(rest, wanted.judged):
        if not wanted.unreviewed:
            done.left_out[UNREVIEWED] += 1
        elif preferred is None:
            done.left_out["two answers to its question follow different messages"] += 1
        else:
            yield preferred


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
    found: AsyncIterator[Stored], wanted: Wanted, renderer: Renderer | None, done: Exported
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row per segment, a context in which tokens were sampled, with its ids and log-probabilities.

    The first episode without them, or with ids that are no segment of its record, raises ``NotTrainable``.
    """
    async for item in found:
        trajectory = item.trajectory
        for conversation in conversations(for_policy_gradient(trajectory, wanted.model), keep_failed=True):
            tokens = read_sampled_ids(conversation, wanted.model)
            segment = conversation.segment
            if tokens is None or segment is None:
                raise NotTrainable(trajectory.run_id, "steps", "has no sampled ids: not for PPO")
            if len(segment.log_probs) != len(tokens.ids):
                raise NotTrainable(trajectory.run_id, "segments", "has not one log-probability for each id")
            # Ids are exactly what was sampled: nothing can be taken out of them.
            if wanted.scrubber.find(conversation.messages):
                done.left_out["its ids hold personal data or a key"] += 1
                continue
            done.tokens += len(tokens.ids)
            done.learned_tokens += sum(tokens.mask)
            yield {
                "id": f"{conversation.run_id}#{conversation.part}",
                "token_ids": list(tokens.ids),
                "loss_mask": list(tokens.mask),
                "log_probs": list(segment.log_probs),
                "reward": trajectory.reward,
                "task_index": trajectory.task_index,
                "sample_index": trajectory.sample_index,
                "version_min": trajectory.version_min,
                "version_max": trajectory.version_max,
            }
