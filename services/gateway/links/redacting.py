"""Redaction of what a link shows: files that its maker has brought, and what the run has made of them.

A citation of a file, or of something made of it, shows its title alone; what the answer says by citing one of them is
withheld sentence by sentence (``sentences.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.services.gateway.links.sentences import withhold_text
from fathom.services.gateway.reports.report import Place, list_material
from fathom.services.gateway.reports.words import say

# As datafetch names where a caller's own table comes from; what was computed of several has all their names.
UPLOAD = "upload"


@dataclass(frozen=True)
class Redaction:
    """Parts of a run that are not given out: material by number, and the places of its answer that stay empty."""

    numbers: frozenset[int] = frozenset()
    places: frozenset[Place] = frozenset()


def find_private(run: trajectory.Trajectory, others: Mapping[str, bool]) -> Redaction:
    """Return what of a run is of files that somebody has brought.

    ``others`` says of the runs whose cells this one has taken over whether they had such files; of one that is not
    named it is taken for granted.
    """
    material = [*run.given, *list_material(run)]
    numbers = {item.number for item in material if is_private(item)}
    # By their variables, which is how code reads them and answers place them.
    tables = {item.variable for item in material if item.number in numbers and item.HasField("sheet")}
    figures: set[str] = set()
    names = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(tables)))})\b") if tables else None
    is_tainted = False
    for item in material:
        if item.HasField("code"):
            taken = item.code.run_id
            # A session keeps what its cells have read: whatever comes behind one that read a file may be made of it.
            is_tainted = is_tainted or bool(names and names.search(item.code.code))
            if others.get(taken, True) if taken else is_tainted:
                numbers.add(item.number)
                figures |= {figure.id for figure in item.code.figures}
        elif item.HasField("sheet") and (item.computed_by in numbers or tables.intersection(item.computed_from)):
            numbers.add(item.number)
            tables.add(item.variable)
    places = {Place("table", name) for name in tables} | {Place("figure", name) for name in figures}
    return Redaction(frozenset(numbers), frozenset(places))


def list_others(run: trajectory.Trajectory) -> list[str]:
    """Return the runs whose cells a run has taken over."""
    cells = (item.code.run_id for item in list_material(run) if item.HasField("code"))
    return [*dict.fromkeys(run_id for run_id in cells if run_id)]


def has_private(run: trajectory.Trajectory) -> bool:
    """Return whether a run has read files that somebody has brought, or cells of runs that may have."""
    return bool(find_private(run, {}).numbers)


def is_private(item: trajectory.Material) -> bool:
    """Return whether a material is a file that somebody has brought, or a table with values of one."""
    if item.HasField("passage"):
        return item.passage.own
    vendors = (column.vendor for column in item.sheet.columns) if item.HasField("sheet") else ()
    return any(UPLOAD in vendor.split(", ") for vendor in vendors)


def redact(run: trajectory.Trajectory, withheld: Redaction, language: str) -> trajectory.Trajectory:
    """Return a run with the titles alone of what is withheld, and without the sentences that cite it.

    Notes in their places are in ``language``. Returns the run itself where nothing is withheld.
    """
    if not withheld.numbers:
        return run
    # A copy, as the run itself may be shown whole to others at the same time.
    # Taken away here and not by the writers of pages: what is not there can be shown by none of them.
    found = trajectory.Trajectory()
    found.CopyFrom(run)
    for item in (*found.given, *(item for step in found.steps for item in step.material), *found.answer.material):
        if item.HasField("missing"):
            # Says what there is instead, which may be names of columns.
            item.missing.ClearField("detail")
            item.missing.ClearField("nearest")
        elif item.number not in withheld.numbers:
            continue
        elif item.HasField("passage"):
            item.passage.CopyFrom(Document(title=item.passage.title or item.passage.source))
        elif item.HasField("sheet"):
            item.sheet.CopyFrom(Sheet(title=item.sheet.title))
        else:
            item.code.CopyFrom(trajectory.CodeRecord(ok=item.code.ok))
    answer = found.answer
    answer.markdown = withhold_text(answer.markdown, withheld.numbers, say(language, "text_withheld"))
    # A mark repeats the words that it is about: it goes with their sentence.
    findings = [finding for finding in answer.findings if finding.text in answer.markdown]
    del answer.findings[:]
    for finding in findings:
        # Quotes what the material says in place of the answer.
        finding.ClearField("detail")
        answer.findings.append(finding)
    return found
