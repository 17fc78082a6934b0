"""End of a leg: turn, trajectory and last event of a run, in this order."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as trajectory_pb
from fathom.clients import Clients
from fathom.core.call import Lane
from fathom.core.errors import FathomError
from fathom.services.planner.config import Config
from fathom.services.planner.coverage.wording import open_with_notice
from fathom.services.planner.engine import Play
from fathom.services.planner.metrics import Spending
from fathom.services.planner.model.episode import Step, StopReason
from fathom.services.planner.proto.episode import step_to_proto, trajectory_to_proto
from fathom.services.planner.proto.lanes import LANES
from fathom.services.planner.questions.routing import Form
from fathom.services.planner.remembering.lessons import Lesson, Stated, submit_lesson
from fathom.services.planner.remembering.remembering import Remembering
from fathom.services.planner.runs.consent import note_asker
from fathom.services.planner.runs.conversation import find_parent
from fathom.services.planner.runs.index.entry import Entry
from fathom.services.planner.runs.log.events import EventLog
from fathom.services.planner.runs.log.fold import StepFold
from fathom.services.planner.runs.playing.parking import is_outage, park
from fathom.services.planner.runs.playing.publisher import publish_end
from fathom.services.planner.runs.repository import Header, Leg, RunRepository
from fathom.services.planner.runs.stopping import stop_children
from fathom.services.planner.workflow.pipeline import find_rewritten_question
from fathom.transport.bus.base import Bus
from fathom.transport.store.refs import to_ref


@dataclass(frozen=True)
class PlayedLeg:
    """A leg that has ended: the episode, its recorded steps, and the step that the end has cut short, if any."""

    play: Play
    steps: list[trajectory_pb.Step]
    open_step: Step | None


@dataclass
class EndWriter:
    """Writer of the ends of legs, of those that were played and of those that were given up."""

    config: Config
    record: RunRepository
    clients: Clients
    bus: Bus
    log: Any
    remembering: Remembering | None = None
    """Learns from answers; without it nothing is learnt."""
    spending: Spending | None = None
    """Counts what runs cost; without it nothing is exported."""

    async def write(
        self,
        played: PlayedLeg,
        header: Header,
        leg: Leg,
        lane: Lane,
        events: EventLog,
        fold: StepFold,
        *,
        is_learning: bool = False,
    ) -> None:
        """Record turn and trajectory, publish the end, stop sub-runs; in this order, each step idempotent."""
        episode, outcome = played.play.episode, played.play.outcome
        stated = Stated()
        if outcome.answer is not None:
            # Here and not in the ending: graders of rollouts read the answer as the model wrote it.
            answer = open_with_notice(outcome.answer)
            if self.remembering is not None and self._may_learn(header, is_on=is_learning):
                answer, stated = await self.remembering.note(answer, episode)
            outcome = replace(outcome, answer=answer)
        await events.confirm()  # raises when another planner has acquired the run, which then ends it
        await self._remember(header, replace(played.play, outcome=outcome), events, fold)
        trajectory = trajectory_to_proto(episode, outcome, header.protocol_value, LANES[lane], played.steps)
        trajectory.leg, trajectory.parent_run_id = leg.number, header.parent_run_id
        trajectory.report = header.form == Form.REPORT
        await note_asker(self.record, header, trajectory)
        trajectory.usage.cost = self.config.prices(header.model).cost(episode.usage)
        if episode.task.question != header.question:
            trajectory.question, trajectory.understood = header.question, episode.task.question
        if played.open_step is not None:
            # A resumption goes on from it, also when the log has lost its messages by age.
            await self.record.put_open_step(header.run_id, step_to_proto(played.open_step, ""), events.epoch)
        stored = await self.record.put_trajectory(trajectory, epoch=events.epoch)
        if self._may_learn(header, is_on=is_learning) and outcome.stop is StopReason.FINISHED:
            # Before the end is published: a planner that is lost behind it would have left nothing to learn from.
            await submit_lesson(
                self.bus, Lesson(header.run_id, stated.views, stated.statements), header.tenant, header.traceparent
            )
        await publish_end(events, trajectory, to_ref(stored))
        await self.record.put_entry(header, Entry.of(trajectory, time.time()))
        if self.spending is not None:
            # Of this leg: those before it were counted at their ends.
            used = episode.usage_since(leg.steps)
            self.spending.observe(header.tenant, header.model, used, self.config.prices(header.model).cost(used))
        await stop_children(self.bus, self.record, header.run_id)
        self.log.info(
            "run ended", run_id=header.run_id, stop=outcome.stop.value, rounds=len(episode.steps), error=outcome.error,
            seconds=round(time.time() - leg.start_time, 3),
        )  # fmt: skip

    def _may_learn(self, header: Header, *, is_on: bool) -> bool:
        """Return whether a run leaves something in memory: a user asked for it who has not turned that off."""
        return self.remembering is not None and is_on and not header.parent_run_id

    async def _remember(self, header: Header, play: Play, events: EventLog, fold: StepFold) -> None:
        """Append the turn to the conversation; raise ``Parked`` while memory is away, since follow-ups need the turn.

        Any other failure of memory, and one that outlasts what runs wait for services, is logged and fails no run.
        """
        if play.outcome.stop is not StopReason.FINISHED or play.outcome.answer is None or header.parent_run_id:
            return
        turn = memory.Turn(
            question=header.question,
            rewritten_question=find_rewritten_question(play.episode.steps) or find_understood(header, play),
            answer=play.outcome.answer.markdown,
            run_id=header.run_id,
            parent=find_parent(header),
        )
        request = memory.AppendTurnRequest(request_id=header.run_id, conversation_id=header.conversation_id, turn=turn)
        try:
            await self.clients.memory.append_turn(request)
        except FathomError as error:
            if is_outage(error):
                await park(events, fold, self.config.outage_s, error)
            self.log.error("turn was not remembered", run_id=header.run_id, error=error.message)


def find_understood(header: Header, play: Play) -> str:
    """Return the question that was played where it is not the user's own; "" otherwise."""
    played = play.episode.task.question
    return "" if played == header.question else played
