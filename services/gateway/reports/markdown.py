"""A report as Markdown: tables as rows, numbered references with their sources."""

from __future__ import annotations

from fathom.services.gateway.openai.answers import format_cell
from fathom.services.gateway.reports.report import CITED, PLACED, Place, Report, Table
from fathom.services.gateway.reports.words import say


def write_markdown(report: Report) -> str:
    """Return the whole report as Markdown."""
    body = CITED.sub(lambda match: f"[{match[1].replace(',', '][')}]", report.body)
    # Between empty lines, because many viewers read a table within a paragraph as text.
    body = PLACED.sub(lambda match: f"\n\n{write_place(report, report.places[int(match[1])])}\n\n", body)
    parts = [f"# {escape(report.question)}", report.facts, body.strip()]
    parts += write_list(report, "missing", report.missing)
    parts += write_list(report, "notes", report.notes)
    if report.sources:
        lines = [f"## {say(report.language, 'references')}", ""]
        for source in report.sources:
            title = f"[{escape(source.title)}]({source.url})" if source.url else escape(source.title)
            # An address is shown once: behind the title, or as the origin.
            origin = "" if source.origin == source.url else source.origin
            said = f"“{source.excerpt}”" if source.excerpt else ""
            lines.append(
                f"- [{source.number}] " + " – ".join(part for part in (title, escape(origin), escape(said)) if part)
            )
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, f"*{say(report.language, 'compliance')}*", ""])


def write_list(report: Report, title: str, lines: tuple[str, ...]) -> list[str]:
    """Return a section with a list; nothing without lines."""
    return (
        ["\n".join([f"## {say(report.language, title)}", "", *(f"- {escape(line)}" for line in lines)])]
        if lines
        else []
    )


def write_place(report: Report, place: Place) -> str:
    """Return a table, or the title of a figure, which Markdown cannot draw."""
    if place.kind == "table":
        table = report.tables.get(place.name)
        return write_table(table) if table else f"*{report.tell_gone(place)}*"
    figure = report.figures.get(place.name)
    return f"*{report.tell_gone(Place('figure', figure.title or place.name) if figure else place)}*"


def write_table(table: Table) -> str:
    """Return a table of GitHub's Markdown, its title above and its origin below."""
    head = [f"{name} ({unit})" if unit else name for name, unit in zip(table.head, table.units, strict=True)]
    lines = [head, ["---:" if is_number else "---" for is_number in table.is_number], *table.rows]
    rows = "\n".join(f"| {' | '.join(map(format_cell, line))} |" for line in lines)
    return f"**{escape(table.title)}**\n\n{rows}\n\n*{escape(table.note)}*"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    line = " ".join(text.split())
    # Angle brackets, too: many viewers of Markdown take HTML in it as it is.
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#|~" else letter for letter in line)
