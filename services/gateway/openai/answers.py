"""An answer of the agent as one text for foreign programs: references become Markdown, citations annotations."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import FathomError

REFERENCE = re.compile(r"\{\{(table|figure):([A-Za-z0-9_]{1,120})\}\}")
# As in the planner's grammar of answers: up to sixteen numbers, and no link.
CITATION = re.compile(r"\[(\d{1,3}(?:[ \t]{0,2}[,，][ \t]{0,2}\d{1,3}){0,15})\](?!\()")
CODE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1|\Z)|`[^`\n]{1,2000}`", re.MULTILINE | re.DOTALL)
# Rows of a table inside the text; the rest is behind its link.
SHOWN_ROWS = 20
TablePage = Callable[[Sheet, int], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True)
class Rendered:
    """Text of an answer and its annotations, as in a message of the chat completions API."""

    text: str
    annotations: tuple[Mapping[str, Any], ...] = ()


async def render_answer(finished: planner.RunFinished, run_url: str, base_url: str, read_page: TablePage) -> Rendered:
    """Return the answer below how its question was read, with its tables and links to its figures.

    Each resolved citation has an annotation.
    """
    sheets = {item.variable: item.sheet for item in finished.material if item.HasField("sheet")}
    figures = {figure.id: figure for item in finished.material for figure in item.code.figures}
    markdown, parts, position = finished.answer.markdown, list[str](), 0
    for match in REFERENCE.finditer(markdown):
        kind, name = match.groups()
        parts.append(markdown[position : match.start()])
        position = match.end()
        if kind == "table" and name in sheets:
            parts.append(await render_table(sheets[name], base_url, read_page))
        elif kind == "figure" and name in figures:
            parts.append(f"[{escape_label(figures[name].title or name)}]({run_url}/figures/{name})")
        # A reference to what the run does not have stays readable, in place of braces that no foreign program resolves.
        else:
            parts.append(f"({kind} {name})")
    body = "".join([*parts, markdown[position:]])
    text = "\n\n".join(filter(None, [finished.answer.reading.line, body]))
    return Rendered(text, tuple(annotate(text, finished.material, run_url, base_url)))


async def render_table(sheet: Sheet, base_url: str, read_page: TablePage) -> str:
    """Return the first rows of a sheet as a Markdown table with a link to all of it; the link alone when it is gone."""
    link = f"[{escape_label(sheet.title or sheet.id)}, {sheet.rows:,} rows]({base_url}/v1/tables/{sheet.id}/export)"
    try:
        page = await read_page(sheet, SHOWN_ROWS)
    # An answer is worth more than one of its tables.
    except FathomError:
        return link
    rows = [[column["name"] for column in page["columns"]], ["---"] * len(page["columns"]), *page["rows"]]
    lines = [f"| {' | '.join(map(format_cell, row))} |" for row in rows]
    return "\n".join([*lines, "", link])


def format_cell(value: Any) -> str:
    """Return a value as text that cannot end its cell; "" for a missing one."""
    # A pipe or a line break would end the cell, and with it every column behind.
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")


def escape_label(text: str) -> str:
    """Return text for the label of a link."""
    return text.replace("\n", " ").replace("[", "(").replace("]", ")")


def annotate(
    text: str, material: Sequence[trajectory.Material], run_url: str, base_url: str
) -> list[Mapping[str, Any]]:
    """Return an annotation per citation outside of code, its indices in characters of the text."""
    known = {item.number: item for item in material}
    found: list[Mapping[str, Any]] = []
    for match in find_citations(text):
        for number in list_numbers(match):
            # What the checks left unresolved stays text: an annotation without a source would be a dead link.
            if number in known:
                title, url = describe_source(known[number], run_url, base_url)
                place = {"start_index": match.start(), "end_index": match.end(), "title": title, "url": url}
                found.append({"type": "url_citation", "url_citation": place})
    return found


def find_citations(text: str) -> Iterator[re.Match[str]]:
    """Yield the citations of a text outside of code, in which a number in brackets is an index."""
    code = [match.span() for match in CODE.finditer(text)]
    for match in CITATION.finditer(text):
        if not any(start <= match.start() < end for start, end in code):
            yield match


def list_numbers(citation: re.Match[str]) -> list[int]:
    """Return the numbers of a citation."""
    return [int(number) for number in re.split(r"[,，]", citation[1])]


def describe_source(item: trajectory.Material, run_url: str, base_url: str) -> tuple[str, str]:
    """Return title and URL of a material: its own address where it has one, else where the gateway shows it."""
    if item.HasField("passage"):
        passage = item.passage
        # Documents from the web carry their address as the source or as the id, bundled ones carry none.
        address = next((text for text in (passage.source, passage.id) if text.startswith(("http://", "https://"))), "")
        return passage.title or passage.id, address or run_url
    if item.HasField("sheet"):
        return item.sheet.title or item.variable, f"{base_url}/v1/tables/{item.sheet.id}"
    if item.HasField("code"):
        return f"calculation {item.number}", run_url
    return f"not found: {item.missing.subject}", run_url
