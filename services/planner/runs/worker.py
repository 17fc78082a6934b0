"""Worker that consumes runs from the queue and plays them; a run of a dead worker is redelivered and resumed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory_pb
from fathom.clients import Clients
from fathom.core.call import Call, Lane, calling, current_call
from fathom.core.errors import FathomError, NotFound, NotReady
from fathom.domain.chat.messages import Message as ChatMessage
from fathom.domain.chat.pipeline import REWRITE
from fathom.domain.chat.proto import sampling_from_proto
from fathom.domain.text.language import language_of
from fathom.services.planner.config import Config
from fathom.services.planner.coverage.wording import open_with_notice
from fathom.services.planner.engine import AnyProtocol, Engine, Play
from fathom.services.planner.episode.fence import LeaseLost
from fathom.services.planner.episode.limits import cap_cost, make_limits
from fathom.services.planner.metrics import Spending
from fathom.services.planner.model.effort import Granted
from fathom.services.planner.model.episode import Outcome, Step, StopReason, Task, rebuild_episode
from fathom.services.planner.model.memory import Memory
from fathom.services.planner.model.slots import restore_text
from fathom.services.planner.prompts.data_summary import DataSummary
from fathom.services.planner.proto.effort import EFFORTS_BACK, asked_from_proto
from fathom.services.planner.proto.episode import material_to_proto, step_from_proto, step_to_proto, trajectory_to_proto
from fathom.services.planner.proto.memory import memory_to_proto
from fathom.services.planner.proto.recording import recording_from_proto
from fathom.services.planner.questions.routing import Form
from fathom.services.planner.remembering.choosing import is_on
from fathom.services.planner.remembering.lessons import Lesson, Stated, submit_lesson
from fathom.services.planner.remembering.remembering import Remembering, choose_effort
from fathom.services.planner.runs.consent import note_asker
from fathom.services.planner.runs.control import RunControl, request_stop
from fathom.services.planner.runs.conversation import Conversation, find_parent, load_conversation
from fathom.services.planner.runs.earlier.reminders import Recaller, Reminder
from fathom.services.planner.runs.index.entry import Entry
from fathom.services.planner.runs.log.events import EventLog, send_heartbeats
from fathom.services.planner.runs.log.fold import History, StepFold, load_history
from fathom.services.planner.runs.parking import PAUSES, AttemptsSpent, Parked, is_outage, park
from fathom.services.planner.runs.publisher import RunPublisher, publish_end
from fathom.services.planner.runs.queue import Consumer, QueuedLeg
from fathom.services.planner.runs.repository import Header, Lease, Leg, RunRepository, as_of_run
from fathom.services.planner.runs.routing import RunRouter, restore_route
from fathom.services.planner.runs.waiting import Pace
from fathom.services.planner.tasks import TaskMaker, Wanted, read_follow_up
from fathom.services.planner.workflow.convert import FORMS
from fathom.services.planner.workflow.pipeline import find_rewritten_question
from fathom.services.planner.workflow.rewriting import (
    STAGE,
    Reading,
    Rewriter,
    make_clarification,
    restore_reading,
)
from fathom.transport.bus.base import Bus, Delivery
from fathom.transport.bus.streams import MAX_DELIVER, control_subject, run_durable
from fathom.transport.store.refs import to_ref

ENDPOINT = "openai"
"""Engine of models behind an endpoint, as policy names it."""
MAX_STOP_REQUESTS = 3
"""Attempts to reach a planner that listens for a run, to stop it."""
LANES = {
    Lane.INTERACTIVE: common.LANE_INTERACTIVE,
    Lane.EVALUATION: common.LANE_EVALUATION,
    Lane.TRAINING: common.LANE_TRAINING,
}


@dataclass(frozen=True)
class PlayedLeg:
    """A leg that has ended: the episode, its recorded steps, and the step that the end has cut short, if any."""

    play: Play
    steps: list[trajectory_pb.Step]
    open_step: Step | None


@dataclass(frozen=True)
class Turn:
    """A run's leg in the hands of a worker, for the ``attempt``-th time, after ``losses`` that got it no further."""

    header: Header
    leg: Leg
    attempt: int
    losses: int
    lane: Lane


