"""Findings of ``fathom doctor``, and the table that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.cli.console import make_table, open_console


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``needed`` is True if the local stack does not work without it."""

    subject: str
    good: bool
    detail: str
    remedy: str = ""
    needed: bool = True


def print_findings(findings: Sequence[Finding]) -> int:
    """Print the findings as a table; return the exit status."""
    table = make_table("", "subject", "state", "remedy")
    table.box = None
    for finding in findings:
        mark = "[green]✓[/]" if finding.good else "[red]✗[/]" if finding.needed else "[yellow]–[/]"
        table.add_row(mark, finding.subject, finding.detail, "" if finding.good else finding.remedy)
    open_console().print(table)
    return 0 if all(finding.good or not finding.needed for finding in findings) else 1
