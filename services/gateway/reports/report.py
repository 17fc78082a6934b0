"""A report: an answer with its references numbered in their order, the rows of its tables, and its figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.services.gateway.openai.answers import CITATION, CODE, REFERENCE, list_numbers
from fathom.services.gateway.reports.words import name_kind, say

# Marks of the private use area stand for citations and references while Markdown is parsed, which reads brackets and
# underscores in its own way; those that a model writes itself become U+FFFD.
OWN_MARKS = re.compile("[\ue000-\ue003]")
CITED = re.compile("\ue000([\\d,]+)\ue001")
PLACED = re.compile("\ue002(\\d+)\ue003")
# Some three lines of a printed page: enough to find the place in the source.
MAX_EXCERPT_CHARS = 320


@dataclass(frozen=True)
class Table:
    """The first rows of a sheet, as text."""

    title: str
    head: tuple[str, ...]
    units: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_number: tuple[bool, ...]
    """By column; numbers stand to the right."""
    note: str
    """Rows shown and in all, source, last date."""


@dataclass(frozen=True)
class Figure:
    """A figure's content: Plotly JSON, a picture, or HTML that was cleaned."""

    title: str
    media_type: str
    content: bytes


@dataclass(frozen=True)
class Source:
    """Entry of the references: the material behind a number in brackets."""

    number: int
    title: str
    origin: str = ""
    excerpt: str = ""
    url: str = ""
    code: str = ""


@dataclass(frozen=True)
class Place:
    """A reference of the text to a table or a figure."""

    kind: str
    name: str


