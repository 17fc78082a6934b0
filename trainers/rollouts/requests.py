"""Conversion of prompt batches to rollout requests for the planner. Does not import torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import (
    PROTOCOL_AUTO,
    PROTOCOL_RESEARCH,
    PROTOCOL_SEARCH_R1,
    PROTOCOL_WORKFLOW,
)
from fathom.api.policy.v1.policy_pb2 import ROLE_ASSISTANT, ROLE_USER, Message, Sampling
from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.trainers.config import TrainConfig
from fathom.trainers.config.sections import RolloutConfig

# Prompts per request, the planner's own bound.
MAX_TASKS = 1024
OWN = "own"
"""Grader name that selects each row's own grader."""
Row = Mapping[str, Any]
PROTOCOLS = {
    "search_r1": PROTOCOL_SEARCH_R1,
    "research": PROTOCOL_RESEARCH,
    "workflow": PROTOCOL_WORKFLOW,
    "auto": PROTOCOL_AUTO,
}
EFFORTS = {
    "": pb.EFFORT_UNSPECIFIED,
    "quick": pb.EFFORT_QUICK,
    "standard": pb.EFFORT_STANDARD,
    "deep": pb.EFFORT_DEEP,
}
ROLES = {"user": ROLE_USER, "assistant": ROLE_ASSISTANT}


@dataclass(frozen=True)
class SamplingSettings:
    """Sampling settings of a batch, as the training loop puts them in ``meta_info``."""

    n: int
    seed: int
    step: int = 0
    validate: bool = False
    submitted: bool = False
    temperature: float = 1.0
    top_p: float = 1.0

    @classmethod
    def of(cls, meta_info: Mapping[str, Any]) -> SamplingSettings:
        """Read the settings from ``meta_info``; raises ``InvalidField`` naming a missing one."""
        for name in ("n", "seed"):
            if name not in meta_info:
                raise InvalidField(f"meta_info.{name}", "is missing")
        return cls(**{name: meta_info[name] for name in cls.__dataclass_fields__ if name in meta_info})


def rollout_request(
    config: TrainConfig,
    name: str,
    rows: Sequence[Row],
    sampling: SamplingSettings,
    version: int,
    offset: int = 0,
    *,
    graded: bool = True,
) -> pb.RolloutRequest:
    """Build the planner request for ``rows``: ``sampling.n`` episodes each, sampled with ``version`` (0: any).

    ``offset`` is the first row's position in its batch, so that no two rows share a seed. Equal arguments, including
    ``name``, give an equal request with the same id. ``graded`` is False when the trainer grades the episodes itself.
    Raises ``InvalidField`` for a row without a question, or without the grader that ``reward.grader: own`` needs, and
    for earlier turns that the protocol cannot have.
    """
    rollout = config.rollout
    request = pb.RolloutRequest(
        tasks=[
            pb.RolloutTask(
                id=str(row["uid"]),
                question=question_of(row),
                references=references_of(row),
                sheets=row.get("sheets") or (),
                expected_tools=(row.get("extra_info") or {}).get("expected_tools") or (),
                history=history_of(row, rollout.protocol),
                as_of=instant_of(row),
                **conversation_of(row, rollout.protocol),
                **(own_grader(row) if graded and config.reward.grader == OWN else {}),
            )
            for row in rows
        ],
        group_size=sampling.n,
        protocol=PROTOCOLS[rollout.protocol],
        model=config.model.name,
        policy_version=version,
        sampling=Sampling(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            # An effort has limits of its own, and those of a budget would go before them.
            max_tokens=0 if rollout.effort else rollout.max_tokens,
            # The planner adds the sample's number, so that rows are n apart.
            seed=sampling.seed + offset * sampling.n,
            stop=rollout.stop,
        ),
        budget=None if rollout.effort else pb.Budget(max_rounds=rounds(config)),
        effort=EFFORTS[rollout.effort],
        grader=config.reward.grader if graded and config.reward.grader != OWN else "",
        grader_parameters=config.reward.parameters if graded else {},
        concurrency=rollout.concurrency,
        tools=rollout.tools if rollout.protocol == "research" else (),
    )
    add_texts(request, rollout)
    # The id covers name and content: a resumed training asks again for the very episodes that were already played, and
    # a changed setting never gets those of the old one. Deterministic serialisation orders the maps.
    digest = sha256(f"{name}\n".encode() + request.SerializeToString(deterministic=True))[:32]
    request.request_id = f"rollout-{digest}"
    return request


