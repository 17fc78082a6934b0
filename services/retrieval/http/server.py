"""Life cycle of the HTTP server that runs beside the gRPC one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.core.config import ConfigError
from fathom.core.errors import MissingExtra
from fathom.core.identity import SETTING, VARIABLE
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting_http
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.engine import Engine
from fathom.transport.rpc.service import nothing

if TYPE_CHECKING:
    from fathom.services.retrieval.index.rerank import Reranker


@dataclass(frozen=True)
class HttpService:
    """Service run by ``hosting_http``."""

    name: str
    app: Any
    is_open: bool = False
    """Nobody is identified, and nothing of a tenant is served."""
    warm_up: Callable[[], Awaitable[None]] = nothing
    close: Callable[[], Awaitable[None]] = nothing


class HttpServer:
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
            # Imported here: starlette is an extra, which a service without this API does not need.
            from fathom.services.retrieval.http.api import HttpApi
        except ImportError as error:
            raise MissingExtra(error.name or "starlette", "retrieval") from error
        scorer = await asyncio.to_thread(load_reranker, self._config)  # a model takes seconds to load
        if scorer is not None:
            # Registered before the server: the stack closes in reverse, so requests end before their reranker.
            self._stack.push_async_callback(asyncio.to_thread, scorer.close)
        tokens = self._deps.tokens
        if self._config.http_require_token and tokens is None:
            field = "retrieval.http_require_token"
            raise ConfigError(f"{field}: tokens need {SETTING} ({VARIABLE})", metadata={"field": field})
        app = HttpApi(self._config, self._engine, scorer=scorer, tokens=tokens).make_app()
        service = HttpService("retrieval-http", app)
        runtime = Runtime(host=self._config.http_host, port=self._config.http_port)
        hosted = await self._stack.enter_async_context(hosting_http(service, self._deps, runtime))
        self.url = hosted.url
        self._deps.telemetry.log.info("serving /retrieve", url=self.url)

    async def close(self) -> None:
        """Drain and close."""
        await self._stack.aclose()


def load_reranker(config: Config) -> Reranker | None:
    """Load the configured reranker, None if there is none; blocking, call in a thread."""
    if not config.reranker:
        return None
    from fathom.services.retrieval.index.rerank import CrossEncoder, TeiReranker

    if config.reranker.startswith(("http://", "https://")):
        return TeiReranker(config.reranker)
    return CrossEncoder(Path(config.reranker))
