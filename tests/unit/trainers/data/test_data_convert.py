"""Question sets become train and test files; the shipped ones through the command, without a network."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.core.errors import InvalidField, NotFound
from fathom.domain.grading.graders import GRADERS, Item
from fathom.services.reward.engine import validate_request
from fathom.services.reward.request import GradingRequest
from fathom.trainers.data.convert import convert, split_of
from fathom.trainers.data.records import Record, read
from fathom.trainers.data.sets import SETS, fincuge, finglm, read_set, tatqa
from tests.beside import beside

FLOOR = {
    "nq_open": 3_500, "qed_nq": 1_200, "2wiki": 500, "musique": 490, "webshaper": 470, "tatqa": 1_200,
    "cmrc2018": 4_000, "fincuge": 1_400, "finglm": 1_700,
}  # fmt: skip


def put(folder: Path, rows: list[dict[str, Any]], file: str = "nq_open/NQ-open.dev.jsonl") -> Path:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return folder


def test_a_set_becomes_two_files_without_overlap(tmp_path: Path) -> None:
    rows = [{"question": f"who was number {n}", "answer": [f"man {n}", "x" * 80]} for n in range(200)]
    done = convert("nq_open", put(tmp_path, rows), tmp_path / "out", test_share=0.3)
    train, test = read(tmp_path / "out" / "train.parquet"), read(tmp_path / "out" / "test.parquet")
    assert len(train) + len(test) == 200
    assert 40 <= len(test) <= 80
    assert done.rows == {"train": len(train), "test": len(test)}
    assert not {r.question for r in train} & {r.question for r in test}
    assert [r.index for r in test] == list(range(len(test)))
    assert all(len(r.targets) == 1 for r in train), "the long answer is no short one"
    assert train[0].prompt[0][1].endswith(f"Question: {train[0].question}?\n")


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    rows = [{"question": f"who was number {n}", "answer": ["he"]} for n in range(50)]
    source = put(tmp_path, rows)
    for name in ("a", "b"):
        convert("nq_open", source, tmp_path / name)
    assert (tmp_path / "a/train.parquet").read_bytes() == (tmp_path / "b/train.parquet").read_bytes()


def test_a_split_follows_from_the_text_alone() -> None:
    assert split_of("Who  wrote it", 0.5, 1) == split_of("who wrote it", 0.5, 1)
    drawn = [split_of(f"question {n}", 0.25, 7) for n in range(2_000)]
    assert 420 <= drawn.count("test") <= 580
    assert drawn != [split_of(f"question {n}", 0.25, 8) for n in range(2_000)]


def test_what_cannot_be_graded_is_left_out_with_its_reason(tmp_path: Path) -> None:
    rows = [
        {"question": "a", "answer": ["one"]},
        {"question": "a", "answer": ["two"]},
        {"question": "b", "answer": ["y" * 65]},
        {"question": " ", "answer": ["one"]},
    ]
    found = read_set("nq_open", put(tmp_path, rows))
    assert [question.answers for question in found.questions] == [("one",)]
    assert found.left_out == {
        "the question was there before": 1,
        "no answer is short": 1,
        "the question is empty or too long": 1,
    }


def test_figures_are_graded_as_figures() -> None:
    """With and without their scale for TAT-QA, whose questions do not say in what unit to answer."""
    row = {"_id": "1", "text": "q", "answers": ["-12.6"], "answer_type": "arithmetic", "scale": "million"}
    read_row = tatqa(row)
    assert not isinstance(read_row, str)
    assert (read_row.answers, read_row.grader) == (("-12.6", "-12.6 million"), "number")
    assert tatqa(row | {"answer_type": "multi-span"}) == "several answers are wanted"
    filed = finglm({"_id": "1", "type": "1", "question": "q", "answer": "138734348.36元", "formula": None})
    named = finglm({"_id": "1", "type": "1", "question": "q", "answer": "黄山永新股份有限公司", "formula": None})
    assert not isinstance(filed, str)
    assert not isinstance(named, str)
    assert (filed.grader, filed.grader_parameters, named.grader) == ("number", {"rel_tol": 0.001}, "em")
    assert fincuge({"_id": "1", "text": "q", "answers": ["无相应参数"]}) == "there is no answer"


def test_wrong_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nq_open"):
        convert("nq", tmp_path, tmp_path)
    with pytest.raises(NotFound, match=r"NQ-open.dev.jsonl"):
        convert("nq_open", tmp_path, tmp_path)
    with pytest.raises(InvalidField, match=r"NQ-open.dev.jsonl\[1\]"):
        convert("nq_open", put(tmp_path, [{"question": "a", "answer": ["b"]}, {"frage": "c"}]), tmp_path)
    with pytest.raises(InvalidField, match="test_share"):
        convert("nq_open", tmp_path, tmp_path, test_share=1.0)


def gradable(record: Record) -> None:
    """The reward service takes the record's grader, parameters and references as they stand."""
    validate_request(
        "items[0]", GradingRequest(record.grader, Item("", record.targets, dict(record.grader_parameters))), GRADERS, {}
    )


@pytest.mark.parametrize("name", SETS)
def test_the_shipped_sets_convert_without_a_network(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not beside().is_dir():
        pytest.skip(f"the shared evaluation data are not at {beside()}")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a conversion asked for a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    done = CliRunner().invoke(app, ["data", "convert", name, "--source", str(beside()), "--target", str(tmp_path)])
    assert done.exit_code == 0, done.output
    records = {split: read(tmp_path / f"{split}.parquet") for split in ("train", "test")}
    assert sum(map(len, records.values())) >= FLOOR[name]
    assert len(records["test"]) >= 80
    assert not {r.question for r in records["train"]} & {r.question for r in records["test"]}
    for record in records["train"] + records["test"]:
        gradable(record)
        assert record.language == SETS[name].language
        assert "</information>" in record.prompt[0][1]
