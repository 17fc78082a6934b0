"""A report as slides (PPTX): a slide or more per heading, native tables, pictures, and the references at the end."""

from __future__ import annotations

import io
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fathom.services.gateway.reports.pdf import is_drawable
from fathom.services.gateway.reports.report import Figure, Report
from fathom.services.gateway.reports.tree import TreeWriter, fit_url, plain_text
from fathom.services.gateway.reports.word import CHINESE_FONT, CODE_FONT, LATIN_FONT, clean
from fathom.services.gateway.reports.words import say

if TYPE_CHECKING:
    from pptx.presentation import Presentation
    from pptx.slide import Slide

# The size of a 16:9 slide, its margin, and the place below the title, in inches.
WIDTH, HEIGHT, MARGIN, TOP, BOTTOM = 13.333, 7.5, 0.6, 1.35, 6.9
# Layouts of the library's own template.
TITLE_LAYOUT, TITLE_ONLY_LAYOUT = 0, 5
# What fits below a title: lines of text of 16 points, letters of half a square on each, and rows of a table.
LINES, LETTERS, ROWS = 14, 104, 14
# Longer code is read in the notebook.
CODE_LINES = 16
INK, ACCENT, FAINT = "17212E", "12539B", "5C6670"
TEXT_POINTS, SMALL_POINTS, TABLE_POINTS = 16, 12, 11


@dataclass(frozen=True)
class Line:
    """A paragraph of a slide: pieces of text, how deep it stands, and what stands before it."""

    pieces: Sequence[Mapping[str, Any]]
    level: int = 0
    mark: str = ""
    is_code: bool = False
    points: int = TEXT_POINTS

    @property
    def height(self) -> float:
        """Return how many lines of text it takes, with the space below it."""
        text = self.mark + plain_text(self.pieces)
        letters = sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
        return (math.ceil(max(letters, 1) / (LETTERS - 4 * self.level)) + 0.35) * self.points / TEXT_POINTS


@dataclass
class Plan:
    """A slide to be made: its title, and either lines or one block that fills it."""

    title: str
    lines: list[Line] = field(default_factory=list)
    block: Mapping[str, Any] | None = None


def write_slides(report: Report) -> bytes:
    """Return the report as a presentation of Office Open XML."""
    import pptx
    from pptx.util import Inches

    presentation = pptx.Presentation()
    presentation.slide_width, presentation.slide_height = Inches(WIDTH), Inches(HEIGHT)
    presentation.core_properties.title = clean(report.question)[:255]
    presentation.core_properties.author = "Fathom"
    presentation.core_properties.created = report.made.replace(tzinfo=None)
    add_cover(presentation, report)
    for plan in plan_slides(report):
        add_slide(presentation, report, plan)
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def plan_slides(report: Report) -> Iterator[Plan]:
    """Yield the slides after the cover, in order, each with no more than fits."""
    # Pictures are told by name here, and looked up when they are drawn.
    drawn = {
        name: name
        for name, figure in report.figures.items()
        if figure.media_type == "image/png" and is_drawable(figure.content)
    }
    yield from split_body(TreeWriter(report, drawn).write(), say(report.language, "answer"))
    for title, texts in (("missing", report.missing), ("notes", report.notes)):
        lines = [Line([{"kind": "text", "text": clean(text)}], mark="• ") for text in texts]
        yield from fill(say(report.language, title), lines)
    yield from fill(say(report.language, "references"), list_sources(report))


def split_body(blocks: Sequence[Mapping[str, Any]], title: str) -> Iterator[Plan]:
    """Yield the slides of an answer: a new one at each heading, and one for each table and each figure."""
    lines: list[Line] = []
    for block in blocks:
        if block["kind"] == "heading":
            yield from fill(title, lines)
            title, lines = plain_text(block["children"]) or title, []
        elif block["kind"] in ("sheet", "typed", "figure"):
            yield from fill(title, lines)
            lines = []
            yield from split_table(title, block)
        else:
            lines += list_lines(block, 0)
    yield from fill(title, lines)


def fill(title: str, lines: Sequence[Line]) -> Iterator[Plan]:
    """Yield as many slides of one title as the lines need."""
    plan, used = Plan(title), 0.0
    for line in lines:
        if plan.lines and used + line.height > LINES:
            yield plan
            plan, used = Plan(title), 0.0
        plan.lines.append(line)
        used += line.height
    if plan.lines:
        yield plan


