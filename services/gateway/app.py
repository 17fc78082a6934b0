"""The gateway's routes: HTTP to and from the engine, no logic."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import date
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sse_starlette import EventSourceResponse, ServerSentEvent

from fathom import __version__
from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.core.telemetry import Telemetry
from fathom.domain.training_report.reader import TrainingReader
from fathom.services.gateway import problems
from fathom.services.gateway.bodies import (
    CONSENTS,
    MAX_INT32,
    MAX_INT64,
    MAX_TABLES,
    Accepted,
    Ask,
    ConsentBody,
    ConsentState,
    ConversationEdit,
    Limits,
    NegativesQuery,
    PageSize,
    PageToken,
    Resume,
    RunId,
    TablePage,
    TodoEdit,
)
from fathom.services.gateway.cells.routes import add_cells
from fathom.services.gateway.cells.running import CellRunner
from fathom.services.gateway.config import Config
from fathom.services.gateway.engine import FIGURE_TYPES, UPLOADS, Engine
from fathom.services.gateway.guard import FIGURE_POLICY, Guard, Prefixed
from fathom.services.gateway.library.routes import add_library
from fathom.services.gateway.links.routes import add_links
from fathom.services.gateway.links.sharing import Sharing
from fathom.services.gateway.links.store import LinkStore
from fathom.services.gateway.openai import errors
from fathom.services.gateway.openai.errors import OpenAiErrors
from fathom.services.gateway.openai.routes import add_openai
from fathom.services.gateway.own_tables.routes import add_meanings
from fathom.services.gateway.page import add_page
from fathom.services.gateway.profile.judgements import add_feedback
from fathom.services.gateway.profile.routes import add_profile
from fathom.services.gateway.reports.naming import name_file
from fathom.services.gateway.reports.routes import add_reports
from fathom.services.gateway.reviews.routes import add_reviews
from fathom.services.gateway.schedules.firing import Scheduler
from fathom.services.gateway.schedules.routes import add_schedules
from fathom.services.gateway.schedules.store import ScheduleStore
from fathom.services.gateway.schemas import (
    FILE_BODY,
    add_message,
    describe_events,
    describe_files,
    describe_json_text,
    describe_response,
    reference,
)
from fathom.services.gateway.sources.routes import add_sources
from fathom.services.gateway.tables import View
from fathom.services.gateway.trainings import add_trainings
from fathom.services.gateway.users import Users

DOCUMENTED_MESSAGES = (
    datafetch.ListFrameworksResponse, datafetch.GetFrameworkFileResponse, datafetch.CheckFrameworkResponse,
    datafetch.ImportTableResponse, datafetch.ApplyMeaningResponse,
    planner.RunEvent, planner.GetRunResponse, planner.StopRunResponse, planner.ListRunsResponse,
    planner.UpdateTodoResponse, planner.ReplayRunResponse, planner.ListPromptsResponse,
    memory.ListConversationsResponse, memory.ListTurnsResponse, memory.DeleteConversationResponse,
    memory.ListFactsResponse, memory.ListStancesResponse, memory.PutFactResponse,
    policy.ListModelsResponse, retrieval.ImportDocumentResponse,
)  # fmt: skip

MAX_DIGITS = 19


def create_app(
    config: Config,
    engine: Engine,
    telemetry: Telemetry,
    users: Users,
    trainings: TrainingReader,
    links: LinkStore,
    schedules: ScheduleStore,
    scheduler: Scheduler,
    cells: CellRunner,
) -> FastAPI:
    """Create the application with all routes."""
    app = FastAPI(
        title="Fathom",
        version=__version__,
        description="Asks questions, follows runs, reads their tables and figures. Errors are problem details.",
        # FastAPI's own pages load scripts from another host, which the content policy forbids.
        docs_url=None,
        redoc_url=None,
        servers=[{"url": config.path_prefix}] if config.path_prefix else None,
    )
    # Small answers would grow by the header. Event streams are left alone by Starlette.
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    # Added last, so it is the outermost: it refuses before anything is compressed or parsed.
    app.add_middleware(Guard, config=config, telemetry=telemetry, users=users)
    # But for these two: one rewrites what the others have refused, the other says below which path all is.
    app.add_middleware(OpenAiErrors)
    app.add_middleware(Prefixed, prefix=config.path_prefix)
    problems.install_problems(app)
    add_runs(app, engine)
    add_events(app, engine, config)
    add_run_actions(app, engine)
    add_feedback(app, engine.clients)
    add_consent(app, engine)
    add_reports(app, engine)
    add_links(app, Sharing(config, engine, links, telemetry))
    add_schedules(app, engine, schedules, scheduler)
    add_cells(app, cells, telemetry)
    add_data(app, engine, config)
    add_tables(app, engine)
    add_meanings(app, engine)
    add_library(app, engine)
    add_conversations(app, engine)
    add_profile(app, engine.clients)
    add_sources(app, engine.clients)
    add_reviews(app, engine.clients)
    add_operations(app, engine, telemetry)
    add_openai(app, engine, config)
    add_trainings(app, trainings)
    add_page(app)
    app.openapi = lambda: build_openapi_document(app)  # type: ignore[method-assign]
    return app


def describe_stream() -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI response of the route that streams a run's events."""
    event = describe_events(describe_json_text(reference(planner.RunEvent)))
    event["properties"]["event"] = {"type": "string", "enum": ["run", "failure", "ping"]}
    content = {"text/event-stream": {"schema": event}}
    over = "The run is over and has no further event."
    return {200: {"description": "Events", "content": content}, 204: {"description": over}}


