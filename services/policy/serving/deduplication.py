"""Generations keyed by request id: sampled once, streamed to any number of callers, cached for retries."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial

from fathom.core.broadcast import Broadcast
from fathom.core.cache import BoundedCache
from fathom.core.deadline import time_limit
from fathom.core.errors import Cancelled, Conflict, FathomError, Internal
from fathom.core.ids import sha256
from fathom.domain.chat.messages import Completion
from fathom.services.policy.model import Item, Request, ThoughtDelta, WaitChange

# What CPython 3.11 takes: an integer has an object of its own unless it is small, a number with a point always has.
POINTER_BYTES, INTEGER_BYTES, FLOAT_BYTES, LARGEST_SHARED_INTEGER = 8, 28, 24, 256
# A piece of text, and one of a thought with its object; a generation with its task, its list of items and its entry.
PIECE_BYTES, THOUGHT_BYTES, GENERATION_BYTES = 80, 200, 4_096
Source = Callable[[Request], AsyncGenerator[Item, None]]


class Generation:
    """One sampling run; it is cancelled when its last watcher leaves."""

    def __init__(self, request: Request, source: Source) -> None:
        self.request_id = request.request_id
        self._request: Request | None = request
        self._digest = ""
        self.size_bytes = GENERATION_BYTES
        self._items = Broadcast[Item]()
        self._watchers = 0
        self.task = asyncio.create_task(self._run(source, request), name=f"generation {request.request_id}")

    @property
    def is_running(self) -> bool:
        return not self._items.is_closed

    @property
    def is_completed(self) -> bool:
        return self._items.is_closed and self._items.error is None

    def cancel(self) -> None:
        """Stop the sampling; remaining watchers get ``Cancelled``."""
        if self.is_running:
            self._items.close(Cancelled("the generation was abandoned"))
            self.task.cancel()

    def answers(self, request: Request) -> bool:
        """Return whether it is the generation of this very request."""
        return self._request == request if self._request is not None else self._digest == digest_request(request)

    def release_request(self) -> None:
        """Hold the digest of the request in its place, whose whole conversation is larger than most results."""
        request, self._request = self._request, None
        if request is not None:
            self._digest = digest_request(request)

    async def _run(self, source: Source, request: Request) -> None:
        try:
            async with aclosing(source(request)) as items:
                async for item in items:
                    self._items.add(item)
                    self.size_bytes += size_of(item)
                    # Closed with the completion and not after the generator, whose own clean-up must not delay the
                    # watchers.
                    if isinstance(item, Completion):
                        self._items.close()
            # Counts only when nothing else has ended it.
            self._items.close(Internal("the engine ended without a completion"))
        except FathomError as error:
            self._items.close(error)
        except Exception as error:  # engines raise anything; every watcher gets a typed error
            failure = Internal(f"the engine failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._items.close(failure)

    async def watch(self, remaining_s: Callable[[], float | None]) -> AsyncGenerator[Item, None]:
        """Yield all pieces of text, then the completion.

        Raises the source's error, or ``DeadlineExceeded`` when this watcher's own time is up.
        """
        self._watchers += 1
        try:
            async with aclosing(self._items.read()) as items:
                while True:
                    # The limit holds while the next item is awaited, not while the watcher works on this one.
                    async with time_limit(remaining_s(), "policy", "sampling was stopped at the deadline"):
                        item = await anext(items, None)
                    if item is None:
                        return
                    yield item
        finally:
            self._watchers -= 1
            # Nobody would read the rest: sampling it would only take the place of another generation.
            if not self._watchers:
                self.cancel()


def digest_request(request: Request) -> str:
    """Return a digest of all fields; equal requests, whose fields have the same types, have the same."""
    return sha256(repr(request).encode())


def size_of(item: Item) -> int:
    """Return the approximate bytes of memory that a piece or a completion takes."""
    if isinstance(item, str):
        return PIECE_BYTES + len(item.encode())
    if isinstance(item, ThoughtDelta):
        return THOUGHT_BYTES + len(item.text.encode())
    if isinstance(item, WaitChange):
        return PIECE_BYTES
    texts = [item.text, item.reasoning, item.opaque_json]
    texts += [text for call in item.tool_calls for text in (call.id, call.name, call.arguments_json)]
    numbers = measure_ids(item.prompt_token_ids) + measure_ids(item.sampled_token_ids)
    numbers += (POINTER_BYTES + FLOAT_BYTES) * len(item.log_probs)
    return numbers + sum(PIECE_BYTES + len(text.encode()) for text in texts)


def measure_ids(ids: Sequence[int]) -> int:
    """Return the bytes of token ids; those of a tokenizer of bytes are shared by the whole process."""
    return POINTER_BYTES * len(ids) + INTEGER_BYTES * sum(map(LARGEST_SHARED_INTEGER.__lt__, ids))


class Generations:
    """Running generations, and the completed ones used last: at most ``capacity``, within ``max_bytes``."""

    def __init__(self, source: Source, capacity: int, max_bytes: int) -> None:
        self._source = source
        self._running: dict[str, Generation] = {}
        # No lifetime: a retry after hours gets the same completion as long as it is among the last ones and memory
        # allows.
        self._completed = BoundedCache[str, Generation](max_entries=capacity, max_bytes=max_bytes, ttl_s=math.inf)

    def join(self, request: Request) -> Generation:
        """Return the generation of this request id, starting it if new.

        Raises ``Conflict`` when the id was used for a different request.
        """
        # Two samplings under one id would give a trainer two different answers to one request.
        known = self._running.get(request.request_id) or self._completed.get(request.request_id)
        # A failed or abandoned one is forgotten, so that a retry runs again.
        if known is not None and not (known.is_running or known.is_completed):
            known = None
        if known is not None and not known.answers(request):
            raise Conflict(
                f"request_id {request.request_id!r} was used for another request", metadata={"field": "request_id"}
            )
        if known is None:
            known = Generation(request, self._source)
            self._running[request.request_id] = known
            known.task.add_done_callback(partial(self._settle, known))
        return known

    def _settle(self, ended: Generation, task: asyncio.Task[None]) -> None:
        request_id = ended.request_id
        # A retry may have replaced a failed generation under the same id before its task came here.
        if self._running.get(request_id) is ended:
            del self._running[request_id]
            if ended.is_completed:
                ended.release_request()
                self._completed.put(request_id, ended, ended.size_bytes)

    def cancel(self) -> None:
        """Stop all running generations, for the shutdown of the service."""
        for generation in list(self._running.values()):
            generation.cancel()
