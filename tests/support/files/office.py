"""Files as people's programs write them: PDF by fpdf2, Word and PowerPoint by their libraries, mail by Python's own."""

from __future__ import annotations

import io
from collections.abc import Sequence
from email.message import EmailMessage

import docx
import pptx
from fpdf import FPDF


def write_pdf(pages: Sequence[str], title: str = "") -> bytes:
    """Return a PDF with a page per text; an empty text is a page with a drawing, as scans are."""
    file = FPDF()
    file.set_font("Helvetica", size=11)
    if title:
        file.set_title(title)
    for text in pages:
        file.add_page()
        if text:
            file.multi_cell(0, 6, text)
        else:
            # Without a word, so that there is nothing but a picture to read.
            file.rect(20, 20, 100, 60)
    return bytes(file.output())


def write_docx(paragraphs: Sequence[str], table: Sequence[Sequence[str]] = (), title: str = "") -> bytes:
    """Return a Word document of paragraphs, "# " before headings, and a table at its end."""
    file = docx.Document()
    file.core_properties.title = title
    for text in paragraphs:
        file.add_heading(text[2:], 1) if text.startswith("# ") else file.add_paragraph(text)
    if table:
        grid = file.add_table(len(table), len(table[0]))
        for row, cells in zip(grid.rows, table, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    return save(file)


def write_pptx(slides: Sequence[tuple[str, str, str]]) -> bytes:
    """Return a presentation of slides with heading, body and notes."""
    file = pptx.Presentation()
    for heading, body, notes in slides:
        # The second layout of the library's own template: heading and body.
        slide = file.slides.add_slide(file.slide_layouts[1])
        slide.shapes.title.text = heading
        slide.placeholders[1].text = body
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    return save(file)


def write_mail(subject: str, text: str, date: str, html: str = "", attachment: str = "") -> bytes:
    """Return a mail, with an HTML form of its text and an attachment where they are given."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ana <ana@firm.example>", "board@firm.example", subject
    mail["Date"] = date
    if html:
        mail.set_content(html, subtype="html")
    else:
        mail.set_content(text)
    if attachment:
        # Only its name is read: what is attached is to be given as a file of its own.
        mail.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename=attachment)
    return mail.as_bytes()


def save(file: object) -> bytes:
    """Return what a file of docx or pptx writes."""
    sink = io.BytesIO()
    file.save(sink)  # type: ignore[attr-defined]
    return sink.getvalue()
