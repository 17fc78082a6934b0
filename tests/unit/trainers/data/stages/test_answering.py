"""Answer data: tournaments in both orders, contradictory judges, the band of lengths, repairs with their rates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fathom.domain.chat.pipeline import COMPOSE, ask
from fathom.domain.chat.quoting import read_sections
from fathom.domain.text.markup import count_visible, list_citations
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.stages import repairing
from fathom.trainers.data.stages.answering import Band, make_tasks
from fathom.trainers.data.stages.episodes import Episode, StageCall
from fathom.trainers.data.stages.record import Record, Turn
from fathom.trainers.data.stages.repairing import measure_rates
from fathom.trainers.data.stages.running import run_tasks
from fathom.trainers.data.stages.tournament import DIMENSIONS, Candidate, Comparison, play
from tests.unit.trainers.data.stages.peers import by_title, make_asker, make_rules

MATERIAL = "[1] document: Apple results\nRevenue of 2019 was 260.2 billion dollars. Tim Cook led the company."
CANDIDATES = [
    Candidate("a@1", "short"),
    Candidate("b@1", "longer than that"),
    Candidate("c@1", "the longest of them all"),
]
WIDE = Band(1, 10_000)


def compare(choose: Callable[[str, str], str]) -> Asker:
    """A judge whose verdict is a function of the two answers as they are shown."""

    def reply(request: Any) -> dict[str, Any]:
        shown = read_sections(request.messages[-1].content)
        verdict = choose(shown["First answer"], shown["Second answer"])
        scores = {"first": {"first": 9, "second": 3}, "second": {"first": 3, "second": 9}}.get(verdict)
        return {"reason": "so", **dict.fromkeys(DIMENSIONS, scores or {"first": 5, "second": 5}), "verdict": verdict}

    return make_asker(by_title({"comparison": reply}), "judge")


def prefer_longer(first: str, second: str) -> str:
    return "first" if len(first) > len(second) else "second"


def make_episode() -> Episode:
    sections = {"question": "What was Apple's revenue in 2019?", "material": MATERIAL}
    messages = (Turn(role="system", content="compose"), Turn(role="user", content=ask(COMPOSE, sections)))
    calls = (StageCall(stage=COMPOSE, messages=messages, output="x"),)
    return Episode(
        id="e", question=sections["question"], language="en", source="q:1", query="q", model="rules", calls=calls
    )


def make_answer(target: Path, writers: list[Asker], judge: Asker, band: Band = WIDE) -> Record:
    tasks = make_tasks([make_episode()], writers, judge, band)
    (record,) = asyncio.run(run_tasks(tasks, target, Record)).values()
    return record


def test_the_best_of_three_wins_each_of_its_matches() -> None:
    found = asyncio.run(play("q", "m", CANDIDATES, compare(prefer_longer)))
    assert [place.candidate.writer for place in found.places] == ["c@1", "b@1", "a@1"]
    assert [place.share for place in found.places] == [1.0, 0.5, 0.0]
    assert found.places[0].scores == dict.fromkeys(DIMENSIONS, 9.0)


def test_a_judge_that_prefers_the_first_makes_ties_and_is_counted() -> None:
    found = asyncio.run(play("q", "m", CANDIDATES, compare(lambda first, second: "first")))
    assert {place.share for place in found.places} == {0.5}
    assert found.contradicted == 3


@pytest.mark.parametrize("missing", [*DIMENSIONS, "verdict", "reason"])
def test_a_judgement_has_all_four_dimensions_and_no_other(missing: str) -> None:
    scores = {"first": 1, "second": 2}
    whole = {"reason": "so", **dict.fromkeys(DIMENSIONS, scores), "verdict": "second"}
    assert Comparison.model_validate(whole).read("second") == dict.fromkeys(DIMENSIONS, 2)
    for wrong in ({name: whole[name] for name in whole if name != missing}, whole | {"style": scores}):
        with pytest.raises(ValidationError):
            Comparison.model_validate(wrong)


def test_half_a_judgement_counts_for_nothing() -> None:
    judged = {"reason": "so", **{name: {"first": 1, "second": 2} for name in DIMENSIONS}, "verdict": "second"}

    def reply(request: Any) -> Any:
        return "?" if read_sections(request.messages[1].content)["First answer"] == "short" else judged

    judge = make_asker(by_title({"comparison": reply}))
    found = asyncio.run(play("q", "m", CANDIDATES[:2], judge))
    assert (found.unread, [place.share for place in found.places]) == (1, [0.5, 0.5])


def test_the_winner_is_stored_with_its_scores_and_the_loser(tmp_path: Path) -> None:
    writers = [make_asker(lambda request: "Revenue was 260.2 [1].", "one"), make_asker(lambda request: "Fine.", "two")]
    record = make_answer(tmp_path / "a.jsonl", writers, compare(prefer_longer))
    assert (record.output, record.rejected) == ("Revenue was 260.2 [1].", "Fine.")
    assert {name: record.tags[name] for name in DIMENSIONS} == dict.fromkeys(DIMENSIONS, 9.0)
    assert record.made_by.startswith("one")
    assert record.messages == make_episode().calls[0].messages


def test_an_unsure_judge_gives_no_pair(tmp_path: Path) -> None:
    writers = [make_asker(lambda request: "Revenue was 260.2 [1].", "one"), make_asker(lambda request: "Fine.", "two")]
    record = make_answer(tmp_path / "a.jsonl", writers, compare(lambda first, second: "second"))
    assert (record.rejected, record.tags["contradicted"]) == ("", 1)


@pytest.mark.parametrize(
    ("count", "status"), [(999, "rejected"), (1_000, "accepted"), (1_500, "accepted"), (1_501, "rejected")]
)
def test_answers_outside_of_the_band_are_left_out(count: int, status: str, tmp_path: Path) -> None:
    # Citations, headings and emphasis are no characters of the band.
    writer = make_asker(lambda request: f"# {'**' + 'x' * count + '**'} [1][2, 3]")
    record = make_answer(tmp_path / "a.jsonl", [writer], make_rules(), Band())
    assert record.status == status


def test_an_answer_that_found_nothing_is_no_example(tmp_path: Path) -> None:
    writer = make_asker(lambda request: "I found nothing that answers this.")
    record = make_answer(tmp_path / "a.jsonl", [writer], make_rules())
    assert (record.status, record.reason) == ("rejected", "it cites nothing of the material")


def test_what_a_reader_sees_is_counted() -> None:
    text = (
        "## Sales\n\n- **Up** 12 % [1], see [the report](https://example.org/x)\n\n{{table:sheet_1}}\n```python\nx\n```"
    )
    assert count_visible(text) == len("Sales Up 12 % , see the report")
    assert list_citations("a [1], b [2, 13] and c [1]") == {1, 2, 13}


def repair(target: Path, answer: str, mender: Asker) -> Record:
    record = Record(
        id="a",
        stage="answer",
        status="accepted",
        source="q:1",
        messages=make_episode().calls[0].messages,
        output=answer,
    )
    (found,) = asyncio.run(run_tasks(repairing.make_tasks([record], mender), target, Record)).values()
    return found


WRONG = "Revenue of 2018 was 260.2 billion [1]. It employed 999 people."
FAULTS = [
    {"kind": "time", "quote": "2018", "why": "2019"},
    {"kind": "number", "quote": "999", "why": "not there"},
    {"kind": "event", "quote": "not in the answer", "why": "no"},
]


def script(corrected: str, again: list[dict[str, str]]) -> Asker:
    """A mender that finds the faults first, and others after its correction."""
    first = iter([FAULTS, again])
    return make_asker(by_title({"faults": lambda request: {"faults": next(first)}, "corrected": {"answer": corrected}}))


def test_faults_are_listed_then_corrected_in_a_second_turn(tmp_path: Path) -> None:
    record = repair(tmp_path / "r.jsonl", WRONG, script("Revenue of 2019 was 260.2 billion [1].", []))
    assert (record.status, record.rejected) == ("accepted", WRONG)
    # The third fault has words that nobody wrote.
    assert {name: value for name, value in record.tags.items() if value} == {"time_found": 1, "number_found": 1}
    assert [(rate.kind, rate.found, rate.fixed) for rate in measure_rates([record])] == [
        ("time", 1, 1), ("number", 1, 1), ("event", 0, 0),
    ]  # fmt: skip


def test_what_stays_wrong_waits_for_a_person(tmp_path: Path) -> None:
    again = [{"kind": "number", "quote": "998", "why": "not there"}]
    record = repair(
        tmp_path / "r.jsonl", WRONG, script("Revenue of 2019 was 260.2 [1]. It employed 998 people.", again)
    )
    assert (record.status, record.reason) == ("review", "1 of 2 faults stay")
    assert record.tags["number_left"] == 1


def test_a_correction_that_loses_a_citation_waits_for_a_person(tmp_path: Path) -> None:
    record = repair(tmp_path / "r.jsonl", WRONG, script("Revenue of 2019 was 260.2 billion.", []))
    assert (record.status, record.reason) == ("review", "the correction lost the citations 1")


def test_planted_faults_are_found_and_mended_by_the_reference_policy(tmp_path: Path) -> None:
    answer = "Revenue of 2019 was 260.2 billion dollars [1]. In 2017 it began [1]. It had 431.7 billion of debt [1]."
    record = repair(tmp_path / "r.jsonl", answer, make_rules())
    assert (record.status, record.output) == ("accepted", "Revenue of 2019 was 260.2 billion dollars [1].")
    assert (record.tags["time_found"], record.tags["number_found"]) == (1, 1)


def test_a_right_answer_keeps_its_status(tmp_path: Path) -> None:
    record = repair(tmp_path / "r.jsonl", "Revenue of 2019 was 260.2 billion dollars [1].", make_rules())
    assert (record.status, record.reason, record.rejected) == ("accepted", "nothing was found to be wrong", "")


@pytest.mark.parametrize("said", ["nothing", json.dumps({"faults": [{"kind": "taste", "quote": "x"}]})])
def test_an_unreadable_list_of_faults_waits_for_a_person(said: str, tmp_path: Path) -> None:
    assert repair(tmp_path / "r.jsonl", WRONG, make_asker(by_title({"faults": said}))).status == "review"
