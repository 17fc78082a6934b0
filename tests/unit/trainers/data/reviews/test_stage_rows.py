"""Rows of stages that wait for a person go through a queue, and their decisions back beside the rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.core.errors import InvalidField
from fathom.domain.chat.pipeline import COMPOSE, REWRITE, ask, format_history, parse_history
from fathom.trainers.commands.stage_reviews import review_file
from fathom.trainers.data.stages.record import Record, Turn
from fathom.trainers.data.stages.reviewing import list_waiting, read_records
from tests.unit.trainers.data.reviews.conftest import House

HISTORY = [("How did Apple do?", "It rose by 5 %.\n\nQ2: what a quotation\nA9:\nsays"), ("And in 2020?", "By 80 %.")]


def make_row(name: str, **values: object) -> Record:
    prompt = ask(REWRITE, {"history": format_history(HISTORY), "question": "Why?"})
    row = {"id": name, "stage": "rewrite", "status": "review", "source": "c.jsonl:1", "made_by": "tiny@3",
           "reason": "unsure", "output": f"Why did Apple rise by 80 % in 2020, {name}?",
           "messages": (Turn(role="user", content=prompt),)}  # fmt: skip
    return Record.model_validate({**row, **values})


def write(path: Path, *rows: Record) -> Path:
    path.write_text("".join(f"{json.dumps(row.model_dump(mode='json'))}\n" for row in rows))
    return path


def test_a_history_is_read_back_as_it_was_written() -> None:
    assert parse_history(format_history(HISTORY)) == HISTORY
    assert parse_history("") == []
    # Older answers stand there as points.
    three = [("First?", "- one\n- two"), *HISTORY]
    assert parse_history(format_history(three)) == [("First?", "- one\n- two"), *HISTORY]


def test_rewritings_are_accepted_rejected_and_edited(house: House, tmp_path: Path) -> None:
    source = write(tmp_path / "rewrite.jsonl", *(make_row(f"r{number}") for number in range(4)),
                   make_row("done", status="accepted"))  # fmt: skip
    assert "4 added" in house.run("add", str(source), "--kind", "rewriting")
    replies = iter(["a", "fine", "r", "wrong year", "e", "names the share", "", "q"])
    shown = house.decide("rewriting", lambda prompt, _: next(replies), edited="Why did Apple's share rise?")
    assert "How did Apple do?" in shown[0]
    assert "unsure" in shown[0]
    # Rows of another file are not this file's.
    other = write(tmp_path / "other.jsonl", make_row("o1"))
    house.run("add", str(other), "--kind", "rewriting")
    house.decide("rewriting", lambda prompt, _: "a" if prompt != "Why" else "")
    decisions = tmp_path / "decisions.jsonl"
    told = house.run("export", "rewriting", "--source", str(source), "--output", str(decisions))
    assert "left out: 1 (it is of other.jsonl)" in told
    review_file(source, "", decisions)
    assert list_waiting(source) == []
    found = {record.id: record for record in read_records(source)}
    assert [found[f"r{number}"].status for number in range(4)] == ["accepted", "rejected", "accepted", "accepted"]
    assert (found["r1"].reason, found["r0"].reviewed_by) == ("wrong year", "people")
    assert found["r2"].output == "Why did Apple's share rise?"
    assert found["r2"].before == "Why did Apple rise by 80 % in 2020, r2?"
    # The same decisions again change nothing.
    review_file(source, "Ada", decisions)
    assert {record.id: record for record in read_records(source)} == found


def test_answers_are_shown_with_the_material_that_they_rest_on(house: House, tmp_path: Path) -> None:
    content = ask(COMPOSE, {"question": "How did Apple do?", "material": "[1] Apple rose by 80 %."})
    bare = ask(COMPOSE, {"question": "How did Apple do?"})
    answer = {"stage": "answer", "output": "It rose by 90 % [1].", "reason": "a number is not in the material"}
    source = write(
        tmp_path / "answer.jsonl",
        make_row("a1", **answer, messages=(Turn(role="user", content=content),)),
        make_row("a2", **answer, messages=(Turn(role="user", content=bare),)),
        make_row("r1"),
    )
    told = house.run("add", str(source), "--kind", "hallucination")
    assert "1 added" in told
    assert "left out: 1 (it has no material that the answer could rest on)" in told
    assert "left out: 1 (rows of the stage rewrite" in told
    shown = house.decide("hallucination", lambda prompt, _: "q")
    assert "[1] Apple rose by 80 %." in shown[0]
    assert "a number is not in the material" in shown[0]


def test_a_file_without_a_row_for_the_queue_is_named(house: House, tmp_path: Path) -> None:
    source = write(tmp_path / "rewrite.jsonl", make_row("r1"))
    with pytest.raises(InvalidField, match=r"no row of rewrite\.jsonl fits the queue"):
        house.run("add", str(source), "--kind", "hallucination")


def test_decisions_without_a_name_need_one(tmp_path: Path) -> None:
    source = write(tmp_path / "rewrite.jsonl", make_row("r1"), make_row("r2"))
    decisions = tmp_path / "decisions.jsonl"
    rows = [{"id": "r1", "decision": "accept", "by": "Ada"}, {"id": "r2", "decision": "reject"}]
    decisions.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(InvalidField, match="by: is empty"):
        review_file(source, "", decisions)
    review_file(source, "Bert", decisions)
    assert [record.reviewed_by for record in read_records(source)] == ["Ada", "Bert"]
