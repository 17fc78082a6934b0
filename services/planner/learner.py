"""Learns what ended runs leave in their users' memory, from a durable queue behind the answers.

A lesson may be delivered again, to this planner or another one: what it stores has request ids of the run, and is
stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Call, Lane, calling
from fathom.core.errors import NON_RETRYABLE, FathomError
from fathom.services.planner.proto.memory import NAMES, view_to_proto
from fathom.services.planner.remembering.extraction import Extractor, Learnt
from fathom.services.planner.remembering.lessons import Lesson
from fathom.services.planner.runs.parking import PAUSES
from fathom.services.planner.runs.queue import Consumer
from fathom.services.planner.runs.repository import Header, RunRepository
from fathom.transport.bus.base import Bus, Delivery
from fathom.transport.bus.streams import LEARNERS

# Nobody waits for it: questions come first.
SLOTS, TIMEOUT_S = 2, 90.0


@dataclass
class Learner:
    """Consumer of lessons."""

    bus: Bus
    clients: Clients
    record: RunRepository
    extractor: Extractor
    log: Any
    _consumer: Consumer = field(default_factory=Consumer)

    async def work(self) -> None:
        """Learn until cancelled; what was interrupted is delivered again."""
        await self._consumer.consume(self.bus.consume(LEARNERS), SLOTS, self._handle, self.log)

    def stop_consuming(self) -> None:
        """Take no further lesson."""
        self._consumer.stop_consuming()

    async def _handle(self, delivery: Delivery) -> None:
        lesson = Lesson.parse(delivery.payload)
        # A lane behind people's: vectors and models serve questions first.
        origin = Call.from_headers(delivery.headers)
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

    async def learn(self, lesson: Lesson, header: Header) -> None:
        """Store the views and facts of a run; raise ``FathomError``."""
        for place, view in enumerate(lesson.views):
            made = view_to_proto(replace(view, run=lesson.run_id, day="", tolerance=0.0))
            # When it was told: a lesson may be learnt much later.
            made.create_time.FromMicroseconds(int(header.start_time * 1e6))
            request_id = f"{lesson.run_id}-view-{place}"
            await self.clients.memory.record_stance(pb.RecordStanceRequest(request_id=request_id, stance=made))
        # From the user's own words: an answer or a document says nothing about its reader.
        learnt = await self.extractor.extract(header.question, header.model)
        for one, request in zip(learnt, make_requests(learnt, header), strict=True):
            await self.clients.memory.put_fact(request)
            self.log.info("fact learnt", run_id=lesson.run_id, kind=one.kind.value)


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
