"""DeepResearch Bench: what is read of its files, the weights of its criteria, and what a report cites."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import InvalidField, NotFound
from fathom.operations.evaluation.public.items import REPORT_SET, find_set
from fathom.operations.evaluation.research import citing, criteria
from fathom.operations.evaluation.research.citing import Report, list_statements, measure_citations, measure_support
from fathom.operations.evaluation.research.report import format_figures, list_figures
from fathom.operations.evaluation.research.tasks import load_tasks
from tests.support.files.report_tasks import TASKS, write_tasks


def make_report(answer: str, sources: Sequence[int] = (), unresolved: tuple[int, ...] = (), fault: str = "") -> Report:
    texts = {number: f"source {number}" for number in sources}
    return Report(item="1", question="?", answer=answer, fault=fault, sources=texts, unresolved=unresolved)


def entries(*scores: tuple[float, float | None]) -> list[criteria.Entry]:
    found = enumerate(scores, 1)
    return [criteria.Entry(criterion=number, report=own, reference=other) for number, (own, other) in found]


def test_tasks_come_with_their_criteria_in_the_order_of_the_file(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    tasks = load_tasks(tmp_path, 10, 0)
    assert [(task.id, task.language, task.reference) for task in tasks] == [("1", "en", ""), ("2", "zh", "")]
    assert [one.weight for one in tasks[0].rubric.criterions["insight"]] == [0.25, 0.75]
    assert load_tasks(tmp_path, 1, 3) == load_tasks(tmp_path, 1, 3)
    write_tasks(tmp_path, references=True)
    assert load_tasks(tmp_path, 10, 0)[0].reference == f"A reference on {TASKS[0]['prompt']}"


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("criteria.jsonl", {"dimension_weight": {"insight": 1.0}}, "dimension_weight must have comprehensiveness"),
        ("criteria.jsonl", {"prompt": "another"}, "has no criteria of task 1"),
        ("query.jsonl", {"prompt": ""}, "query.jsonl:1"),
        ("reference.jsonl", {"id": 9}, "has no report of task 1"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, file: str, change: dict[str, Any], said: str) -> None:
    write_tasks(tmp_path, references=True)
    path = tmp_path / REPORT_SET / file
    first, *others = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), **change}), *others]), encoding="utf-8")
    with pytest.raises(InvalidField, match=said):
        load_tasks(tmp_path, 10, 0)


def test_a_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"query\.jsonl"):
        load_tasks(tmp_path, 10, 0)
    with pytest.raises(NotFound, match=REPORT_SET):
        find_set("deep_research")


def test_criteria_and_dimensions_are_weighed_by_hand(tmp_path: Path) -> None:
    """Insight 0.25 * 4 + 0.75 * 8 = 7; the other dimensions 5; in all 0.4 * 7 + 0.6 * 5 = 5.8."""
    write_tasks(tmp_path)
    rubric = load_tasks(tmp_path, 1, 0)[0].rubric
    alone = {name: entries((5, None)) for name in rubric.criterions} | {"insight": entries((4, None), (8, None))}
    found = criteria.weigh_scores(rubric, alone)
    assert found["insight"] == pytest.approx(0.7)
    assert found["race"] == pytest.approx(0.58)
    # Beside a reference that gets 5 everywhere: 5.8 / 10.8.
    beside = {name: entries((5, 5)) for name in rubric.criterions} | {"insight": entries((4, 5), (8, 5))}
    assert criteria.weigh_scores(rubric, beside)["race"] == pytest.approx(5.8 / 10.8)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("none", "no JSON object"),
        ('{"scores": [{"criterion": 1, "report": 11}]}', "scores.0.report"),
        ('{"scores": [{"criterion": 1, "report": 5}]}', "criteria 1 to 2"),
        ('{"scores": [{"criterion": 1, "report": 5}, {"criterion": 1, "report": 5}]}', "criteria 1 to 2"),
    ],
)
def test_a_reply_that_leaves_out_a_criterion_is_no_score(reply: str, said: str) -> None:
    assert said in str(criteria.parse_scores(reply, 2, is_compared=False))
    whole = '{"scores": [{"criterion": 2, "report": 3}, {"criterion": 1, "report": 5}]}'
    found = criteria.parse_scores(whole, 2, is_compared=False)
    assert [entry.report for entry in found if isinstance(entry, criteria.Entry)] == [5, 3]
    assert "reference" in str(criteria.parse_scores(whole, 2, is_compared=True))


def test_statements_are_sentences_items_and_rows_with_what_they_cite() -> None:
    text = "Apple rose 4.5 % in 2020. [1] It then fell [2, 3].\n- Nothing is cited here.\n- 微软上涨。[1]营收下降。\n"
    assert list_statements(text) == [
        ("Apple rose 4.5 % in 2020.", frozenset({1})),
        ("It then fell .", frozenset({2, 3})),
        ("微软上涨。", frozenset({1})),
    ]


def test_what_is_cited_is_counted_without_a_judge() -> None:
    report = make_report("One [1]. Two [1, 2]. Two [1].", sources=(1, 2), unresolved=(7,))
    assert measure_citations(report) == {"written": 1.0, "sources": 2.0, "citations": 3.0, "resolved": 2 / 3}
    assert "resolved" not in measure_citations(make_report("Nothing is cited."))
    assert measure_citations(make_report("", fault="DEADLINE")) == {"written": 0.0}


def test_support_is_of_the_citations_that_could_be_checked() -> None:
    assert measure_support(["supported", "supported", "unsupported", "unknown"]) == {
        "effective": 2.0,
        "accuracy": pytest.approx(2 / 3),
    }
    assert measure_support(["unknown"]) == {"effective": 0.0}
    assert "statements 1 to 2" in str(citing.parse_verdicts('{"verdicts": []}', 2))
    assert "verdict" in str(citing.parse_verdicts('{"verdicts": [{"statement": 1, "verdict": "maybe"}]}', 1))


def test_means_are_over_the_reports_that_have_a_figure_by_language(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    tasks = load_tasks(tmp_path, 10, 0)
    figures = list_figures(tasks, {"1": {"written": 1.0, "sources": 3.0}, "2": {"written": 0.0}}, 0)
    found = {(one.group, one.measure): (one.items, one.mean) for one in figures}
    assert found[("all", "written")] == (2, 0.5)
    assert found[("all", "sources")] == found[("en", "sources")] == (1, 3.0)
    assert ("zh", "sources") not in found
    assert "3.00" in format_figures(figures)
