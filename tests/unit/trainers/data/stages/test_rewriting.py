"""Rewriting data: both cases at each distance, spans that are attacked, judges that are unsure or cannot be read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.domain.chat.pipeline import read_ask
from fathom.domain.chat.quoting import read_sections
from fathom.domain.text.language import language_of
from fathom.services.policy.backends.rules.tokenizer import END_ID
from fathom.trainers.data.instructions import instruction
from fathom.trainers.data.mixtures.exporting import build_rows
from fathom.trainers.data.stages.conversations import read_conversations
from fathom.trainers.data.stages.record import Record
from fathom.trainers.data.stages.rewriting import CASES, DISTANCES, count_by_writer, count_cells, make_tasks
from fathom.trainers.data.stages.running import run_tasks
from tests.unit.trainers.data.stages.peers import RulesRenderer, by_title, make_asker, make_conversation, make_rules

QUESTION = {"question": "And the year before?", "rewritten": "What was the return of Apple in 2013?"}
EXAMPLES = Path(__file__).resolve().parents[5] / "examples" / "stages" / "conversations.jsonl"
ANSWER = {"span": "was 14.5%", "question": "Why that much?", "rewritten": "Why was the return of Apple in 2014 14.5%?"}


def make_rows(target: Path, verdict: Any, **replies: Any) -> list[Record]:
    """Rows of one conversation of five turns by scripted models."""
    writer = make_asker(by_title({"follow_up_question": QUESTION, "follow_up_answer": ANSWER} | replies), "writer")
    judge = make_asker(by_title({"verdict": verdict}), "judge")
    rows = asyncio.run(run_tasks(make_tasks([make_conversation()], "c.jsonl", writer, judge), target, Record))
    return list(rows.values())


def test_the_reference_policy_fills_every_cell_of_case_and_distance(tmp_path: Path) -> None:
    rules = make_rules()
    tasks = make_tasks([make_conversation()], "c.jsonl", rules, rules)
    records = list(asyncio.run(run_tasks(tasks, tmp_path / "r.jsonl", Record)).values())
    assert count_cells(records) == {(case, distance): 1 for case in CASES for distance in DISTANCES}
    two_back = next(one for one in records if one.tags == {"case": "question", "distance": 2})
    assert two_back.output == "What was the return of Apple in 2012?"
    assert {one.made_by for one in records} == {"rules@0"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_reference_policy_s_rewritings_do_not_contradict_each_other(language: str, tmp_path: Path) -> None:
    # The shipped example, whose questions have no figure that would tell their follow-ups apart.
    conversation = next(one for one in read_conversations(EXAMPLES) if language_of(one.turns[0].question) == language)
    rules = make_rules()
    tasks = make_tasks([conversation], "c.jsonl", rules, rules)
    records = list(asyncio.run(run_tasks(tasks, tmp_path / "r.jsonl", Record)).values())
    built = asyncio.run(build_rows(records, "sft"))
    assert (len(built.rows), built.left_out) == (len(CASES) * len(DISTANCES), {})
    # The last turn needs no name; of an earlier one the follow-up repeats the question.
    asked = {(one.tags["case"], one.tags["distance"]): read_ask(one.messages[1].content) for one in records}
    for (_, distance), prompt in asked.items():
        assert prompt is not None
        earlier = conversation.turns[-int(distance)].question.rstrip("?？")
        assert (earlier in prompt["question"]) is (distance != 1)


def test_a_writer_is_shown_what_was_asked_since(tmp_path: Path) -> None:
    seen: list[str] = []

    def reply(request: policy.GenerateRequest) -> dict[str, str]:
        seen.append(request.messages[1].content)
        return QUESTION

    make_rows(tmp_path / "r.jsonl", {"reason": "yes", "verdict": "right"}, follow_up_question=reply)
    sections = [read_sections(said) for said in seen]
    turns = make_conversation().turns
    by_question = {one["Question"]: one.get("Questions since", "").splitlines() for one in sections}
    assert by_question == {
        turn.question: [later.question for later in turns[place + 1 :]] for place, turn in enumerate(turns)
    }


def test_rewritings_that_contradict_each_other_are_left_out_and_counted(tmp_path: Path) -> None:
    # A writer that names no turn: one question, and another meaning at each distance.
    def vague(request: policy.GenerateRequest) -> dict[str, str]:
        return {"question": "Why?", "rewritten": f"Why: {read_sections(request.messages[1].content)['Question']}"}

    records = make_rows(tmp_path / "r.jsonl", {"reason": "yes", "verdict": "right"}, follow_up_question=vague)
    built = asyncio.run(build_rows([one for one in records if one.tags["case"] == "question"], "sft"))
    assert (built.rows, built.left_out) == ([], {"other rows teach another output of its prompt": 5})


def test_a_short_conversation_leaves_its_far_cells_empty(tmp_path: Path) -> None:
    rules = make_rules()
    tasks = make_tasks([make_conversation(2)], "c.jsonl", rules, rules)
    records = list(asyncio.run(run_tasks(tasks, tmp_path / "r.jsonl", Record)).values())
    assert {distance for _, distance in count_cells(records)} == {1, 2}


def test_the_prompt_is_the_stage_s_own_and_has_every_turn(tmp_path: Path) -> None:
    record = make_rows(tmp_path / "r.jsonl", {"reason": "yes", "verdict": "right"})[0]
    assert record.messages[0].content == instruction("rewrite", "en")
    asked = read_ask(record.messages[1].content)
    assert asked is not None
    assert asked["question"] == QUESTION["question"]
    assert all(f"Q{number}:" in asked["history"] for number in range(1, 6))
    assert (record.output, record.status) == (QUESTION["rewritten"], "accepted")


@pytest.mark.parametrize(
    ("verdict", "status"),
    [("right", "accepted"), ("wrong", "rejected"), ("unsure", "review")],
)
def test_a_verdict_decides_what_becomes_of_a_row(verdict: str, status: str, tmp_path: Path) -> None:
    records = make_rows(tmp_path / "r.jsonl", {"reason": "so", "verdict": verdict})
    # The span stands in the last answer alone.
    assert [one.status for one in records if one.tags["case"] == "question"] == [status] * 5
    assert records[0].reason == "so"
    assert records[0].judged_by.startswith("judge")


@pytest.mark.parametrize("said", ["no idea", "{}", '{"reason": "", "verdict": "right"}', '{"verdict": "maybe"}'])
def test_without_a_readable_verdict_a_person_decides(said: str, tmp_path: Path) -> None:
    records = make_rows(tmp_path / "r.jsonl", said)
    assert {one.status for one in records if one.tags["case"] == "question"} == {"review"}


def test_a_span_that_the_answer_does_not_have_is_no_attack_on_it(tmp_path: Path) -> None:
    records = make_rows(tmp_path / "r.jsonl", {"reason": "yes", "verdict": "right"})
    by_distance = {one.tags["distance"]: one for one in records if one.tags["case"] == "answer"}
    assert by_distance[1].status == "accepted"
    assert by_distance[1].tags["span"] == ANSWER["span"]
    assert {by_distance[distance].status for distance in (2, 3, 4, 5)} == {"dropped"}
    assert by_distance[2].reason == "the span is not in the answer"


def test_unreadable_writers_are_dropped_and_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def refuse(request: Any) -> str:
        asked.append(request.messages[-1].content)
        return "I would rather not."

    right = {"reason": "yes", "verdict": "right"}
    records = make_rows(tmp_path / "r.jsonl", right, follow_up_question=refuse)
    assert {one.status for one in records if one.tags["case"] == "question"} == {"dropped"}
    before = len(asked)
    assert make_rows(tmp_path / "r.jsonl", right, follow_up_question=refuse) == records
    assert (before, len(asked)) == (10, 10)


def test_what_a_writer_leaves_to_people_is_counted_by_writer(tmp_path: Path) -> None:
    records = make_rows(tmp_path / "r.jsonl", {"reason": "so", "verdict": "unsure"})
    (counts,) = count_by_writer(records).values()
    assert (counts["review"], counts["dropped"]) == (6, 4)


async def test_an_export_has_its_loss_on_the_rewritten_question_alone(tmp_path: Path) -> None:
    writer = make_asker(by_title({"follow_up_question": QUESTION, "follow_up_answer": ANSWER}), "writer")
    judge = make_asker(by_title({"verdict": {"reason": "so", "verdict": "right"}}), "judge")
    rows = await run_tasks(make_tasks([make_conversation()], "c.jsonl", writer, judge), tmp_path / "r.jsonl", Record)
    (first, *_) = [one for one in rows.values() if one.status == "accepted"]
    renderer = RulesRenderer()
    (row,) = (await build_rows([first], "sft", renderer=renderer)).rows
    assert len(row["token_ids"]) == len(row["loss_mask"])
    learned = [place for place, is_learned in enumerate(row["loss_mask"]) if is_learned]
    # One stretch at the end, of the output and the end of the turn; every earlier question and answer is shown only.
    assert learned == list(range(learned[0], learned[-1] + 1))
    end = renderer.tokenizer.decode([END_ID])
    assert renderer.tokenizer.decode([row["token_ids"][place] for place in learned]).rstrip("\n") == first.output + end
    # A rewriting has no framework that serving would leave out.
    assert (row["tokens"], "tokens_served" in row) == (len(row["token_ids"]), False)
    shown = renderer.tokenizer.decode(row["token_ids"][: learned[0]])
    assert all(turn.question in shown for turn in make_conversation().turns)


def test_two_writers_of_one_file_are_compared_by_what_they_leave_to_people(tmp_path: Path) -> None:
    right, unsure = ({"reason": "so", "verdict": verdict} for verdict in ("right", "unsure"))
    good = {"follow_up_question": QUESTION, "follow_up_answer": ANSWER | {"span": "The return of Apple"}}
    judge = make_asker(by_title({"verdict": lambda request: unsure if "Vague" in str(request) else right}), "judge")
    vague = {name: reply | {"rewritten": f"Vague: {reply['rewritten']}"} for name, reply in good.items()}
    writers = [make_asker(by_title(good), "good"), make_asker(by_title(vague), "vague")]
    tasks = [task for one in writers for task in make_tasks([make_conversation()], "c.jsonl", one, judge)]
    rows = asyncio.run(run_tasks(tasks, tmp_path / "r.jsonl", Record))
    assert count_by_writer(list(rows.values())) == {"good@0": {"accepted": 10}, "vague@0": {"review": 10}}


def test_rows_are_written_with_their_origin(tmp_path: Path) -> None:
    make_rows(tmp_path / "r.jsonl", {"reason": "yes", "verdict": "right"})
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    row = next(one for one in rows if one["status"] == "accepted")
    assert row["source"] == "c.jsonl"
    assert row["parents"] == [make_conversation().name]
    assert len(row["instructions"]) == 2
