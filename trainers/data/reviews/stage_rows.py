"""Rows of stage data that wait for a person as items, and decisions as ``fathom data stage review`` reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.domain.chat.pipeline import Asked, parse_history
from fathom.trainers.data.stages.record import Record, read_prompt
from fathom.trainers.data.stages.reviewing import list_waiting

# The stages whose rows a queue can show; a plan is a tree, which the terminal shows as it is.
STAGES = {pb.REVIEW_KIND_REWRITING: ("rewrite",), pb.REVIEW_KIND_HALLUCINATION: ("answer", "repair")}
PEOPLE = "people"
"""Name of who decided where callers are not identified."""


def make_stage_items(path: Path, kind: pb.ReviewKind, left_out: Counter[str]) -> list[pb.NewReviewItem]:
    """Return the rows of a file that wait for a person; count those that the queue cannot show.

    Raises ``InvalidField`` for a file that cannot be read, or without a row of the queue's stages.
    """
    waiting = list_waiting(path)
    items = []
    for record in waiting:
        asked = read_prompt(record.messages)
        if record.stage not in STAGES[kind]:
            left_out[f"rows of the stage {record.stage} are reviewed by fathom data stage review"] += 1
        elif asked is None or not asked["question"]:
            left_out["its prompt has no question"] += 1
        elif kind == pb.REVIEW_KIND_HALLUCINATION and not asked["material"]:
            left_out["it has no material that the answer could rest on"] += 1
        else:
            items.append(make_item(record, asked, kind, path))
    # Most often the wrong queue was named.
    if waiting and not items:
        raise InvalidField("file", f"no row of {path.name} fits the queue: {max(left_out, key=left_out.__getitem__)}")
    return items


def make_item(record: Record, asked: Asked, kind: pb.ReviewKind, path: Path) -> pb.NewReviewItem:
    """Return the item of a row."""
    return pb.NewReviewItem(
        key=record.id,
        kind=kind,
        question=asked["question"],
        language=record.language,
        history=[pb.ReviewTurn(question=said, answer=heard) for said, heard in parse_history(asked["history"])],
        # A follow-up is judged by its conversation; material of other stages would only distract.
        material=asked["material"] if kind == pb.REVIEW_KIND_HALLUCINATION else "",
        texts=[pb.ReviewText(text=record.output, owner=record.made_by)],
        machine=pb.MachineVerdict(verdict="unsure", reason=record.reason, by=record.judged_by),
        source=path.name,
    )


def list_decisions(items: Iterable[pb.ReviewItem], source: str, left_out: Counter[str]) -> list[dict[str, Any]]:
    """Return decisions on the rows of one file, or of all, as rows of ``--decisions``."""
    rows = []
    for item in items:
        if source and item.source != source:
            left_out[f"it is of {item.source or 'no file'}"] += 1
            continue
        made = item.decision
        # An edit is an acceptance of what the person made of it.
        is_rejected = made.verdict == pb.REVIEW_VERDICT_REJECT
        row = {"id": item.key, "decision": "reject" if is_rejected else "accept", "by": made.reviewer or PEOPLE}
        rows.append(row | {name: text for name, text in (("output", made.after), ("note", made.reason)) if text})
    return rows
