"""Learns what ended runs leave in their users' memory, from a durable queue behind the answers.

A lesson may be delivered again, to this planner or another one: what it stores has request ids of the run, and is
stored once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Call, Lane, calling, current_call
from fathom.core.errors import NON_RETRYABLE, Conflict, FathomError, NotFound
from fathom.services.planner.model.memory import View
from fathom.services.planner.proto.memory import NAMES, view_to_proto
from fathom.services.planner.remembering.extraction import Extractor, Learnt
from fathom.services.planner.remembering.lessons import Lesson
from fathom.services.planner.remembering.typed_views import ViewTypist
from fathom.services.planner.runs.log.events import send_heartbeats
from fathom.services.planner.runs.playing.parking import PAUSES
from fathom.services.planner.runs.queue import Consumer
from fathom.services.planner.runs.repository import Header, RunRepository
from fathom.transport.bus.base import Bus, Delivery
from fathom.transport.bus.streams import LEARNERS

# Nobody waits for it: questions come first.
SLOTS, TIMEOUT_S = 2, 90.0
MAX_FACTS = 200


@dataclass
class Learner:
    """Consumer of lessons."""

    bus: Bus
    clients: Clients
    record: RunRepository
    extractor: Extractor
    log: Any
    heartbeat_s: float
    typist: ViewTypist | None = None
    _consumer: Consumer = field(default_factory=Consumer)

    async def work(self) -> None:
        """Learn until cancelled; what was interrupted is delivered again."""
        await self._consumer.consume(self.bus.consume(LEARNERS), SLOTS, self._handle, self.log)

    def stop_consuming(self) -> None:
        """Take no further lesson."""
        self._consumer.stop_consuming()

    async def _handle(self, delivery: Delivery) -> None:
        lesson = Lesson.parse(delivery.payload)
        # A model takes longer than the queue waits, and the lesson would be learnt again beside this.
        alive = asyncio.create_task(send_heartbeats(delivery, self.heartbeat_s, lambda: None))
        # A lane behind people's: vectors and models serve questions first.
        origin = current_call() or Call.new()
        call = Call.new(lane=Lane.TRAINING, tenant=origin.tenant, timeout_s=TIMEOUT_S, traceparent=origin.traceparent)
        try:
            # Who asked stands in the header, and only then can memory be called for them.
            with calling(call):
                header = await self.record.get_header(lesson.run_id)
            with calling(replace(call, principal=header.principal)):
                await self.learn(lesson, header)
            await delivery.ack()
        except FathomError as error:
            self.log.warning("nothing was learnt of a run", run_id=lesson.run_id, error=error.message)
            # What another attempt would meet again is no lesson.
            await (delivery.ack() if error.code in NON_RETRYABLE else delivery.nak(PAUSES.delay_s(delivery.attempt)))
        finally:
            alive.cancel()

    async def learn(self, lesson: Lesson, header: Header) -> None:
        """Store the views and facts of a run; raise ``FathomError``."""
        for place, view in enumerate(await self._list_views(lesson, header)):
            made = view_to_proto(replace(view, run=lesson.run_id, day="", tolerance=0.0))
            # When it was told: a lesson may be learnt much later.
            made.create_time.FromMicroseconds(int(header.start_time * 1e6))
            request_id = f"{lesson.run_id}-view-{place}"
            # A model may word a view otherwise when it is asked again: what was stored first stands.
            with suppress(Conflict):
                await self.clients.memory.record_stance(pb.RecordStanceRequest(request_id=request_id, stance=made))
        await self._learn_facts(header)

    async def _learn_facts(self, header: Header) -> None:
        """Store the facts of a run's question, and delete those learnt ones that it takes back."""
        known = await self._list_learnt(header)
        # From the user's own words: an answer or a document says nothing about its reader.
        found = await self.extractor.extract(header.question, header.model, [one.text for one in known])
        for place in found.withdrawn:
            # Its user may have deleted it meanwhile.
            with suppress(NotFound):
                await self.clients.memory.delete_fact(pb.DeleteFactRequest(fact_id=known[place].id))
            self.log.info("fact withdrawn", run_id=header.run_id)
        for one, request in zip(found.facts, make_requests(found.facts, header), strict=True):
            await self.clients.memory.put_fact(request)
            self.log.info("fact learnt", run_id=header.run_id, kind=one.kind.value)

    async def _list_learnt(self, header: Header) -> list[pb.Fact]:
        """Return what memory has learnt from earlier runs than this one, the newest first."""
        listed = (await self.clients.memory.list_facts(pb.ListFactsRequest(page_size=MAX_FACTS))).facts
        # What somebody has entered or edited is theirs to delete; of this run a lesson may have stored some already.
        return [
            one
            for one in listed
            if one.origin == pb.FACT_ORIGIN_LEARNT
            and one.run_id != header.run_id
            # The switch of memory itself is its user's alone.
            and one.kind != pb.FACT_KIND_MEMORY
            and one.update_time.ToMicroseconds() <= int(header.start_time * 1e6)
        ]

    async def _list_views(self, lesson: Lesson, header: Header) -> Sequence[View]:
        """Return the views of an answer by a language model, else those that were read with the answer."""
        if self.typist is None or not lesson.statements:
            return lesson.views
        typed = await self.typist.read(lesson.statements, header.question, (), header.model)
        return lesson.views if typed is None else typed


def make_requests(learnt: Sequence[Learnt], header: Header) -> list[pb.PutFactRequest]:
    """Return the requests that store the facts of a run."""
    requests = []
    for place, one in enumerate(learnt):
        fact = pb.Fact(
            text=one.text,
            kind=NAMES[one.kind],
            value=one.value,
            subject=one.subject,
            run_id=header.run_id,
            conversation_id=header.conversation_id,
            confidence=one.confidence,
            origin=pb.FACT_ORIGIN_LEARNT,
        )
        fact.update_time.FromMicroseconds(int(header.start_time * 1e6))
        requests.append(pb.PutFactRequest(request_id=f"{header.run_id}-fact-{place}", fact=fact))
    return requests
