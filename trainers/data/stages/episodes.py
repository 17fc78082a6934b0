"""Workflow episodes as the material of stage data: each question is played, and the stages' prompts are recorded.

The prompts are those of the planner itself, so that their material is numbered as it is when answers are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1.trajectory_pb2 import PROTOCOL_WORKFLOW, Trajectory
from fathom.api.policy.v1.policy_pb2 import Sampling
from fathom.clients import Clients
from fathom.trainers.data.export.conversation import ROLES
from fathom.trainers.data.queries.record import Query
from fathom.trainers.data.stages.record import Turn, make_id
from fathom.trainers.data.stages.running import Task
from fathom.trainers.rollouts.client import Patience, collect

# Seconds for one question with all its rounds of tools, also by a slow model.
EPISODE_S = 900.0


class StageCall(BaseModel):
    """Prompt of a stage, and the model's reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: str
    messages: tuple[Turn, ...]
    output: str


class Episode(BaseModel):
    """One played question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    language: Literal["en", "zh"]
    source: str
    query: str
    """Id of the query that was played."""
    model: str
    calls: tuple[StageCall, ...] = ()
    answer: str = ""

    def find(self, stage: str) -> StageCall | None:
        """Return the first call of a stage; None when the episode has none."""
        return next((call for call in self.calls if call.stage == stage), None)


def make_tasks(queries: Sequence[Query], clients: Clients, model: str) -> list[Task[Episode]]:
    """Return a task per question."""
    return [make_task(query, clients, model) for query in queries]


def make_task(query: Query, clients: Clients, model: str) -> Task[Episode]:
    """Return the task that plays one question with one model."""
    name = make_id("episode", query.id, model)

    async def make() -> Episode:
        request = planner.RolloutRequest(
            # The same question again gets the episode that the planner has stored.
            request_id=f"data-{name}",
            model=model,
            protocol=PROTOCOL_WORKFLOW,
            # At temperature 0 a second episode of the group would be the first one again.
            group_size=1,
            tasks=[planner.RolloutTask(id=query.id, question=query.text)],
            sampling=Sampling(temperature=0.0, seed=1),
        )
        (played,) = await collect(clients.planner, request, Patience(EPISODE_S))
        return Episode(
            id=name,
            question=query.text,
            language=query.language,
            source=query.source,
            query=query.id,
            model=model,
            calls=tuple(list_calls(played)),
            answer=played.answer.markdown if played.HasField("answer") else "",
        )

    return Task(name, make)


def list_calls(trajectory: Trajectory) -> list[StageCall]:
    """Return the first call of each stage; corrections of an answer are no prompt of a stage."""
    found: dict[str, StageCall] = {}
    for step in trajectory.steps:
        stage = step.stage.name
        if not stage or stage in found:
            continue
        messages = tuple(
            Turn.model_validate({"role": ROLES[message.role], "content": message.content})
            for message in step.new_messages
        )
        found[stage] = StageCall(stage=stage, messages=messages, output=step.completion.text)
    return list(found.values())
