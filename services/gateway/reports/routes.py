"""Routes that give a run's answer as a file."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Annotated

from fastapi import FastAPI, Path, Query, Response
from pydantic import Field

from fathom.core.errors import InvalidField
from fathom.services.gateway.bodies import Body
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.reports.collecting import Collector
from fathom.services.gateway.reports.markdown import write_markdown
from fathom.services.gateway.reports.naming import name_file
from fathom.services.gateway.reports.report import Report
from fathom.services.gateway.reports.web_page import write_page
from fathom.services.gateway.reports.word import write_word
from fathom.services.gateway.reports.words import LANGUAGES

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
FORMATS = ("md", "html", "docx")
# Each picture is in memory twice while it is read, as base64 and as bytes.
MAX_PICTURES = 20
# The beginning of the signature of every PNG (PNG specification, 5.2).
PNG = b"\x89PNG\r\n"
RunId = Annotated[str, Path(description="Run id.")]


class ExportBody(Body):
    """Format and language of a report, with pictures of the figures that only a browser can draw."""

    format: str = Field("docx", description="md, html or docx.")
    language: str = Field("en", description="Language of the report's own words: en or zh.")
    pictures: dict[str, str] = Field(
        default_factory=dict,
        max_length=MAX_PICTURES,
        description="Figures by their ids as PNG in base64; they stand in a Word file.",
    )


def add_reports(app: FastAPI, engine: Engine) -> None:
    """Add the routes."""
    collector = Collector(engine)

    @app.get("/v1/runs/{run_id}/export", response_model=None)
    async def export_run(
        run_id: RunId,
        format: Annotated[str, Query(description="md, html or docx")] = "md",
        language: Annotated[str, Query(description="Language of the report's own words: en or zh.")] = "en",
        print: Annotated[bool, Query(description="Show the page and open the browser's print dialogue.")] = False,
    ) -> Response:
        """Return the answer of a run as a file, with numbered references and the first rows of its tables."""
        report = await collector.collect(run_id, check_choices(format, language), {})
        return await write(report, format, is_printed=print)

    @app.post("/v1/runs/{run_id}/export", response_model=None)
    async def export_run_with_pictures(run_id: RunId, body: ExportBody) -> Response:
        """Return the same with pictures of figures that the caller has drawn."""
        language = check_choices(body.format, body.language)
        report = await collector.collect(run_id, language, decode_pictures(body.pictures))
        return await write(report, body.format)


def check_choices(kind: str, language: str) -> str:
    """Return the language; raise ``InvalidField`` for an unknown format or language."""
    if kind not in FORMATS:
        raise InvalidField("format", f"must be one of {', '.join(FORMATS)}")
    if language not in LANGUAGES:
        raise InvalidField("language", f"must be one of {', '.join(LANGUAGES)}")
    return language


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


async def write(report: Report, kind: str, *, is_printed: bool = False) -> Response:
    """Return the file in a format; the writing, up to a second, does not hold up other requests."""
    # Without a name to store it by, the browser shows the page, which is what printing needs.
    headers = {} if is_printed else name_file(report.question, f"{report.run_id}.{kind}")
    if kind == "html":
        page, policy = await asyncio.to_thread(write_page, report, is_printed=is_printed)
        # Sent as it is: compressing megabytes of a library would hold up every stream of this process.
        headers |= {"Content-Security-Policy": policy, "Content-Encoding": "identity"}
        return Response(page.encode(), media_type="text/html; charset=utf-8", headers=headers)
    if kind == "docx":
        return Response(await asyncio.to_thread(write_word, report), media_type=WORD, headers=headers)
    # No thread for Markdown, which is only text put together.
    return Response(write_markdown(report).encode(), media_type="text/markdown; charset=utf-8", headers=headers)
