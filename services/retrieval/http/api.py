"""HTTP API ``POST /retrieve`` and ``POST /rerank`` in the format of Search-R1's trainer; a small ASGI application.

Served by the same engine as gRPC and NATS. Formats and defaults are those of the trainer's client; where the reference
server fails, this one answers: without scores, with fewer hits than requested, for an empty query.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fathom.core.call import AUTHORIZATION_HEADER
from fathom.core.errors import FathomError, InvalidField, NotFound, Overloaded
from fathom.core.identity import Tokens
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.engine import MAX_QUERIES, MAX_TOP_K, Engine
from fathom.transport.rpc.door import read_bearer

if TYPE_CHECKING:
    from fathom.services.retrieval.index.rerank import Reranker

# A trainer asks for a whole batch of rollouts in one request; a reranker's precision falls beyond 100 candidates.
MAX_BODY_BYTES, MAX_BATCH, MAX_CANDIDATES = 32 << 20, 8_192, 100
# A large batch may fill the queue by half and leave the rest to other callers (8 x 256 of 4,096).
SLICES_AT_ONCE = 8
# Overload is 503 with Retry-After and not 429: clients of Search-R1 and verl retry 5xx alone.
STATUS = {
    "INVALID_ARGUMENT": 422, "NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 503, "UNAVAILABLE": 503,
    "UNAUTHENTICATED": 401, "DEADLINE_EXCEEDED": 504, "FAILED_PRECONDITION": 412, "ABORTED": 409, "UNIMPLEMENTED": 501,
}  # fmt: skip
PORT = re.compile(r":\d+$")
Scored = list[tuple[Any, float]]


class Retrieve(BaseModel):
    """Body of ``/retrieve``. ``topk`` null or 0 means the default; a reranker uses the other two."""

    model_config = ConfigDict(extra="ignore")

    queries: list[str] = Field(max_length=MAX_BATCH)
    topk: int | None = Field(default=None, ge=0, le=MAX_TOP_K)
    return_scores: bool = False
    topk_retrieval: int | None = Field(default=None, ge=1, le=MAX_CANDIDATES)
    topk_rerank: int | None = Field(default=None, ge=1, le=MAX_CANDIDATES)


class Rerank(BaseModel):
    """Body of ``/rerank``: for each query its documents, as texts or as objects with ``contents``."""

    model_config = ConfigDict(extra="ignore")

    queries: list[str] = Field(max_length=MAX_BATCH)
    documents: list[list[str | dict[str, Any]]]
    rerank_topk: int | None = Field(default=None, ge=1, le=MAX_CANDIDATES)
    return_scores: bool = False


class KnownHosts:
    """Middleware that refuses requests addressed to other host names than these; "*" allows any."""

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app, self._names = app, frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = PORT.sub("", Headers(scope=scope).get("host", "")) if scope["type"] == "http" else "*"
        if "*" in self._names or host in self._names or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        detail = f"host {host!r} is not in http_allowed_hosts (FATHOM_RETRIEVAL_HTTP_ALLOWED_HOSTS)"
        refused = JSONResponse({"detail": detail, "reason": "INVALID_FIELD", "field": "host"}, 421)
        await refused(scope, receive, send)


class HttpApi:
    """The routes of one engine. ``scorer`` is None without a reranker."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        corpus: str = "",
        scorer: Reranker | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """Create the routes; ``tokens`` verifies callers, None where identity is off."""
        self._config, self._engine, self._corpus, self._scorer = config, engine, corpus, scorer
        self._tokens = tokens

    def make_app(self) -> Starlette:
        """Create the application."""
        return Starlette(
            # A page of another site whose name was rebound to this machine still sends its own name.
            middleware=[Middleware(KnownHosts, names=self._config.http_allowed_hosts)],
            routes=[
                Route("/retrieve", wrap_handler(self.retrieve), methods=["POST"]),
                Route("/rerank", wrap_handler(self.rerank), methods=["POST"]),
                Route("/health", wrap_handler(self.health), methods=["GET"]),
                Route("/openapi.json", wrap_handler(self.describe), methods=["GET"]),
            ],
        )

    def _admit(self, request: Request) -> None:
        """Raise ``Unauthenticated`` for a token that is not valid, or missing where one is required."""
        if self._tokens is not None and (self._config.http_require_token or AUTHORIZATION_HEADER in request.headers):
            self._tokens.verify(read_bearer(request.headers), "retrieval")

    async def retrieve(self, request: Request) -> Any:
        """Return per query, in order, documents with or without scores; an invalid query has no documents."""
        self._admit(request)
        body = await read_body(request, Retrieve)
        # Trainers send null or 0 for "your default".
        wanted = body.topk or self._config.http_top_k
        if body.topk_rerank is not None or body.topk_retrieval is not None:
            found = await self._rank(body.queries, body.topk_retrieval or 10)
            documents = [[item for item, _ in hits] for hits in found]
            found = await self._rerank(body.queries, documents, body.topk_rerank or 3)
        else:
            found = await self._rank(body.queries, wanted)
        return {"result": [self._shape(hits, body.return_scores) for hits in found]}

    async def rerank(self, request: Request) -> Any:
        """Return each query's documents, best first."""
        self._admit(request)
        body = await read_body(request, Rerank)
        if len(body.documents) != len(body.queries):
            raise InvalidField("documents", f"{len(body.documents)} lists for {len(body.queries)} queries")
        if any(len(group) > MAX_CANDIDATES for group in body.documents):
            raise InvalidField(
                "documents", f"more than {MAX_CANDIDATES} for one query: a reranker gets worse with more"
            )
        found = await self._rerank(body.queries, body.documents, body.rerank_topk or 3)
        return {"result": [self._shape(hits, body.return_scores) for hits in found]}

    async def health(self, request: Request) -> Any:
        """Report the served snapshot; raise an error when it cannot be served."""
        snapshot = await self._engine.corpora.get_snapshot(self._corpus)
        batches, queries = self._engine.executor.batches
        return {
            "batches": batches, "queries": queries, "cached": self._engine.executor.hits,
            "status": "ok", "snapshot": snapshot.id, "documents": snapshot.manifest.documents,
            "encoder": snapshot.encoder, "index": snapshot.manifest.index,
        }  # fmt: skip

    async def describe(self, request: Request) -> Any:
        """Return the OpenAPI document."""
        return make_openapi()

    async def _rank(self, queries: Sequence[str], count: int) -> list[Scored]:
        gate = asyncio.Semaphore(SLICES_AT_ONCE)

        async def rank_part(start: int) -> list[Scored]:
            async with gate:
                some = queries[start : start + MAX_QUERIES]
                found = await self._engine.rank(some, count, corpus=self._corpus)
            return [
                # A batch of a trainer keeps its length: a bad query is an empty list in its place.
                [] if isinstance(hits, FathomError) else [(to_row(item), score) for item, score in hits]
                for hits in found.results
            ]

        parts = await asyncio.gather(*(rank_part(start) for start in range(0, len(queries), MAX_QUERIES)))
        return [hits for some in parts for hits in some]

    async def _rerank(self, queries: Sequence[str], documents: Sequence[Sequence[Any]], count: int) -> list[Scored]:
        scorer = self._scorer
        if scorer is None:
            raise NotFound("reranker", "on this server")

        def work() -> list[Scored]:
            result: list[Scored] = []
            for query, group in zip(queries, documents, strict=True):
                texts = [get_text(item) for item in group]
                # The reference server fails on an empty query or group; a batch must not be lost for it.
                scores = [float(score) for score in scorer.score(query, texts)] if texts and query.strip() else []
                order = sorted(range(len(scores)), key=lambda at: -scores[at])[:count]
                result.append([(group[at], scores[at]) for at in order])
            return result

        # A cross-encoder computes for seconds.
        return await asyncio.to_thread(work)

    def _shape(self, hits: Scored, with_scores: bool) -> Any:
        if self._config.http_shape == "parallel":
            scores = [replace_non_finite(score) for _, score in hits] if with_scores else None
            return {"document": [item for item, _ in hits], "scores": scores}
        if with_scores:
            return [{"document": item, "score": replace_non_finite(score)} for item, score in hits]
        return [item for item, _ in hits]


