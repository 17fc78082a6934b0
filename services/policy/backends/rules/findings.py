"""Tool results so far, in the form that planning and answering use."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fathom.services.policy.backends.rules.passages import Quote, quotes_of
from fathom.services.policy.backends.rules.question import Question
from fathom.services.policy.backends.rules.reading import Reading, json_object
from fathom.services.policy.backends.rules.sheets import Series, series_of, sheets_of


@dataclass(frozen=True)
class Row:
    """One line of JSON that a cell printed, and the material to cite for it."""

    values: Mapping[str, Any]
    material: int

    @property
    def label(self) -> str:
        return str(self.values.get("label", ""))

    def number(self, name: str) -> float | int | None:
        """Return a finite number by name; None when it is absent or not finite."""
        value = self.values.get(name)
        # JSON's true is an int in Python.
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        # Python prints NaN and Infinity into JSON, and reads them back.
        return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Findings:
    """Everything that an answer may use."""

    sheets: tuple[Mapping[str, Any], ...]
    series: tuple[Series, ...]
    rows: tuple[Row, ...]
    figures: tuple[tuple[str, int], ...]
    """Figure ids with the material of the cell that drew them."""
    quotes: tuple[Quote, ...]
    missing: tuple[Mapping[str, Any], ...]
    errors: tuple[str, ...]
    """Error messages of the tools."""
    not_understood: tuple[Mapping[str, Any], ...] = ()
    """Words of the question that ``data`` could not interpret; not part of ``missing``."""


def collect(reading: Reading, question: Question) -> Findings:
    """Collect the findings from the conversation."""
    sheets = sheets_of(reading)
    # Without any table the later attempts only repeat in other words what the first one lacked.
    calls = [step for step in reading.of("data") if step.head.get("missing")]
    missing = {
        json.dumps(item, sort_keys=True): item
        for step in (calls if sheets else calls[:1])
        for item in step.head["missing"]
        if isinstance(item, dict)
    }
    strange = tuple(item for item in missing.values() if item.get("reason") == "NOT_UNDERSTOOD")
    lacking = [item for item in missing.values() if item not in strange]
    return Findings(
        sheets=tuple(sheets),
        series=tuple(series_of(sheets)),
        rows=tuple(rows_of(reading)),
        figures=tuple(
            (str(figure), step.material) for step in reading.of("python") for figure in step.head.get("figures", ())
        ),
        quotes=tuple(quotes_of(reading, question)),
        # Beside what is missing for a reason, "nothing matches" says nothing more.
        missing=tuple([m for m in lacking if m.get("reason") != "NO_MATCH"] or lacking),
        not_understood=strange,
        errors=tuple(
            f"{step.tool}: {first_line(str(step.head.get('error', '')))}"
            for step in reading.steps
            # A draft that was sent back is not a step that would have given anything.
            if step.tool != "finish" and step.head.get("status") in ("failed", "invalid")
        ),
    )


def rows_of(reading: Reading) -> list[Row]:
    """Return the summary rows of the last cell that printed any."""
    for step in reversed(reading.of("python")):
        parsed = [json_object(line) for line in step.body.splitlines() if line.startswith("{")]
        rows = [Row(values, step.material) for values in parsed if values and "label" in values]
        if step.ok and rows:
            return rows
    return []


def first_line(error: str) -> str:
    """Return the first line of an error message, at most 160 characters."""
    lines = error.strip().splitlines()
    return lines[0][:160] if lines else "failed"