@dataclass(frozen=True)
class Report:
    """All that a file of any format is written from. ``body`` is Markdown with marks (``CITED``, ``PLACED``)."""

    language: str
    question: str
    body: str
    places: tuple[Place, ...]
    sources: tuple[Source, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    run_id: str
    model: str
    made: datetime
    reading: str = ""
    """Line that says how the question was read; "" where nobody read it."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    withheld: frozenset[Place] = frozenset()
    """Places of what is not given out."""

    @property
    def facts(self) -> str:
        """Return when, by which model and by which run, in one line."""
        made = f"{say(self.language, 'made')} {self.made:%Y-%m-%d %H:%M} UTC"
        model = f"{say(self.language, 'model')} {self.model}" if self.model else ""
        return " · ".join(part for part in (made, model, f"{say(self.language, 'run')} {self.run_id}") if part)

    def tell_gone(self, place: Place) -> str:
        """Return what stands for a table or a figure that is not there."""
        state = "withheld" if place in self.withheld else "away"
        return say(self.language, f"{place.kind}_{state}", place.name)


def build_report(run: trajectory.Trajectory, language: str, made: datetime) -> Report:
    """Return the report of a run's answer, still without rows and figures."""
    material = {item.number: item for item in list_material(run)}
    body, places, order = mark_up(run.answer.markdown, material)
    return Report(
        language=language,
        question=run.question,
        body=body,
        places=tuple(places),
        sources=tuple(describe_source(material[old], new, language) for old, new in order.items()),
        missing=tuple(describe_missing(item) for item in material.values() if item.HasField("missing")),
        notes=tuple(describe_finding(finding, language) for finding in run.answer.findings),
        run_id=run.run_id,
        model=run.answer.model,
        made=made,
        reading=run.answer.reading.line,
    )


def list_material(run: trajectory.Trajectory) -> list[trajectory.Material]:
    """Return what the run has found, with what its answer adds."""
    return [*(item for step in run.steps for item in step.material), *run.answer.material]


def list_sheets(run: trajectory.Trajectory) -> list[trajectory.Material]:
    """Return the tables that the run was given or has found, those of its answer too."""
    return [item for item in (*run.given, *list_material(run)) if item.HasField("sheet")]


def mark_up(markdown: str, known: Mapping[int, Any]) -> tuple[str, list[Place], dict[int, int]]:
    """Return Markdown with marks, the places that they refer to, and the new number of each cited material.

    Numbers follow the order in which they are cited first; a citation of nothing is left out, as on the page.
    """
    text, places, order = OWN_MARKS.sub("\ufffd", markdown), list[Place](), dict[int, int]()
    spans = [match.span() for match in CODE.finditer(text)]
    parts, done = list[str](), 0
    # One pass over both kinds in the order of the text, which numbers the references and passes over what overlaps.
    found: Iterable[re.Match[str]] = (*CITATION.finditer(text), *REFERENCE.finditer(text))
    for match in sorted(found, key=re.Match.start):
        # In code a number in brackets is an index.
        if match.start() < done or any(start <= match.start() < end for start, end in spans):
            continue
        parts.append(text[done : match.start()])
        done = match.end()
        if match.re is REFERENCE:
            parts.append(f"\ue002{len(places)}\ue003")
            places.append(Place(match[1], match[2]))
        else:
            numbers = [one for one in list_numbers(match) if one in known]
            new = [str(order.setdefault(number, len(order) + 1)) for number in numbers]
            parts.append(f"\ue000{','.join(new)}\ue001" if new else "")
    return "".join((*parts, text[done:])), places, order


def describe_source(item: trajectory.Material, number: int, language: str) -> Source:
    """Return an entry of the references."""
    if item.HasField("passage"):
        passage = item.passage
        page = say(language, "page", passage.page) if passage.page else ""
        day = passage.publish_time.ToDatetime().date().isoformat() if passage.HasField("publish_time") else ""
        # Only addresses of the web: a source may be the name of a file, and links of other schemes could run something.
        url = next((text for text in (passage.source, passage.id) if text.startswith(("http://", "https://"))), "")
        recognized = f"OCR {passage.ocr_confidence:.0%}".replace("%", " %") if passage.ocr_confidence else ""
        origin = " · ".join(part for part in (passage.source, page, recognized, day) if part)
        return Source(number, passage.title or passage.id, origin, cut(passage.text), url)
    if item.HasField("sheet"):
        return Source(number, item.sheet.title or item.variable, describe_origin(item.sheet, language))
    if item.HasField("code"):
        return Source(number, say(language, "calculation"), code=item.code.code)
    return Source(number, f"{say(language, 'missing')}: {describe_missing(item)}")


def describe_origin(sheet: Sheet, language: str) -> str:
    """Return where a sheet's values are from and until when they go."""
    sources = dict.fromkeys(column.source for column in sheet.columns if column.source)
    last = max((column.as_of for column in sheet.columns), default="")
    return " · ".join([", ".join(sources)] * bool(sources) + [say(language, "as_of", last)] * bool(last))


def describe_missing(item: trajectory.Material) -> str:
    """Return what was asked for and not found, in one line."""
    missing = item.missing
    what = " · ".join(part for part in (missing.subject, missing.aspect, missing.period) if part)
    return f"{what} – {missing.detail}" if missing.detail else what


def describe_finding(finding: trajectory.Finding, language: str) -> str:
    """Return a mark of the check in one line."""
    words = f"{name_kind(language, finding.kind)}: “{cut(finding.text)}”"
    return f"{words} – {finding.detail}" if finding.detail else words


def build_table(sheet: Sheet, page: Mapping[str, Any], language: str, *, has_parentheses: bool = False) -> Table:
    """Return the table of a sheet from a page of its rows."""
    show = partial(format_value, has_parentheses=has_parentheses)
    columns = {column.name: column for column in sheet.columns}
    names = [column["name"] for column in page["columns"]]
    rows = say(language, "rows", f"{len(page['rows']):,}", f"{page['total']:,}")
    return Table(
        title=sheet.title,
        head=tuple(names),
        units=tuple(columns[name].unit if name in columns else "" for name in names),
        rows=tuple(tuple(map(show, row)) for row in page["rows"]),
        # By the column's type and not its values. What is neither text nor truth is a number or a date, and both are
        # read along their right edge.
        is_number=tuple(column["type"] not in ("string", "large_string", "bool") for column in page["columns"]),
        note=" · ".join(part for part in (rows, describe_origin(sheet, language)) if part),
    )


def format_value(value: Any, *, has_parentheses: bool = False) -> str:
    """Return a value as a reader expects it: thousands apart, at most four decimals; "–" where there is none.

    With ``has_parentheses``, -1.5 is (1.5).
    """
    if value is None:
        return "–"
    # Truth values are whole numbers to Python, which would show them as 1 and 0.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if has_parentheses and value < 0:
        return f"({format_value(-value)})"
    if isinstance(value, int):
        return f"{value:,}"
    # Small numbers keep digits that count, large ones none that nobody reads.
    return f"{value:.4g}" if 0 < abs(value) < 0.001 else f"{value:,.4f}".rstrip("0").rstrip(".")


def cut(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_EXCERPT_CHARS else f"{line[:MAX_EXCERPT_CHARS].rstrip()}…"


def parse(report: Report) -> list[Token]:
    """Return the tokens of the body, and behind each block a token ``place`` for what it refers to.

    HTML of the model stays text, and links lead to addresses that run nothing.
    """
    # CommonMark itself has neither tables nor struck text, both of which models write.
    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    tokens, waiting = list[Token](), list[Place]()
    for token in reader.parse(report.body):
        # An inline token has its text twice, as a whole and in children; writers go by the children.
        for child in token.children or ():
            waiting += [report.places[int(number)] for number in PLACED.findall(child.content)]
            child.content = PLACED.sub("", child.content)
        if not is_hollow(token):
            tokens.append(token)
        # A table stands in no paragraph and in no list.
        if token.level == 0 and token.nesting <= 0:
            tokens += [Token("place", "", 0, meta={"place": place}) for place in waiting]
            waiting.clear()
    return tokens


def is_hollow(token: Token) -> bool:
    """Return whether nothing is left of an inline token but the place of a table."""
    return token.type == "inline" and not any(child.content.strip() or child.nesting for child in token.children or ())
