"""Mirrors users' questions to a candidate and to the model that serves, and compares their answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.clients import Clients
from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.core.ids import checked_id, sha256
from fathom.domain.consent import SHADOW_PREFIX, Consent, ConsentRecords, asker_of
from fathom.domain.grading.episodes import answer_item
from fathom.operations.monitoring.watch import USERS
from fathom.operations.shadow.gate import Outcome
from fathom.transport.store import ObjectStore

# Tools that read and compute: they change nothing that a user could see. Foreign tools and sub-runs are left out.
READING = frozenset({"catalogue", "data", "fetch", "finish", "python", "recall", "search", "sql", "think", "todo"})
JUDGE = "judge"
# An episode of a model that thinks takes minutes, and waits where users keep its model busy.
PLAY_S, SCORE_S = 1800.0, 300.0
BETTER = {reward.GRADE_RATHER_GOOD: Outcome.WIN, reward.GRADE_GOOD: Outcome.WIN, reward.GRADE_EVEN: Outcome.TIE}


@dataclass(frozen=True)
class Side:
    """A model and its version; 0 is whichever serves the training lane."""

    model: str
    version: int = 0

    @classmethod
    def parse(cls, text: str, field: str) -> Side:
        """Parse ``MODEL`` or ``MODEL@VERSION``; raise ``InvalidField(field)``."""
        model, _, version = text.partition("@")
        if not model or (version and not version.isdecimal()):
            raise InvalidField(field, f"{text!r} is no MODEL or MODEL@VERSION")
        return cls(model, int(version or 0))

    def __str__(self) -> str:
        return f"{self.model}@{self.version}" if self.version else self.model


@dataclass(frozen=True)
class Experiment:
    """Comparison of two sides under one grader.

    ``grader`` is one of the reward service, or ``judge`` for its judge; values that differ by ``margin`` or less are
    even. ``recording`` names recorded results to which both sides are held strictly; without it tools that read are
    called.
    """

    name: str
    candidate: Side
    baseline: Side
    grader: str = JUDGE
    margin: float = 0.0
    recording: str = ""

    @property
    def folder(self) -> str:
        """The key below which its results are: of these two sides, compared in this way."""
        said = json.dumps({**asdict(self), "name": ""}, sort_keys=True)
        return f"shadow/{checked_id('name', self.name)}/{sha256(said.encode())[:16]}/"


@dataclass(frozen=True)
class Result:
    """Outcome of one mirrored run, with why."""

    run_id: str
    outcome: Outcome
    reason: str


class Mirror:
    """Plays and compares; results are kept, so that a run is mirrored once however often the command is called."""

    def __init__(self, clients: Clients, store: ObjectStore, experiment: Experiment, in_flight: int = 2) -> None:
        """Create with clients of the lane ``training`` and the tenant's view of the store."""
        self._clients, self._store, self._experiment = clients, store, experiment
        self._slots = asyncio.Semaphore(in_flight)
        self._tools: list[str] | None = None

    async def results(self, run_ids: Sequence[str]) -> AsyncIterator[Result]:
        """Yield the result of each run as it comes; kept ones come without being played again.

        Raises ``FathomError`` for what concerns the whole experiment, e.g. a version that is not served.
        """
        await self._find_tools()
        tasks = [asyncio.create_task(self._mirror_in_turn(run_id)) for run_id in run_ids]
        try:
            for done in asyncio.as_completed(tasks):
                yield await done
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _mirror_in_turn(self, run_id: str) -> Result:
        async with self._slots:
            return await self.mirror(run_id)

    async def mirror(self, run_id: str) -> Result:
        """Return the kept result of a run, or play it now; raise ``FathomError`` as ``results`` does."""
        if (kept := await self._find(run_id)) is not None:
            return kept
        found = await self._clients.planner.get_run(pb.GetRunRequest(run_id=run_id))
        run = found.trajectory
        if why_not := "it has been resumed" if found.running else await self._find_obstacle(run):
            return Result(run_id, Outcome.FAILED, why_not)
        tools = await self._find_tools()
        sides = (self._experiment.candidate, self._experiment.baseline)
        own, other = [await self._play(run, side, tools) for side in sides]
        result = await self._compare(run, own, other)
        # What failed for our own reasons says nothing of the candidate, and is played again next time.
        if result.outcome is not Outcome.FAILED:
            await self._keep(result)
        return result

    async def _find_obstacle(self, run: trajectory.Trajectory) -> str:
        """Return why a run is not to be mirrored, "" for nothing."""
        if run.parent_run_id or run.lane not in USERS:
            return "no user asked it"
        if run.given:
            return "it began with tables, which a mirrored question has not"
        consent, _ = await ConsentRecords(self._store).find(asker_of(run))
        return "its user has refused that anything is made of it" if consent is Consent.REFUSED else ""

    async def _find_tools(self) -> list[str]:
        """Return the names of the tools that only read."""
        if self._tools is None:
            offered = (await self._clients.planner.list_tools(pb.ListToolsRequest())).tools
            self._tools = sorted(READING & {tool.name for tool in offered})
        return self._tools

    async def _play(self, run: trajectory.Trajectory, side: Side, tools: Sequence[str]) -> trajectory.Trajectory:
        """Play the run's question with one model, outside of any conversation."""
        experiment = self._experiment
        name = sha256(f"{experiment.folder}{run.run_id}/{side}".encode())[:32]
        request = pb.RolloutRequest(
            request_id=f"{SHADOW_PREFIX}{name}",
            tasks=[pb.RolloutTask(id="mirrored", question=run.understood or run.question)],
            group_size=1,
            protocol=run.protocol,
            model=side.model,
            policy_version=side.version,
            tools=tools if run.protocol == trajectory.PROTOCOL_RESEARCH else (),
        )
        if experiment.recording:
            request.recording.name = experiment.recording
            request.recording.mode = pb.RECORDING_MODE_REPLAY_STRICT
        played = [item.trajectory async for item in self._clients.planner.rollout(request, timeout_s=PLAY_S)]
        if len(played) != 1:
            raise CorruptData(request.request_id, f"gave {len(played)} episodes of one")
        return played[0]

    async def _compare(
        self, run: trajectory.Trajectory, own: trajectory.Trajectory, other: trajectory.Trajectory
    ) -> Result:
        for name, side in (("candidate", own), ("baseline", other)):
            if side.stop_reason == trajectory.STOP_REASON_FAILED:
                return Result(run.run_id, Outcome.FAILED, f"{name}: {side.error}")
        answers = [side.answer.markdown.strip() for side in (own, other)]
        if not all(answers):
            # No answer loses against any, whatever a grader makes of an empty text.
            ahead = bool(answers[0]) - bool(answers[1])
            outcome = Outcome.WIN if ahead > 0 else Outcome.LOSS if ahead < 0 else Outcome.TIE
            return Result(run.run_id, outcome, "one of them did not answer")
        if self._experiment.grader == JUDGE:
            return await self._ask_judge(run, *answers)
        return await self._grade(run, own, other)

    async def _ask_judge(self, run: trajectory.Trajectory, own: str, other: str) -> Result:
        pair = reward.Pair(question=run.understood or run.question, left=own, right=other)
        asked = await self._clients.reward.judge_pairs(reward.JudgePairsRequest(pairs=[pair]), timeout_s=SCORE_S)
        (found,) = asked.judgements
        if found.grade == reward.GRADE_UNSPECIFIED:
            return Result(run.run_id, Outcome.FAILED, found.reason or "the judge said nothing")
        return Result(run.run_id, BETTER.get(found.grade, Outcome.LOSS), found.reason)

    async def _grade(
        self, run: trajectory.Trajectory, own: trajectory.Trajectory, other: trajectory.Trajectory
    ) -> Result:
        items = [answer_item(side, self._experiment.grader) for side in (own, other)]
        scored = (await self._clients.reward.score(reward.ScoreRequest(items=items), timeout_s=SCORE_S)).scores
        if any(score.components.get("failed") for score in scored):
            return Result(run.run_id, Outcome.FAILED, next(s.reason for s in scored if s.components.get("failed")))
        ahead = scored[0].value - scored[1].value
        reason = f"{self._experiment.grader} {scored[0].value:g} against {scored[1].value:g}"
        if abs(ahead) <= self._experiment.margin:
            return Result(run.run_id, Outcome.TIE, reason)
        return Result(run.run_id, Outcome.WIN if ahead > 0 else Outcome.LOSS, reason)

    async def _find(self, run_id: str) -> Result | None:
        key = self._key(run_id)
        try:
            found = json.loads(await self._store.get(key))
            return Result(found["run_id"], Outcome(found["outcome"]), found["reason"])
        except NotFound:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(key, str(error)) from error

    async def _keep(self, result: Result) -> None:
        await self._store.put(self._key(result.run_id), json.dumps(asdict(result)).encode(), "application/json")

    def _key(self, run_id: str) -> str:
        return f"{self._experiment.folder}{run_id}.json"
