"""Routes of what can be asked about: frameworks, prompts, and names of the catalogue as they are typed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Path, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.services.gateway.engine import Engine, to_json
from fathom.services.gateway.reviews.routes import require_right
from fathom.services.gateway.schemas import reference
from fathom.services.gateway.users import Right

MAX_QUERY_CHARS = 100
# As many as a file may have bytes; the service that reads the files counts those.
MAX_DRAFT_CHARS = 256 * 1024
TOPIC_PATTERN = "^[a-z][a-z0-9_]{1,39}$"


class NamedEntity(BaseModel):
    """Something that has data."""

    id: str = Field(description="Its code, such as AAPL.")
    name: str
    name_zh: str = Field(description="Chinese name; empty where none is known.")
    kind: str = Field(description="Such as stock or currency.")


class EntityList(BaseModel):
    """Entities whose names go on from what was typed, best first."""

    entities: list[NamedEntity]


class FrameworkDraft(BaseModel):
    """A text that may become the file of a framework."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=MAX_DRAFT_CHARS, description="YAML, as its file would have it.")
    replaces: str = Field(
        default="",
        max_length=40,
        description="Topic whose file it is to take the place of; empty for a further framework.",
    )


def add_library(app: FastAPI, engine: Engine) -> None:
    """Add the routes."""
    add_names(app, engine)
    add_framework_files(app, engine)


def add_framework_files(app: FastAPI, engine: Engine) -> None:
    """Add the routes of the files of frameworks, for who may review."""
    by_reviewer = [Depends(require_right(Right.REVIEW))]
    written = {"application/json": {"schema": reference(datafetch.GetFrameworkFileResponse)}}

    @app.get(
        "/v1/frameworks/{topic}/file",
        response_model=None,
        responses={200: {"description": "OK", "content": written}},
        dependencies=by_reviewer,
    )
    async def get_framework_file(
        topic: Annotated[str, Path(pattern=TOPIC_PATTERN, description="Topic, such as bond.")],
    ) -> JSONResponse:
        """Return the text of a framework's file; 403 for who may not review."""
        request = datafetch.GetFrameworkFileRequest(topic=topic)
        return JSONResponse(to_json(await engine.clients.datafetch.get_framework_file(request)))

    checked = {"application/json": {"schema": reference(datafetch.CheckFrameworkResponse)}}

    @app.post(
        "/v1/frameworks/check",
        response_model=None,
        responses={200: {"description": "OK", "content": checked}},
        dependencies=by_reviewer,
    )
    async def check_framework(body: FrameworkDraft) -> JSONResponse:
        """Check a text by the rules of what reads the files, and store nothing; 403 for who may not review."""
        request = datafetch.CheckFrameworkRequest(text=body.text, replaces=body.replaces)
        return JSONResponse(to_json(await engine.clients.datafetch.check_framework(request)))


def add_names(app: FastAPI, engine: Engine) -> None:
    """Add the routes that list frameworks, prompts and names."""
    listed = {"application/json": {"schema": reference(datafetch.ListFrameworksResponse)}}

    @app.get("/v1/frameworks", response_model=None, responses={200: {"description": "OK", "content": listed}})
    async def list_frameworks(
        question: Annotated[str, Query(description="Only topics that it calls for; empty is all.")] = "",
        level: Annotated[int, Query(ge=1, le=3, description="Deepest level of the trees.")] = 3,
    ) -> JSONResponse:
        """List the analysis frameworks with their trees, as planning uses them."""
        return JSONResponse(await engine.list_frameworks(question, level))

    shown = {"application/json": {"schema": reference(planner.ListPromptsResponse)}}

    @app.get(
        "/v1/prompts",
        response_model=None,
        responses={200: {"description": "OK", "content": shown}},
        dependencies=[Depends(require_right(Right.REVIEW))],
    )
    async def list_prompts(
        stage: Annotated[str, Query(max_length=MAX_QUERY_CHARS, description="Only of this stage; empty is all.")] = "",
    ) -> JSONResponse:
        """List the prompts of every stage, variant, version and language; 403 for who may not review."""
        found = await engine.clients.planner.list_prompts(planner.ListPromptsRequest(stage=stage))
        return JSONResponse(to_json(found))

    @app.get("/v1/entities")
    async def complete_entities(
        query: Annotated[
            str, Query(min_length=1, max_length=MAX_QUERY_CHARS, description="Beginning of a code or a name.")
        ],
    ) -> EntityList:
        """List entities one of whose names begins so: a code, an English or Chinese name, or pinyin."""
        request = datafetch.ResolveEntitiesRequest(mentions=[query], beginnings=True)
        found = (await engine.clients.datafetch.resolve_entities(request)).results[0].entities
        return EntityList(
            entities=[NamedEntity(id=one.id, name=one.name, name_zh=one.name_zh, kind=one.kind) for one in found]
        )
