"""Life cycle of the HTTP server that runs beside the gRPC one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.errors import MissingExtra
from fathom.rpc.host import Runtime, hosting_http
from fathom.rpc.service import Deps, nothing
from services.retrieval.config import Config
from services.retrieval.engine import Engine

if TYPE_CHECKING:
    from services.retrieval.rerank import Reranker


@dataclass(frozen=True)
class HttpService:
    """Service run by ``hosting_http``."""

    name: str
    app: Any
    warm_up: Callable[[], Awaitable[None]] = nothing
    close: Callable[[], Awaitable[None]] = nothing


class Doorway:
    """The HTTP server of one service; opens none when disabled in the settings."""

    def __init__(self, config: Config, engine: Engine, deps: Deps) -> None:
        self._config, self._engine, self._deps = config, engine, deps
        self._stack = AsyncExitStack()
        self.url = ""

    async def open(self) -> None:
        """Serve until ``close``; raise ``PortInUse``, or ``MissingExtra`` without the web packages."""
        if self._config.http_port < 0:
            return
        try:
            from services.retrieval.door import Door
        except ImportError as error:
            raise MissingExtra(error.name or "starlette", "retrieval") from error
        scorer = await asyncio.to_thread(scorer_of, self._config)  # a model takes seconds to load
        if scorer is not None:
            self._stack.push_async_callback(asyncio.to_thread, scorer.close)
        service = HttpService("retrieval-http", Door(self._config, self._engine, scorer=scorer).app())
        runtime = Runtime(host=self._config.http_host, port=self._config.http_port)
        hosted = await self._stack.enter_async_context(hosting_http(service, self._deps, runtime))
        self.url = hosted.url
        self._deps.telemetry.log.info("serving /retrieve", url=self.url)

    async def close(self) -> None:
        """Drain and close."""
        await self._stack.aclose()


def scorer_of(config: Config) -> Reranker | None:
    """Load the configured reranker, None if there is none; blocking, call in a thread."""
    if not config.reranker:
        return None
    from services.retrieval.rerank import CrossEncoder, TeiReranker

    if config.reranker.startswith(("http://", "https://")):
        return TeiReranker(config.reranker)
    return CrossEncoder(Path(config.reranker))
