"""The gateway's routes: HTTP ⇄ engine, no logic."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Response
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from fathom import distribution_version
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.errors import MissingExtra
from fathom.rpc.service import Deps, nothing
from services.gateway.config import Config
from services.gateway.engine import Engine
from services.gateway.problems import install

STATIC = Path(__file__).with_name("static")
PROTOCOLS = {"research": trajectory.PROTOCOL_RESEARCH, "search_r1": trajectory.PROTOCOL_SEARCH_R1}


@dataclass(frozen=True)
class HttpService:
    """What ``hosting_http`` serves."""

    name: str
    app: FastAPI
    warm_up: Callable[[], Awaitable[None]] = nothing
    close: Callable[[], Awaitable[None]] = nothing


class Ask(BaseModel):
    """A question."""

    model_config = ConfigDict(extra="forbid")
    question: str = Field(description="The question, 1 to 8,000 characters.")
    conversation_id: str = Field("", description="Conversation to go on with; empty starts one.")
    protocol: str = Field("research", pattern="^(research|search_r1)$", description="How the episode talks.")
    model: str = Field("", description="Model; empty means the planner's default.")
    request_id: str = Field("", description="Idempotency key; it becomes the run's id.")


class Feedback(BaseModel):
    """A judgement of an answer."""

    model_config = ConfigDict(extra="forbid")
    helpful: bool
    tags: list[str] = Field(default_factory=list, max_length=20)
    comment: str = Field("", max_length=10_000)


def build(config: Config, deps: Deps) -> HttpService:
    """The gateway; the only constructor."""
    return HttpService("gateway", create_app(config, deps))


def create_app(config: Config, deps: Deps) -> FastAPI:
    """The application with all routes."""
    app = FastAPI(
        title="Fathom",
        version=distribution_version(),
        description="Asks questions, follows runs, reads their tables and figures. Errors are problem details.",
        docs_url=None,
        redoc_url=None,
    )
    install(app, config)
    engine = Engine(config, deps.clients, deps.store)
    add_runs(app, engine, config)
    add_data(app, engine)
    add_conversations(app, engine)
    add_operations(app, engine, deps)
    add_page(app)
    return app


def add_runs(app: FastAPI, engine: Engine, config: Config) -> None:
    @app.post("/v1/runs", status_code=202)
    async def start_run(ask: Ask) -> dict[str, str]:
        """Starts a run; follow it under /v1/runs/{run_id}/events."""
        request = planner.RunRequest(
            request_id=ask.request_id,
            question=ask.question,
            conversation_id=ask.conversation_id,
            protocol=PROTOCOLS[ask.protocol],
            model=ask.model,
        )
        return {"run_id": await engine.start_run(request)}

    @app.get("/v1/runs")
    async def list_runs(page_size: int = 50, page_token: str = "") -> dict[str, Any]:
        """Runs, newest first."""
        return await engine.runs(page_size, page_token)

    @app.get("/v1/runs/{run_id}")
    async def get_run(run_id: str) -> dict[str, Any]:
        """A run with its steps, material and answer so far."""
        return await engine.run(run_id)

    @app.get("/v1/runs/{run_id}/events")
    async def follow_run(
        run_id: str,
        after: Annotated[int, Query(ge=0, description="Only events after this number.")] = 0,
        last_event_id: Annotated[str, Header(description="Sent by browsers that reconnect.")] = "",
    ) -> EventSourceResponse:
        """The run's events as a stream; ids are event numbers, so that a reconnect loses and repeats nothing."""
        start = int(last_event_id) if last_event_id.isdigit() else after

        async def stream() -> AsyncIterator[ServerSentEvent]:
            async for event in engine.events(run_id, start):
                kind = "failure" if "error" in event else "run"
                yield ServerSentEvent(json.dumps(event), event=kind, id=str(event.get("sequence", "")) or None)

        return EventSourceResponse(stream(), ping=int(config.heartbeat_s))

    @app.post("/v1/runs/{run_id}/stop")
    async def stop_run(run_id: str) -> dict[str, Any]:
        """Ends a run; what was collected stays."""
        return await engine.stop(run_id)

    @app.post("/v1/runs/{run_id}/feedback", status_code=204)
    async def judge_run(run_id: str, feedback: Feedback) -> Response:
        """Keeps a judgement of the run's answer."""
        await engine.feedback(run_id, feedback.helpful, feedback.tags, feedback.comment)
        return Response(status_code=204)

    @app.get("/v1/runs/{run_id}/figures/{figure_id}")
    async def get_figure(run_id: str, figure_id: str) -> Response:
        """Plotly JSON of one of the run's figures."""
        return Response(await engine.figure(run_id, figure_id), media_type="application/json")


def add_data(app: FastAPI, engine: Engine) -> None:
    @app.get("/v1/tables/{sheet_id}")
    async def get_table(
        sheet_id: str, offset: int = 0, limit: int = 50, sort: str = "", desc: bool = False
    ) -> dict[str, Any]:
        """A page of rows of the full table behind a reference."""
        return await engine.table(sheet_id, offset, limit, sort, desc)

    @app.get("/v1/tables/{sheet_id}/export")
    async def export_table(sheet_id: str, format: str = "csv") -> Response:
        """The full table as csv or xlsx."""
        file = await engine.export(sheet_id, format)
        disposition = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        return Response(file.content, media_type=file.media_type, headers=disposition)


def add_conversations(app: FastAPI, engine: Engine) -> None:
    @app.get("/v1/conversations")
    async def list_conversations() -> dict[str, Any]:
        """Conversations, most recently used first."""
        return await engine.conversations()

    @app.get("/v1/conversations/{conversation_id}")
    async def list_turns(conversation_id: str) -> dict[str, Any]:
        """The turns of a conversation."""
        return await engine.turns(conversation_id)

    @app.delete("/v1/conversations/{conversation_id}")
    async def delete_conversation(conversation_id: str) -> dict[str, Any]:
        """Deletes a conversation."""
        return await engine.forget(conversation_id)


def add_operations(app: FastAPI, engine: Engine, deps: Deps) -> None:
    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        """Models with their states; ``rules`` is the reference policy, not a language model."""
        return await engine.models()

    @app.get("/healthz/live")
    async def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/healthz/ready")
    async def ready() -> dict[str, str]:
        """Ready when the planner answers."""
        await engine.runs(1, "")
        return {"status": "ready"}

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(deps.telemetry.registry), media_type=CONTENT_TYPE_LATEST)


def add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse((STATIC / "index.html").read_text(encoding="utf-8"))

    @app.get("/static/plotly.min.js", include_in_schema=False)
    async def plotly() -> FileResponse:
        """Plotly's bundle out of the installed package: nothing is fetched from outside."""
        return FileResponse(plotly_bundle(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def plotly_bundle() -> Path:
    """Raises ``MissingExtra`` without the package."""
    try:
        return Path(str(resources.files("plotly").joinpath("package_data", "plotly.min.js")))
    except ModuleNotFoundError as error:
        raise MissingExtra("plotly", "sandbox") from error
