"""Reflection data: queries whose answer the material has are replaced, the others stay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fathom.domain.chat.pipeline import REFLECT, ask
from fathom.domain.encoders.base import Kind
from fathom.domain.text.terms import list_words
from fathom.trainers.data.stages.episodes import Episode, StageCall
from fathom.trainers.data.stages.record import Record, Turn
from fathom.trainers.data.stages.reflecting import Matcher, list_passages, make_tasks
from fathom.trainers.data.stages.running import run_tasks
from tests.unit.trainers.data.stages.peers import by_title, make_asker, make_rules

PLANTED = "Apple revenue 2019 was 260.2 billion dollars, less than the year before."
WANTED = {"search": ["Apple revenue 2019"], "data": ["Apple gross margin 2018"]}


class WordEncoder:
    """An encoder of which texts are near when they share words."""

    name, dim = "words", 512

    def encode(self, texts: Sequence[str], kind: Kind) -> Any:
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for place, text in enumerate(texts):
            for word in list_words(text):
                rows[place, sum(word.encode()) % self.dim] = 1.0
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def make_episode(output: str, found: str = PLANTED) -> Episode:
    asked = f"1. [data] Apple sales => ok\n{found}\n\n2. [search] why => empty\nnothing was found for this"
    messages = (
        Turn(role="system", content="reflect"),
        Turn(role="user", content=ask(REFLECT, {"question": "How did Apple do in 2019?", "asked": asked})),
    )
    calls = (StageCall(stage=REFLECT, messages=messages, output=output),)
    return Episode(
        id="e1",
        question="How did Apple do in 2019?",
        language="en",
        source="q:1",
        query="q",
        model="rules",
        calls=calls,
    )


def make_row(target: Path, episode: Episode, threshold: float = 0.4, **replies: Any) -> Record:
    asker = make_asker(by_title(replies))
    matcher = Matcher(WordEncoder(), asker, threshold)
    (record,) = asyncio.run(run_tasks(make_tasks([episode], matcher, asker), target, Record)).values()
    return record


def is_in_material(request: Any) -> dict[str, Any]:
    return {
        "reason": "so",
        "is_missing": "Apple revenue 2019\n" not in request.messages[-1].content.split("# Passages")[0],
    }


def test_a_query_that_planted_material_answers_is_replaced(tmp_path: Path) -> None:
    record = make_row(
        tmp_path / "r.jsonl",
        make_episode(json.dumps(WANTED)),
        missing=is_in_material,
        other_query={"query": "why sales fell in China"},
    )
    assert record.tags == {"queries": 2, "answered": 1}
    assert json.loads(record.output) == {"search": ["why sales fell in China"], "data": ["Apple gross margin 2018"]}
    assert json.loads(record.rejected) == WANTED


def test_without_such_material_all_stays(tmp_path: Path) -> None:
    episode = make_episode(json.dumps(WANTED), "The weather was fine in the whole of the country.")
    record = make_row(tmp_path / "r.jsonl", episode, missing=is_in_material)
    assert (json.loads(record.output), record.rejected, record.tags["answered"]) == (WANTED, "", 0)


def test_a_row_names_the_judge_only_where_it_was_asked(tmp_path: Path) -> None:
    near, far = json.dumps({"search": ["Apple revenue 2019"]}), json.dumps({"search": ["rain in Peru"]})
    episodes = [make_episode(near), make_episode(far).model_copy(update={"id": "e2"})]
    asker = make_asker(by_title({"missing": is_in_material, "other_query": {"query": ""}}))
    tasks = make_tasks(episodes, Matcher(WordEncoder(), asker, 0.4), asker)
    first, second = asyncio.run(run_tasks(tasks, tmp_path / "r.jsonl", Record, at_once=1)).values()
    assert (first.judged_by != "words", len(first.instructions)) == (True, 2)
    assert (second.judged_by, second.instructions) == ("words", ())


def test_a_query_without_another_one_is_left_out(tmp_path: Path) -> None:
    record = make_row(
        tmp_path / "r.jsonl", make_episode(json.dumps(WANTED)), missing=is_in_material, other_query={"query": ""}
    )
    assert json.loads(record.output) == {"data": ["Apple gross margin 2018"]}


@pytest.mark.parametrize("said", ["who knows", '{"is_missing": false}', "{}"])
def test_an_unreadable_verdict_keeps_the_query(said: str, tmp_path: Path) -> None:
    record = make_row(tmp_path / "r.jsonl", make_episode(json.dumps(WANTED)), missing=said)
    assert record.rejected == ""


def test_another_query_that_the_material_answers_as_well_is_no_other(tmp_path: Path) -> None:
    record = make_row(
        tmp_path / "r.jsonl",
        make_episode(json.dumps({"search": ["Apple revenue 2019"]})),
        missing={"reason": "so", "is_missing": False},
        other_query={"query": "revenue 2019 Apple"},
    )
    assert json.loads(record.output) == {}


def test_the_reference_policy_replaces_a_query(tmp_path: Path) -> None:
    rules = make_rules()
    tasks = make_tasks([make_episode(json.dumps(WANTED))], Matcher(WordEncoder(), rules, 0.4), rules)
    (record,) = asyncio.run(run_tasks(tasks, tmp_path / "r.jsonl", Record)).values()
    assert record.tags["answered"] == 1
    assert "Apple revenue 2019" not in record.output


@pytest.mark.parametrize("output", ["{}", "", "all is there", '{"data": []}'])
def test_a_reflection_that_asks_for_nothing_is_no_row(output: str) -> None:
    asker = make_asker(by_title({}))
    assert make_tasks([make_episode(output)], Matcher(WordEncoder(), asker), asker) == []


def test_the_passages_are_the_results_that_the_stage_was_shown() -> None:
    assert list_passages(make_episode("{}").calls[0]) == [PLANTED, "nothing was found for this"]