@dataclass
class Worker:
    """Worker for queued runs, ``config.concurrent_runs`` at a time per lane and depth."""

    config: Config
    engine: Engine
    protocols: Mapping[int, AnyProtocol]
    record: RunRepository
    clients: Clients
    bus: Bus
    log: Any
    router: RunRouter
    summary: DataSummary | None = None
    """Summary of the data for the system prompt; None leaves it out."""
    rewriter: Rewriter | None = None
    """Makes follow-ups whole; without one each question is played in its own words."""
    remembering: Remembering | None = None
    """Source of what runs get from their user's memory; without one they get nothing."""
    recaller: Recaller | None = None
    """Reminds runs of older turns; without one they know their window alone."""
    spending: Spending | None = None
    """Counts what runs cost; without it nothing is exported."""
    pace: Pace = field(default_factory=Pace)
    _verifying: set[asyncio.Task[None]] = field(default_factory=set)
    _consumer: Consumer = field(default_factory=Consumer)

    async def work(self, lane: Lane, depth: int) -> None:
        """Consume until cancelled; interrupted runs return to the queue immediately."""
        # Each depth of delegation has its own queue and slots, so that a run waiting for its sub-runs never holds a
        # slot that they need.
        deliveries = self.bus.consume(run_durable(lane, depth))
        await self._consumer.consume(deliveries, self.config.concurrent_runs, partial(self._handle, lane), self.log)

    def stop_consuming(self) -> None:
        """Stop consuming; running ones continue, and ``work`` returns when they end."""
        self._consumer.stop_consuming()

    async def _handle(self, lane: Lane, delivery: Delivery) -> None:
        # Whose run it is comes with the delivery: without its tenant, it would not be found.
        with calling(Call.from_headers(delivery.headers)):
            await self._handle_own(lane, delivery)

    async def _handle_own(self, lane: Lane, delivery: Delivery) -> None:
        """Handle a delivery as a call of its tenant."""
        queued = QueuedLeg.parse(delivery.payload)
        run_id = queued.run_id
        events = EventLog(self.bus, run_id)
        late = partial(self._verify_lease, events)
        # Without beats the bus would deliver a run of minutes to another planner after seconds.
        alive = asyncio.create_task(send_heartbeats(delivery, self.config.heartbeat_s, late))
        try:
            await self._continue_run(events, queued, delivery.attempt, lane)
            await delivery.ack()
        except LeaseLost as error:  # another planner owns the delivery now and will acknowledge it
            self.log.warning("run was lost to another planner", run_id=run_id, error=error.message)
        except asyncio.CancelledError:
            # Shielded: this task is being cancelled, and the run should go to another planner now instead of when its
            # lease ends.
            await asyncio.shield(delivery.nak())
            raise
        except Parked as parked:
            await delivery.nak(parked.delay_s)
        except (NotFound, AttemptsSpent) as error:
            await delivery.dead_letter(str(error))
        except Exception as error:
            if is_outage(error):  # before the run could be taken up, or told of: it comes again until it can be
                self.log.warning("run waits for a service", run_id=run_id, attempt=delivery.attempt, error=str(error))
            else:
                # A bug: it is delivered again, a bounded number of times, and then ends as failed.
                self.log.exception("run was cut short", run_id=run_id, attempt=delivery.attempt, error=str(error))
            await delivery.nak(PAUSES.delay_s(delivery.attempt))
        finally:
            alive.cancel()

    def _verify_lease(self, events: EventLog) -> None:
        """Verify ownership after a heartbeat later than the lease.

        Stop the run when another planner has taken it over.
        """

        async def verify() -> None:
            try:
                await events.confirm()
            except LeaseLost:
                self.engine.stop(events.run_id)
            except FathomError as error:
                self.log.warning("run could not be confirmed", run_id=events.run_id, error=error.message)

        if events.epoch:
            verifying = asyncio.create_task(verify(), name=f"confirm {events.run_id}")
            self._verifying.add(verifying)
            verifying.add_done_callback(self._verifying.discard)

    async def _continue_run(self, events: EventLog, queued: QueuedLeg, delivery: int, lane: Lane) -> None:
        """Take a run up and play it to its end; raise ``Parked`` while a service that it needs is away."""
        if queued.header is not None:
            # The planner that queued the run may have been lost before it could write the header.
            header, _ = await self.record.create(queued.header)
        else:
            header = await self.record.get_header(events.run_id)
        leg = await self.record.get_leg(header)
        if queued.number < leg.number:  # its end was published, or there would be no further leg
            return
        try:
            fold = await events.acquire(delivery)
            # Deliveries that only waited for a service are no attempts.
            attempt = fold.takeovers - fold.parks + 1
            self.log.info("run acquired", run_id=events.run_id, leg=leg.number, attempt=attempt, losses=fold.losses)
            if fold.losses >= MAX_DELIVER:
                raise AttemptsSpent(describe_losses(fold.losses))
            try:
                await self._play_leg(events, fold, Turn(header, leg, attempt, fold.losses, lane))
            except FathomError as error:
                if is_outage(error):
                    await park(events, fold, self.config.outage_s, error)
                raise
        finally:
            await events.close()

    async def _play_leg(self, events: EventLog, fold: StepFold, turn: Turn) -> None:
        """Play a leg, or publish the end that it has; raise ``FathomError`` and ``Parked``."""
        run_id, header, leg = events.run_id, turn.header, turn.leg
        ended = await self.record.find_end(run_id)
        if ended is not None and ended[0].leg >= leg.number:
            # The worker that ended it may not have published its end.
            await publish_end(events, ended[0], to_ref(ended[1]))
            await self.record.put_entry(header, Entry.of(ended[0]))
            return
        held = await self._load_memory(header)
        effort = choose_effort(header.run_request(), held)
        granted = self.config.grant(asked_from_proto(effort, leg.budget()), header.model)
        # Half a minute more than the run may take, for recording its end; waits for services do not count.
        timeout_s = granted.limits.max_run_ms / 1000 + self.config.tool_patience_s + 30
        call = Call.new(lane=turn.lane, tenant=header.tenant, timeout_s=timeout_s, traceparent=header.traceparent)
        # Services are called for whoever asked: memory recalls nobody else's turns.
        with calling(replace(call, principal=header.principal)):
            request = header.run_request()
            # Nothing has been played by a route that no log tells: its choice may be made again.
            header = restore_route(header, fold, None if ended is None else ended[0])
            header = await self.router.settle(header) if header.is_unrouted else header
            is_first = not fold.takeovers and not leg.number
            conversation = await load_conversation(self.clients, self.record, run_id, request, is_first)
            allowed = is_on(held.facts)
            reminder = await self._recall(header, request) if allowed else Reminder()
            # Before the window, as they were said before it.
            conversation = replace(conversation, history=(*reminder.messages, *conversation.history))
            reading = await self._understand(header, conversation.history)
            held, reading = await self._settle_memory(header, held, reading, conversation.history)
            task = await self._make_task(header, request, leg, granted, conversation, reading, held, fold.worked_s)
            task = replace(
                task,
                conversation_id=header.conversation_id,
                follows=find_parent(header),
                has_memory=reminder.has_memory,
            )
            history = await load_history(self.record, run_id, fold, None if ended is None else ended[0])
            # Without an earlier planner there is no late end that would have to be told from this one's.
            if not history.is_new:
                # Ends that an earlier planner writes from here on are ignored by readers.
                await self.record.put_lease(run_id, Lease(events.epoch, leg.number, len(history.steps)))
            self._announce(events, header, leg, turn.attempt, granted, task)
            if reading.asks_back:
                asked = Outcome(StopReason.FINISHED, make_clarification(reading))
                play = Play(rebuild_episode(task, (), ()), asked)
                await self.finish(PlayedLeg(play, [], None), header, leg, turn.lane, events, fold)
                return
            started = time.monotonic()
            played = await self._play(task, header, leg, turn.losses, events, history)
            outcome = played.play.outcome
            if outcome.is_house_failure:
                error = NotReady(outcome.error, metadata={"culprit": outcome.culprit})
                await park(events, fold, self.config.outage_s, error)
            await self.finish(played, header, leg, turn.lane, events, fold, is_learning=allowed)
            self.pace.note(turn.lane, time.monotonic() - started)

    def _may_learn(self, header: Header, *, is_on: bool) -> bool:
        """Return whether a run leaves something in memory: a user asked for it who has not turned that off."""
        return self.remembering is not None and is_on and not header.parent_run_id

    async def _load_memory(self, header: Header) -> Memory:
        """Return what the run was given of its user's memory, before it begins all facts of it."""
        if self.remembering is None:
            return Memory()
        with calling(replace(current_call() or Call.new(), principal=header.principal)):
            return await self.remembering.recall(header.run_id)

    async def _settle_memory(
        self, header: Header, held: Memory, reading: Reading, chat: Sequence[ChatMessage]
    ) -> tuple[Memory, Reading]:
        """Return what the run is given of the memory, and the question with what that adds."""
        if self.remembering is None:
            return held, reading
        # A workflow's own stage completes a follow-up later.
        is_whole = reading.method != STAGE or not chat
        as_of = as_of_run(header.run_request())
        return await self.remembering.settle(header.run_id, held, reading, as_of, is_whole=is_whole)

    async def _play(
        self, task: Task, header: Header, leg: Leg, losses: int, events: EventLog, history: History
    ) -> PlayedLeg:
        """Play from the last recorded step on, and serve control requests for the run meanwhile."""
        run_id, protocol = task.run_id, self.protocols[header.protocol_value]
        steps = [step_from_proto(step) for step in history.steps]
        window = task.window or self.config.window
        observer = RunPublisher(events, protocol.prompt_hash(task), window.tokens)
        await observer.republish(history.steps, history.open_step)
        run_control = RunControl(run_id, self.engine, self.record, events, observer, current_call() or Call.new())
        control = await self.bus.serve(control_subject(run_id), run_id, run_control.handle)
        try:
            early = await self._find_early_end(run_id, leg, losses)  # after serve: from here on a stop request arrives
            if early is not None:
                play = Play(rebuild_episode(task, protocol.opening(task), steps), early)
                return PlayedLeg(play, history.steps, history.open_step)
            # Only a planner at work on the run stores an edit: the first one finds none.
            edited = None if history.is_new else await run_control.find_unseen_edit(steps, history.open_step)
            play = await self.engine.play(task, protocol, observer, steps, history.open_step, edited)
            return PlayedLeg(play, observer.recorded, observer.open_step)
        finally:
            await control.close()

    async def _find_early_end(self, run_id: str, leg: Leg, losses: int) -> Outcome | None:
        """Return the outcome of a run that must not be played: stopped while queued, or lost too often; else None."""
        if await self.record.is_stopped(run_id, leg.number):
            return Outcome(StopReason.STOPPED)
        if losses >= MAX_DELIVER - 1:
            # The last delivery is for an end that the reader sees, instead of silence.
            return Outcome(StopReason.FAILED, None, f"planner: {describe_losses(losses)}", "planner")
        return None

    async def _recall(self, header: Header, request: pb.RunRequest) -> Reminder:
        """Return what the run is reminded of; a delegated one of nothing."""
        if self.recaller is None or header.parent_run_id:
            return Reminder()
        return await self.recaller.recall(header.run_id, request, language_of(header.question))

    async def _understand(self, header: Header, chat: Sequence[ChatMessage]) -> Reading:
        """Return the question as it is understood after the conversation, the same for each attempt."""
        if self.rewriter is None or not chat:
            return Reading(header.question, STAGE)
        stored = await self.record.get_reading(header.run_id)
        if stored is not None:
            return restore_reading(stored)
        reading = await read_follow_up(
            self.rewriter,
            self.clients,
            header.question,
            chat,
            header.model,
            self.protocols[header.protocol_value],
            as_of_run(header.run_request()),
            header.start_time,
            restore_text(header.asked),
        )
        # A workflow's own stage is recorded with the others.
        if reading.method == STAGE:
            return reading
        await self.record.put_reading(header.run_id, asdict(reading))
        return reading

    def _announce(self, events: EventLog, header: Header, leg: Leg, attempt: int, granted: Granted, task: Task) -> None:
        started = pb.RunStarted(
            run_id=header.run_id,
            conversation_id=header.conversation_id,
            question=header.question,
            model=header.model,
            attempt=attempt - 1,
            protocol=header.protocol_value,
            effort=EFFORTS_BACK[granted.effort],
            capped=granted.capped,
            given=[material_to_proto(item) for item in task.given],
            remembered=memory_to_proto(task.memory) if task.memory != Memory() else None,
            form=FORMS[Form(header.form)] if header.form else pb.ANSWER_FORM_UNSPECIFIED,
        )
        events.publish(started=started)
        if task.question != header.question and not leg.number:
            note = trajectory_pb.StageNote(name=REWRITE, text=task.question)
            events.publish(staged=pb.Staged(step=0, stage=note))
        if leg.number:
            events.publish(resumed=pb.RunResumed(leg=leg.number, step=leg.steps, budget=leg.budget()))

    async def _make_task(
        self,
        header: Header,
        request: pb.RunRequest,
        leg: Leg,
        granted: Granted,
        conversation: Conversation,
        reading: Reading,
        held: Memory,
        worked_s: float,
    ) -> Task:
        limits = granted.limits
        bounds = make_limits(
            limits.max_rounds,
            limits.max_tokens,
            limits.max_run_ms,
            worked_s,
            cap_cost(leg.max_cost, self.config.max_cost, "budget.max_cost"),
            leg.steps,
        )
        wanted = Wanted(
            header.run_id,
            header.question,
            reading,
            header.model,
            self.protocols[header.protocol_value],
            sampling_from_proto(request.sampling),
            bounds,
            limits,
            request.window,
            request.prompts,
            header.form,
            conversation.history,
            conversation.given,
            as_of_run(request),
            header.start_time,
            memory=held,
        )
        task = await TaskMaker(self.config, self.clients, self.summary).make(wanted)
        recording = recording_from_proto(request.recording)
        return replace(
            task,
            depth=header.depth,
            instructions=request.instructions,
            recording=recording,
            corpora=tuple(request.corpora),
        )

    async def finish(
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
        await self._stop_children(header.run_id)
        self.log.info(
            "run ended", run_id=header.run_id, stop=outcome.stop.value, rounds=len(episode.steps), error=outcome.error,
            seconds=round(time.time() - leg.start_time, 3),
        )  # fmt: skip

    async def stop(self, run_id: str) -> bool:
        """End a run, immediately when a worker has it, else when one takes it; return whether a worker had it."""
        header = await self.record.get_header(run_id)
        leg = await self.record.get_leg(header)
        if await self.record.get_end(run_id, leg.number) is not None:
            return False
        # Stored before the request: a planner that takes the run between the two finds it.
        await self.record.put_stop(run_id, leg.number)
        for _ in range(MAX_STOP_REQUESTS):
            try:
                if await request_stop(self.bus, run_id):
                    return True
            except NotReady:  # nobody is working on it
                return False
            # A planner that has lost the run, or has just ended it, answers for it a last time.
            if await self.record.get_end(run_id, leg.number) is not None:
                return False
        return False

    async def _stop_children(self, run_id: str) -> None:
        """Stop the delegated runs, because the ended run does not need them any more."""
        for child in await self.record.list_children(run_id):
            with suppress(NotFound):  # a worker was lost before it had written the header
                await self.stop(child)

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


def describe_losses(losses: int) -> str:
    """Return why a run is given up that none of its last workers got any further."""
    return f"{losses} workers one after the other did not get it any further"


def find_understood(header: Header, play: Play) -> str:
    """Return the question that was played where it is not the user's own; "" otherwise."""
    played = play.episode.task.question
    return "" if played == header.question else played
