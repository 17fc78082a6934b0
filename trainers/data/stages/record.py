"""Rows of stage data with their provenance, in JSON Lines, and the schemas of what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import InvalidField
from fathom.core.ids import content_hash
from fathom.domain.chat.pipeline import Asked, read_ask
from fathom.trainers.data.queries.record import read_lines

Stage = Literal["rewrite", "plan", "reflect", "answer", "repair", "evolve", "reading"]
Status = Literal["accepted", "review", "rejected", "dropped"]
Role = Literal["system", "user", "assistant"]
Row = TypeVar("Row", bound=BaseModel)
ROLES: Mapping[Role, policy.Role] = MappingProxyType(
    {"system": policy.ROLE_SYSTEM, "user": policy.ROLE_USER, "assistant": policy.ROLE_ASSISTANT}
)


class Turn(BaseModel):
    """One message of a row's prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: str = Field(min_length=1)


class SubQuery(BaseModel):
    """One sub-question of a plan, as the workflow reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = Field(min_length=1)
    subquery: str = Field(min_length=1)
    indicators: tuple[str, ...] = ()


class Plan(BaseModel):
    """The sub-questions of one round."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: tuple[SubQuery, ...] = Field(min_length=1, max_length=24)


class Record(BaseModel):
    """Prompt of a model and the output that it is to write, with their origin.

    ``accepted`` rows train, ``review`` rows wait for a person, ``rejected`` ones were judged to be wrong, and of
    ``dropped`` ones nothing usable came back; ``reason`` says why. ``rejected`` is the worse output of a pair.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    stage: Stage
    status: Status
    reason: str = ""
    language: Literal["en", "zh"] = "en"
    source: str = Field(min_length=1)
    """File and line, or run, where its material is from."""
    parents: tuple[str, ...] = ()
    made_by: str = ""
    """Model with its version that wrote the output, or "people"."""
    judged_by: str = ""
    instructions: tuple[str, ...] = ()
    """Names of the instructions by which it was made and judged."""
    tags: dict[str, str | int | float | bool] = Field(default_factory=dict)
    messages: tuple[Turn, ...] = ()
    output: str = ""
    rejected: str = ""
    before: str = ""
    """The output as the model wrote it, where a person has edited it."""
    reviewed_by: str = ""

    @model_validator(mode="after")
    def is_usable(self) -> Self:
        """Refuse a row that would be trained on, or shown to a person, without a prompt and an output."""
        # A dropped row has nothing to check; it stands in the file so that its task is not done again.
        if self.status == "dropped":
            return self
        # The model's turn is appended behind the user's; any other order would train on a prompt that is never served.
        if not self.messages or self.messages[-1].role != "user":
            raise ValueError("messages must end with the user's")
        if not self.output.strip():
            raise ValueError("output is empty")
        # Preference training learns nothing from a pair of equals: the gradients of its two sides cancel.
        if self.output == self.rejected:
            raise ValueError("output and rejected are the same")
        # Strictly, so that the side that is imitated never has the form that only a tolerant reader understands.
        if self.stage == "plan":
            parse_plan(self.output)
        return self


def update(record: Record, **values: object) -> Record:
    """Return the row with other values, checked anew."""
    # Not model_copy(), which checks nothing: a row that the schema refuses must fail here and not in a training.
    return Record.model_validate(record.model_dump() | values)


def read_prompt(messages: Sequence[Turn]) -> Asked | None:
    """Return what the prompt of a stage shows; None for messages that are none."""
    return read_ask(messages[-1].content) if messages else None


def make_message(turn: Turn) -> policy.Message:
    """Return a turn as the policy service takes it."""
    return policy.Message(role=ROLES[turn.role], content=turn.content)


def parse_plan(text: str) -> Plan:
    """Return a plan of strict JSON; raise ``ValueError`` for any other text."""
    value = json.loads(text)
    return Plan.model_validate({"queries": value})


def format_plan(queries: Iterable[SubQuery]) -> str:
    """Return the JSON of a plan as a model is to write it."""
    # Without empty indicators: a field that says nothing would cost tokens in every plan.
    rows = [query.model_dump(mode="json", exclude_defaults=True) for query in queries]
    return json.dumps(rows, ensure_ascii=False)


def make_id(stage: str, *parts: object) -> str:
    """Return an id that follows from what a row is made of, so that a repetition has the same one."""
    # 64 bits: that two of a million rows have one id by chance happens less than once in ten million times.
    return f"{stage}_{content_hash([str(part) for part in parts])[:16]}"


def read_rows(path: Path, schema: type[Row], field: str = "source") -> list[Row]:
    """Read rows of JSON Lines; raise ``InvalidField`` of ``field`` naming file and line, also for an id twice."""
    found: dict[str, Row] = {}
    for place, line in read_lines(path):
        try:
            row = schema.model_validate(json.loads(line))
        except ValidationError as error:
            raise InvalidField(field, f"{place}: {describe_failure(error)}") from error
        except ValueError as error:
            raise InvalidField(field, f"{place} is no JSON: {error}") from error
        name = str(getattr(row, "id", "") or place)
        if name in found:
            raise InvalidField(field, f"{place} has the id {name} for the second time")
        found[name] = row
    # A file without rows is more often a step that failed than a wish for nothing.
    if not found:
        raise InvalidField(field, f"{path} has no row")
    return list(found.values())


def describe_failure(error: ValidationError) -> str:
    """Return where a row fails its schema, and how, in a line."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'row'}: {first['msg']}"
