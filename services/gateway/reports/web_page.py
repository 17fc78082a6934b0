"""A report as one HTML file without anything outside: interactive figures, styles for screen and print."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from fathom.core.errors import CorruptData
from fathom.services.gateway.page import read_script
from fathom.services.gateway.reports.report import CITED, Figure, Place, Report, Table, parse
from fathom.services.gateway.reports.words import say

HERE = Path(__file__)
PRINT = 'addEventListener("load", () => setTimeout(() => print(), 400));'


def write_page(report: Report, *, is_printed: bool = False) -> tuple[str, str]:
    """Return the page and its Content-Security-Policy, which lets run its own scripts and load nothing.

    ``is_printed`` opens the browser's dialogue for printing, which can write PDF.
    """
    writer = PageWriter(report)
    content = writer.write_body()
    scripts = [PRINT] if is_printed else []
    return assemble(report.language, report.question, content, writer.has_plots, scripts)


def write_pages(reports: Sequence[Report], title: str) -> tuple[str, str]:
    """Return a page with several reports below each other, the turns of a conversation, and its policy."""
    # References are numbered anew in each report, so that the places that links lead to need names of their own.
    writers = [PageWriter(report, prefix=f"t{number}-") for number, report in enumerate(reports, 1)]
    content = "".join(f"<article>{writer.write_body()}</article>" for writer in writers)
    has_plots = any(writer.has_plots for writer in writers)
    return assemble(reports[0].language, title, content, has_plots, [])


def write_note(lines: Sequence[str]) -> tuple[str, str]:
    """Return a page that only says something, and its policy."""
    return assemble("en", "Fathom", "".join(f"<p>{escape(line)}</p>" for line in lines), False, [])


def assemble(language: str, title: str, content: str, has_plots: bool, scripts: Sequence[str]) -> tuple[str, str]:
    """Return a whole page around its content, and its policy."""
    style = HERE.with_name("report.css").read_text(encoding="utf-8")
    draw = HERE.with_name("draw.js").read_text(encoding="utf-8")
    # Without a figure to draw, the megabytes of the library stay out.
    scripts = [*([read_script()[0].decode(), draw] if has_plots else []), *scripts]
    policy = build_policy(scripts)
    # The policy stands in the page, too, because a stored file has lost its headers.
    head = (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
    )
    return "".join((head, content, *(f"<script>{script}</script>" for script in scripts), "</body></html>")), policy


def build_policy(scripts: Sequence[str]) -> str:
    """Return a policy that runs these scripts alone, by their digests."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    # Styles may be inline, since the page's own are, and the drawing library adds more; they run nothing.
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed}"


