"""Routes by which programs put items into the queues of people, and people decide on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Path, Query, Request, Response

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import PermissionDenied
from fathom.services.gateway.reviews.bodies import (
    AddedItems,
    DecisionPage,
    Item,
    Kind,
    NewDecision,
    NewItems,
    Queues,
    Rights,
    kind_to_proto,
    show_item,
    show_queue,
)
from fathom.services.gateway.users import SCOPES, Right

ItemId = Annotated[str, Path(description="Item id.")]


def add_reviews(app: FastAPI, clients: Clients) -> None:
    """Add the routes."""
    add_rights(app)
    add_queues(app, clients)
    add_decisions(app, clients)


def add_rights(app: FastAPI) -> None:
    """Add the route that says what the caller may do."""

    @app.get("/v1/review/rights")
    async def list_rights(request: Request) -> Rights:
        """List the caller's rights in the review; none is an answer, too: pages show by it what they offer."""
        return Rights(rights=sorted(request.scope.get(SCOPES, ())))


def add_queues(app: FastAPI, clients: Clients) -> None:
    """Add the routes of what waits."""
    by_reviewer = [Depends(require_right(Right.REVIEW))]

    @app.get("/v1/review/queues", dependencies=by_reviewer)
    async def list_queues() -> Queues:
        """Count what waits for people, and what they have decided; 403 for who may not decide."""
        found = await clients.memory.list_review_queues(pb.ListReviewQueuesRequest())
        return Queues(queues=[show_queue(one) for one in found.queues])

    @app.get(
        "/v1/review/queues/{kind}/next",
        dependencies=by_reviewer,
        response_model=Item,
        responses={204: {"description": "Nothing waits"}},
    )
    async def claim_next(
        kind: Kind,
        after: Annotated[str, Query(description="Go on behind this item, and leave it to others.")] = "",
    ) -> Item | Response:
        """Return the oldest item that nobody else holds; others do not get it for ten minutes."""
        request = pb.ClaimReviewItemRequest(kind=kind_to_proto(kind), after_id=after)
        found = await clients.memory.claim_review_item(request)
        return show_item(found.item) if found.HasField("item") else Response(status_code=204)

    @app.post("/v1/review/items", status_code=201, dependencies=[Depends(require_right(Right.REVIEW_ITEMS))])
    async def add_items(body: NewItems) -> AddedItems:
        """Put items into queues; a known key adds nothing, and with another item is 409."""
        items = [one.to_proto() for one in body.items]
        request = pb.AddReviewItemsRequest(request_id=body.request_id, items=items)
        found = await clients.memory.add_review_items(request)
        return AddedItems(added=found.added, known=found.known)


def add_decisions(app: FastAPI, clients: Clients) -> None:
    """Add the routes that decide, take a decision back, and list decisions."""
    by_reviewer = [Depends(require_right(Right.REVIEW))]

    @app.post("/v1/review/items/{item_id}/decision", dependencies=by_reviewer)
    async def decide(item_id: ItemId, body: NewDecision) -> Item:
        """Decide on an item and return it with whose the texts are; 409 when somebody has decided meanwhile."""
        return show_item((await clients.memory.decide_review_item(body.request(item_id))).item)

    @app.delete("/v1/review/items/{item_id}/decision", dependencies=by_reviewer)
    async def undo(item_id: ItemId) -> Item:
        """Take the caller's decision back, within ten minutes, and return the open item."""
        request = pb.UndoReviewDecisionRequest(item_id=item_id)
        return show_item((await clients.memory.undo_review_decision(request)).item)

    @app.get("/v1/review/decisions", dependencies=by_reviewer)
    async def list_decisions(
        kind: Annotated[Kind | Literal[""], Query(description="Only of this queue; empty is all.")] = "",
        page_size: Annotated[int, Query(ge=0, le=1000, description="At most this many; 0 means 100.")] = 100,
        page_token: Annotated[str, Query(description="Where to go on: next_page_token of the page before.")] = "",
    ) -> DecisionPage:
        """List decided items, those decided last first."""
        request = pb.ListReviewDecisionsRequest(kind=kind_to_proto(kind), page_size=page_size, page_token=page_token)
        found = await clients.memory.list_review_decisions(request)
        return DecisionPage(decisions=[show_item(item) for item in found.items], next_page_token=found.next_page_token)


def require_right(right: Right) -> Callable[[Request], None]:
    """Return a check that refuses callers without a right."""

    def check(request: Request) -> None:
        # Before the body is read: whoever may not is not told either what would be wrong with it.
        if right not in request.scope.get(SCOPES, ()):
            raise PermissionDenied(f'needs the scope "{right}"')

    return check
