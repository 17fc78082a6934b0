"""Takes runs from the queue and plays them; a run whose worker died comes again and goes on from its record."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.bus.base import Bus, Delivery, Message
from fathom.bus.streams import control_subject, run_durable, run_subject
from fathom.call import Call, Lane, calling
from fathom.clients import Clients
from fathom.errors import FathomError, NotFound
from fathom.protocol.messages import Message as Said
from fathom.protocol.messages import Role
from fathom.protocol.proto import sampling_from_proto
from fathom.store.refs import to_ref
from services.planner.config import Config
from services.planner.convert import step_from_proto, step_to_proto, trajectory_to_proto
from services.planner.engine import Engine, Play, asked_on, bounded, limits, tightened
from services.planner.events import Events, RunObserver, heartbeat
from services.planner.model import Stop, Task
from services.planner.protocols import EpisodeProtocol
from services.planner.record import Header, Record
from services.planner.window.convert import settings_from_proto

LANES = {
    Lane.INTERACTIVE: common.LANE_INTERACTIVE,
    Lane.EVALUATION: common.LANE_EVALUATION,
    Lane.TRAINING: common.LANE_TRAINING,
}


@dataclass
class Worker:
    """Plays queued runs of one lane, ``config.concurrent_runs`` at a time."""

    config: Config
    engine: Engine
    protocols: dict[int, EpisodeProtocol]
    record: Record
    clients: Clients
    bus: Bus
    log: Any

    async def submit(self, header: Header, lane: Lane) -> None:
        """Queues a run once, however often it is submitted."""
        await self.bus.publish(run_subject(lane), header.run_id.encode(), message_id=f"run:{header.run_id}")

    async def work(self, lane: Lane) -> None:
        """Consumes until cancelled; runs that are cut short go back to the queue at once."""
        gate = asyncio.Semaphore(self.config.concurrent_runs)
        async with asyncio.TaskGroup() as group:
            await gate.acquire()
            async for delivery in self.bus.consume(run_durable(lane)):
                group.create_task(self._settle(delivery, lane, gate))
                await gate.acquire()

    async def _settle(self, delivery: Delivery, lane: Lane, gate: asyncio.Semaphore) -> None:
        alive = asyncio.create_task(heartbeat(delivery, self.config.heartbeat_s))
        run_id = delivery.payload.decode()
        try:
            await self._run(run_id, delivery.attempt, lane)
            await delivery.ack()
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
            gate.release()

    async def _run(self, run_id: str, attempt: int, lane: Lane) -> None:
        header = await self.record.header(run_id)
        if await self.record.trajectory(run_id) is not None:
            return
        request = pb.RunRequest.FromString(bytes.fromhex(header.request))
        protocol = self.protocols[request.protocol]
        steps = [step_from_proto(step) for step in await self.record.steps(run_id)]
        events = Events(self.bus, run_id)
        if attempt > 1 and steps:
            events.skip(steps)
        else:
            await self._announce(events, header, attempt)
        timeout_s = self.config.max_run_ms / 1000 + 30
        with calling(Call.new(lane=lane, timeout_s=timeout_s)):
            task = await self._task(header, request)
            observer = RunObserver(events, self.record, run_id, protocol.prompt_hash(task))
            control = await self.bus.serve(control_subject(run_id), run_id, self._control(run_id))
            try:
                play = await self.engine.play(task, protocol, observer, steps)
            finally:
                await control.close()
            await self._end(play, request, header, lane, protocol, observer)

    async def _announce(self, events: Events, header: Header, attempt: int) -> None:
        started = pb.RunStarted(
            run_id=header.run_id,
            conversation_id=header.conversation_id,
            question=header.question,
            model=header.model,
            attempt=attempt - 1,
        )
        await events.publish(started=started)

    async def _task(self, header: Header, request: pb.RunRequest) -> Task:
        config, budget = self.config, request.budget
        bounds = limits(
            tightened(budget.max_rounds, config.max_rounds, "budget.max_rounds"),
            tightened(budget.max_tokens, config.max_tokens, "budget.max_tokens"),
            tightened(budget.max_ms, config.max_run_ms, "budget.max_ms"),
            header.start_time,
        )
        sampling = bounded(sampling_from_proto(request.sampling), config.completion_tokens)
        history = await self._history(request.conversation_id)
        as_of = request.as_of if request.HasField("as_of") else None
        window = settings_from_proto(request.window, config.window)
        prompts = self.protocols[request.protocol].prompts(header.question, header.run_id, request.prompts)
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
            window=window,
        )

    async def _history(self, conversation_id: str) -> tuple[Said, ...]:
        """The window of the conversation: full turns as messages, older ones as their points."""
        if not conversation_id:
            return ()
        window = await self.clients.memory.get_window(memory.GetWindowRequest(conversation_id=conversation_id))
        said: list[Said] = []
        for turn in window.turns:
            answer = turn.answer or "\n".join(f"- {point}" for point in turn.bullets)
            said += [Said(Role.USER, turn.question), Said(Role.ASSISTANT, answer or "-")]
        return tuple(said)

    async def _end(
        self,
        play: Play,
        request: pb.RunRequest,
        header: Header,
        lane: Lane,
        protocol: EpisodeProtocol,
        observer: RunObserver,
    ) -> None:
        """Keeps the trajectory, tells the reader, remembers the turn; in this order, each idempotent."""
        episode, outcome = play.episode, play.outcome
        await self._remember(header, play)
        steps = [step_to_proto(step, protocol.prompt_hash(episode.task)) for step in episode.steps]
        trajectory = trajectory_to_proto(episode, outcome, request.protocol, LANES[lane], steps)
        stored = await self.record.finish(trajectory)
        await observer.ended(episode, outcome, to_ref(stored))
        self.log.info(
            "run ended", run_id=header.run_id, stop=outcome.stop.value, rounds=len(episode.steps), error=outcome.error,
            seconds=round(time.time() - header.start_time, 3),
        )  # fmt: skip

    async def _remember(self, header: Header, play: Play) -> None:
        """Appends the turn; an answer is still given when memory is out of reach, and the log says so."""
        if play.outcome.stop is not Stop.FINISHED or play.outcome.answer is None:
            return
        turn = memory.Turn(question=header.question, answer=play.outcome.answer.markdown, run_id=header.run_id)
        request = memory.AppendTurnRequest(request_id=header.run_id, conversation_id=header.conversation_id, turn=turn)
        try:
            await self.clients.memory.append_turn(request)
        except FathomError as error:
            self.log.error("turn was not remembered", run_id=header.run_id, error=error.message)

    def _control(self, run_id: str) -> Any:
        async def stop(message: Message) -> Message:
            return Message(message.subject, b"stopping" if self.engine.stop(run_id) else b"")

        return stop
