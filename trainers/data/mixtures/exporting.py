"""Accepted rows of the stages as training files, in the form of ``fathom export``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import InvalidField
from fathom.trainers.data.export.conversation import Conversation, Said
from fathom.trainers.data.export.files import pair_ids
from fathom.trainers.data.export.pairs import Pair
from fathom.trainers.data.export.tokens import Renderer, render_ids
from fathom.trainers.data.mixtures.lengths import count_tokens
from fathom.trainers.data.stages.planning import leave_out_framework
from fathom.trainers.data.stages.record import Record, Turn, make_message

Kind = Literal["sft", "dpo"]
# How many rows a stage needs. Rewriting has no pairs on purpose: it is right nearly always after imitation alone.
LIMITS: Mapping[tuple[str, str], int] = MappingProxyType(
    {
        ("rewrite", "sft"): 400,
        ("plan", "sft"): 1_000,
        ("plan", "dpo"): 300,
        ("reflect", "dpo"): 100,
        ("answer", "sft"): 1_000,
        ("answer", "dpo"): 100,
        ("repair", "sft"): 1_000,
        ("repair", "dpo"): 100,
        # All there are: what a program looks like is learnt by nothing else.
        ("reading", "sft"): 20_000,
        ("reading", "dpo"): 20_000,
    }
)


@dataclass
class Built:
    """Rows of a training file, and how many records were left out, by reason."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


async def build_rows(
    records: Sequence[Record],
    kind: Kind,
    *,
    limit: int | None = None,
    with_framework: bool = True,
    renderer: Renderer | None = None,
) -> Built:
    """Return the accepted rows of a stage up to its limit, with token ids and loss masks given a renderer.

    Raises ``InvalidField`` for records of several stages, and for a kind that the stage does not have.
    """
    most = find_limit(records, kind) if limit is None else limit
    built, labels, seen = Built(), group_labels(records), set[tuple[Turn, ...]]()
    # In the order of the file, so that a larger limit adds rows and exchanges none.
    for record in records:
        if record.status != "accepted":
            built.left_out[f"it is {record.status}"] += 1
        elif kind == "dpo" and not record.rejected:
            built.left_out["it has no worse output"] += 1
        elif kind == "sft" and len(labels[record.messages]) > 1:
            built.left_out["other rows teach another output of its prompt"] += 1
        elif kind == "sft" and record.messages in seen:
            built.left_out["another row teaches the same"] += 1
        elif len(built.rows) >= most:
            built.left_out[f"there are {most:,} already"] += 1
        else:
            seen.add(record.messages)
            built.rows.append(await build_row(record, kind, with_framework, renderer))
    return built


async def build_row(record: Record, kind: Kind, with_framework: bool, renderer: Renderer | None) -> dict[str, Any]:
    """Return the row of a record; given a renderer with its number of tokens, and of those without the framework."""
    build = build_sft if kind == "sft" else build_pair
    served = leave_out_framework(record.messages)
    row = await build(record, record.messages if with_framework else served, renderer)
    if renderer is None:
        return row
    row["tokens"] = count_tokens(row, record.id)
    if with_framework and served != record.messages:
        row["tokens_served"] = count_tokens(await build(record, served, renderer), record.id)
    return row


def describe_saving(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how many tokens the rows have with frameworks and as they are served; "" where no row has one."""
    sizes = [(int(row["tokens"]), int(row["tokens_served"])) for row in rows if "tokens_served" in row]
    if not sizes:
        return ""
    full, served = (sum(side) for side in zip(*sizes, strict=True))
    return (
        f"{len(sizes):,} rows with frameworks: {full / len(sizes):,.0f} tokens on average, served without them "
        f"{served / len(sizes):,.0f}, {1 - served / full:.1%} less"
    )


def group_labels(records: Sequence[Record]) -> dict[tuple[Turn, ...], set[str]]:
    """Return the outputs of accepted rows by their prompt; of several nobody knows which is right."""
    labels: dict[tuple[Turn, ...], set[str]] = {}
    for record in records:
        if record.status == "accepted":
            labels.setdefault(record.messages, set()).add(record.output)
    return labels


def find_limit(records: Sequence[Record], kind: Kind) -> int:
    """Return the number of rows that a stage needs; raise ``InvalidField`` for a kind that it does not have."""
    stages = {record.stage for record in records}
    if len(stages) != 1:
        raise InvalidField("source", f"has rows of {len(stages)} stages: {', '.join(sorted(stages))}")
    (stage,) = stages
    if (stage, kind) not in LIMITS:
        known = ", ".join(" ".join(pair) for pair in LIMITS)
        raise InvalidField("kind", f"{stage} has no {kind} data by default: give --limit to have it; known: {known}")
    return LIMITS[stage, kind]


async def build_sft(record: Record, turns: Sequence[Turn], renderer: Renderer | None) -> dict[str, Any]:
    """Return a row whose loss is on the output alone."""
    conversation = make_conversation(record, turns, record.output)
    row = describe(record) | {"messages": [said.chat() for said in conversation.said], "tools": []}
    if renderer is None:
        return row
    tokens = await render_ids(conversation, renderer)
    return row | {"token_ids": list(tokens.ids), "loss_mask": list(tokens.mask), "exact": tokens.exact}


async def build_pair(record: Record, turns: Sequence[Turn], renderer: Renderer | None) -> dict[str, Any]:
    """Return a pair of outputs after the same prompt."""
    prompt = make_conversation(record, turns)
    chosen, rejected = (make_said(text) for text in (record.output, record.rejected))
    row = describe(record) | {
        "why": record.reason,
        "prompt": [said.chat() for said in prompt.said],
        "chosen": [chosen.chat()],
        "rejected": [rejected.chat()],
        "tools": [],
    }
    if renderer is None:
        return row
    return row | await pair_ids(prompt, Pair(prompt, chosen, rejected, record.reason), renderer)


def describe(record: Record) -> dict[str, Any]:
    """Return the id of a row and where it is from."""
    names = ("stage", "source", "parents", "made_by", "judged_by", "instructions", "reviewed_by", "tags", "language")
    return {"id": record.id, "provenance": record.model_dump(mode="json", include=set(names), exclude_defaults=True)}


def make_conversation(record: Record, turns: Sequence[Turn], output: str = "") -> Conversation:
    """Return the prompt as a conversation, with the output as its only target."""
    said = [Said(make_message(turn)) for turn in turns]
    # Stages are asked without tools, so that a chat template must not announce any.
    return Conversation(record.id, 0, (*said, *([make_said(output)] if output else [])), (), tools=False)


def make_said(text: str) -> Said:
    """Return a model's message that is a target."""
    return Said(policy.Message(role=policy.ROLE_ASSISTANT, content=text), learn=True)
