"""Routes by which callers see, add, correct and delete what is remembered of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.clients import Clients
from fathom.services.gateway.bodies import PageSize, PageToken
from fathom.services.gateway.profile.bodies import FactEdit, NewFact
from fathom.services.gateway.schemas import reference


def add_profile(app: FastAPI, clients: Clients) -> None:
    """Add the routes of facts, and of what earlier answers have concluded."""
    listed, one = describe(memory.ListFactsResponse), describe(memory.PutFactResponse)

    @app.get("/v1/facts", response_model=None, responses={200: listed})
    async def list_facts(page_size: PageSize = 100, page_token: PageToken = "") -> JSONResponse:
        """List what is remembered of the caller, newest first."""
        request = memory.ListFactsRequest(page_size=page_size, page_token=page_token)
        return respond(await clients.memory.list_facts(request))

    @app.post("/v1/facts", status_code=201, response_model=None, responses={201: one})
    async def add_fact(fact: NewFact) -> JSONResponse:
        """Add a fact; a preference takes the place of the one that is there."""
        # 201 also where a preference was replaced: the caller has one more statement in force.
        return respond(await clients.memory.put_fact(fact.request()), 201)

    @app.put("/v1/facts/{fact_id}", response_model=None, responses={200: one})
    async def edit_fact(fact_id: str, fact: FactEdit) -> JSONResponse:
        """Change a fact; with a version only if nobody has changed it since (409)."""
        return respond(await clients.memory.put_fact(fact.request(fact_id, fact.version)))

    @app.get("/v1/stances", response_model=None, responses={200: describe(memory.ListStancesResponse)})
    async def list_stances(
        page_size: PageSize = 100,
        page_token: PageToken = "",
        entity: Annotated[str, Query(max_length=200, description="Only of this entity; empty is all.")] = "",
    ) -> JSONResponse:
        """List what earlier answers have concluded, newest first: of whom, which measure and period, and by which run.

        Several of one entity, measure and period are its history.
        """
        request = memory.ListStancesRequest(
            entities=[entity] if entity else [], page_size=page_size, page_token=page_token
        )
        return respond(await clients.memory.list_stances(request))

    @app.delete("/v1/stances/{stance_id}", status_code=204)
    async def delete_stance(stance_id: str) -> None:
        """Delete what an answer has concluded; later answers are compared with what is left."""
        await clients.memory.delete_stance(memory.DeleteStanceRequest(stance_id=stance_id))

    @app.delete("/v1/facts/{fact_id}", status_code=204)
    async def delete_fact(fact_id: str) -> None:
        """Delete a fact; the question that it was learnt from does not bring it back."""
        await clients.memory.delete_fact(memory.DeleteFactRequest(fact_id=fact_id))


def describe(message: type[Message]) -> dict[str, Any]:
    """Return the OpenAPI response of a message's JSON form."""
    return {"description": "OK", "content": {"application/json": {"schema": reference(message)}}}


def respond(message: Message, status: int = 200) -> JSONResponse:
    """Return a message in its JSON form."""
    shown = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return JSONResponse(shown, status)
