"""Calls of the queues: items are sent in batches, decisions are read page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField

KINDS = {
    "comparison": pb.REVIEW_KIND_COMPARISON,
    "rewriting": pb.REVIEW_KIND_REWRITING,
    "hallucination": pb.REVIEW_KIND_HALLUCINATION,
    "candidate": pb.REVIEW_KIND_CANDIDATE,
    "recheck": pb.REVIEW_KIND_RECHECK,
}
# A call is all or nothing: a small one that is refused takes less along, and none comes near a message's limit.
BATCH_ITEMS, BATCH_BYTES = 100, 8 << 20
# Pages hold whole texts: larger ones would come near a message's limit.
PAGE = 200


def find_kind(name: str) -> pb.ReviewKind:
    """Return a queue by its name; raise ``InvalidField("kind")``."""
    if name not in KINDS:
        raise InvalidField("kind", f"{name!r} is none of {', '.join(KINDS)}")
    return KINDS[name]


def batch(items: Sequence[pb.NewReviewItem]) -> Iterator[list[pb.NewReviewItem]]:
    """Yield the items in batches that one call takes."""
    # By bytes as well as by number: a report with its material is a thousand times a rewriting.
    part, size = list[pb.NewReviewItem](), 0
    for item in items:
        if part and (len(part) == BATCH_ITEMS or size + item.ByteSize() > BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += item.ByteSize()
    if part:
        yield part


async def send_items(clients: Clients, items: Sequence[pb.NewReviewItem]) -> tuple[int, int]:
    """Add items; return how many were new, and how many were there. May be repeated after a failure."""
    added = known = 0
    for part in batch(items):
        done = await clients.memory.add_review_items(pb.AddReviewItemsRequest(items=part))
        added, known = added + done.added, known + done.known
    return added, known


async def read_decisions(clients: Clients, kind: pb.ReviewKind) -> AsyncIterator[pb.ReviewItem]:
    """Yield the decided items of a queue, those decided last first."""
    request = pb.ListReviewDecisionsRequest(kind=kind, page_size=PAGE)
    while True:
        page = await clients.memory.list_review_decisions(request)
        for item in page.items:
            yield item
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
