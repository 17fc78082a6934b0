"""View of an item for its reviewer: the sides of a pair are drawn, and whose they are is told after the decision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fathom.core.ids import sha256
from fathom.services.memory.reviews.items import GRADED, LABELS, Decision, Grade, Item, Kind, Machine, Text, Verdict


def is_turned(ident: str, kind: Kind) -> bool:
    """Return whether the second text of a pair is shown first."""
    # By the id, which nobody can choose: so it is the same for everybody, at each look, on every replica.
    return kind in GRADED and int(sha256(ident.encode())[:2], 16) % 2 == 1


def turn(grade: int | None, *, turned: bool) -> int | None:
    """Return a grade as seen from the other side if the sides are turned; 0 is the same from both."""
    return -grade if turned and grade is not None else grade


def show(row: Mapping[str, Any], decision: Mapping[str, Any] | None) -> Item:
    """Return an item of its row, and of the row of its decision, if there is one."""
    kind, is_open = Kind(row["kind"]), decision is None
    turned = is_turned(row["id"], kind)
    texts = [Text(text, owner) for text, owner in json.loads(row["texts"])]
    # Before labels are given: A is what stands first.
    if turned:
        texts.reverse()
    shown = [replace(one, label=label) for one, label in zip(texts, LABELS[kind], strict=True)]
    item = Item(
        id=row["id"],
        kind=kind,
        version=row["version"],
        question=row["question"],
        language=row["language"],
        history=tuple((question, answer) for question, answer in json.loads(row["history"])),
        material=row["material"],
        texts=tuple(replace(one, owner="") if is_open else one for one in shown),
        machine=show_machine(row, kind, turned=turned, is_open=is_open),
        previous=show_previous(row, turned=turned),
        created=row["created"],
    )
    if decision is None:
        return item
    made = Decision(
        verdict=Verdict(decision["verdict"]),
        grade=turn(decision["grade"], turned=turned),
        reason=decision["reason"],
        before=decision["before"],
        after=decision["after"],
        reviewer=decision["principal"],
        created=decision["created"],
    )
    # A key or a source often names the model, and is therefore told no earlier than the owners.
    return replace(item, decision=made, key=row["key"], run=row["run"], source=row["source"])


def show_machine(row: Mapping[str, Any], kind: Kind, *, turned: bool, is_open: bool) -> Machine | None:
    """Return what a program said; None where nobody did, and for a comparison that is still to be graded."""
    machine = parse_machine(row["machine"])
    # Whoever knows the judge's grade grades like the judge.
    if machine is None or (is_open and kind is Kind.COMPARISON):
        return None
    # Which model judged may tell whose texts these are.
    by = "" if is_open else machine.by
    return replace(machine, grade=turn(machine.grade, turned=turned), by=by)


def show_previous(row: Mapping[str, Any], *, turned: bool) -> Grade | None:
    """Return the person's grade that a recheck looks at again."""
    if not row["previous"]:
        return None
    grade, reason = json.loads(row["previous"])
    return Grade(-grade if turned else grade, reason)


def parse_machine(text: str) -> Machine | None:
    """Return a stored verdict, None for none."""
    return Machine(**json.loads(text)) if text else None
