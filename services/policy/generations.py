"""Generations keyed by request id: sampled once, streamed to any number of callers, cached for retries."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from fathom.errors import Cancelled, Conflict, DeadlineExceeded, FathomError, Internal
from fathom.protocol.messages import Completion
from services.policy.model import Request

Source = Callable[[Request], AsyncGenerator[str | Completion, None]]


class Generation:
    """One sampling run; it is cancelled when its last watcher leaves."""

    def __init__(self, request: Request, source: Source) -> None:
        self.request = request
        self._pieces: list[str] = []
        self._completion: Completion | None = None
        self._error: FathomError | None = None
        self._watchers = 0
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run(source), name=f"generation {request.request_id}")

    @property
    def running(self) -> bool:
        return self._completion is None and self._error is None

    @property
    def completed(self) -> bool:
        return self._completion is not None

    def cancel(self) -> None:
        """Stop the sampling; remaining watchers get ``Cancelled``."""
        if self.running:
            self._error = Cancelled("the generation was abandoned")
            self._task.cancel()

    async def _run(self, source: Source) -> None:
        try:
            async with aclosing(source(self.request)) as items:
                async for item in items:
                    if isinstance(item, Completion):
                        self._completion = item
                    else:
                        self._pieces.append(item)
                    self._tell()
            if self._completion is None:
                raise Internal("the engine ended without a completion")
        except FathomError as error:
            self._error = error
        except Exception as error:
            self._error = Internal(f"the engine failed: {type(error).__name__}: {error}")
            self._error.__cause__ = error
        finally:
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def watch(self, remaining_s: Callable[[], float | None]) -> AsyncGenerator[str | Completion, None]:
        """Yield all pieces of text, then the completion.

        Raises the source's error, or ``DeadlineExceeded`` when this watcher's own time is up.
        """
        self._watchers += 1
        position = 0
        try:
            while True:
                while position < len(self._pieces):
                    yield self._pieces[position]
                    position += 1
                if self._completion is not None:
                    yield self._completion
                    return
                if self._error is not None:
                    raise self._error
                await self._wait(remaining_s())
        finally:
            self._watchers -= 1
            if not self._watchers:
                self.cancel()

    async def _wait(self, remaining_s: float | None) -> None:
        try:
            await asyncio.wait_for(self._news.wait(), remaining_s)
        except TimeoutError as error:
            raise DeadlineExceeded("sampling was stopped at the deadline", metadata={"culprit": "policy"}) from error


class Generations:
    """Running generations, and the last ``capacity`` completed ones."""

    def __init__(self, source: Source, capacity: int) -> None:
        self._source, self._capacity = source, capacity
        self._known: OrderedDict[str, Generation] = OrderedDict()

    def join(self, request: Request) -> Generation:
        """Return the generation of this request id, starting it if new.

        Raises ``Conflict`` when the id was used for a different request.
        """
        known = self._known.get(request.request_id)
        # A failed or abandoned one is forgotten, so that a retry runs again.
        if known is not None and not (known.running or known.completed):
            known = None
        if known is not None and known.request != request:
            raise Conflict(
                f"request_id {request.request_id!r} was used for another request", metadata={"field": "request_id"}
            )
        if known is None:
            known = Generation(request, self._source)
            self._known[request.request_id] = known
        self._known.move_to_end(request.request_id)
        self._trim()
        return known

    def _trim(self) -> None:
        for request_id in list(self._known):
            if len(self._known) <= self._capacity:
                return
            if not self._known[request_id].running:
                del self._known[request_id]

    def cancel(self) -> None:
        """Stop all running generations, for the shutdown of the service."""
        for generation in self._known.values():
            generation.cancel()
