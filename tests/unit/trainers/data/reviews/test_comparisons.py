"""Answers of ``fathom eval rank`` as blind pairs, and people's grades back into its table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.core.errors import Conflict, InvalidField
from fathom.operations.ranking.agreement import compare, measure_agreement, read_human
from fathom.operations.ranking.matches import EVEN, Match, MatchJournal
from fathom.trainers.commands.reviews import reviews
from tests.unit.trainers.data.reviews.conftest import House

QUESTIONS = [f"How did share {number} do?" for number in range(6)]


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """Return two contestants' files; of each question the answer of "ours" says that it is the good one."""
    for name, word in (("ours", "good"), ("rival", "poor")):
        rows = [{"question": question, "answer": f"A {word} answer to {question}"} for question in QUESTIONS]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return [str(tmp_path / "ours.jsonl"), str(tmp_path / "rival.jsonl")]


def judge(path: Path, grades: list[int]) -> list[Match]:
    """Write the judge's grades of "ours", of five, as the ranking keeps them."""
    matches = [
        Match(f"key{place}", question, "ours", "rival", grade, "so says the judge", "judge@1")
        for place, (question, grade) in enumerate(zip(QUESTIONS, grades, strict=False))
    ]
    MatchJournal(path).append(matches)
    return matches


def grade_good(grade: int) -> Callable[[str, list[str]], str]:
    """Return a person who gives the good answer this grade of five, on whichever side it stands."""

    def ask(prompt: str, shown: list[str]) -> str:
        if prompt == "Why":
            return "I see it so"
        (first,) = re.findall(r"--- A\n(.*)", shown[-1])
        return str(grade if "good" in first else 2 * EVEN - grade)

    return ask


def test_peoples_grades_come_back_as_the_ranking_reads_them(house: House, sources: list[str], tmp_path: Path) -> None:
    matches = judge(tmp_path / "matches.jsonl", [5, 4, 5, 4, 5, 4])
    told = house.run("add", *sources, "--kind", "comparison", "--matches", str(tmp_path / "matches.jsonl"))
    assert "6 added, 0 were there" in told
    # However the files are ordered, it is the same pairs.
    assert "0 added, 6 were there" in house.run("add", *reversed(sources), "--kind", "comparison")
    shown = house.decide("comparison", grade_good(4))
    before, after = shown[0], shown[1]
    assert "ours" not in before + "".join(shown[::2])
    assert "judge" not in before.lower()
    assert re.search("[AB] is by ours", after)
    house.run("export", "comparison", "--output", str(tmp_path / "grades.jsonl"))
    human = read_human(tmp_path / "grades.jsonl")
    assert {human[question, "ours", "rival"] for question in QUESTIONS} == {4}
    agreement = measure_agreement(compare(matches, human))
    assert (agreement.count, agreement.same, agreement.within_one) == (6, 0.5, 1.0)


def test_grades_that_are_apart_wait_for_a_recheck_which_has_the_last_word(
    house: House, sources: list[str], tmp_path: Path
) -> None:
    judge(tmp_path / "matches.jsonl", [1, 2, 3, 4, 5])
    house.run("add", *sources, "--kind", "comparison")
    house.decide("comparison", grade_good(4))
    # The judge comes second: with 1 and 2 it is apart from the person's 4.
    house.run("add", *sources, "--kind", "comparison", "--matches", str(tmp_path / "matches.jsonl"))
    assert re.search(r"recheck\s+2\s+0", house.run("queue"))
    target = tmp_path / "grades.jsonl"
    assert "left out: 2 (it waits for its recheck)" in house.run("export", "comparison", "--output", str(target))
    assert len(read_human(target)) == 2 * 4
    replies = iter(["a", "the judge is right", "r", "no", "q"])
    shown = house.decide("recheck", lambda prompt, _: next(replies))
    assert "so says the judge" in shown[0]
    assert "I see it so" in shown[0]
    house.run("export", "comparison", "--output", str(target))
    human = read_human(target)
    assert sorted(human[question, "ours", "rival"] for question in QUESTIONS[:2]) in ([1, 4], [2, 4])
    assert {human[question, "ours", "rival"] for question in QUESTIONS[2:]} == {4}
    house.run("export", "recheck", "--output", str(tmp_path / "rechecks.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "rechecks.jsonl").read_text().splitlines()]
    assert {row["reason"] for row in rows} == {"the judge is right", "no"}
    assert all(abs(row["judge_grade"] - row["human_grade"]) >= 2 for row in rows)


def test_a_draw_is_the_same_each_time(house: House, sources: list[str]) -> None:
    drawn = ("--kind", "comparison", "--limit", "2", "--seed", "3")
    assert "2 added, 0 were there" in house.run("add", *sources, *drawn)
    assert "0 added, 2 were there" in house.run("add", *sources, *drawn)


def test_a_person_may_skip_and_stop(house: House, sources: list[str]) -> None:
    house.run("add", *sources, "--kind", "comparison", "--limit", "3")
    replies = iter(["", "nonsense", "3", "as good", "q"])
    house.decide("comparison", lambda prompt, _: next(replies))
    assert re.search(r"comparison\s+2\s+1", house.run("queue"))


def test_a_queue_without_decisions_writes_no_file(house: House, tmp_path: Path) -> None:
    done = CliRunner().invoke(reviews, ["export", "comparison", "--output", str(tmp_path / "grades.jsonl")])
    assert done.exit_code == 1
    assert not (tmp_path / "grades.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--kind", "opinion"], "kind"),
        (["--kind", "recheck"], "kind"),
        (["--kind", "rewriting", "--matches", "m.jsonl"], "matches"),
        (["--kind", "comparison", "--matches", "absent.jsonl"], "matches"),
    ],
)
def test_what_does_not_fit_is_named(house: House, sources: list[str], arguments: list[str], field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        house.run("add", *sources, *arguments)
    assert refused.value.field == field


def test_a_judge_that_has_changed_its_mind_is_refused(house: House, sources: list[str], tmp_path: Path) -> None:
    for name, grade in (("one", 5), ("other", 2)):
        judge(tmp_path / name, [grade] * 6)
    house.run("add", *sources, "--kind", "comparison", "--matches", str(tmp_path / "one"))
    with pytest.raises(Conflict):
        house.run("add", *sources, "--kind", "comparison", "--matches", str(tmp_path / "other"))
