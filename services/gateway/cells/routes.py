"""Route that runs a cell of an answer's code again: POST /v1/runs/{id}/cells."""

from __future__ import annotations

import base64

from fastapi import FastAPI
from pydantic import BaseModel, Field

from fathom.core.call import Call, current_call
from fathom.core.telemetry import Telemetry
from fathom.services.gateway.bodies import MAX_INT32, Body, RunId
from fathom.services.gateway.cells.running import HTML_TYPE, PLOTLY_TYPE, CellRun, CellRunner, DisplayedFigure


class CellAgain(Body):
    """A cell that is to run again."""

    number: int = Field(ge=0, le=MAX_INT32, description="Number of the run's material in whose place it runs.")
    code: str = Field(description="Python, 1 to 65,536 characters; changed, or as the record has it.")


class CellFigure(BaseModel):
    """A figure that the cell displayed."""

    media_type: str = Field(description="application/json (Plotly), image/png, image/svg+xml, or text/html.")
    content: str = Field(
        description="The JSON or HTML text, or a picture in base64. HTML wants a frame without rights."
    )


class CellResult(BaseModel):
    """Outcome of a cell. It is kept nowhere, and the answer's record stays as it is."""

    status: str = Field(
        description="ok, error (of the code), or what ended it: timeout, oom, output_limit, disk_limit, killed."
    )
    stdout: str
    stderr: str
    result: str = Field(description="Representation of the last expression.")
    traceback: str
    cause: str = Field(description="Why its process ended, when it did.")
    duration_ms: int
    figures: list[CellFigure]
    left_out: int = Field(description="Displays that are not among the figures: too many, too large, or no JSON.")
    missing: list[str] = Field(description="Tables of the run that could not be given to it.")


def add_cells(app: FastAPI, runner: CellRunner, telemetry: Telemetry) -> None:
    """Add the route."""

    @app.post("/v1/runs/{run_id}/cells")
    async def run_cell_again(run_id: RunId, body: CellAgain) -> CellResult:
        """Run a cell of a run's code again, changed or not, with the run's tables and the cells before it.

        It has a session of the sandbox of its own, which ends with it.
        """
        done = await runner.run(run_id, body.number, body.code)
        call = current_call() or Call.new()
        telemetry.log.info(
            "audit", tenant=call.tenant, principal=call.principal, rpc="run cell", resource=run_id, outcome=done.status
        )
        return describe_cell(done)


def describe_cell(done: CellRun) -> CellResult:
    """Return what a cell gave as the route answers it."""
    return CellResult(
        status=done.status, stdout=done.stdout, stderr=done.stderr, result=done.result, traceback=done.traceback,
        cause=done.cause, duration_ms=done.duration_ms, figures=[describe_figure(one) for one in done.figures],
        left_out=done.left_out, missing=list(done.missing),
    )  # fmt: skip


def describe_figure(drawn: DisplayedFigure) -> CellFigure:
    """Return a figure as text."""
    # Bytes of HTML that are no text are shown as what they are, and refuse nobody the rest.
    is_text = drawn.media_type in (PLOTLY_TYPE, HTML_TYPE)
    text = drawn.content.decode(errors="replace") if is_text else base64.b64encode(drawn.content).decode()
    return CellFigure(media_type=drawn.media_type, content=text)
