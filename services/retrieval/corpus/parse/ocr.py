"""Recognition of characters (OCR) on scanned pages: pdfium draws them, RapidOCR's models read Chinese and English.

Both libraries are native code that meets files of strangers: run ``recognize_pages`` in a limited child process
(``fathom.domain.decoding``). The models come inside the library's wheel; nothing is downloaded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from math import sqrt
from typing import Any

from fathom.core.extras import name_missing_extra

EXTRA = "ocr"
MODULES = ("pypdfium2", "rapidocr")
# Small print is legible from here on, and more costs time without better characters.
DOTS_PER_INCH, POINTS_PER_INCH = 200, 72
# Lines that were misread had 0.63 and less on printed pages, those that were read well 0.95 and more.
LEAST_CONFIDENCE = 0.8
SETTINGS: Mapping[str, object] = {
    "Global.log_level": "error",
    # Lines of one batch are padded to the longest, which garbles short ones.
    "Rec.rec_batch_num": 1,
    # The limit of processor time counts threads together.
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}


@dataclass(frozen=True)
class OcrLimits:
    """Limits of one file: pages, pixels of a page's picture, and seconds of processor time."""

    pages: int = 30
    pixels: int = 4_000_000
    seconds: int = 120


@dataclass(frozen=True)
class RecognizedPage:
    """Text of a scanned page: the mean confidence of its characters, 0 to 1, and how many lines were too unsure.

    ``reason`` says why a page was not read; its text is empty then.
    """

    text: str = ""
    confidence: float = 0.0
    unsure_lines: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Line:
    """A stretch of characters as found: its left, upper and lower edge in pixels."""

    text: str
    confidence: float
    left: float
    top: float
    bottom: float


def has_ocr() -> bool:
    """Return whether the libraries of the extra are installed; load none of them."""
    return all(find_spec(module) is not None for module in MODULES)


def recognize_pages(data: bytes, pages: Sequence[int], limits: OcrLimits) -> dict[int, RecognizedPage]:
    """Return what the pages of a PDF say, by their numbers from 1; one that cannot be read has its reason.

    Raise ``MissingExtra`` without the extra "ocr".
    """
    with name_missing_extra(EXTRA):
        import pypdfium2
        from rapidocr import RapidOCR
    engine = RapidOCR(params=dict(SETTINGS))
    found = {page: RecognizedPage(reason=describe_excess(limits)) for page in pages[limits.pages :]}
    until = time.process_time() + limits.seconds
    with pypdfium2.PdfDocument(data) as file:
        for page in pages[: limits.pages]:
            if time.process_time() > until:
                found[page] = RecognizedPage(reason=f"the {limits.seconds} s of OCR for one file are spent")
                continue
            try:
                found[page] = read_page(engine, draw_page(file, page, limits.pixels))
            except Exception as error:  # a broken picture must not cost the other pages
                found[page] = RecognizedPage(reason=f"OCR failed: {type(error).__name__}: {str(error)[:200]}")
    return found


def describe_excess(limits: OcrLimits) -> str:
    """Return the reason of a page beyond the number that one file may have read."""
    return f"OCR reads {limits.pages} pages of a file" if limits.pages else "OCR is switched off (retrieval.ocr_pages)"


def draw_page(file: Any, number: int, pixels: int) -> Any:
    """Return the picture of a page, counted from 1: height x width x 3 bytes, with at most ``pixels`` pixels."""
    page = file[number - 1]
    width, height = page.get_size()
    # A page may call itself as large as a house.
    scale = min(DOTS_PER_INCH / POINTS_PER_INCH, sqrt(pixels / max(width * height, 1.0)))
    return page.render(scale=scale).to_numpy()


def read_page(engine: Any, picture: Any) -> RecognizedPage:
    """Return the text in a picture, line by line."""
    read = engine(picture)
    # Nothing at all is None, not empty.
    texts, scores, boxes = (() if part is None else part for part in (read.txts, read.scores, read.boxes))
    lines = [
        Line(text, float(score), *measure_box(box))
        for text, score, box in zip(texts, scores, boxes, strict=True)
        if text.strip()
    ]
    sure = [line for line in lines if line.confidence >= LEAST_CONFIDENCE]
    letters = sum(len(line.text) for line in sure)
    if not letters:
        return RecognizedPage(unsure_lines=len(lines), reason="is a picture in which OCR finds no text that is sure")
    confidence = sum(line.confidence * len(line.text) for line in sure) / letters
    return RecognizedPage(write_lines(sure), round(confidence, 3), len(lines) - len(sure))


def measure_box(box: Any) -> tuple[float, float, float]:
    """Return the left, upper and lower edge of four corners (x, y)."""
    return float(box[:, 0].min()), float(box[:, 1].min()), float(box[:, 1].max())


def write_lines(lines: Sequence[Line]) -> str:
    """Return stretches of characters in reading order; those of one height, as cells of a table, are one line."""
    ordered = sorted(lines, key=lambda line: line.top + line.bottom)
    rows = [ordered[:1]]
    for before, line in pairwise(ordered):
        # The middle of the one lies within the other.
        is_beside = before.top < (line.top + line.bottom) / 2 < before.bottom
        if is_beside:
            rows[-1].append(line)
        else:
            rows.append([line])
    return "\n".join("  ".join(line.text for line in sorted(row, key=lambda line: line.left)) for row in rows)
