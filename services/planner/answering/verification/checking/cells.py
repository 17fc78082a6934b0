"""The check of a Markdown table: of each cell, with the headers of its row and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.services.planner.answering.verification.checking.arithmetic import express_as_written, is_derived, is_total
from fathom.services.planner.answering.verification.checking.material import CheckedMaterial
from fathom.services.planner.answering.verification.checking.numbers import NumberCheck
from fathom.services.planner.answering.verification.checking.periods import verify_date
from fathom.services.planner.answering.verification.checking.verdict import Verdict, make_finding
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.evidence import Source, find_unit_scale
from fathom.services.planner.answering.verification.numbers import Number
from fathom.services.planner.model.episode import Finding, FindingKind

# Headers of columns whose numbers are percentages.
PERCENT_MARKS = ("%", "％", "percent", "per cent", "百分")


class CellCheck:
    """Check of the cells of one table."""

    def __init__(self, material: CheckedMaterial, numbers: NumberCheck) -> None:
        self._material, self._numbers = material, numbers

    def verify(self, cells: Sequence[Sentence]) -> list[Finding]:
        """Return the findings of a Markdown table, each at its cell.

        Differences and ratios of accepted numbers of the same row, and sums and means of those of the same column, need
        no source of their own.
        """
        marks: list[Finding] = []
        checked: list[tuple[Sentence, Number, Verdict]] = []
        for cell in cells:
            # Cells without a citation rest on anything that the run has found or computed.
            cited = [self._material.sources[number] for number in cell.cited if number in self._material.sources]
            read = cited or list(self._material.sources.values())
            dates = (verify_date(self._material, moment, cell, read, bool(cited)) for moment in cell.moments)
            marks += [mark for mark in dates if mark is not None]
            checked += [(cell, number, self._judge(number, cell, read)) for number in cell.numbers]
        for cell, number, verdict in checked:
            if verdict.accepted or verdict.kind is FindingKind.EVENT:
                accepted = verdict.accepted
            else:
                held = [
                    (other, express_as_written(stated, done.held))
                    for other, stated, done in checked
                    if done.accepted and other is not cell
                ]
                row = [value for other, value in held if other.place[0] == cell.place[0]]
                column = [value for other, value in held if other.place[1] == cell.place[1]]
                accepted = is_derived(number, row) or is_total(number, column)
            if not accepted:
                marks.append(make_finding(cell, number.start, number.end, verdict))
        return marks

    def _judge(self, number: Number, cell: Sentence, read: Sequence[Source]) -> Verdict:
        """Return the verdict of a cell's number, also in the unit that its column's header states."""
        verdicts = [self._numbers.judge(variant, cell, read) for variant in list_units(number, cell.column_header)]
        return next((verdict for verdict in verdicts if verdict.accepted), verdicts[-1])


def list_units(number: Number, header: str) -> list[Number]:
    """Return the number in the unit that a column's header states, such as "%" or "USD bn", and as it stands."""
    scale = find_unit_scale(header)
    if number.kind or number.scaled:
        return [number]
    if any(mark in header.lower() for mark in PERCENT_MARKS):
        return [replace(number, kind="%"), number]
    if scale != 1.0:
        scaled = replace(number, value=number.value * scale, tolerance=number.tolerance * scale, scaled=True)
        return [scaled, number]
    return [number]