class PageWriter:
    """Writes the parts of a page; what comes from outside is escaped everywhere."""

    def __init__(self, report: Report, prefix: str = "") -> None:
        self._report, self._prefix = report, prefix
        self._renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
        # The library binds each rule to its own renderer: a method of this class would lose its object.
        self._renderer.add_render_rule("text", lambda _, tokens, index, *rest: self._text(tokens[index]))
        self._renderer.add_render_rule("place", lambda _, tokens, index, *rest: self._place(tokens[index]))
        self._renderer.add_render_rule("image", lambda _, tokens, index, *rest: self._image(tokens[index]))
        # A wide table scrolls by itself, so that the page does not move sideways.
        self._renderer.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>')
        self._renderer.add_render_rule("table_close", lambda *_: "</table></div>")
        self.has_plots = False

    def write_body(self) -> str:
        """Return everything inside of ``body``."""
        report = self._report
        renderer = self._renderer
        body: str = renderer.renderer.render(parse(report), renderer.options, {})
        head = f'<h1>{escape(report.question)}</h1><p class="dim">{escape(report.facts)}</p>'
        lists = self._list("missing", report.missing) + self._list("notes", report.notes)
        footer = f"<footer><p>{escape(say(report.language, 'compliance'))}</p></footer>"
        return head + body + lists + self._sources() + footer

    def _list(self, title: str, lines: tuple[str, ...]) -> str:
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        return f"<h2>{escape(say(self._report.language, title))}</h2><ul>{items}</ul>" if lines else ""

    def _sources(self) -> str:
        items = []
        for source in self._report.sources:
            title = escape(source.title)
            shown = f'<a href="{escape(source.url)}" rel="noreferrer">{title}</a>' if source.url else title
            origin = f'<div class="dim">{escape(source.origin)}</div>' if source.origin else ""
            said = f"<blockquote>{escape(source.excerpt)}</blockquote>" if source.excerpt else ""
            code = say(self._report.language, "code")
            made = (
                f"<details><summary>{code}</summary><pre>{escape(source.code)}</pre></details>" if source.code else ""
            )
            items.append(
                f'<li id="{self._prefix}ref-{source.number}"><strong>{shown}</strong>{origin}{said}{made}</li>'
            )
        title = escape(say(self._report.language, "references"))
        return f'<h2>{title}</h2><ol class="sources">{"".join(items)}</ol>' if items else ""

    def _text(self, token: Token) -> str:
        return CITED.sub(self._link_citations, escape(token.content))

    def _link_citations(self, match: re.Match[str]) -> str:
        """Return the links of a mark to the entries of the references."""
        numbers = match[1].split(",")
        return "".join(f'<sup><a href="#{self._prefix}ref-{number}">[{number}]</a></sup>' for number in numbers)

    def _image(self, token: Token) -> str:
        # Pictures of other hosts are not loaded, as on the page.
        return escape(token.content)

    def _place(self, token: Token) -> str:
        place: Place = token.meta["place"]
        if place.kind == "table" and place.name in self._report.tables:
            return write_table(self._report.tables[place.name])
        if place.kind == "figure" and place.name in self._report.figures:
            return self._figure(self._report.figures[place.name])
        return f'<p class="dim">{escape(self._report.tell_gone(place))}</p>'

    def _figure(self, figure: Figure) -> str:
        data = base64.b64encode(figure.content).decode()
        if figure.media_type == "text/html":
            # An empty sandbox runs no script and has no origin, whatever the cleaning of the figure has left in it.
            source = escape(figure.content.decode(errors="replace"))
            shown = f'<iframe sandbox srcdoc="{source}" title="{escape(figure.title)}"></iframe>'
        elif figure.media_type.startswith("image/"):
            shown = f'<img src="data:{escape(figure.media_type)};base64,{data}" alt="{escape(figure.title)}">'
        else:
            self.has_plots = True
            shown = f'<div class="plot"></div><script type="application/json">{pack_json(figure)}</script>'
        return f"<figure>{shown}</figure>"


def pack_json(figure: Figure) -> str:
    """Return a drawing as JSON that cannot end its element; raise ``CorruptData`` for what is none."""
    try:
        # A title with “</script>” would end the element, and escapes of HTML are not read inside of one.
        return json.dumps(json.loads(figure.content)).replace("<", "\\u003c")
    except ValueError as error:
        raise CorruptData("figure", "is no JSON") from error


def write_table(table: Table) -> str:
    """Return a table with its title, units and origin."""
    kinds = ['class="number"' if is_number else "" for is_number in table.is_number]
    units = [f"<small>{escape(unit)}</small>" if unit else "" for unit in table.units]
    head = "".join(
        f"<th {kind}>{escape(name)}{unit}</th>" for kind, name, unit in zip(kinds, table.head, units, strict=True)
    )
    rows = "".join(
        f"<tr>{''.join(f'<td {kind}>{escape(cell)}</td>' for kind, cell in zip(kinds, row, strict=True))}</tr>"
        for row in table.rows
    )
    grid = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return (
        f'<figure><figcaption>{escape(table.title)}</figcaption>{grid}<p class="dim">{escape(table.note)}</p></figure>'
    )
