"""Shared code of operations' cells, and formatting of their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.services.policy.backends.rules.operations.periods import Period
from fathom.services.policy.backends.rules.sheets import Series

SERIES = """\
    def series(sheet, column):
        return sheet.set_index(pd.to_datetime(sheet["date"]))[column].dropna()
"""
DRIVE = '\nprint(*(json.dumps(row, ensure_ascii=False) for row in {call}), sep="\\n")\n'


def cell(text: str, call: str) -> str:
    """Return a cell: imports, one function with ``SERIES`` inserted at its marker, and a line that prints its rows."""
    # Templates hold a marker instead of the helper, so that each cell is whole when read by itself.
    return f"import json\nimport pandas as pd\n\n{text.replace('    # series()', SERIES.rstrip())}{DRIVE.format(call=call)}"


def listed(series: Iterable[Series]) -> str:
    """Format series as arguments: sheet, column name, label."""
    return "[" + ", ".join(f"({one.variable}, {one.column!r}, {one.label!r})" for one in series) + "]"


def windows(periods: Sequence[Period]) -> str:
    """Format periods as arguments: name, first day, last day, whether measured from the value before, recent months."""
    found = [(period.text, period.start, period.end, period.calendar, period.months) for period in periods]
    return repr(found)
