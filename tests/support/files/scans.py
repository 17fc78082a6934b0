"""PDFs whose pages are pictures of printed lines, as a scanner makes them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import manimgx_fonts_cjk
from PIL import Image, ImageDraw, ImageFont

# A sheet of A5 at 150 dots per inch, in print of 14 points.
SIZE, DOTS_PER_INCH, LETTER, MARGIN = (874, 620), 150, 30, 60


def write_scan(pages: Sequence[Sequence[str]]) -> bytes:
    """Return a PDF with a picture per page: its lines, English or Chinese, black on white."""
    font = ImageFont.truetype(next(Path(str(manimgx_fonts_cjk.__file__)).parent.rglob("*.ttc")), LETTER)
    pictures = []
    for lines in pages:
        picture = Image.new("RGB", SIZE, "white")
        draw = ImageDraw.Draw(picture)
        for number, line in enumerate(lines):
            draw.text((MARGIN, MARGIN + 2 * LETTER * number), line, fill="black", font=font)
        pictures.append(picture)
    file = io.BytesIO()
    pictures[0].save(file, "PDF", resolution=DOTS_PER_INCH, save_all=True, append_images=pictures[1:])
    return file.getvalue()