def add_texts(request: pb.RolloutRequest, rollout: RolloutConfig) -> None:
    """Set the texts that take the place of the protocol's own."""
    request.system_prompt = rollout.system_prompt
    request.instruction = read_text("rollout.instruction_file", rollout.instruction_file)
    request.invalid_action = read_text("rollout.invalid_action_file", rollout.invalid_action_file)


def read_text(setting: str, path: Path | None) -> str:
    """Return the text of a file to the byte, "" without one; raises ``InvalidField`` naming the setting."""
    if path is None:
        return ""
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidField(setting, f"{path} cannot be read: {error}") from error
    if not text:
        raise InvalidField(setting, f"{path} is empty")
    return text


def history_of(row: Row, protocol: str) -> list[Message]:
    """Return the earlier turns of the row's ``extra_info``; raises ``InvalidField`` where the protocol has none."""
    turns = (row.get("extra_info") or {}).get("history")
    turns = () if turns is None else turns
    if len(turns) and protocol == "search_r1":
        raise InvalidField("extra_info.history", f"row {row['uid']} has earlier turns, which search_r1 cannot show")
    return [Message(role=ROLES[turn["role"]], content=turn["content"]) for turn in turns]


def conversation_of(row: Row, protocol: str) -> dict[str, Any]:
    """Return the conversation that the row's question follows, as fields of a task.

    Raises ``InvalidField`` where the protocol has none.
    """
    extra = row.get("extra_info") or {}
    if not extra.get("conversation_id"):
        return {}
    if protocol == "search_r1":
        raise InvalidField("extra_info.conversation_id", f"row {row['uid']} has one, which search_r1 cannot show")
    return {"conversation_id": extra["conversation_id"], "conversation_turns": int(extra["conversation_turns"])}


def instant_of(row: Row) -> Timestamp | None:
    """Return the instant at which the row's question is asked, by its ``extra_info.as_of``; None for now."""
    text = (row.get("extra_info") or {}).get("as_of")
    if not text:
        return None
    instant = Timestamp()
    instant.FromDatetime(datetime.fromisoformat(text))
    return instant


def own_grader(row: Row) -> dict[str, Any]:
    """Return the grader and parameters named in the row's ``extra_info``.

    Raises ``InvalidField`` when it names none.
    """
    extra = row.get("extra_info") or {}
    name, parameters = extra.get("grader"), extra.get("grader_parameters") or {}
    if not name:
        raise InvalidField("extra_info.grader", f"row {row['uid']} names none, and reward.grader is {OWN!r}")
    if not isinstance(parameters, Mapping):
        # Parquet stores the mapping as a list of names and values.
        parameters = {item["name"]: item["value"] for item in parameters}
    return {"grader": str(name), "grader_parameters": parameters}


def rounds(config: TrainConfig) -> int:
    """Return the maximum number of rounds of an episode.

    Search-R1 adds to ``max_turns`` a final round in which no search is made.
    """
    rollout = config.rollout
    return rollout.max_turns + (1 if rollout.protocol == "search_r1" and rollout.final_turn else 0)


def question_of(row: Row) -> str:
    """Return the question: ``question`` of the row or its ``extra_info``, else the user's last message.

    Raises ``InvalidField("raw_prompt")`` when there is neither.
    """
    for place in (row, row.get("extra_info") or {}):
        if isinstance(place, Mapping) and isinstance(place.get("question"), str):
            return str(place["question"])
    chat = row.get("raw_prompt", row.get("prompt"))
    said = [message["content"] for message in chat if message["role"] == "user"] if chat is not None else []
    if not said:
        raise InvalidField("raw_prompt", f"row {row['uid']} has neither a question nor a user's message")
    return str(said[-1])


def references_of(row: Row) -> list[str]:
    """Return the accepted answers from ``reward_model.ground_truth``: a text, a list, or ``{"target": …}``."""
    truth: Any = (row.get("reward_model") or {}).get("ground_truth")
    if isinstance(truth, Mapping):
        truth = truth.get("target")
    if truth is None:
        return []
    if isinstance(truth, str | int | float):
        return [str(truth)]
    return [str(item) for item in truth]
