"""Episodes that ended together are graded in one request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.clients.client import UNARY_TIMEOUT_S
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, Usage
from fathom.services.planner.engine import Play
from fathom.services.planner.model.episode import Answer, Episode, Limits, Outcome, Step, StopReason, Task
from fathom.services.planner.rollouts.grading import TOGETHER_BYTES, grade_episodes

REQUEST = pb.RolloutRequest(
    tasks=[pb.RolloutTask(question="q", references=["7"]), pb.RolloutTask(question="r", grader="own")], grader="em"
)


class Grader:
    """Rewards each answer with its number."""

    def __init__(self) -> None:
        self.requests: list[reward.ScoreRequest] = []
        self.timeouts_s: list[float] = []
        self.reward = self

    async def score(self, request: reward.ScoreRequest, *, timeout_s: float) -> reward.ScoreResponse:
        self.requests.append(request)
        self.timeouts_s.append(timeout_s)
        scores = [reward.Score(value=float(item.answer), components={"correct": 1.0}) for item in request.items]
        return reward.ScoreResponse(scores=scores)


def play(number: int, text: str = "said", stop: StopReason = StopReason.FINISHED, *, task: int = 0) -> Any:
    episode = Episode(Task("run", "q", "m", Sampling(), Limits(1, 1, 0.0)), (Message(Role.USER, "q"),))
    completion = Completion((), (), (), text, (), FinishReason.STOP, 1, 1, Usage(), True, "m")
    episode.append(Step(0, episode.opening, completion))
    return Trajectory(task_index=task), Play(episode, Outcome(stop, Answer(f"{number} [1]")))


async def grade(*ended: Any) -> tuple[Grader, list[float]]:
    grader = Grader()
    await grade_episodes(SimpleNamespace(reward=grader), REQUEST, ended)  # type: ignore[arg-type]
    return grader, [message.reward for message, _ in ended]


async def test_one_request_grades_all_that_have_ended_each_by_its_own_task() -> None:
    grader, rewards = await grade(play(1), play(2, task=1), play(3))
    [request] = grader.requests
    assert [item.grader for item in request.items] == ["em", "own", "em"]
    assert [list(item.references) for item in request.items] == [["7"], [], ["7"]]
    assert [item.response for item in request.items] == ["said"] * 3, "without the opening"
    assert rewards == [1.0, 2.0, 3.0]
    assert grader.timeouts_s == [3 * UNARY_TIMEOUT_S], "as long as three requests had"


async def test_what_failed_is_not_graded_and_takes_nobody_elses_reward() -> None:
    grader, rewards = await grade(play(1), play(2, stop=StopReason.FAILED), play(3))
    assert len(grader.requests[0].items) == 2
    assert rewards == [1.0, 0.0, 3.0]
    grader, _ = await grade(play(2, stop=StopReason.FAILED))
    assert grader.requests == []


async def test_long_episodes_are_graded_in_requests_that_the_bus_carries() -> None:
    half = "x" * (TOGETHER_BYTES * 2 // 5)
    grader, rewards = await grade(play(1, half), play(2, half), play(3, half), play(4, half * 5))
    assert [len(request.items) for request in grader.requests] == [2, 1, 1]
    assert rewards == [1.0, 2.0, 3.0, 4.0]
