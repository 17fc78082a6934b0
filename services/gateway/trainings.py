"""Trainings on the page: the report's files, and the data that it asks for while trainings run."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Query, Response
from fastapi.responses import FileResponse, JSONResponse

from fathom.core.ids import content_hash
from fathom.domain.training_report.page import STATIC
from fathom.domain.training_report.reader import LEAST_POINTS, MOST_POINTS, POINTS, TrainingReader
from fathom.services.gateway.bodies import PageSize, PageToken
from fathom.services.gateway.page import REVALIDATE, OwnFiles

Name = Annotated[str, Path(description="Name of the training: the last part of its `trainer.output`.")]
OBJECT: dict[int | str, dict[str, Any]] = {
    200: {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}},
    304: {"description": "Nothing has changed since `If-None-Match`"},
}


def add_trainings(app: FastAPI, reader: TrainingReader) -> None:
    """Add the routes that list and read trainings, and the page that shows them."""

    @app.get("/v1/trainings")
    async def list_trainings(
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> dict[str, Any]:
        """List the caller's trainings by name, with their state."""
        found, token = await reader.list_trainings(page_size, page_token)
        return {"trainings": [about.without_settings() for about in found], "next_page_token": token}

    @app.get("/v1/trainings/{name}", response_model=None, responses=OBJECT)
    async def get_training(
        name: Name,
        points: Annotated[
            int, Query(ge=LEAST_POINTS, le=MOST_POINTS, description="Points per curve; each has mean, least and most.")
        ] = POINTS,
        if_none_match: Annotated[str, Header()] = "",
    ) -> Response:
        """Return a training: description, settings, curves, and the steps of which there are samples."""
        about = await reader.describe(name)
        # Whatever changes is written with a new time.
        tag = f'"{content_hash([about.start_id, about.updated, about.lines, about.state, points])[:24]}"'
        if if_none_match == tag:
            return Response(status_code=304, headers={"ETag": tag})
        return JSONResponse(await reader.read_training(about, points), headers={"ETag": tag})

    @app.get("/v1/trainings/{name}/samples/{step}", response_model=None, responses={200: OBJECT[200]})
    async def get_samples(name: Name, step: Annotated[int, Path(ge=0, lt=10**8)]) -> JSONResponse:
        """Return rows of a step token by token: text, mask, advantage, log-probabilities of sampler and learner."""
        return JSONResponse(await reader.read_samples(name, step))

    @app.get("/trainings", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "report.html", media_type="text/html", headers=REVALIDATE)

    # Before the mount of /static, which would take its requests.
    app.mount("/static/training", OwnFiles(directory=STATIC), name="training")