def split_table(title: str, block: Mapping[str, Any]) -> Iterator[Plan]:
    """Yield a slide for each part of a table that fits one; a figure as it is."""
    if block["kind"] == "figure":
        yield Plan(block["title"] or title, block=block)
        return
    if block["kind"] == "typed":
        rows = [[plain_text(cell) for cell in row] for row in block["rows"]]
        head = [plain_text(cell) for cell in block["head"]]
        parts: Sequence[Mapping[str, Any]] = [{"head": head, "rows": rows, "numeric": block["numeric"]}]
        block = {"title": title, "note": ""}
    else:
        parts = block["parts"]
    for part in parts:
        for start in range(0, max(len(part["rows"]), 1), ROWS):
            shown = {**part, "kind": "table", "rows": part["rows"][start : start + ROWS], "note": block["note"]}
            yield Plan(block["title"] or title, block=shown)


def list_lines(block: Mapping[str, Any], level: int) -> list[Line]:
    """Return a block of text as lines; lists and quotes stand deeper."""
    match block["kind"]:
        case "paragraph" | "heading":
            return [Line(part, level) for part in split_breaks(block["children"])]
        case "list":
            lines = []
            for number, item in enumerate(block["items"], block["start"]):
                inner = [line for part in item for line in list_lines(part, level + 1)]
                mark = f"{number}. " if block["ordered"] else "• "
                lines += [Line(one.pieces, one.level, one.mark or (mark * (not at))) for at, one in enumerate(inner)]
            return lines
        case "quote":
            return [line for part in block["children"] for line in list_lines(part, level + 1)]
        case "code":
            lines = block["text"].splitlines()
            shown = [*lines[:CODE_LINES], *["…"] * (len(lines) > CODE_LINES)]
            return [Line([{"kind": "code", "text": one}], level, is_code=True, points=SMALL_POINTS) for one in shown]
        case "absent":
            return [Line([{"kind": "text", "text": block["text"]}], level, points=SMALL_POINTS)]
        case _:
            return []


