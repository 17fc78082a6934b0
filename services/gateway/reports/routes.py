"""Routes that give a run's answer as a file."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from pydantic import Field

from fathom.core.errors import InvalidField
from fathom.services.gateway.bodies import NEGATIVES, Body, Negatives, NegativesQuery, RunId, read_base_url
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.reports.exporting import FORMATS, MEDIA_TYPES, Exported, Exporter, Order
from fathom.services.gateway.reports.naming import name_file
from fathom.services.gateway.reports.words import LANGUAGES
from fathom.services.gateway.schemas import describe_files

# Each picture is in memory twice while it is read, as base64 and as bytes.
MAX_PICTURES = 20
# The beginning of the signature of every PNG (PNG specification, 5.2).
PNG = b"\x89PNG\r\n"
FILES = describe_files(*(kind.partition(";")[0] for kind in MEDIA_TYPES.values()))


class ExportBody(Body):
    """Format and language of a report, with pictures of the figures that only a browser can draw."""

    format: str = Field("docx", description=f"One of {', '.join(FORMATS)}.")
    language: str = Field("en", description="Language of the report's own words: en or zh.")
    negatives: Negatives = Field("minus", description=NEGATIVES)
    pictures: dict[str, str] = Field(
        default_factory=dict,
        max_length=MAX_PICTURES,
        description="Figures by their ids as PNG in base64; they stand in files of pdf, docx, pptx and ipynb.",
    )


def add_reports(app: FastAPI, engine: Engine) -> None:
    """Add the routes."""
    exporter = Exporter(engine)

    @app.get("/v1/runs/{run_id}/export", response_model=None, responses=FILES)
    async def export_run(
        request: Request,
        run_id: RunId,
        format: Annotated[str, Query(description=f"One of {', '.join(FORMATS)}.")] = "md",
        language: Annotated[str, Query(description="Language of the report's own words: en or zh.")] = "en",
        print: Annotated[bool, Query(description="Show the page and open the browser's print dialogue.")] = False,
        negatives: NegativesQuery = "minus",
    ) -> Response:
        """Return the answer of a run as a file, with numbered references and the first rows of its tables.

        A workbook (xlsx) has the tables whole, with the unit, source and date of each column; ipynb is the code that
        has run and py the same as a script, json the whole trace.
        """
        check_choices(format, language)
        order = Order(
            run_id,
            format,
            language,
            read_base_url(request),
            is_printed=print,
            has_parentheses=negatives == "parentheses",
        )
        return respond(await exporter.export(order), order)

    @app.post("/v1/runs/{run_id}/export", response_model=None, responses=FILES)
    async def export_run_with_pictures(request: Request, run_id: RunId, body: ExportBody) -> Response:
        """Return the same with pictures of figures that the caller has drawn."""
        check_choices(body.format, body.language)
        pictures = decode_pictures(body.pictures)
        has_parentheses = body.negatives == "parentheses"
        order = Order(
            run_id, body.format, body.language, read_base_url(request), pictures, has_parentheses=has_parentheses
        )
        return respond(await exporter.export(order), order)


def check_choices(kind: str, language: str) -> None:
    """Raise ``InvalidField`` for an unknown format or language."""
    if kind not in FORMATS:
        raise InvalidField("format", f"must be one of {', '.join(FORMATS)}")
    if language not in LANGUAGES:
        raise InvalidField("language", f"must be one of {', '.join(LANGUAGES)}")


def decode_pictures(pictures: Mapping[str, str]) -> dict[str, bytes]:
    """Return the bytes of pictures in base64; raise ``InvalidField`` for what is none."""
    try:
        found = {name: base64.b64decode(text, validate=True) for name, text in pictures.items()}
    except (binascii.Error, ValueError) as error:
        raise InvalidField("pictures", "must be PNG in base64") from error
    for name, content in found.items():
        if not content.startswith(PNG):
            raise InvalidField("pictures", f"{name[:120]!r} is no PNG")
    return found


def respond(found: Exported, order: Order) -> Response:
    """Return the file as a response."""
    # Without a name to store it by, the browser shows the page, which is what printing needs.
    headers = {} if order.is_printed else name_file(found.title, f"{order.run_id}.{order.format}")
    if found.policy:
        # Sent as it is: compressing megabytes of a library would hold up every stream of this process.
        headers |= {"Content-Security-Policy": found.policy, "Content-Encoding": "identity"}
    return Response(found.content, media_type=found.media_type, headers=headers)
