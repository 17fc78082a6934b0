"""RPCs of reviews: the contract to and from the store, no logic."""

from __future__ import annotations

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.core.call import Call
from fathom.services.memory.reviews.proto import (
    decision_from_proto,
    item_from_proto,
    item_to_proto,
    kind_from_proto,
    queue_to_proto,
)
from fathom.services.memory.reviews.store import Reviews


class ReviewServicer:
    """Answers the RPCs of reviews; a part of the servicer of memory."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    async def AddReviewItems(self, request: pb.AddReviewItemsRequest, call: Call) -> pb.AddReviewItemsResponse:
        items = [item_from_proto(one, f"items[{place}]") for place, one in enumerate(request.items)]
        added, known = await self._reviews.add(items)
        return pb.AddReviewItemsResponse(added=added, known=known)

    async def ListReviewQueues(self, request: pb.ListReviewQueuesRequest, call: Call) -> pb.ListReviewQueuesResponse:
        counts = await self._reviews.list_queues()
        return pb.ListReviewQueuesResponse(queues=[queue_to_proto(kind, found) for kind, found in counts.items()])

    async def ClaimReviewItem(self, request: pb.ClaimReviewItemRequest, call: Call) -> pb.ClaimReviewItemResponse:
        item = await self._reviews.claim(kind_from_proto(request.kind), request.after_id)
        return pb.ClaimReviewItemResponse(item=item_to_proto(item) if item else None)

    async def DecideReviewItem(self, request: pb.DecideReviewItemRequest, call: Call) -> pb.DecideReviewItemResponse:
        item = await self._reviews.decide(request.item_id, request.version, decision_from_proto(request))
        return pb.DecideReviewItemResponse(item=item_to_proto(item))

    async def UndoReviewDecision(
        self, request: pb.UndoReviewDecisionRequest, call: Call
    ) -> pb.UndoReviewDecisionResponse:
        return pb.UndoReviewDecisionResponse(item=item_to_proto(await self._reviews.undo(request.item_id)))

    async def ListReviewDecisions(
        self, request: pb.ListReviewDecisionsRequest, call: Call
    ) -> pb.ListReviewDecisionsResponse:
        # Unlike a claim, a list may be of all queues.
        kind = kind_from_proto(request.kind) if request.kind else None
        page, token = await self._reviews.list_decisions(kind, request.page_size, request.page_token)
        return pb.ListReviewDecisionsResponse(items=map(item_to_proto, page), next_page_token=token)