def split_breaks(pieces: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the lines of a paragraph, which a model has broken by hand."""
    lines: list[list[Mapping[str, Any]]] = [[]]
    for piece in pieces:
        if piece["kind"] == "break":
            lines.append([])
        else:
            lines[-1].append(piece)
    return [line for line in lines if line]


def list_sources(report: Report) -> list[Line]:
    """Return the numbered references."""
    lines = []
    for source in report.sources:
        title: dict[str, Any] = {"kind": "strong", "children": [{"kind": "text", "text": clean(source.title)}]}
        pieces = [{"kind": "link", "url": url, "children": [title]} if (url := fit_url(source.url)) else title]
        said = [source.origin, f"“{source.excerpt}”" if source.excerpt else ""]
        pieces += [{"kind": "text", "text": f" – {clean(text)}"} for text in said if text]
        lines.append(Line(pieces, mark=f"[{source.number}] ", points=SMALL_POINTS))
    return lines


def add_cover(presentation: Presentation, report: Report) -> None:
    """Add the first slide: the question, and when, by which model and by which run it was answered."""
    from pptx.util import Inches

    slide = presentation.slides.add_slide(presentation.slide_layouts[TITLE_LAYOUT])
    boxes = ((slide.shapes.title, 2.0, 2.2, 34), (slide.placeholders[1], 4.4, 1.6, 14))
    for (box, top, height, points), text in zip(boxes, (report.question, report.facts), strict=True):
        box.left, box.top = Inches(MARGIN), Inches(top)
        box.width, box.height = Inches(WIDTH - 2 * MARGIN), Inches(height)
        write_text(box.text_frame, [Line([{"kind": "text", "text": clean(text)}], points=points)])
    add_footer(slide, report)


def add_slide(presentation: Presentation, report: Report, plan: Plan) -> None:
    """Add a slide with its title and what it shows."""
    from pptx.util import Inches

    slide = presentation.slides.add_slide(presentation.slide_layouts[TITLE_ONLY_LAYOUT])
    title = slide.shapes.title
    title.left, title.top, title.width, title.height = map(Inches, (MARGIN, 0.35, WIDTH - 2 * MARGIN, 0.85))
    write_text(title.text_frame, [Line([{"kind": "text", "text": plan.title}], points=24)], color=ACCENT)
    if plan.block is None:
        box = slide.shapes.add_textbox(*map(Inches, (MARGIN, TOP, WIDTH - 2 * MARGIN, BOTTOM - TOP)))
        write_text(box.text_frame, plan.lines)
    elif plan.block["kind"] == "table":
        add_table(slide, plan.block)
    else:
        add_picture(slide, report.figures[plan.block["file"]])
    add_footer(slide, report)


def add_footer(slide: Slide, report: Report) -> None:
    """Add the line that stands on every slide."""
    from pptx.util import Inches

    box = slide.shapes.add_textbox(*map(Inches, (MARGIN, 7.0, WIDTH - 2 * MARGIN, 0.35)))
    write_text(
        box.text_frame, [Line([{"kind": "text", "text": say(report.language, "compliance")}], points=9)], color=FAINT
    )


def add_table(slide: Slide, block: Mapping[str, Any]) -> None:
    """Add a native table, its numbers to the right, and below it where its values are from."""
    from pptx.enum.text import PP_ALIGN
    from pptx.util import Inches

    lines = [block["head"], *block["rows"]]
    height = 0.36 * len(lines)
    place = map(Inches, (MARGIN, TOP, WIDTH - 2 * MARGIN, height))
    grid = slide.shapes.add_table(len(lines), len(block["head"]), *place).table
    for at, texts in enumerate(lines):
        for column, text in enumerate(texts):
            cell = grid.cell(at, column)
            cell.margin_top = cell.margin_bottom = Inches(0.03)
            color = "FFFFFF" if at == 0 else INK
            write_text(cell.text_frame, [Line([{"kind": "text", "text": text}], points=TABLE_POINTS)], color=color)
            cell.text_frame.paragraphs[0].font.bold = at == 0
            if block["numeric"][column]:
                cell.text_frame.paragraphs[0].alignment = PP_ALIGN.RIGHT
    if block["note"]:
        box = slide.shapes.add_textbox(*map(Inches, (MARGIN, BOTTOM - 0.25, WIDTH - 2 * MARGIN, 0.35)))
        write_text(box.text_frame, [Line([{"kind": "text", "text": block["note"]}], points=10)], color=FAINT)


def add_picture(slide: Slide, figure: Figure) -> None:
    """Add a picture as large as the slide allows."""
    from pptx.util import Emu, Inches

    picture = slide.shapes.add_picture(io.BytesIO(figure.content), Emu(0), Emu(0))
    scale = min(Inches(WIDTH - 2 * MARGIN) / picture.width, Inches(BOTTOM - TOP) / picture.height)
    picture.width, picture.height = Emu(int(picture.width * scale)), Emu(int(picture.height * scale))
    picture.left, picture.top = Emu((Inches(WIDTH) - picture.width) // 2), Inches(TOP)
    # What readers of screens say, instead of the library's "picture.png".
    picture._element._nvXxPr.cNvPr.set("descr", clean(figure.title))


def write_text(frame: Any, lines: Sequence[Line], *, color: str = INK) -> None:
    """Write lines into a frame of text, in place of what stands there."""
    from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
    from pptx.util import Pt

    frame.word_wrap, frame.vertical_anchor = True, MSO_ANCHOR.TOP
    for at, line in enumerate(lines):
        paragraph = frame.paragraphs[0] if at == 0 else frame.add_paragraph()
        paragraph.alignment, paragraph.level = PP_ALIGN.LEFT, min(line.level, 8)
        paragraph.space_after = Pt(line.points * 0.35)
        if line.level:
            # Text boxes of the template have no indents of their own.
            paragraph._p.get_or_add_pPr().set("marL", str(Pt(18 * line.level)))
        pieces = [{"kind": "text", "text": line.mark}, *line.pieces] if line.mark else line.pieces
        for piece in pieces:
            write_piece(paragraph, piece, line, color, frozenset())


def write_piece(paragraph: Any, piece: Mapping[str, Any], line: Line, color: str, on: frozenset[str]) -> None:
    """Write a piece of text as runs; ``on`` are the kinds of pieces around it."""
    if piece["kind"] in ("strong", "em", "s", "link"):
        inner = on | {str(piece.get("url") or piece["kind"])}
        for child in piece["children"]:
            write_piece(paragraph, child, line, color, inner)
        return
    is_cited = piece["kind"] == "cite"
    text = "".join(f"[{number}]" for number in piece["numbers"]) if is_cited else piece["text"]
    set_font(paragraph.add_run(), text, line, color, on | {piece["kind"]})


def set_font(run: Any, text: str, line: Line, color: str, on: frozenset[str]) -> None:
    """Write a text in the fonts of its kinds; without a Chinese one PowerPoint guesses by the machine."""
    from pptx.dml.color import RGBColor
    from pptx.oxml.ns import qn
    from pptx.util import Pt

    run.text = text
    font = run.font
    font.size, font.name = Pt(line.points), CODE_FONT if line.is_code or "code" in on else LATIN_FONT
    font.color.rgb = RGBColor(*bytes.fromhex(ACCENT if "cite" in on else color))  # type: ignore[no-untyped-call]
    font.bold, font.italic = "strong" in on or None, "em" in on or None
    properties = run._r.get_or_add_rPr()
    properties.append(properties.makeelement(qn("a:ea"), {"typeface": CHINESE_FONT}))
    if "cite" in on:
        properties.set("baseline", "30000")
    if "s" in on:
        properties.set("strike", "sngStrike")
    if address := next((one for one in on if one.startswith(("http://", "https://"))), ""):
        run.hyperlink.address = address
