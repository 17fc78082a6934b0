"""Answers that failed in production become pairs only when a person has accepted a better one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Lane
from fathom.core.errors import InvalidField
from fathom.trainers.data.reviews.candidates import find_disliked
from tests.unit.trainers.data.reviews.conftest import House

FAULT = trajectory.Finding(kind=trajectory.FINDING_KIND_UNRESOLVED, text="[9]", detail="there is no material 9")


def judge(run: str, question: str, answer: str, *, helpful: bool = False, edited: str = "") -> memory.Feedback:
    turn = memory.Turn(question=question, answer=answer, run_id=run)
    return memory.Feedback(
        run_id=run, helpful=helpful, tags=["wrong"], edited_answer=edited, turn=turn, create_time=Timestamp(seconds=1)
    )


def make_run(run: str, answer: str, *findings: trajectory.Finding) -> trajectory.Trajectory:
    written = trajectory.Answer(markdown=answer, model="tiny@3", findings=findings)
    return trajectory.Trajectory(run_id=run, question=f"Question of {run}?", answer=written)


def read_pairs(path: Path) -> dict[str, tuple[str, str]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["run_id"]: (row["chosen"], row["rejected"]) for row in rows}


def test_a_pair_is_written_only_after_a_person_has_accepted_it(house: House, tmp_path: Path) -> None:
    house.judged += [
        judge("edited", "Why?", "By chance.", edited="By rates."),
        judge("disliked", "When?", "Never."),
        judge("liked", "When?", "In 2020.", helpful=True),
        judge("secret", "Who?", "Nobody.", edited="Somebody."),
    ]
    unchecked = trajectory.Finding(kind=trajectory.FINDING_KIND_UNCHECKED, text="")
    house.planner.runs |= {
        "faulty": make_run("faulty", "It is so [9].", FAULT),
        "clean": make_run("clean", "It is so [1].", unchecked),
    }
    house.planner.refused.add("secret")
    told = house.run("collect")
    assert "3 added, 0 were there" in told
    assert "left out: 1 (its user has not consented to training)" in told
    assert "0 added, 3 were there" in house.run("collect")
    seen = []

    def ask(prompt: str, shown: list[str]) -> str:
        if prompt == "Why":
            return ""
        seen.append(shown[-1])
        # Of the faulty one nothing is proposed: it has to be written.
        return "a" if "By chance." in shown[-1] else "e" if "[9]" in shown[-1] else "r"

    house.decide("candidate", ask, edited="It is so [1].")
    (faulty,) = [one for one in seen if "[9]" in one]
    assert "unresolved: [9] (there is no material 9)" in faulty
    assert "In 2020." in next(one for one in seen if "Never." in one)
    told = house.run("export", "candidate", "--output", str(tmp_path / "pairs.jsonl"))
    assert "left out: 1 (a reviewer has rejected it)" in told
    assert read_pairs(tmp_path / "pairs.jsonl") == {
        "edited": ("By rates.", "By chance."),
        "faulty": ("It is so [1].", "It is so [9]."),
    }
    # A consent that was taken back meanwhile counts.
    house.planner.refused.add("edited")
    told = house.run("export", "candidate", "--output", str(tmp_path / "pairs.jsonl"))
    assert "left out: 1 (its user has not consented to training)" in told
    assert set(read_pairs(tmp_path / "pairs.jsonl")) == {"faulty"}


def test_a_question_is_asked_again_where_nobody_has_proposed_an_answer(house: House) -> None:
    house.planner.runs |= {name: make_run(name, "It is so [9].", FAULT) for name in ("one", "other")}
    # The second proposal is at fault itself, and is none.
    good, bad = trajectory.Answer(markdown="Better [1].", model="tiny@4"), trajectory.Answer(markdown="[9]")
    bad.findings.append(FAULT)
    house.planner.again += [good, bad]
    assert "2 added" in house.run("collect", "--regenerate")
    assert {lane for _, lane in house.planner.asked} == {Lane.EVALUATION}
    shown = house.decide("candidate", lambda prompt, _: "")
    assert sum("Better [1]." in one for one in shown) == 1
    assert sum("nothing is proposed" in one for one in shown) == 1
    # The runs that propose are no candidates, and are not asked a second time.
    assert "0 added, 2 were there" in house.run("collect", "--regenerate")


def test_exported_judgements_are_candidates_too(house: House, tmp_path: Path) -> None:
    source = tmp_path / "feedback.jsonl"
    rows = [
        {"prompt": "Why?", "chosen": "By rates.", "rejected": "By chance.", "run_id": "r1", "tags": ["wrong"]},
        {"prompt": "When?", "completion": "Never.", "label": False, "run_id": "r2", "comment": "no"},
        {"prompt": "When?", "completion": "In 2020.", "label": True, "run_id": "r3"},
    ]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    told = house.run("add", str(source), "--kind", "candidate")
    assert "2 added" in told
    assert "left out: 1 (its user liked the answer)" in told
    for wrong in ({"prompt": "Why?"}, {"prompt": 7, "completion": "x"}, {"completion": "x"}):
        source.write_text(json.dumps(wrong))
        with pytest.raises(InvalidField, match=r"feedback\.jsonl:1"):
            house.run("add", str(source), "--kind", "candidate")


def test_the_last_judgement_of_a_run_counts_and_an_edit_that_changes_nothing_proposes_nothing() -> None:
    changed_mind = [judge("r1", "Why?", "So."), judge("r1", "Why?", "So.", helpful=True)]
    assert find_disliked(changed_mind) == []
    (same,) = find_disliked([judge("r2", "Why?", "So.", edited="So.")])
    assert (same.proposed, same.proposed_by, same.reason) == ("", "", "wrong")
