"""A report as a Word file: native tables and headings, numbered references, pictures of its figures."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markdown_it.token import Token

from fathom.services.gateway.reports.report import CITED, Figure, Place, Report, Table, parse
from fathom.services.gateway.reports.words import say

if TYPE_CHECKING:
    from docx.document import Document
    from docx.text.paragraph import Paragraph

# XML has no form for them, so that one in an answer would spoil the file.
NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
# A cell with a number alone, its sign and unit, stands to the right.
NUMBER = re.compile(r"[-−+()\d.,%\s]+")
LATIN_FONT, CHINESE_FONT, CODE_FONT = "Calibri", "Microsoft YaHei", "Consolas"
# A style that the library's own template has, so that no template must be shipped.
TABLE_STYLE = "Light List Accent 1"
# Interactive figures and SVG have no form that the library could embed.
PICTURES = ("image/png", "image/jpeg")
# On A4 this leaves margins of 2.5 cm, and the indent has room for a number with its point.
WIDTH_CM, INDENT_CM = 16.0, 0.75
STYLES = ("Normal", "Title", "Heading 1", "Heading 2", "Heading 3", "Heading 4", "List Bullet", "Quote", "Caption")


def write_word(report: Report) -> bytes:
    """Return the report as a file of Office Open XML (DOCX)."""
    import docx
    from docx.shared import Cm

    document = docx.Document()
    section = document.sections[0]
    section.page_width, section.page_height = Cm(21.0), Cm(29.7)
    section.left_margin = section.right_margin = Cm((21.0 - WIDTH_CM) / 2)
    name_fonts(document)
    # The library refuses properties of more than 255 characters.
    document.core_properties.title = clean(report.question)[:255]
    # The library takes times without a zone and writes them as UTC, which this one is.
    document.core_properties.author, document.core_properties.created = "Fathom", report.made.replace(tzinfo=None)
    document.add_heading(clean(report.question), 0)
    document.add_paragraph(clean(report.facts), style="Caption")
    BodyWriter(document, report).write(parse(report))
    for title, lines in (("missing", report.missing), ("notes", report.notes)):
        if lines:
            document.add_heading(say(report.language, title), 2)
            for line in lines:
                document.add_paragraph(clean(line), style="List Bullet")
    write_sources(document, report)
    document.add_paragraph(say(report.language, "compliance"), style="Caption")
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def name_fonts(document: Document) -> None:
    """Set a Latin and a Chinese font for every style in use: without the second, Word guesses one by the machine."""
    from docx.oxml.ns import qn

    for name in STYLES:
        fonts = document.styles[name].element.get_or_add_rPr().get_or_add_rFonts()
        for place, font in (("ascii", LATIN_FONT), ("hAnsi", LATIN_FONT), ("eastAsia", CHINESE_FONT)):
            fonts.set(qn(f"w:{place}"), font)
            # A theme's font would go before the named one.
            fonts.attrib.pop(qn(f"w:{place}Theme"), None)


def clean(text: str) -> str:
    """Return text without characters that XML has no form for."""
    return NO_XML.sub("\ufffd", text)


def write_sources(document: Document, report: Report) -> None:
    """Append the numbered references."""
    if not report.sources:
        return
    document.add_heading(say(report.language, "references"), 2)
    for source in report.sources:
        paragraph = document.add_paragraph()
        hang(paragraph, 1)
        paragraph.add_run(f"[{source.number}]\t")
        if source.url:
            add_link(paragraph, clean(source.title), source.url)
        else:
            paragraph.add_run(clean(source.title)).bold = True
        for text in (source.origin, f"“{source.excerpt}”" if source.excerpt else ""):
            if text:
                paragraph.add_run(f" – {clean(text)}")


def hang(paragraph: Paragraph, depth: int) -> None:
    """Indent a paragraph to a depth, its first line before it by the width of a number."""
    from docx.shared import Cm

    paragraph.paragraph_format.left_indent = Cm(INDENT_CM * depth)
    paragraph.paragraph_format.first_line_indent = Cm(-INDENT_CM)


def add_link(paragraph: Paragraph, text: str, address: str) -> None:
    """Append a link to another address, for which the library has no call."""
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn
    from docx.shared import RGBColor

    link = OxmlElement("w:hyperlink")
    link.set(qn("r:id"), paragraph.part.relate_to(clean(address), RELATIONSHIP_TYPE.HYPERLINK, is_external=True))
    run = paragraph.add_run(text)
    run.font.color.rgb, run.underline = RGBColor(0x12, 0x53, 0x9B), True
    link.append(run._r)
    paragraph._p.append(link)


class BodyWriter:
    """Writes the tokens of the answer into a document."""

    def __init__(self, document: Document, report: Report) -> None:
        self._document, self._report = document, report
        # The lists around the paragraph: the next number, or None for a list with points.
        self._lists: list[int | None] = []
        self._mark = ""
        self._quotes = 0
        self._heading = 0
        self._rows: list[list[Token | None]] | None = None

    def write(self, tokens: Sequence[Token]) -> None:
        """Write all tokens in order."""
        for token in tokens:
            match token.type:
                case "heading_open":
                    # Deeper levels would have styles whose Chinese font nobody has set.
                    self._heading = min(int(token.tag[1:]), 4)
                case "heading_close":
                    self._heading = 0
                case "bullet_list_open" | "ordered_list_open":
                    is_ordered = token.type == "ordered_list_open"
                    self._lists.append(int(token.attrs.get("start", 1)) if is_ordered else None)
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    self._open_item()
                case "blockquote_open" | "blockquote_close":
                    self._quotes += token.nesting
                case "fence" | "code_block":
                    run = self._document.add_paragraph().add_run(clean(token.content.rstrip("\n")))
                    run.font.name = CODE_FONT
                case "place":
                    self._place(token.meta["place"])
                case _:
                    self._write_cells(token)

    def _open_item(self) -> None:
        # Numbers are text with a hanging indent: Word's list styles go on counting from one list to the next.
        number = self._lists[-1]
        self._mark = "•" if number is None else f"{number}."
        if number is not None:
            self._lists[-1] = number + 1

    def _write_cells(self, token: Token) -> None:
        """Write text, or keep it for the table that it stands in."""
        match token.type:
            case "table_open":
                self._rows = []
            case "tr_open" if self._rows is not None:
                self._rows.append([])
            case "inline" if self._rows is not None:
                self._rows[-1].append(token)
            case "inline":
                self._paragraph(token)
            case "table_close":
                self._table(self._rows or [])
                self._rows = None

    def _paragraph(self, token: Token) -> None:
        from docx.shared import Cm

        if self._heading:
            paragraph = self._document.add_heading("", self._heading)
        else:
            paragraph = self._document.add_paragraph(style="Quote" if self._quotes else "Normal")
        if self._lists:
            hang(paragraph, len(self._lists))
            if self._mark:
                paragraph.add_run(f"{self._mark}\t")
            else:
                # A further paragraph of an item has no mark of its own.
                paragraph.paragraph_format.first_line_indent = Cm(0)
        self._mark = ""
        self._inline(paragraph, token)

    def _inline(self, paragraph: Paragraph, token: Token) -> None:
        on: dict[str, int] = {}
        address = ""
        for child in token.children or ():
            if child.type == "link_open":
                address = str(child.attrs.get("href", ""))
            elif child.type == "link_close":
                address = ""
            elif child.nesting:
                name = child.type.rpartition("_")[0]
                on[name] = on.get(name, 0) + child.nesting
            elif child.type in ("softbreak", "hardbreak"):
                paragraph.add_run().add_break() if child.type == "hardbreak" else paragraph.add_run(" ")
            elif address.startswith(("http://", "https://")):
                # Without citations, since a link is one run here, of which no part can be raised.
                add_link(paragraph, clean(CITED.sub("", child.content)), address)
            else:
                self._runs(paragraph, child, on)

    def _runs(self, paragraph: Paragraph, child: Token, on: dict[str, int]) -> None:
        """Write a text with its citations raised."""
        # Every second part of a split by a group is what the group has found.
        for place, part in enumerate(CITED.split(child.content)):
            if not part:
                continue
            run = paragraph.add_run(f"[{part.replace(',', '][')}]" if place % 2 else clean(part))
            # None leaves it to the style, where False would take a heading's bold away.
            run.font.superscript = bool(place % 2) or None
            run.bold, run.italic = bool(on.get("strong")) or None, bool(on.get("em")) or None
            run.font.strike = bool(on.get("s")) or None
            if child.type == "code_inline":
                run.font.name = CODE_FONT

    def _table(self, rows: list[list[Token | None]]) -> None:
        from docx.enum.text import WD_ALIGN_PARAGRAPH

        if not rows:
            return
        width = len(rows[0])
        grid = self._document.add_table(len(rows), width, style=TABLE_STYLE)
        cells = list(grid._cells)  # read once: the library finds every cell anew
        for place, token in enumerate(token for row in rows for token in row):
            paragraph = cells[place].paragraphs[0]
            if token is not None:
                self._inline(paragraph, token)
            if NUMBER.fullmatch(paragraph.text):
                paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT
        # Word joins two tables without a paragraph between them.
        self._document.add_paragraph()

    def _place(self, place: Place) -> None:
        table, figure = self._report.tables.get(place.name), self._report.figures.get(place.name)
        if place.kind == "table" and table:
            self._sheet(table)
        elif place.kind == "figure" and figure and figure.media_type in PICTURES:
            self._picture(figure, place)
        else:
            named = Place(place.kind, figure.title or place.name) if figure else place
            self._document.add_paragraph(clean(self._report.tell_gone(named)), style="Caption")

    def _sheet(self, table: Table) -> None:
        from docx.enum.text import WD_ALIGN_PARAGRAPH

        # A title at the foot of a page would be parted from its table.
        self._document.add_paragraph(clean(table.title), style="Caption").paragraph_format.keep_with_next = True
        grid = self._document.add_table(len(table.rows) + 1, len(table.head), style=TABLE_STYLE)
        head = [f"{name} ({unit})" if unit else name for name, unit in zip(table.head, table.units, strict=True)]
        cells = list(grid._cells)
        for place, text in enumerate(cell for row in (head, *table.rows) for cell in row):
            paragraph = cells[place].paragraphs[0]
            paragraph.add_run(clean(text))
            if table.is_number[place % len(head)]:
                paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT
        repeat_head(grid)
        self._document.add_paragraph(clean(table.note), style="Caption")

    def _picture(self, figure: Figure, place: Place) -> None:
        from docx.image.exceptions import UnexpectedEndOfFileError, UnrecognizedImageError
        from docx.shared import Cm

        try:
            self._document.add_picture(io.BytesIO(figure.content), width=Cm(WIDTH_CM))
        except (UnrecognizedImageError, UnexpectedEndOfFileError, ValueError, KeyError, IndexError):
            # A picture that is none costs only itself.
            self._document.add_paragraph(clean(self._report.tell_gone(place)), style="Caption")
            return
        self._document.add_paragraph(clean(figure.title), style="Caption")


def repeat_head(grid: Any) -> None:
    """Let a table's first row stand on every page that it reaches."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    mark = OxmlElement("w:tblHeader")
    mark.set(qn("w:val"), "true")
    grid.rows[0]._tr.get_or_add_trPr().append(mark)
