"""Routes of the chat completions API: over the agent below /v1, over the models themselves below /policy/v1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse
from sse_starlette import EventSourceResponse, ServerSentEvent

from fathom.clients.models import require_model
from fathom.core.errors import Cancelled, FathomError, NotFound
from fathom.services.gateway.bodies import read_base_url
from fathom.services.gateway.config import Config
from fathom.services.gateway.engine import AGENT, Engine
from fathom.services.gateway.openai.agent import AgentDoor
from fathom.services.gateway.openai.bodies import AgentRequest, ModelRequest
from fathom.services.gateway.openai.errors import describe_failure
from fathom.services.gateway.openai.model import ModelDoor
from fathom.services.gateway.schemas import describe_events

T = TypeVar("T")
OBJECT: dict[str, Any] = {"schema": {"type": "object", "description": "As OpenAI documents it."}}
CHUNKS = describe_events(
    {"type": "string", "description": "A chunk as OpenAI documents it, in JSON; at the end [DONE]."}
)
COMPLETION: dict[int | str, dict[str, Any]] = {
    200: {"description": "OK", "content": {"application/json": OBJECT, "text/event-stream": {"schema": CHUNKS}}}
}
MODELS: dict[int | str, dict[str, Any]] = {200: {"description": "OK", "content": {"application/json": OBJECT}}}
Key = Annotated[str, Header(description="A repeated request with this key joins the run of the first one.")]


def add_openai(app: FastAPI, engine: Engine, config: Config) -> None:
    """Add the routes that OpenAI's clients call."""
    agent, models = AgentDoor(engine), ModelDoor(engine.clients)

    @app.post("/v1/chat/completions", response_model=None, responses=COMPLETION, tags=["openai"])
    async def ask_agent(body: AgentRequest, request: Request, idempotency_key: Key = "") -> Any:
        """Answer the last message of a conversation by a run of the agent, as OpenAI's chat completions do.

        The id is the run's. Citations are annotations; system messages say what the answer should be like. A run whose
        client goes away is stopped.
        """
        run_id, base_url = await agent.start(body, idempotency_key), read_base_url(request)

        async def stop() -> None:
            await agent.stop(run_id)

        if body.stream:
            chunks = agent.stream(run_id, base_url, body.has_usage_at_end)
            return EventSourceResponse(send_chunks(chunks, stop), ping=config.heartbeat_s, sep="\n")
        found = await await_connected(request, agent.complete(run_id, base_url), stop)
        return JSONResponse(found, headers={"x-fathom-run-id": run_id})

    @app.post("/policy/v1/chat/completions", response_model=None, responses=COMPLETION, tags=["openai"])
    async def sample_model(body: ModelRequest, request: Request) -> Any:
        """Sample one model, without the agent: `return_token_ids` adds the ids of prompt and completion."""
        if body.stream:
            # Before the stream begins: afterwards the status is 200 and cannot say 404.
            await require_model(engine.clients, body.model)
            return EventSourceResponse(send_chunks(models.stream(body)), ping=config.heartbeat_s, sep="\n")
        return JSONResponse(await await_connected(request, models.complete(body)))

    @app.get("/v1/models/{model}", response_model=None, responses=MODELS, tags=["openai"])
    @app.get("/policy/v1/models/{model}", response_model=None, responses=MODELS, tags=["openai"])
    async def get_model(model: str) -> JSONResponse:
        """Return one of the names that requests may use."""
        listed = {found["id"]: found for found in (await engine.list_models())["data"]}
        if model not in listed:
            raise NotFound("model", model, sorted(listed), field="model")
        return JSONResponse(listed[model])

    @app.get("/policy/v1/models", response_model=None, responses=MODELS, tags=["openai"])
    async def list_policy_models() -> JSONResponse:
        """List the models, without the agent."""
        listed = await engine.list_models()
        return JSONResponse({**listed, "data": [model for model in listed["data"] if model["id"] != AGENT]})


async def send_chunks(
    chunks: AsyncGenerator[dict[str, Any], None], stop: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[ServerSentEvent]:
    """Yield chunks as events; a failure is the last one, as the status has been sent. ``stop`` runs on an early end."""
    is_over = False
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield ServerSentEvent(json.dumps(chunk, ensure_ascii=False), sep="\n")
        # Set before the last event: whoever leaves between the two has the whole answer, and there is no run to stop.
        is_over = True
        yield ServerSentEvent("[DONE]", sep="\n")
    except FathomError as error:
        is_over = True
        yield ServerSentEvent(json.dumps(describe_failure(error), ensure_ascii=False), sep="\n")
    finally:
        if not is_over and stop is not None:
            # The client is gone, and this task is being cancelled with it.
            await asyncio.shield(stop())


async def await_connected(request: Request, work: Awaitable[T], stop: Callable[[], Awaitable[None]] | None = None) -> T:
    """Return what ``work`` returns; raise ``Cancelled`` when the client goes away first, after ``stop``."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(wait_for_disconnect(request))
    try:
        # Without a stream nothing is written before the end: only the receiving side tells that the client has left.
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if stop is not None:
            await stop()
        raise Cancelled("the client went away")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def wait_for_disconnect(request: Request) -> None:
    """Return when the client has gone away; the body has been read by then."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
