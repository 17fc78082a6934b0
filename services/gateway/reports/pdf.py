"""A report as PDF: pages set by Typst, with embedded Chinese fonts, numbered references and tables over pages."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData
from fathom.core.extras import name_missing_extra
from fathom.services.gateway.reports.report import Figure, Report
from fathom.services.gateway.reports.tree import TreeWriter, fit_url
from fathom.services.gateway.reports.word import clean
from fathom.services.gateway.reports.words import say

TEMPLATE = Path(__file__).with_name("report.typ")
# Typst draws a picture decoded, with four bytes per pixel: a few kilobytes of PNG may be gigabytes of white.
MAX_PIXELS = 25_000_000


def write_pdf(report: Report) -> bytes:
    """Return the report as PDF; raise ``CorruptData`` when it cannot be set."""
    with name_missing_extra():
        import manimgx_fonts_cjk
        import typst
    with tempfile.TemporaryDirectory(prefix="fathom-report-") as name:
        folder = Path(name)
        content = describe(report, save_pictures(report.figures, folder))
        (folder / "report.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        (folder / "report.typ").write_bytes(TEMPLATE.read_bytes())
        # Fonts of the machine would make the pages differ from one machine to the next.
        fonts = typst.Fonts(include_system_fonts=False, font_paths=[str(Path(str(manimgx_fonts_cjk.__file__)).parent)])
        try:
            # The root is all that the template can read.
            pages = typst.compile(
                str(folder / "report.typ"),
                root=name,
                font_paths=fonts,
                format="pdf",
                timestamp=report.made.replace(microsecond=0),
            )
        except typst.TypstError as error:
            raise CorruptData("report", f"cannot be set as PDF: {error.message}") from error
    if not isinstance(pages, bytes):
        raise CorruptData("report", "cannot be set as PDF: no pages")
    return pages


def save_pictures(figures: Mapping[str, Figure], folder: Path) -> dict[str, str]:
    """Write the pictures that can be drawn into the folder and return their files by the figures' names."""
    saved = {}
    for number, (name, figure) in enumerate(figures.items()):
        if figure.media_type == "image/png" and is_drawable(figure.content):
            saved[name] = f"figure{number}.png"
            (folder / saved[name]).write_bytes(figure.content)
    return saved


def is_drawable(content: bytes) -> bool:
    """Return whether this is a whole PNG of a size that a page may have."""
    from PIL import Image, UnidentifiedImageError

    # Width and height, which every PNG has first of all (PNG specification, 11.2.2).
    width, height = int.from_bytes(content[16:20]), int.from_bytes(content[20:24])
    if width * height > MAX_PIXELS:
        return False
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as picture:
            picture.load()
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):  # SyntaxError is what Pillow raises for bad PNG
        return False
    return True


def count_sources(report: Report) -> str:
    """Return how many references the answer has, in words; "" for none."""
    return say(report.language, "sources", str(len(report.sources))) if report.sources else ""


def describe(report: Report, pictures: Mapping[str, str]) -> dict[str, Any]:
    """Return what the template shows, as JSON."""
    lists = [("missing", report.missing), ("notes", report.notes)]
    return {
        "language": report.language,
        "question": clean(report.question),
        "cover": {
            "title": say(report.language, "answer"),
            "day": f"{report.made:%Y-%m-%d}",
            "lines": [clean(line) for line in (report.reading, count_sources(report), report.facts) if line],
        },
        "compliance": say(report.language, "compliance"),
        "references": say(report.language, "references"),
        "body": TreeWriter(report, pictures).write(),
        "lists": [
            {"title": say(report.language, title), "lines": [clean(line) for line in lines]}
            for title, lines in lists
            if lines
        ],
        "sources": [
            {
                "number": str(source.number),
                "title": clean(source.title),
                "origin": clean(source.origin),
                "excerpt": clean(source.excerpt),
                "url": fit_url(source.url),
                "code": clean(source.code),
            }
            for source in report.sources
        ],
    }
