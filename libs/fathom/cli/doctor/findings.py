"""Findings of ``fathom doctor``, and the table that shows them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 200


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
    from rich.console import Console
    from rich.table import Column, Table

    # Addresses and commands are to be copied: what does not fit is folded, never cut.
    columns = (Column(name, overflow="fold") for name in ("subject", "state", "remedy"))
    table = Table("", *columns, box=None)
    for finding in findings:
        mark = "[green]✓[/]" if finding.good else "[red]✗[/]" if finding.needed else "[yellow]–[/]"
        table.add_row(mark, finding.subject, finding.detail, "" if finding.good else finding.remedy)
    # A log or a pipe has no width of its own; rich would take 80.
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
    return 0 if all(finding.good or not finding.needed for finding in findings) else 1
