"""Figures of reports with their intervals: the table and the page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from fathom.operations.evaluation.page import render_shares
from fathom.operations.evaluation.public.report import ALL, Mean, find_mean
from fathom.operations.evaluation.research.citing import Report
from fathom.operations.evaluation.research.tasks import ReportTask
from fathom.operations.ranking.page import render_table

Measured = Mapping[str, Mapping[str, float]]
"""Figures by measure of each item; an item may lack some."""
COUNTS = frozenset({"sources", "citations", "effective"})
"""Measures that are numbers for each report, and no shares."""
HELD = {
    "written": "reports that a run ended with",
    "sources": "sources that a report cites",
    "citations": "statements with a source that they cite, for each report",
    "resolved": "share of the cited numbers that are a source of the run",
    "effective": "citations that their source supports, for each report",
    "accuracy": "share of the checked citations that their source supports",
}
"""Meaning of each measure; the others are scores by criteria."""


def list_figures(tasks: Sequence[ReportTask], measured: Measured, seed: int) -> list[Mean]:
    """Return the mean of each measure over the items that have it, in all and by language where there are several."""
    languages = sorted({task.language for task in tasks})
    groups = {ALL: list(tasks)} | {name: [task for task in tasks if task.language == name] for name in languages}
    measures = list(dict.fromkeys(name for task in tasks for name in measured.get(task.id, ())))
    found = []
    for group, members in groups.items():
        for measure in measures:
            values = [measured[task.id][measure] for task in members if measure in measured.get(task.id, ())]
            if values and (group == ALL or len(languages) > 1):
                found.append(find_mean(group, measure, values, seed))
    return found


def format_figures(figures: Sequence[Mean]) -> str:
    """Format the table: shares and scores in percent, counts as numbers."""
    rows = [f"{'items':<8}{'measure':<24}{'n':>5}{'mean':>9}{'95 %':>18}"]
    for one in figures:
        mean, low, high = (format_value(one.measure, value) for value in (one.mean, one.low, one.high))
        rows.append(f"{one.group:<8}{one.measure:<24}{one.items:>5}{mean:>9}{f'{low} to {high}':>18}")
    return "\n".join(rows)


def format_value(measure: str, value: float) -> str:
    """Format a figure."""
    return f"{value:.2f}" if measure in COUNTS else f"{value:.1%}"


def select_shares(figures: Sequence[Mean]) -> list[Mean]:
    """Return the figures from 0 to 1."""
    return [one for one in figures if one.measure not in COUNTS]


def render_reports(
    title: str, notes: Sequence[str], tasks: Sequence[ReportTask], reports: Mapping[str, Report], measured: Measured,
    figures: Sequence[Mean],
) -> str:  # fmt: skip
    """Return the page: what was graded and how, the figures, and each report with its own."""
    shares = [(f"{one.group} {one.measure}", one.mean, one.low, one.high) for one in select_shares(figures)]
    rows = [
        [
            task.id,
            task.prompt,
            reports[task.id].fault or reports[task.id].answer,
            ", ".join(f"{name} {format_value(name, value)}" for name, value in measured[task.id].items()),
        ]
        for task in tasks
        if task.id in reports
    ]
    meanings = "".join(f"<li>{html.escape(f'{name}: {meaning}')}</li>" for name, meaning in HELD.items())
    rest = f"<ul>{meanings}</ul>{render_table(['task', 'prompt', 'report', 'figures'], rows)}"
    return render_shares(title, "Means with 95 % intervals", shares, format_figures(figures), rest, notes)
