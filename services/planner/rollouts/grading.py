"""Grading of episodes that ended together, in few requests to the reward service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.clients import Clients
from fathom.clients.client import UNARY_TIMEOUT_S
from fathom.domain.grading.episodes import tool_steps
from fathom.services.planner.answering.rendering.citations import resolve_citations
from fathom.services.planner.engine import Play
from fathom.services.planner.model.episode import StopReason

# As much as travels in a message of the bus itself.
TOGETHER_BYTES = 256 * 1024
Graded = tuple[Trajectory, reward.ScoreItem]


async def grade_episodes(
    clients: Clients, request: pb.RolloutRequest, ended: Sequence[tuple[Trajectory, Play]]
) -> None:
    """Write the rewards of episodes into their trajectories; without a grader they stay 0.

    Raises ``InvalidField`` for what a grader refuses.
    """
    graded = []
    for message, play in ended:
        item = make_item(message, play, request)
        if item is not None:
            graded.append((message, item))
    for together in split(graded):
        # A request of several may take as long as one of each.
        response = await clients.reward.score(
            reward.ScoreRequest(items=[item for _, item in together]), timeout_s=UNARY_TIMEOUT_S * len(together)
        )
        for (message, _), score in zip(together, response.scores, strict=True):
            message.reward = score.value
            message.reward_components.update(score.components)


def make_item(message: Trajectory, play: Play, request: pb.RolloutRequest) -> reward.ScoreItem | None:
    """Return what is graded of an episode, its answer and its response; None for one that is not graded."""
    task = request.tasks[message.task_index]
    judge = task if task.grader else request
    # An episode without a step has nothing to grade, and one that failed is no sample: its error says why.
    if not judge.grader or not play.episode.steps or play.outcome.stop is StopReason.FAILED:
        return None
    return reward.ScoreItem(
        grader=judge.grader,
        answer=strip_citations(play.outcome.answer.markdown) if play.outcome.answer else "",
        references=task.references,
        parameters=judge.grader_parameters,
        # What was said after the opening, information included: form is judged on the whole exchange.
        response="".join(map(attrgetter("content"), play.episode.messages[len(play.episode.opening) :])),
        steps=tool_steps(message.steps),
        expected_tools=task.expected_tools,
    )


def split(graded: Sequence[Graded]) -> Iterator[list[Graded]]:
    """Yield the episodes in parts of at most ``TOGETHER_BYTES``, or of a single one that is larger."""
    part: list[Graded] = []
    size = 0
    for one in graded:
        added = one[1].ByteSize()
        if part and size + added > TOGETHER_BYTES:
            yield part
            part, size = [], 0
        part.append(one)
        size += added
    if part:
        yield part


def strip_citations(markdown: str) -> str:
    """Return the answer without citations, so that a parser of its last number reads "25.21 [2]" as 25.21."""
    return resolve_citations(markdown, ()).markdown.strip()
