"""Routes of own tables: what their columns mean, and their rows as passages."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.services.gateway.bodies import ProposedMeaning, TableMeaning
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.schemas import describe_response


def add_meanings(app: FastAPI, engine: Engine) -> None:
    """Add the routes of what the columns of own tables mean."""

    @app.get("/v1/tables/{sheet_id}/meaning")
    async def propose_meaning(sheet_id: str) -> ProposedMeaning:
        """Propose what the columns of an own table mean: dates, whose the rows are, names, and how values add up."""
        return ProposedMeaning(**await engine.propose_meaning(sheet_id))

    @app.put(
        "/v1/tables/{sheet_id}/meaning",
        response_model=None,
        responses=describe_response(datafetch.ApplyMeaningResponse),
    )
    async def apply_meaning(sheet_id: str, meaning: TableMeaning) -> JSONResponse:
        """Make a table of series from an own table and what its columns mean; runs begin with it by `table_ids`."""
        return JSONResponse(await engine.apply_meaning(sheet_id, meaning))

    @app.post(
        "/v1/tables/{sheet_id}/passages",
        response_model=None,
        responses=describe_response(retrieval.ImportDocumentResponse),
    )
    async def add_passages(
        sheet_id: str,
        corpus: Annotated[
            str, Query(max_length=128, description="Corpus of an earlier call; a new one if empty.")
        ] = "",
    ) -> JSONResponse:
        """Add the rows of an own table, the first 500, to a corpus of one's own, so that runs find and quote them."""
        return JSONResponse(await engine.add_passages(sheet_id, corpus))