def build_openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the contract's messages as components and problems as every route's error."""
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            servers=app.servers or None,
        )
        components = found.setdefault("components", {}).setdefault("schemas", {})
        # FastAPI documents its own errors; here every error is a problem.
        for name in ("HTTPValidationError", "ValidationError"):
            components.pop(name, None)
        components |= {"Problem": problems.SCHEMA, "OpenAiError": errors.SCHEMA}
        for message in DOCUMENTED_MESSAGES:
            add_message(message, components)
        problem = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        rewritten = {"application/json": {"schema": {"$ref": "#/components/schemas/OpenAiError"}}}
        for path, operations in found["paths"].items():
            failed = rewritten if errors.is_rewritten(path) else problem
            for operation in operations.values():
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = {"description": "A problem", "content": failed}
        app.openapi_schema = found
    return app.openapi_schema


def add_runs(app: FastAPI, engine: Engine) -> None:
    """Add the routes that start, list and read runs."""

    @app.post("/v1/runs", status_code=202, response_model_exclude_none=True)
    async def start_run(ask: Ask, request: Request, response: Response) -> Accepted:
        """Start a run; follow it under /v1/runs/{run_id}/events."""
        accepted = Accepted(**await engine.start_run(ask.request()))
        response.headers["Location"] = f"{request.scope['root_path']}/v1/runs/{accepted.run_id}"
        return accepted

    @app.get("/v1/runs", response_model=None, responses=describe_response(planner.ListRunsResponse))
    async def list_runs(page_size: PageSize = 50, page_token: PageToken = "") -> JSONResponse:
        """List runs, newest first."""
        return JSONResponse(await engine.list_runs(page_size, page_token))

    @app.get("/v1/runs/{run_id}", response_model=None, responses=describe_response(planner.GetRunResponse))
    async def get_run(run_id: RunId) -> JSONResponse:
        """Return a run with its steps, material and answer so far."""
        return JSONResponse(await engine.get_run(run_id))


def add_events(app: FastAPI, engine: Engine, config: Config) -> None:
    """Add the route that streams the events of a run."""

    @app.get(
        "/v1/runs/{run_id}/events",
        response_class=Response,  # or the document would add JSON to the types of its answers
        response_model=None,
        responses=describe_stream(),
    )
    async def follow_run(
        run_id: RunId,
        after: Annotated[int, Query(ge=0, le=MAX_INT64, description="Only events after this number.")] = 0,
        last_event_id: Annotated[str, Header(description="Sent by browsers that reconnect; overrides `after`.")] = "",
    ) -> Response:
        """Stream the run's events as server-sent events of type `run`, whose ids are the event numbers.

        A reconnect with Last-Event-ID loses and repeats nothing; 204 says that the run is over and has no further
        event, and stops an EventSource. When the run can no longer be followed, the last event
        has type `failure` and names the culprit (the type `error` is not used: browsers raise it for the connection
        itself). An event of type `ping`, with data `{}` and without an id, comes every 10 seconds at least: a stream
        that is silent for 30 has lost its gateway, and is to be opened again.
        """
        # Browsers repeat the URL on reconnecting, so their header is newer than the query.
        start = min(int(last_event_id), MAX_INT64) if is_number(last_event_id) else after
        # Before the stream begins: afterwards the status is 200 and cannot say 404.
        if await engine.has_ended(run_id, start):
            # To an end of the stream a browser answers by connecting again, for ever; only this status stops it.
            return Response(status_code=204)
        events = stream_events(engine, run_id, start)
        return EventSourceResponse(events, ping=config.heartbeat_s, ping_message_factory=make_ping)


def add_run_actions(app: FastAPI, engine: Engine) -> None:
    """Add the routes that act on a run: stop, resume, edit, replay, judge, and read a figure."""

    @app.post("/v1/runs/{run_id}/stop", response_model=None, responses=describe_response(planner.StopRunResponse))
    async def stop_run(run_id: RunId) -> JSONResponse:
        """End a run; what was collected stays."""
        return JSONResponse(await engine.stop_run(run_id))

    @app.post("/v1/runs/{run_id}/resume", status_code=202, response_model_exclude_none=True)
    async def resume_run(run_id: RunId, resume: Resume) -> Accepted:
        """Resume a run that was stopped, has spent its budget or failed; follow its events as before."""
        budget = planner.Budget(max_rounds=resume.max_rounds, max_tokens=resume.max_tokens, max_ms=resume.max_ms)
        request = planner.ResumeRunRequest(request_id=resume.request_id, run_id=run_id, budget=budget)
        return Accepted(**await engine.resume_run(request))

    @app.put("/v1/runs/{run_id}/todo", response_model=None, responses=describe_response(planner.UpdateTodoResponse))
    async def edit_todo(run_id: RunId, edit: TodoEdit) -> JSONResponse:
        """Replace the todo list of a running run; the model sees it in the next round. An earlier version is 409."""
        items = [planner.TodoItem(text=item.text, state=item.state) for item in edit.items]
        request = planner.UpdateTodoRequest(
            request_id=edit.request_id, run_id=run_id, items=items, version=edit.version
        )
        return JSONResponse(await engine.edit_todo(request))

    @app.post("/v1/runs/{run_id}/replay", response_model=None, responses=describe_response(planner.ReplayRunResponse))
    async def replay_run(run_id: RunId) -> JSONResponse:
        """Replay a finished run from its record alone, and name the first difference."""
        return JSONResponse(await engine.replay_run(run_id))

    @app.get("/v1/runs/{run_id}/consent")
    async def get_run_consent(run_id: RunId) -> ConsentState:
        """Return whether the run may become training data."""
        return ConsentState(**await engine.get_consent(run_id))

    @app.put("/v1/runs/{run_id}/consent", status_code=204)
    async def set_run_consent(run_id: RunId, body: ConsentBody) -> None:
        """State whether the run, with the runs that it delegated and its branches, may become training data."""
        await engine.set_consent(consent_request(body, run_id))

    @app.get("/v1/runs/{run_id}/figures/{figure_id}", response_model=None, responses=describe_files(*FIGURE_TYPES))
    async def get_figure(run_id: RunId, figure_id: str) -> Response:
        """Return one of the run's figures: Plotly JSON, a picture (PNG, SVG) or HTML, by its media type."""
        content, media_type = await engine.get_figure(run_id, figure_id)
        return Response(content, media_type=media_type, headers={"Content-Security-Policy": FIGURE_POLICY})


