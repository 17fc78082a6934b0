"""Worker that consumes runs from the queue and plays them; a run of a dead worker is redelivered and resumed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.bus.base import Bus, Delivery
from fathom.bus.streams import MAX_DELIVER, control_subject, run_durable
from fathom.call import Call, Lane, calling
from fathom.clients import Clients
from fathom.errors import FathomError, NotFound, NotReady
from fathom.protocol.messages import Message as Said
from fathom.protocol.messages import Role
from fathom.protocol.proto import sampling_from_proto
from fathom.store.refs import to_ref
from services.planner.config import Config
from services.planner.control import Desk, ask_to_stop
from services.planner.convert import step_from_proto, trajectory_to_proto
from services.planner.delegation import submit
from services.planner.engine import Engine, Play, asked_on, bounded, cheaper, limits, tightened
from services.planner.events import Events, heartbeat
from services.planner.fence import TakenOver
from services.planner.intake import Intake
from services.planner.journal import Journal
from services.planner.model import Outcome, Stop, Task, rebuilt
from services.planner.observer import RunObserver, tell_end
from services.planner.playing import AnyProtocol
from services.planner.record import Header, Leg, Record, Taken
from services.planner.window.convert import settings_from_proto
from services.planner.workflow.pipeline import rewritten

STOP_ASKED = 3
"""Attempts to reach a planner that listens for a run, to stop it."""
LANES = {
    Lane.INTERACTIVE: common.LANE_INTERACTIVE,
    Lane.EVALUATION: common.LANE_EVALUATION,
    Lane.TRAINING: common.LANE_TRAINING,
}


@dataclass
class Worker:
    """Player of queued runs, ``config.concurrent_runs`` at a time per lane and depth."""

    config: Config
    engine: Engine
    protocols: Mapping[int, AnyProtocol]
    record: Record
    clients: Clients
    bus: Bus
    log: Any
    _looking: set[asyncio.Task[None]] = field(default_factory=set)
    _intake: Intake = field(default_factory=Intake)

    async def submit(self, header: Header, lane: Lane, leg: Leg) -> None:
        """Queue a leg of a run; idempotent."""
        await submit(self.bus, header, lane, leg)

    async def work(self, lane: Lane, depth: int) -> None:
        """Consume until cancelled; interrupted runs return to the queue immediately."""
        # Each depth of delegation has its own queue and slots, so that a run waiting for its sub-runs never holds a
        # slot that they need.
        deliveries = self.bus.consume(run_durable(lane, depth))
        await self._intake.work(deliveries, self.config.concurrent_runs, partial(self._settle, lane), self.log)

    def take_no_more(self) -> None:
        """Stop consuming; running ones continue, and ``work`` returns when they end."""
        self._intake.take_no_more()

    async def _settle(self, lane: Lane, delivery: Delivery) -> None:
        run_id, _, number = delivery.payload.decode().partition(":")
        events = Events(self.bus, run_id)
        late = partial(self._late, events)
        alive = asyncio.create_task(heartbeat(delivery, self.config.heartbeat_s, late))
        try:
            await self._run(events, int(number or 0), delivery.attempt, lane)
            await delivery.ack()
        except TakenOver as error:  # the delivery is that planner's now, and so is its end
            self.log.warning("run was lost to another planner", run_id=run_id, error=error.message)
        except asyncio.CancelledError:
            await asyncio.shield(delivery.nak())
            raise
        except NotFound as error:
            await delivery.dead_letter(error.message)
        except Exception as error:
            # The bus delivers it again, a bounded number of times, and then keeps it as a dead letter.
            self.log.exception("run was cut short", run_id=run_id, attempt=delivery.attempt, error=str(error))
            await delivery.nak(1.0)
        finally:
            alive.cancel()

    def _late(self, events: Events) -> None:
        """Verify ownership after a heartbeat later than the lease.

        Stop the run when another planner has taken it over.
        """

        async def look() -> None:
            try:
                await events.confirm()
            except TakenOver:
                self.engine.stop(events.run_id)
            except FathomError as error:
                self.log.warning("run could not be confirmed", run_id=events.run_id, error=error.message)

        if events.epoch:
            looking = asyncio.create_task(look(), name=f"confirm {events.run_id}")
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)

    async def _run(self, events: Events, number: int, attempt: int, lane: Lane) -> None:
        run_id = events.run_id
        header = await self.record.header(run_id)
        leg = await self.record.leg(header)
        if number < leg.number:  # that leg has ended and was told, or there would be no further one
            return
        try:
            await events.take_up(attempt)
            self.log.info("run taken up", run_id=run_id, leg=leg.number, attempt=attempt)
            finished = await self.record.finished(run_id, leg.number)
            if finished is not None:  # the worker that ended it may not have told
                await tell_end(events, finished[0], to_ref(finished[1]))
                return
            timeout_s = self.config.max_run_ms / 1000 + 30
            call = Call.new(lane=lane, tenant=header.tenant, timeout_s=timeout_s, traceparent=header.traceparent)
            with calling(call):
                task = await self._task(header, header.run_request(), leg)
                self._announce(events, header, leg, attempt)
                play = await self._play(task, self.protocols[header.spoken], leg, attempt, events)
                await self._end(play, header, leg, lane, events)
        finally:
            await events.close()

    async def _play(self, task: Task, protocol: AnyProtocol, leg: Leg, attempt: int, events: Events) -> Play:
        """Play from the last recorded step on, and serve control requests for the run meanwhile."""
        run_id = task.run_id
        steps = [step_from_proto(step) for step in await self.record.steps(run_id)]
        await self.record.take_up(run_id, Taken(events.epoch, leg.number, len(steps)))
        journal = Journal(self.record, run_id, events.epoch)
        prompt_hash, window = protocol.prompt_hash(task), self.config.window_tokens
        observer = RunObserver(events, self.record, journal, run_id, prompt_hash, window)
        await observer.retell(steps)
        cut_short = await journal.read(len(steps))
        desk = Desk(run_id, self.engine, self.record, events, observer)
        control = await self.bus.serve(control_subject(run_id), run_id, desk.answer)
        try:
            early = await self._given_up(run_id, leg, attempt)  # after serve: from here on a stop is heard
            if early is not None:
                return Play(rebuilt(task, protocol.opening(task), steps), early)
            edited = await desk.unseen(steps, cut_short)
            return await self.engine.play(task, protocol, observer, steps, cut_short, edited)
        finally:
            await control.close()
            await journal.end()

    async def _given_up(self, run_id: str, leg: Leg, attempt: int) -> Outcome | None:
        """Return the outcome of a run that must not be played: stopped while queued, or out of attempts; else None."""
        if await self.record.marked_stopped(run_id, leg.number):
            return Outcome(Stop.STOPPED)
        if attempt >= MAX_DELIVER:
            # The last delivery is for an end that the reader sees, instead of silence.
            return Outcome(Stop.FAILED, None, f"planner: {attempt - 1} workers did not get it to its end", "planner")
        return None

    def _announce(self, events: Events, header: Header, leg: Leg, attempt: int) -> None:
        started = pb.RunStarted(
            run_id=header.run_id,
            conversation_id=header.conversation_id,
            question=header.question,
            model=header.model,
            attempt=attempt - 1,
            protocol=header.spoken,
        )
        events.publish(started=started)
        if leg.number:
            events.publish(resumed=pb.RunResumed(leg=leg.number, step=leg.steps, budget=leg.budget()))

    async def _task(self, header: Header, request: pb.RunRequest, leg: Leg) -> Task:
        config = self.config
        bounds = limits(
            tightened(leg.max_rounds, config.max_rounds, "budget.max_rounds"),
            tightened(leg.max_tokens, config.max_tokens, "budget.max_tokens"),
            tightened(leg.max_ms, config.max_run_ms, "budget.max_ms"),
            leg.start_time,
            cheaper(leg.max_cost, config.max_cost, "budget.max_cost"),
            leg.steps,
        )
        sampling = bounded(sampling_from_proto(request.sampling), config.completion_tokens)
        history = await self._history(request.conversation_id)
        as_of = request.as_of if request.HasField("as_of") else None
        window = settings_from_proto(request.window, config.window)
        prompts = self.protocols[header.spoken].prompts(header.question, header.run_id, request.prompts)
        return Task(
            header.run_id,
            header.question,
            header.model,
            sampling,
            bounds,
            history=history,
            as_of=as_of,
            prompts=prompts,
            date=asked_on(as_of, header.start_time),
            depth=header.depth,
            window=window,
        )

    async def _history(self, conversation_id: str) -> tuple[Said, ...]:
        """Return the conversation's window as messages: recent turns in full, older ones as bullet points."""
        if not conversation_id:
            return ()
        window = await self.clients.memory.get_window(memory.GetWindowRequest(conversation_id=conversation_id))
        said: list[Said] = []
        for turn in window.turns:
            answer = turn.answer or "\n".join(f"- {point}" for point in turn.bullets)
            said += [Said(Role.USER, turn.question), Said(Role.ASSISTANT, answer or "-")]
        return tuple(said)

    async def _end(self, play: Play, header: Header, leg: Leg, lane: Lane, events: Events) -> None:
        """Record the trajectory, publish the end, stop sub-runs; in this order, each step idempotent."""
        episode, outcome = play.episode, play.outcome
        await events.confirm()  # else it is another planner's to end
        await self._remember(header, play)
        steps = await self.record.steps(header.run_id)
        trajectory = trajectory_to_proto(episode, outcome, header.spoken, LANES[lane], steps)
        trajectory.leg, trajectory.parent_run_id = leg.number, header.parent_run_id
        stored = await self.record.finish(trajectory, epoch=events.epoch)
        await tell_end(events, trajectory, to_ref(stored))
        await self._stop_children(header.run_id)
        self.log.info(
            "run ended", run_id=header.run_id, stop=outcome.stop.value, rounds=len(episode.steps), error=outcome.error,
            seconds=round(time.time() - leg.start_time, 3),
        )  # fmt: skip

    async def stop(self, run_id: str) -> bool:
        """End a run, immediately when a worker has it, else when one takes it; return whether a worker had it."""
        header = await self.record.header(run_id)
        leg = await self.record.leg(header)
        if await self.record.finished(run_id, leg.number) is not None:
            return False
        await self.record.mark_stopped(run_id, leg.number)
        for _ in range(STOP_ASKED):
            try:
                if await ask_to_stop(self.bus, run_id):
                    return True
            except NotReady:  # nobody is working on it
                return False
            # A planner that has lost the run, or has just ended it, answers for it a last time.
            if await self.record.finished(run_id, leg.number) is not None:
                return False
        return False

    async def _stop_children(self, run_id: str) -> None:
        """Stop the delegated runs, because the ended run does not need them any more."""
        for child in await self.record.children(run_id):
            with suppress(NotFound):  # a worker was lost before it had written the header
                await self.stop(child)

    async def _remember(self, header: Header, play: Play) -> None:
        """Append the turn to the conversation; a failure of memory is logged and does not fail the run."""
        if play.outcome.stop is not Stop.FINISHED or play.outcome.answer is None or header.parent_run_id:
            return
        turn = memory.Turn(
            question=header.question,
            rewritten_question=rewritten(play.episode.steps),
            answer=play.outcome.answer.markdown,
            run_id=header.run_id,
        )
        request = memory.AppendTurnRequest(request_id=header.run_id, conversation_id=header.conversation_id, turn=turn)
        try:
            await self.clients.memory.append_turn(request)
        except FathomError as error:
            self.log.error("turn was not remembered", run_id=header.run_id, error=error.message)
