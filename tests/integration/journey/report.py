"""The report of a journey as one HTML file."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.integration.journey.steps import FAILED, NOT_SEEN, SEEN, STEPS, Record

MARKS = {SEEN: "✓", FAILED: "✗", NOT_SEEN: "–"}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Journey of a release</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #ccc; }}
td.seconds {{ text-align: right; font-variant-numeric: tabular-nums; }}
tr.failed {{ background: #fde8e8; }}
tr.not-seen {{ color: #555; }}
</style></head><body>
<h1>Journey of a release</h1>
<p>{where}. {summary}.</p>
<table><thead><tr><th></th><th>step</th><th>what is tried</th><th>s</th><th>what came of it</th></tr></thead>
<tbody>
{rows}
</tbody></table>
</body></html>
"""


def summarize(records: Sequence[Record]) -> str:
    """Return how many steps were seen, failed and not seen."""
    counts = Counter(record.state for record in records)
    return ", ".join(f"{counts[state]} {state}" for state in (SEEN, FAILED, NOT_SEEN))


def format_row(record: Record) -> str:
    cells = [
        f"<td>{MARKS[record.state]}</td>",
        f"<td>{html.escape(record.step)}</td>",
        f"<td>{html.escape(STEPS[record.step])}</td>",
        f'<td class="seconds">{record.seconds:.0f}</td>',
        f"<td>{html.escape(record.detail) or record.state}</td>",
    ]
    return f'<tr class="{record.state.replace(" ", "-")}">{"".join(cells)}</tr>'


def write_report(path: Path, where: str, records: Sequence[Record]) -> None:
    """Write the page."""
    # Words of commands and errors are text in the page, whatever they hold.
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "\n".join(map(format_row, records))
    path.write_text(PAGE.format(where=html.escape(where), summary=summarize(records), rows=rows))