def consent_request(body: ConsentBody, run_id: str = "") -> planner.SetConsentRequest:
    return planner.SetConsentRequest(request_id=body.request_id, run_id=run_id, consent=CONSENTS[body.consent])


def add_consent(app: FastAPI, engine: Engine) -> None:
    """Add the routes by which a caller states whether its runs may become training data."""

    @app.get("/v1/consent")
    async def get_consent() -> ConsentState:
        """Return what the caller has said of all its runs."""
        return ConsentState(**await engine.get_consent(""))

    @app.put("/v1/consent", status_code=204)
    async def set_consent(body: ConsentBody) -> None:
        """State whether all runs of the caller that say nothing themselves, past ones too, may become training data."""
        await engine.set_consent(consent_request(body))


def is_number(text: str) -> bool:
    """Return whether a header holds a number that an event could have."""
    # Longer ones are none, and reading them takes time that grows with the square of their length.
    return text.isdecimal() and len(text) <= MAX_DIGITS


def make_ping() -> ServerSentEvent:
    """Return the event that says nothing but that the stream has its other end yet."""
    # No comment, which browsers keep from the page; and not without data, whose events they drop.
    return ServerSentEvent("{}", event="ping")


async def stream_events(engine: Engine, run_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
    """Convert the engine's events to server-sent events."""
    async with aclosing(engine.stream_events(run_id, after)) as events:
        async for event in events:
            failure = event.get("failure")
            if failure is not None:
                yield ServerSentEvent(json.dumps(failure, ensure_ascii=False), event="failure")
            else:
                # A place in the queue is no event of the log. A browser would take its number, 0, for that of the last
                # event, and ask for everything again after a broken connection.
                number = event["sequence"] if int(event["sequence"]) else None
                yield ServerSentEvent(json.dumps(event, ensure_ascii=False), event="run", id=number)


def add_data(app: FastAPI, engine: Engine, config: Config) -> None:
    """Add the routes that take tables and documents, and the one that says how much is taken."""

    @app.get("/v1/limits")
    async def get_limits() -> Limits:
        """Return how long a question may be, and how large and how many files."""
        return Limits(
            max_question_chars=config.max_question_chars,
            max_upload_bytes=config.max_upload_bytes,
            max_tables=MAX_TABLES,
        )

    @app.post(
        "/v1/tables",
        response_model=None,
        responses=describe_response(datafetch.ImportTableResponse),
        openapi_extra=FILE_BODY,
    )
    async def import_table(
        request: Request,
        name: Annotated[str, Query(min_length=1, max_length=200, description="File name; its end is the format.")],
        worksheet: Annotated[str, Query(max_length=200, description="Sheet of a workbook; its first when empty.")] = "",
        further: Annotated[int, Query(ge=0, le=64, description="Most further tables of a workbook.")] = 0,
    ) -> JSONResponse:
        """Register a CSV, TSV, XLSX or Parquet file, which is the body; runs begin with it by `table_ids`."""
        return JSONResponse(await engine.import_table(name, worksheet, further, await request.body()))

    @app.post(
        "/v1/documents",
        response_model=None,
        responses=describe_response(retrieval.ImportDocumentResponse),
        openapi_extra=FILE_BODY,
    )
    async def import_document(
        request: Request,
        name: Annotated[str, Query(min_length=1, max_length=200, description="File name; its end is the format.")],
        corpus: Annotated[
            str, Query(max_length=128, description="Corpus of an earlier call; a new one if empty.")
        ] = "",
        published: Annotated[date | None, Query(description="Day of the file, where it does not say one.")] = None,
    ) -> JSONResponse:
        """Add a document, which is the body, to a corpus of one's own; runs search it by `corpora`.

        PDF, Word, PowerPoint, HTML, Markdown, text and mail. The same name again is a new version.
        """
        return JSONResponse(await engine.import_document(name, corpus, published, await request.body()))


def add_tables(app: FastAPI, engine: Engine) -> None:
    """Add the routes that read the tables behind references."""

    @app.get("/v1/tables/{sheet_id}")
    async def get_table(
        sheet_id: str,
        offset: Annotated[int, Query(le=MAX_INT64, description="First row, from 0.")] = 0,
        limit: Annotated[int, Query(description="1 to 1,000 rows.")] = 50,
        sort: Annotated[str, Query(description="Column to sort the whole table by; empty keeps its order.")] = "",
        desc: Annotated[bool, Query(description="Largest first; nulls come last either way.")] = False,
        filter: Annotated[str, Query(description="Only rows that hold each of these words somewhere.")] = "",
    ) -> TablePage:
        """Return a page of rows of the full table behind a reference."""
        return TablePage(**await engine.get_table_page(sheet_id, View(offset, limit, sort, desc, filter)))

    @app.get(
        "/v1/tables/{sheet_id}/export",
        response_class=Response,
        response_model=None,
        responses=describe_files(UPLOADS[".csv"], UPLOADS[".xlsx"]),
    )
    async def export_table(
        sheet_id: str,
        format: Annotated[str, Query(description="csv or xlsx")] = "csv",
        name: Annotated[
            str, Query(max_length=200, description="The file's name without its end; empty is the id.")
        ] = "",
        negatives: NegativesQuery = "minus",
    ) -> Response:
        """Return the full table as a file."""
        file = await engine.export_table(sheet_id, format, has_parentheses=negatives == "parentheses")
        return Response(file.content, media_type=file.media_type, headers=name_file(name, file.name))


def add_conversations(app: FastAPI, engine: Engine) -> None:
    """Add the routes that list, read, change and delete conversations."""

    @app.get("/v1/conversations", response_model=None, responses=describe_response(memory.ListConversationsResponse))
    async def list_conversations(
        page_size: PageSize = 100,
        page_token: PageToken = "",
        query: Annotated[
            str, Query(max_length=200, description="Only those in whose title or turns each of these words occurs.")
        ] = "",
    ) -> JSONResponse:
        """List conversations, most recently used first."""
        return JSONResponse(await engine.list_conversations(page_size, page_token, query))

    @app.get(
        "/v1/conversations/{conversation_id}",
        response_model=None,
        responses=describe_response(memory.ListTurnsResponse),
    )
    async def list_turns(
        conversation_id: str,
        page_size: PageSize = 100,
        page_token: PageToken = "",
        through: Annotated[int, Query(ge=0, le=MAX_INT32, description="Only this turn and those that lead to it.")] = 0,
        order: Annotated[Literal["oldest", "newest"], Query(description="Which turns come first.")] = "oldest",
    ) -> JSONResponse:
        """List the turns of a conversation; each names its `parent`, the turn that it follows."""
        request = memory.ListTurnsRequest(
            conversation_id=conversation_id, page_size=page_size, page_token=page_token, through=through
        )
        request.newest_first = order == "newest"
        return JSONResponse(await engine.list_turns(request))

    @app.patch(
        "/v1/conversations/{conversation_id}", response_model=None, responses=describe_response(memory.Conversation)
    )
    async def update_conversation(conversation_id: str, edit: ConversationEdit) -> JSONResponse:
        """Rename, pin or unpin a conversation, or one of its tables."""
        # Fields that are not named are unset in the contract as well.
        changes = edit.model_dump(exclude_none=True)
        request = memory.UpdateConversationRequest(conversation_id=conversation_id, **changes)
        return JSONResponse(await engine.update_conversation(request))

    @app.delete(
        "/v1/conversations/{conversation_id}",
        response_model=None,
        responses=describe_response(memory.DeleteConversationResponse),
    )
    async def delete_conversation(conversation_id: str) -> JSONResponse:
        """Delete a conversation and all data derived from it."""
        return JSONResponse(await engine.delete_conversation(conversation_id))


def add_operations(app: FastAPI, engine: Engine, telemetry: Telemetry) -> None:
    """Add the routes for models, health and metrics."""
    names = {
        "type": "array",
        "items": {"type": "object"},
        "description": "The same models as OpenAI's clients read them.",
    }
    default = {"type": "object", "properties": {"default": {"type": "string"}, "data": names}}
    models = {"allOf": [reference(policy.ListModelsResponse), default]}
    listed: dict[int | str, Any] = {200: {"description": "OK", "content": {"application/json": {"schema": models}}}}

    @app.get("/v1/models", response_model=None, responses=listed)
    async def list_models() -> JSONResponse:
        """List models with their states, and under `default` the one that answers when a run names none.

        `rules` is the deterministic reference policy, not a language model.
        """
        return JSONResponse(await engine.list_models())

    @app.get("/healthz/live")
    async def live() -> dict[str, str]:
        """Report that this process answers."""
        return {"status": "live"}

    @app.get("/healthz/ready")
    async def ready() -> dict[str, str]:
        """Check that the planner is ready and that bus and store take writes."""
        await engine.probe()
        return {"status": "ready"}

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(telemetry.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
