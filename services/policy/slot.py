"""One model behind the door: its life, its admission, its backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from fathom.errors import FathomError, Internal, NotReady, Overloaded, VersionMismatch
from fathom.protocol.messages import Completion
from services.policy.config import ModelConfig
from services.policy.model import Backend, ModelInfo, Request, State

RETRY_WHILE_WARMING_S, RETRY_WHEN_FULL_S = 1.0, 0.5
DETAILS = {
    "rules": "Deterministic reference policy: fixed rules, no neural network.",
    "transformers": "Causal language model in this process.",
    "vllm": "Causal language model in vLLM's engine.",
    "openai": "Model behind a compatible endpoint; token ids and log-probabilities are not exact.",
}


class Slot:
    """A model by name. Bounds what runs and what waits; ``pause`` closes the way in, not the way out."""

    def __init__(self, name: str, config: ModelConfig, open_backend: Callable[[], Backend]) -> None:
        self.name, self.config = name, config
        self._open = open_backend
        self._backend: Backend | None = None
        self._error: FathomError | None = None
        self._running = asyncio.Semaphore(config.running)
        self._waiting = 0
        self._admitting = asyncio.Event()
        self._admitting.set()
        self._swapping = asyncio.Lock()

    async def load(self, folder: Path | None = None, version: int = 0) -> None:
        """Opens the backend with its configured model, or with a fetched version.

        A failure is kept and raised by whoever needs the model.
        """
        try:
            backend = self._open()
            await (backend.load() if folder is None else backend.load_weights(folder, version))
        except FathomError as error:
            self._error = error
        except Exception as error:
            self._error = Internal(f"model {self.name!r} cannot be loaded: {type(error).__name__}: {error}")
            self._error.__cause__ = error
        else:
            self._backend = backend

    @property
    def info(self) -> ModelInfo:
        backend = self._backend
        state, detail = State.READY, DETAILS[self.config.engine]
        if self._error is not None:
            state, detail = State.FAILED, self._error.message
        elif backend is None:
            state, detail = State.WARMING, "Being loaded."
        elif not self._admitting.is_set():
            state, detail = State.PAUSED, "Generations wait until it is resumed."
        return ModelInfo(
            name=self.name,
            engine=self.config.engine,
            state=state,
            policy_version=backend.version if backend else 0,
            window_tokens=backend.window_tokens if backend else self.config.window_tokens,
            exact=self.config.engine != "openai",
            detail=detail,
        )

    @property
    def backend(self) -> Backend:
        """The loaded backend; raises why it could not be loaded, or ``NotReady`` while it is."""
        if self._error is not None:
            raise self._error
        if self._backend is None:
            raise NotReady(f"model {self.name!r} is being loaded", retry_after_s=RETRY_WHILE_WARMING_S)
        return self._backend

    def pause(self) -> None:
        self._admitting.clear()

    def resume(self) -> None:
        self._admitting.set()

    async def generate(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Waits for its turn, then samples; raises ``Overloaded``, ``NotReady`` or ``VersionMismatch``."""
        backend = self.backend
        async with self._admission():
            # Checked when its turn comes: the version may have changed while it waited.
            if request.policy_version not in (0, backend.version):
                raise VersionMismatch(self.name, request.policy_version, backend.version)
            async with aclosing(backend.generate(request)) as items:
                async for item in items:
                    yield item

    @asynccontextmanager
    async def _admission(self) -> AsyncIterator[None]:
        if self._waiting >= self.config.waiting and (self._running.locked() or not self._admitting.is_set()):
            raise Overloaded(
                f"model {self.name!r} has {self.config.running} generations running and {self._waiting} waiting",
                RETRY_WHEN_FULL_S,
            )
        self._waiting += 1
        try:
            while True:
                await self._admitting.wait()
                await self._running.acquire()
                if self._admitting.is_set():
                    break
                self._running.release()  # paused while it waited for its turn
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._running.release()

    async def load_weights(self, folder: Path, version: int) -> int:
        """Serves the version of ``folder``; returns the one served before. One swap at a time."""
        backend = self.backend
        async with self._swapping:
            previous = backend.version
            await backend.load_weights(folder, version)
            return previous

    async def close(self) -> None:
        if self._backend is not None:
            await self._backend.close()
