"""The page's files, and plotly's bundle from the installed package; nothing is loaded from other hosts."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from fathom.core.errors import DependencyFailed, MissingExtra

REVALIDATE = {"Cache-Control": "no-cache"}
# Names of these carry a digest of their content.
UNCHANGING = {"Cache-Control": "private, max-age=31536000, immutable"}


@dataclass(frozen=True)
class Bundle:
    """A script compressed once; ``tag`` changes with its content."""

    tag: str
    packed: bytes


def find_page() -> Path:
    """Return the folder of the built page: beside this module, or in the environment of a checkout that is read-only.

    It may be empty: the gateway serves its API without a page (``deploy/web.py`` builds one).
    """
    spare = Path(sys.prefix) / "share" / "fathom" / "page"
    return spare if (spare / "index.html").exists() else Path(__file__).with_name("static")


def read_script() -> tuple[bytes, str]:
    """Return Plotly's script for browsers and its version; raise ``MissingExtra`` without the package."""
    try:
        script = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
        return script, metadata.version("plotly")
    except (ModuleNotFoundError, FileNotFoundError, metadata.PackageNotFoundError) as error:
        raise MissingExtra("plotly", "sandbox") from error


def read_bundle() -> Bundle:
    """Load Plotly's browser bundle, which takes some 0.2 s; raise ``MissingExtra`` without the package."""
    script, version = read_script()
    return Bundle(f'"plotly-{version}-{len(script)}"', gzip.compress(script, 6))


class PlotlyScript:
    """Serves the bundle, which is loaded on first request."""

    def __init__(self) -> None:
        self._reading: asyncio.Task[Bundle] | None = None

    async def __call__(self, request: Request) -> Response:
        # A failed load is tried again instead of being remembered for ever.
        if self._reading is None or (self._reading.done() and self._reading.exception() is not None):
            self._reading = asyncio.create_task(asyncio.to_thread(read_bundle))
        # A browser that leaves must not cancel the load for the others.
        bundle = await asyncio.shield(self._reading)
        # Some megabytes that change with the package only, so a day without asking again.
        headers = {"ETag": bundle.tag, "Cache-Control": "private, max-age=86400", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == bundle.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(bundle.packed, media_type="text/javascript", headers=headers)
        script = await asyncio.to_thread(gzip.decompress, bundle.packed)
        return Response(script, media_type="text/javascript", headers=headers)


class OwnFiles(StaticFiles):
    """The page's own files; browsers revalidate those that may change, so that a new version shows at once."""

    def file_response(self, full_path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Response:
        response: Response = super().file_response(full_path, *args, **kwargs)
        response.headers.update(UNCHANGING if Path(full_path).parent.name == "assets" else REVALIDATE)
        return response


def add_page(app: FastAPI) -> None:
    """Add the page under ``/`` and its files under ``/static``."""
    script = PlotlyScript()
    folder = find_page()

    def answer(name: str) -> FileResponse:
        if not (folder / name).exists():
            raise DependencyFailed("page", "it is not built; `make setup` in the checkout builds it")
        return FileResponse(folder / name, media_type="text/html", headers=REVALIDATE)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return answer("index.html")

    @app.get("/frameworks", include_in_schema=False)
    async def frameworks() -> FileResponse:
        return answer("frameworks.html")

    @app.get("/static/plotly.min.js", include_in_schema=False)
    async def plotly(request: Request) -> Response:
        return await script(request)

    # Without its page the gateway still serves the API.
    if folder.is_dir():
        app.mount("/static", OwnFiles(directory=folder), name="static")
