"""Worker that consumes runs from the queue and plays them; a run of a dead worker is redelivered and resumed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory_pb
from fathom.core.call import Call, Lane, calling, current_call
from fathom.core.errors import FathomError, NotFound, NotReady
from fathom.domain.chat.pipeline import REWRITE
from fathom.services.planner.config import Config
from fathom.services.planner.engine import AnyProtocol, Engine, Play
from fathom.services.planner.episode.fence import LeaseLost
from fathom.services.planner.model.effort import Granted
from fathom.services.planner.model.episode import Outcome, StopReason, Task, rebuild_episode
from fathom.services.planner.model.memory import Memory
from fathom.services.planner.proto.effort import EFFORTS_BACK, asked_from_proto
from fathom.services.planner.proto.episode import material_to_proto, step_from_proto
from fathom.services.planner.proto.memory import memory_to_proto
from fathom.services.planner.questions.routing import Form
from fathom.services.planner.remembering.remembering import choose_effort
from fathom.services.planner.runs.control import RunControl
from fathom.services.planner.runs.index.entry import Entry
from fathom.services.planner.runs.log.events import EventLog, send_heartbeats
from fathom.services.planner.runs.log.fold import History, StepFold, load_history
from fathom.services.planner.runs.playing.ending import EndWriter, PlayedLeg
from fathom.services.planner.runs.playing.parking import PAUSES, AttemptsSpent, Parked, is_outage, park
from fathom.services.planner.runs.playing.preparation import RunPreparer, Turn
from fathom.services.planner.runs.playing.publisher import RunPublisher, publish_end
from fathom.services.planner.runs.queue import Consumer, QueuedLeg
from fathom.services.planner.runs.repository import Header, Lease, Leg, RunRepository
from fathom.services.planner.runs.waiting import Pace
from fathom.services.planner.workflow.convert import FORMS
from fathom.services.planner.workflow.rewriting import (
    make_clarification,
)
from fathom.transport.bus.base import Bus, Delivery
from fathom.transport.bus.streams import MAX_DELIVER, control_subject, run_durable
from fathom.transport.store.refs import to_ref


@dataclass
class Worker:
    """Worker for queued runs, ``config.concurrent_runs`` at a time per lane and depth."""

    config: Config
    engine: Engine
    protocols: Mapping[int, AnyProtocol]
    record: RunRepository
    bus: Bus
    log: Any
    preparer: RunPreparer
    ends: EndWriter
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
        held = await self.preparer.load_memory(header)
        effort = choose_effort(header.run_request(), held)
        granted = self.config.grant(asked_from_proto(effort, leg.budget()), header.model)
        # Half a minute more than the run may take, for recording its end; waits for services do not count.
        timeout_s = granted.limits.max_run_ms / 1000 + self.config.tool_patience_s + 30
        call = Call.new(lane=turn.lane, tenant=header.tenant, timeout_s=timeout_s, traceparent=header.traceparent)
        # Services are called for whoever asked: memory recalls nobody else's turns.
        with calling(replace(call, principal=header.principal)):
            before = None if ended is None else ended[0]
            prepared = await self.preparer.prepare(turn, fold, before, granted, held)
            header, task, reading = prepared.header, prepared.task, prepared.reading
            history = await load_history(self.record, run_id, fold, before)
            # Without an earlier planner there is no late end that would have to be told from this one's.
            if not history.is_new:
                # Ends that an earlier planner writes from here on are ignored by readers.
                await self.record.put_lease(run_id, Lease(events.epoch, leg.number, len(history.steps)))
            self._announce(events, header, leg, turn.attempt, granted, task)
            if reading.asks_back:
                asked = Outcome(StopReason.FINISHED, make_clarification(reading))
                play = Play(rebuild_episode(task, (), ()), asked)
                await self.ends.write(PlayedLeg(play, [], None), header, leg, turn.lane, events, fold)
                return
            started = time.monotonic()
            played = await self._play(task, header, leg, turn.losses, events, history)
            outcome = played.play.outcome
            if outcome.is_house_failure:
                error = NotReady(outcome.error, metadata={"culprit": outcome.culprit})
                await park(events, fold, self.config.outage_s, error)
            learning = prepared.is_learning
            await self.ends.write(played, header, leg, turn.lane, events, fold, is_learning=learning)
            self.pace.note(turn.lane, time.monotonic() - started)

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


def describe_losses(losses: int) -> str:
    """Return why a run is given up that none of its last workers got any further."""
    return f"{losses} workers one after the other did not get it any further"
