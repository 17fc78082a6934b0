"""A training whose rows hold questions of an evaluation is refused, whatever its algorithm, before it begins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fathom.core.errors import FailedPrecondition, InvalidField, NotFound
from fathom.trainers.data.records import Record, write
from fathom.trainers.jobs.launch import Interruption, Place, Run
from fathom.trainers.jobs.ray_job import WRONG, exit_status
from fathom.trainers.jobs.registry import ALGORITHMS, load_settings

HELD = "By how many percent did the shares of Boeing fall between February and March of 2020?"
OTHER = "Which year had the highest average price of gold in the whole of the last century?"


def write_prompts(path: Path, questions: Sequence[str]) -> Path:
    rows = [
        Record("own", (("user", f"Answer in tags. Question: {text}"),), "facts", ("x",), "train", place, question=text)
        for place, text in enumerate(questions)
    ]
    write(rows, path)
    return path


def write_rows(path: Path, questions: Sequence[str]) -> Path:
    """Rows that both imitation and preference training read."""
    rows = [
        {
            "id": f"r{place}", "prompt": [{"role": "user", "content": text}],
            "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}],
        }
        for place, text in enumerate(questions)
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def train(name: str, file: Path, evaluation: Path, output: Path) -> None:
    settings = [f"data.train_files=[{file}]", f"data.held_files=[{evaluation}]", f"trainer.output={output}"]
    config = load_settings(name, [], settings)
    Run(name, config, Place({}, ""), lambda step, total, metrics: None, Interruption()).train()


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    path = tmp_path / "evaluation.jsonl"
    path.write_text(json.dumps({"id": "e-7", "question": HELD}) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_each_training_is_refused_with_the_question_and_the_row(name: str, evaluation: Path, tmp_path: Path) -> None:
    from_files = ALGORITHMS[name].from_files
    # As it was asked, with other words around it.
    questions = [OTHER, f"Please tell me: {HELD.lower()}"]
    file = write_rows(tmp_path / "rows.jsonl", questions) if from_files else write_prompts(
        tmp_path / "rows.parquet", questions)  # fmt: skip
    with pytest.raises(FailedPrecondition, match=r"evaluation\.jsonl e-7 in rows\.(jsonl|parquet)\[1\]") as raised:
        train(name, file, evaluation, tmp_path / "run")
    assert exit_status(raised.value) == WRONG, "a job is not tried again"


def test_rows_without_the_question_pass_and_ids_alone_do_not(evaluation: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="is no list of token ids"):
        # Past the check, these rows fail at what they lack for a training.
        train("sft", write_rows(tmp_path / "rows.jsonl", [OTHER]), evaluation, tmp_path / "run")
    ids = tmp_path / "ids.jsonl"
    ids.write_text(json.dumps({"id": "r", "token_ids": [2, 3], "loss_mask": [0, 1]}) + "\n", encoding="utf-8")
    with pytest.raises(InvalidField, match="no messages") as raised:
        train("sft", ids, evaluation, tmp_path / "run")
    assert raised.value.field == "ids.jsonl[0]"


def test_a_missing_evaluation_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"gone\.jsonl"):
        train("dpo", write_rows(tmp_path / "rows.jsonl", [OTHER]), tmp_path / "gone.jsonl", tmp_path / "run")
