"""Public sets: what is read of their files, the sample, the means, and the record of the first run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fathom.cli.records.public import read_answers
from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.domain.journal import Journal
from fathom.operations.evaluation.public.items import load_items, load_passages
from fathom.operations.evaluation.public.question import PublicItem
from fathom.operations.evaluation.public.report import (
    Scored,
    format_means,
    keep_first_run,
    list_means,
    render_report,
    score_answers,
)
from fathom.operations.evaluation.public.words import score_words


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_table_set(folder: Path) -> None:
    question = {"answer_type": "arithmetic", "scale": "million", "gold": ["b1"]}
    write(folder / "tatqa" / "queries_dev.jsonl", [{"_id": "q1", "text": "How much?", "answers": [12.5], **question}])
    write(
        folder / "tatqa" / "corpus_dev.jsonl",
        [{"_id": "b0", "text": "none"}, {"_id": "b1", "title": "Sales", "text": "12.5"}],
    )


def make_scored(*values: float) -> list[Scored]:
    items = [PublicItem(str(at), f"{at}?", ("a",), "", (), lambda _: {}) for at in range(len(values))]
    return [Scored(item, "a", {"em": value}) for item, value in zip(items, values, strict=True)]


def test_a_question_is_read_with_its_scale_and_its_passage_alone(tmp_path: Path) -> None:
    write_table_set(tmp_path)
    [item] = load_items("tatqa", tmp_path, 10, 0)
    assert item.score("12.5 million") == {"em": 1.0, "f1": 1.0, "scale": 1.0}
    assert item.kind == "arithmetic"
    assert load_passages("tatqa", tmp_path, [item]) == {"b1": "Sales\n12.5"}


def test_a_sample_follows_from_its_seed_and_no_question_counts_twice(tmp_path: Path) -> None:
    rows = [{"question": f"who is {number % 30}?", "answer": ["x"]} for number in range(60)]
    write(tmp_path / "nq_open" / "NQ-open.dev.jsonl", rows)
    assert len(load_items("nq_open", tmp_path, 100, 0)) == 30
    first, again, other = (load_items("nq_open", tmp_path, 10, seed) for seed in (1, 1, 2))
    assert [item.id for item in first] == [item.id for item in again] != [item.id for item in other]


def test_a_file_of_several_sets_gives_the_rows_of_one(tmp_path: Path) -> None:
    rows = [
        {"_id": "a", "source": "2wiki", "text": "Are both?", "answers": ["yes"]},
        {"_id": "b", "source": "musique", "text": "Who?", "answers": ["Ann"]},
    ]
    write(tmp_path / "multihop_questions" / "questions.jsonl", rows)
    [item] = load_items("2wiki", tmp_path, 10, 0)
    assert item.score("yes it is")["f1"] == 0.0
    write(tmp_path / "multihop_questions" / "questions.jsonl", rows[1:])
    with pytest.raises(InvalidField, match="has no row of 2wiki"):
        load_items("2wiki", tmp_path, 10, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "is no JSON"), ("[]", "is no object"), ('{"question": "who?"}', "is no row of nq_open")],
)
def test_a_wrong_row_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "nq_open" / "NQ-open.dev.jsonl"
    write(path, [{"question": "who?", "answer": ["Ann"]}])
    path.write_text(path.read_text() + line + "\n", encoding="utf-8")
    with pytest.raises(InvalidField, match=message) as raised:
        load_items("nq_open", tmp_path, 10, 0)
    assert raised.value.field == "NQ-open.dev.jsonl:2"


def test_a_set_that_is_unknown_or_absent_and_a_passage_that_is_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cmrc2018"):
        load_items("squad", tmp_path, 10, 0)
    with pytest.raises(NotFound, match="NQ-open"):
        load_items("nq_open", tmp_path, 10, 0)
    write_table_set(tmp_path)
    write(tmp_path / "tatqa" / "corpus_dev.jsonl", [{"_id": "b0", "text": "none"}])
    with pytest.raises(InvalidField, match="b1"):
        load_passages("tatqa", tmp_path, load_items("tatqa", tmp_path, 10, 0))


def test_shares_have_wilsons_interval_and_other_means_a_bootstrap() -> None:
    [none] = list_means(make_scored(0.0, 0.0, 0.0, 0.0, 0.0), 0)
    assert (none.mean, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.434, abs=1e-3)
    [some] = list_means(make_scored(0.0, 0.5, 1.0, 0.5), 0)
    assert some.low < some.mean == 0.5 < some.high
    assert "50.0%" in format_means([some])


def test_a_run_without_an_answer_scores_nothing_whatever_its_text() -> None:
    item = PublicItem("1", "who?", ("Ann",), "", (), lambda given: score_words(given, ["Ann"]))
    [right] = score_answers([item], {"1": ("Ann", "")})
    [failed] = score_answers([item], {"1": ("Ann", "DEADLINE")})
    assert (right.scores["em"], failed.scores["em"]) == (1.0, 0.0)
    page = render_report("nq", "a metric", list_means([right, failed], 0), [right, failed])
    assert "DEADLINE" in page
    assert "svg" in page


def test_a_first_run_is_recorded_once_for_each_model(tmp_path: Path) -> None:
    journal, scored = Journal(tmp_path / "first_runs.jsonl"), make_scored(1.0, 0.0)
    assert "first run of rules" in keep_first_run(journal, "nq_open", "rules", "0.1", scored, list_means(scored, 0))
    better = make_scored(1.0, 1.0)
    later = keep_first_run(journal, "nq_open", "rules", "0.2", better, list_means(better, 0))
    assert "not a first run" in later
    assert "em 50.0%" in later
    assert "first run of other" in keep_first_run(journal, "nq_open", "other", "0.2", better, list_means(better, 0))
    assert len(journal.read()) == 2


def test_a_row_that_is_no_answer_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rules.jsonl"
    path.write_text('{"item": "a", "answer": "b", "fault": ""}\n{"item": "a"}\n', encoding="utf-8")
    with pytest.raises(CorruptData, match=r"rules\.jsonl:2"):
        read_answers(Journal(path))