def to_row(document: Document) -> dict[str, str]:
    """Return the document as a Search-R1 corpus row."""
    return {"id": document.id, "contents": document.contents}


def get_text(item: Any) -> str:
    """Return the text to rerank; raise ``InvalidField`` for an object without contents."""
    if isinstance(item, str):
        return item
    text = item.get("contents", item.get("text"))
    if not isinstance(text, str):
        raise InvalidField("documents", "an object has neither contents nor text")
    return text


def replace_non_finite(score: float) -> float:
    """Replace a non-finite score by 0."""
    # JSON has neither infinities nor NaN.
    return score if math.isfinite(score) else 0.0


async def read_body(request: Request, model: type[Any]) -> Any:
    """Parse the body; raise ``InvalidField`` naming the field, or "body" if it is not JSON or too large."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        # Counted while it arrives: Content-Length may be missing or wrong.
        if len(data) > MAX_BODY_BYTES:
            raise InvalidField("body", f"has more than {MAX_BODY_BYTES:,} bytes")
    try:
        return model.model_validate_json(bytes(data), strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidField(".".join(str(part) for part in first["loc"]) or "body", first["msg"]) from error


def wrap_handler(handler: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """Wrap a handler: its value becomes JSON, a typed error its status with ``detail``, ``reason`` and ``field``."""

    async def route(request: Request) -> Response:
        headers: dict[str, str] = {}
        try:
            content, status = await handler(request), 200
        except FathomError as error:
            status = STATUS.get(error.code, 500)
            content = {"detail": error.message, "reason": error.reason, **error.metadata}
            if isinstance(error, Overloaded):
                headers["retry-after"] = str(math.ceil(error.retry_after_s or 1))
        return Response(
            json.dumps(content, ensure_ascii=False).encode(), status, headers, media_type="application/json"
        )

    return route


def make_openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the two POST routes."""

    def post(model: type[BaseModel]) -> dict[str, Any]:
        schema = model.model_json_schema()
        return {
            "post": {
                "summary": (model.__doc__ or "").splitlines()[0],
                "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
                "responses": {
                    "200": {"description": "One entry per query, in order, under `result`."},
                    **{str(code): {"description": name} for name, code in STATUS.items() if code in (422, 503)},
                },
            }
        }

    return {
        "openapi": "3.1.0",
        "info": {"title": "Fathom retrieval, HTTP API in the format of Search-R1", "version": "1"},
        "paths": {"/retrieve": post(Retrieve), "/rerank": post(Rerank)},
    }
