"""Readings: which examples become rows, what is refused, and what nearly stands in an evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import InvalidField, NotReady
from fathom.core.retry import RetryPolicy
from fathom.trainers.commands.reading_files import write_readings
from fathom.trainers.data.export import tokens
from fathom.trainers.data.mixtures.exporting import build_rows
from fathom.trainers.data.queries.record import read_queries
from fathom.trainers.data.stages.reading import make_readings, pair_readings, read_examples
from fathom.trainers.data.stages.record import Record, read_rows

GOLD = {"id": "a", "question": "What did gold return in 2011?", "program": 'ret(within(series("gold", GOLD), "2011"))'}
HIGH = {"id": "b", "question": "The highest VIX of 2020", "program": 'maximum(within(series("VIX", VIX), "2020"))'}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_rows_have_the_question_as_prompt_and_the_program_without_ids_as_output(tmp_path: Path) -> None:
    follow_up, chinese = HIGH | {"id": "c", "turns": ["The lowest?"]}, HIGH | {"id": "d", "language": "zh"}
    write(tmp_path / "examples.jsonl", GOLD, HIGH, follow_up, chinese, GOLD | {"id": "e"})
    write_readings([tmp_path], tmp_path / "out.jsonl", "en", [], 0.7)
    first, second = read_rows(tmp_path / "out.jsonl", Record)
    assert first.output == 'ret(within(series("gold"), "2011"))'
    assert [turn.content for turn in first.messages][1:] == [GOLD["question"]]
    assert (first.source, first.parents, first.made_by) == ("examples.jsonl:1", ("a",), "people")
    assert second.output == 'maximum(within(series("VIX"), "2020"))'


def test_what_is_left_out_is_counted_by_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", GOLD, GOLD | {"id": "e"}, HIGH | {"turns": ["?"]}, HIGH | {"language": "zh"})
    found = make_readings(read_examples([path]), "en", [], 0.7)
    assert found.left_out == {"stands there twice": 1, "follows earlier questions": 1, "not in en": 1}


def test_what_nearly_stands_in_an_evaluation_is_left_out_however_often(tmp_path: Path) -> None:
    near = GOLD | {"id": "e", "question": "so: what did gold return in 2011, PLEASE?"}
    path = write(tmp_path / "x.jsonl", GOLD, near, HIGH)
    # As the blind sets have them: an id and a question among other things.
    held = read_queries(write(tmp_path / "set.jsonl", {"id": "q-1", "question": GOLD["question"], "kind": "fact"}))
    assert held[0].id == "q-1"
    found = make_readings(read_examples([path]), "en", held, 0.7)
    assert [record.parents for record in found.records] == [("b",)]
    assert found.left_out == {"nearly a question of q-1": 2}


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (GOLD | {"program": "ret("}, "program"),
        (GOLD | {"program": 'ret(series("silver", SI))'}, "'silver' does not stand in the question"),
        ({"id": "x", "question": "?"}, "program"),
        (GOLD | {"answer": 1}, "answer"),
    ],
)
def test_a_wrong_example_is_named_by_file_line_and_field(tmp_path: Path, row: dict[str, Any], named: str) -> None:
    path = write(tmp_path / "x.jsonl", HIGH, row)
    with pytest.raises(InvalidField, match=r"x\.jsonl:2") as caught:
        read_examples([path])
    assert named in caught.value.message


async def test_rows_are_exported_with_loss_on_the_program_alone(tmp_path: Path) -> None:
    found = make_readings(read_examples([write(tmp_path / "x.jsonl", GOLD, HIGH)]), "en", [], 0.7)
    built = await build_rows(found.records, "sft")
    assert [row["messages"][-1]["content"] for row in built.rows] == [one.output for one in found.records]
    assert [message["weight"] for message in built.rows[0]["messages"] if "weight" in message][-1] == 1


async def test_a_wrong_program_of_the_model_is_the_worse_side_of_a_pair(tmp_path: Path) -> None:
    [gold] = make_readings(read_examples([write(tmp_path / "x.jsonl", GOLD)]), "en", [], 0.7).records
    wrong = 'maximum(within(series("gold"), "2011"))'
    paired = pair_readings([gold, gold, gold], [["", gold.output, wrong], [gold.output], [""]], "small")
    assert [(one.output, one.rejected, one.tags["sampled"]) for one in paired.records] == [
        (gold.output, wrong, "small")
    ]
    assert paired.left_out == {"every program is right": 1, "no program has an end": 1}
    built = await build_rows(paired.records, "dpo")
    assert built.rows[0]["chosen"][0]["content"] == gold.output
    assert built.rows[0]["rejected"][0]["content"] == wrong


def test_the_same_steps_in_another_order_are_no_wrong_program(tmp_path: Path) -> None:
    [gold] = make_readings(read_examples([write(tmp_path / "x.jsonl", GOLD)]), "en", [], 0.7).records
    both = gold.model_copy(update={"output": "first\nsecond"})
    assert not pair_readings([both], [["second\nfirst"]], "small").records


class LoadingPolicy:
    """Policy whose model is there from the third request on."""

    def __init__(self) -> None:
        self.asked = 0

    async def tokenize(self, request: policy.TokenizeRequest) -> policy.TokenizeResponse:
        self.asked += 1
        if self.asked < 3:
            raise NotReady("model 'small' is being loaded")
        return policy.TokenizeResponse(token_ids=[1, 2])


async def test_an_export_waits_for_a_model_that_is_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "LOADING", RetryPolicy(attempts=3, first_delay_s=0.0))
    served = LoadingPolicy()
    renderer = tokens.PolicyRenderer(SimpleNamespace(policy=served), "small")  # type: ignore[arg-type]
    assert await renderer.ids([], prompt=True, tools=False) == [1, 2]
    assert served.asked == 3
