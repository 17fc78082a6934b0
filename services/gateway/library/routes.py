"""Routes of what can be asked about: the analysis frameworks, and names of the catalogue as they are typed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.services.gateway.engine import Engine, to_json
from fathom.services.gateway.reviews.routes import require_right
from fathom.services.gateway.schemas import reference
from fathom.services.gateway.users import Right

MAX_QUERY_CHARS = 100


class NamedEntity(BaseModel):
    """Something that has data."""

    id: str = Field(description="Its code, such as AAPL.")
    name: str
    name_zh: str = Field(description="Chinese name; empty where none is known.")
    kind: str = Field(description="Such as stock or currency.")


class EntityList(BaseModel):
    """Entities whose names go on from what was typed, best first."""

    entities: list[NamedEntity]


def add_library(app: FastAPI, engine: Engine) -> None:
    """Add the routes."""
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
