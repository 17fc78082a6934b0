"""Durable queue of rollouts: a task is redelivered until its group is played and stored, even if planners die.

A task is one message of the stream ROLLOUTS. It is acknowledged when every trajectory of its group is in the object
store and published on the bus. The first notice of a place decides which trajectory counts: a planner that comes
second, e.g. after a pause longer than its lease, deletes its own trajectory. Tasks without watchers are set aside: see
``fathom.services.planner.rollouts.leases``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fathom.api.common.v1.common_pb2 import ObjectRef
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, Trajectory
from fathom.core.call import Call, Lane, bind, calling, current_origin
from fathom.core.errors import NON_RETRYABLE, Cancelled, Conflict, FathomError, InvalidField, NotFound
from fathom.core.ids import checked_id, sha256
from fathom.services.planner.config import Config
from fathom.services.planner.rollouts.leases import WatcherLeases
from fathom.services.planner.rollouts.service import Rollouts, choose_lane
from fathom.services.planner.rollouts.storage import PROTOBUF, Place, format_key, register_request
from fathom.services.planner.runs.log.events import send_heartbeats
from fathom.services.planner.runs.queue import Consumer
from fathom.transport.bus.base import Bus, Delivery
from fathom.transport.bus.streams import MAX_DELIVER, rollout_durable, rollout_subject, trajectory_subject
from fathom.transport.store import ObjectStore, StoredObject
from fathom.transport.store.refs import to_ref

STOPPED = "stopped"
AGAIN_S = 2.0
"""Seconds before the first redelivery of a task with failed episodes; doubled each time."""


@dataclass
class RolloutQueue:
    """Queue of rollouts: accepts requests, plays their tasks, streams their trajectories."""

    config: Config
    rollouts: Rollouts
    store: ObjectStore
    bus: Bus
    log: Any
    leases: WatcherLeases
    _consumer: Consumer = field(default_factory=Consumer)

    async def submit(self, request: pb.RolloutRequest, lane: Lane) -> str:
        """Queue each task once, even if repeated, and return the rollout's id.

        Raises ``InvalidField``, ``Conflict`` (the id belongs to another rollout) or ``Overloaded`` (a retry continues).
        """
        if not request.request_id:
            raise InvalidField("rollout.request_id", "is missing: it makes a repetition the same rollout")
        rollout_id = checked_id("rollout.request_id", request.request_id)
        self.rollouts.check(request)
        await register_request(self.store, rollout_id, request)
        await self.leases.begin(rollout_id)
        # Written after the last task: a submission that broke off in the middle queues the rest, and tasks queued
        # before are deduplicated by their message id.
        if await self.store.head(f"rollouts/{rollout_id}/queued") is not None:
            return rollout_id
        await self.store.put(format_request_key(rollout_id), request.SerializeToString(deterministic=True), PROTOBUF)
        for index in range(len(request.tasks)):
            name = f"{rollout_id}:{index}"
            await self.bus.publish(
                rollout_subject(choose_lane(lane)),
                name.encode(),
                message_id=f"rollout:{bind(name)}",
                headers=current_origin(),
            )
        await self.store.put(f"rollouts/{rollout_id}/queued", b"", "text/plain")
        return rollout_id

    async def watch(self, rollout_id: str, after: int) -> AsyncGenerator[tuple[int, Trajectory], None]:
        """Yield the rollout's trajectories with their sequence numbers, until the last one.

        Raises ``NotFound``, or ``Cancelled`` when the rollout was stopped.
        """
        request = await self.get_request(rollout_id)
        wanted, found = len(request.tasks) * request.group_size, set[str]()
        await self.leases.begin(rollout_id)
        async with self._hold_lease(rollout_id), aclosing(self.bus.follow(trajectory_subject(rollout_id))) as notices:
            async for notice in notices:
                if notice.subject == trajectory_subject(rollout_id, STOPPED):
                    raise Cancelled(f"rollout {rollout_id} was stopped")
                # By subject: each place has its own, whichever planner announced it.
                found.add(notice.subject)
                # Earlier ones are counted but not sent again.
                if notice.sequence > after:
                    ref = ObjectRef.FromString(notice.payload)
                    data = await self.store.get(ref.key, ref.sha256)
                    yield notice.sequence, Trajectory.FromString(data)
                if len(found) == wanted:
                    return

    @asynccontextmanager
    async def _hold_lease(self, rollout_id: str) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self.leases.keep(rollout_id), name=f"waiting for {rollout_id}")
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def stop(self, rollout_id: str) -> bool:
        """Cancel a rollout; return False when it was cancelled before. Raises ``NotFound``."""
        await self.get_request(rollout_id)
        if await self.is_stopped(rollout_id):
            return False
        await self.store.put(format_stop_key(rollout_id), b"", "text/plain")
        subject = trajectory_subject(rollout_id, STOPPED)
        await self.bus.publish(subject, b"", message_id=f"{bind(rollout_id)}:{STOPPED}")
        return True

    async def get_request(self, rollout_id: str) -> pb.RolloutRequest:
        """Return the queued request; raise ``NotFound``."""
        try:
            return pb.RolloutRequest.FromString(await self.store.get(format_request_key(rollout_id)))
        except NotFound as error:
            raise NotFound("queued rollout", rollout_id) from error

    async def is_stopped(self, rollout_id: str) -> bool:
        return await self.store.head(format_stop_key(rollout_id)) is not None

    async def work(self, lane: Lane) -> None:
        """Play tasks of a lane until cancelled, ``config.concurrent_tasks`` at a time."""
        deliveries = self.bus.consume(rollout_durable(lane))
        await self._consumer.consume(deliveries, self.config.concurrent_tasks, partial(self._handle, lane), self.log)

    def stop_consuming(self) -> None:
        """Stop consuming; running tasks continue."""
        self._consumer.stop_consuming()

    async def _handle(self, lane: Lane, delivery: Delivery) -> None:
        rollout_id, _, number = delivery.payload.decode().partition(":")
        playing = asyncio.create_task(self._play_task(rollout_id, int(number or 0), delivery, lane))
        # A lease that was lost is no harm: the places that another planner has filled stay as they are.
        alive = asyncio.create_task(send_heartbeats(delivery, self.config.heartbeat_s, lambda: None))
        watching = asyncio.create_task(self._cancel_when_unwanted(rollout_id, playing))
        try:
            if await playing:
                await delivery.ack()
            else:
                await delivery.nak(AGAIN_S * 2 ** (delivery.attempt - 1))
        except asyncio.CancelledError:
            # Cancelled by the watch below, not from outside: the task is over and must not be delivered again.
            if playing.cancelled() and await self._is_unwanted(rollout_id, int(number or 0), delivery, lane):
                await delivery.ack()
                return
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            await asyncio.shield(delivery.nak())
            raise
        except NotFound as error:
            await delivery.dead_letter(error.message)
        except Exception as error:
            # A bug must not end the consumption; the bus delivers the task again, a bounded number of times.
            self.log.exception("queued task was cut short", rollout_id=rollout_id, task=number, error=str(error))
            # Longer each time: deliveries are counted, and a store that is away for half a minute must not use them up.
            await delivery.nak(AGAIN_S * 2 ** (delivery.attempt - 1))
        finally:
            alive.cancel()
            watching.cancel()

    async def _cancel_when_unwanted(self, rollout_id: str, playing: asyncio.Task[bool]) -> None:
        """Cancel ``playing`` when the rollout is stopped or has no watcher any more."""
        while True:
            await asyncio.sleep(self.config.heartbeat_s)
            with suppress(FathomError):  # an unreachable store is reported by the episodes themselves
                if await self.is_stopped(rollout_id) or not await self.leases.is_held(rollout_id):
                    playing.cancel()
                    return

    async def _is_unwanted(self, rollout_id: str, index: int, delivery: Delivery, lane: Lane) -> bool:
        """Return whether the task was cancelled, or set aside because it has no watcher."""
        return await self.is_stopped(rollout_id) or await self.leases.set_aside(rollout_id, index, delivery, lane)

    async def _play_task(self, rollout_id: str, index: int, delivery: Delivery, lane: Lane) -> bool:
        """Play the missing episodes of a task's group; return False when it must be redelivered."""
        attempt, request = delivery.attempt, await self.get_request(rollout_id)
        if await self._is_unwanted(rollout_id, index, delivery, lane):
            return True
        kept = await self._publish_stored(rollout_id, index)
        missing = [(index, sample) for sample in range(request.group_size) if (index, sample) not in kept]
        if not missing:
            return True
        self.log.info("queued task acquired", rollout_id=rollout_id, task=index, attempt=attempt, missing=len(missing))
        if attempt >= MAX_DELIVER:  # the last delivery is for publishing a failure, instead of silence
            error = f"planner: {attempt - 1} workers did not get it to its end"
            await self._give_up(rollout_id, missing, Trajectory(error=error, culprit="planner"))
            return True
        # The very last delivery only reports; this one is the last that plays, so its failures stay.
        final = attempt == MAX_DELIVER - 1
        rounds = -(-len(missing) // (request.concurrency or self.config.concurrent_rollouts))
        # Episodes of a group run `concurrency` at a time; half a minute more for grading and storing.
        timeout_s = rounds * (self.rollouts.longest_s(request) + self.config.rollout_patience_s) + 30
        call = replace(Call.from_headers(delivery.headers, timeout_s), lane=lane)
        try:
            with calling(call):
                return await self._play(request, rollout_id, missing, lane, final=final)
        except FathomError as error:
            lasting = error.code in NON_RETRYABLE
            if not lasting and not final:
                self.log.warning("queued task comes again", rollout_id=rollout_id, task=index, error=error.message)
                return False
            # Another attempt would fail again, or there is none left: the watcher gets a failed trajectory.
            code, culprit = error.code if lasting else "", error.metadata.get("culprit", "")
            failed = Trajectory(error=error.message, culprit=culprit, error_code=code)
            await self._give_up(rollout_id, missing, failed)
            return True

    async def _play(
        self, request: pb.RolloutRequest, rollout_id: str, missing: Sequence[Place], lane: Lane, *, final: bool
    ) -> bool:
        """Play and store episodes; return False when some failed and a retry may succeed."""
        whole = True
        async with aclosing(self.rollouts.play(request, rollout_id, missing, lane)) as ended:
            async for message in (message async for messages in ended for message in messages):
                if message.stop_reason == STOP_REASON_FAILED and not (final or message.error_code):
                    whole = False
                    self.log.warning("queued episode failed", rollout_id=rollout_id, error=message.error)
                else:
                    await self._store_trajectory(message, rollout_id)
        return whole

    async def _give_up(self, rollout_id: str, places: Sequence[Place], failed: Trajectory) -> None:
        """Store failures for the places that have no trajectory."""
        kept = {
            place for index in {index for index, _ in places} for place in await self._publish_stored(rollout_id, index)
        }
        for index, sample in (place for place in places if place not in kept):
            failed.task_index, failed.sample_index, failed.stop_reason = index, sample, STOP_REASON_FAILED
            failed.run_id = f"{rollout_id}-{index}-{sample}"
            await self._store_trajectory(failed, rollout_id)

    async def _store_trajectory(self, message: Trajectory, rollout_id: str) -> None:
        """Store and publish a trajectory, unless its place already has one."""
        data = message.SerializeToString(deterministic=True)
        place = (message.task_index, message.sample_index)
        stored = await self.store.put(
            f"rollouts/{rollout_id}/{format_key(*place)}-{sha256(data)[:16]}.pb", data, PROTOBUF
        )
        # The first notice counts: another planner was faster, and watchers have its trajectory.
        if not await self._publish(rollout_id, place, stored):
            await self.store.delete(stored.key)

    async def _publish(self, rollout_id: str, place: Place, stored: StoredObject) -> bool:
        """Publish the notice of a place; return False when it already has one."""
        subject, notice = trajectory_subject(rollout_id, format_key(*place)), to_ref(stored).SerializeToString()
        try:
            await self.bus.publish(subject, notice, message_id=f"{bind(rollout_id)}:{stored.key}", expected=0)
        except Conflict:
            return False
        return True

    async def _publish_stored(self, rollout_id: str, index: int) -> set[Place]:
        """Return the places of a task with a trajectory; publish notices that a previous planner had not sent."""
        found = set()
        for stored in await self.store.list(f"rollouts/{rollout_id}/{index:04d}-"):
            sample = int(stored.key.rpartition("/")[2].split("-")[1])
            await self._publish(rollout_id, (index, sample), stored)
            found.add((index, sample))
        return found


def format_request_key(rollout_id: str) -> str:
    """Return the object key of a queued request."""
    return f"rollouts/{checked_id('rollout_id', rollout_id)}/request.protobuf"


def format_stop_key(rollout_id: str) -> str:
    """Return the key of the object that marks a cancelled rollout."""
    return f"rollouts/{checked_id('rollout_id', rollout_id)}/{STOPPED}"
