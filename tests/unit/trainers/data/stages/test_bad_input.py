"""Stages against bad input: replies that are no JSON, judges that are away, contradictory labels, empty corpora."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import InvalidField, NotFound
from fathom.trainers.commands import stage_files
from fathom.trainers.data.mixtures.exporting import build_rows
from fathom.trainers.data.mixtures.mixing import mix, read_mixture
from fathom.trainers.data.on_ray import Maker, Recipe, Scale
from fathom.trainers.data.queries.record import Query, make_query
from fathom.trainers.data.stages import evolving
from fathom.trainers.data.stages.record import Record, Turn
from fathom.trainers.data.stages.rewriting import make_tasks
from fathom.trainers.data.stages.running import Task, run_tasks
from tests.unit.trainers.data.stages.peers import make_asker, make_conversation, make_rules
from tests.unit.trainers.data.stages.test_mixtures import write_mixture

SCALE = Scale()
EMPTY: tuple[tuple[str, Callable[[Path, Path], None]], ...] = (
    ("episodes", lambda source, home: stage_files.play_file(source, home / "t", home, "rules", SCALE)),
    ("rewrite", lambda source, home: stage_files.rewrite_file(source, home / "t", home, "rules", "rules", SCALE)),
    ("plan", lambda source, home: stage_files.plan_file(source, home / "t", home, "r", "r", SCALE, written=False)),
    ("answer", lambda source, home: stage_files.answer_file(source, home / "t", home, ["r"], "r", 1, 2, SCALE)),
    ("repair", lambda source, home: stage_files.repair_file(source, home / "t", home, "rules", SCALE)),
    ("evolve", lambda source, home: stage_files.evolve_file(source, home / "t", home, "rules", None, None, SCALE)),
)


@pytest.mark.parametrize(("stage", "work"), EMPTY, ids=[stage for stage, _ in EMPTY])
def test_an_empty_corpus_is_named_before_a_stack_is_started(
    stage: str, work: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    source = tmp_path / f"{stage}.jsonl"
    source.write_text("\n")
    with pytest.raises(InvalidField, match=source.name):
        work(source, tmp_path)
    assert not (tmp_path / "t").exists()


def test_replies_that_are_no_json_are_asked_for_again_and_then_dropped(tmp_path: Path) -> None:
    asker = make_asker(lambda request: "I would rather talk about the weather.")
    query = make_query("What was the return of Apple in 2019?", "q.txt:1")
    rows = asyncio.run(run_tasks(evolving.make_tasks([query], ["deepen"], asker), tmp_path / "rows.jsonl", Record))
    (record,) = rows.values()
    assert (record.status, record.reason) == ("dropped", "no reply of the writer could be read")
    assert not record.output


def test_a_judge_that_is_away_ends_the_stage_and_a_second_run_completes_it(tmp_path: Path) -> None:
    target, conversation = tmp_path / "rewrite.jsonl", make_conversation()
    writer, asked = make_rules(), list[str]()

    def reply(request: Any) -> str | Exception:
        asked.append(request.model)
        # The first verdict comes, then the model is gone.
        return json.dumps({"reason": "r", "verdict": "right"}) if len(asked) == 1 else NotFound("model", "judge")

    tasks = make_tasks([conversation], "c.jsonl", writer, make_asker(reply, "judge"))
    with pytest.raises(NotFound):
        asyncio.run(run_tasks(tasks, target, Record, at_once=1))
    before = target.read_text().splitlines()
    assert len(before) == 1
    rows = asyncio.run(run_tasks(make_tasks([conversation], "c.jsonl", writer, writer), target, Record))
    after = target.read_text().splitlines()
    assert after[:1] == before
    assert sorted(json.loads(line)["id"] for line in after) == sorted(rows)
    assert len(rows) == 10


def make_label(name: str, prompt: str, output: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": output}]
    return {
        "id": name,
        "provenance": {"stage": "rewrite"},
        "messages": messages,
        "token_ids": [1] * 9,
        "loss_mask": [0] * 8 + [1],
    }


def make_pair(name: str, better: str, worse: str) -> dict[str, Any]:
    said = {
        field: [{"role": "assistant", "content": text}] for field, text in (("chosen", better), ("rejected", worse))
    }
    ids = {f"{field}_ids": [1] * 9 for field in ("prompt", "chosen", "rejected")}
    return {"id": name, "provenance": {"stage": "plan"}, "prompt": [{"role": "user", "content": "q"}], **said, **ids}


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (make_label("x", "And Apple?", "a"), make_label("y", "And Apple?", "b"), "y teaches another output than x"),
        (make_label("x", "And Apple?", "a"), make_label("y", "And Apple?", "a"), "y is the row of x"),
        (make_pair("x", "a", "b"), make_pair("y", "b", "a"), "y prefers what x rejects"),
        (make_pair("x", "a", "b"), make_pair("y", "a", "b"), "y is the pair of x"),
    ],
)
def test_duplicate_and_contradictory_labels_are_refused_by_name(
    first: dict[str, Any], second: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidField, match=message):
        mix(read_mixture(write_mixture(tmp_path, {"a": [first], "b": [second]})))


def test_an_export_leaves_out_labels_that_contradict_each_other_and_repeated_ones() -> None:
    def label(name: str, question: str, output: str) -> Record:
        prompt = (Turn(role="user", content=question),)
        return Record(id=name, stage="rewrite", status="accepted", source="f:1", messages=prompt, output=output)

    records = [label("a", "And?", "x"), label("b", "And?", "y"), label("c", "So?", "z"), label("d", "So?", "z")]
    built = asyncio.run(build_rows(records, "sft"))
    assert [row["id"] for row in built.rows] == ["c"]
    assert sum(built.left_out.values()) == 3


def test_labels_of_different_prompts_are_no_contradiction(tmp_path: Path) -> None:
    files = {"a": [make_label("x", "And Apple?", "a")], "b": [make_label("y", "And Coca-Cola?", "b")]}
    assert len(mix(read_mixture(write_mixture(tmp_path, files))).rows) == 2


def test_a_worker_of_ray_returns_what_was_made_and_the_typed_error(tmp_path: Path) -> None:
    def make(clients: Any, some: Any) -> list[Task[Query]]:
        def task(query: Query) -> Task[Query]:
            async def work() -> Query:
                if "2021" in query.text:
                    raise NotFound("model", "judge")
                return query

            return Task(query.id, work)

        return [task(query) for query in some]

    queries = [make_query(f"What was the return of Apple in {year}?", "q:1") for year in (2019, 2020, 2021)]
    maker = Maker(Recipe(make, Query, Query), {"policy": "grpc://127.0.0.1:1"})
    batch = {"source": [query.model_dump_json() for query in queries], "ids": [[query.id] for query in queries[1:]]}
    made = maker(batch)
    # The first one is not wanted: its row is in the file.
    assert [json.loads(row)["id"] for row in made["row"] if row] == [queries[1].id]
    assert [bool(error) for error in made["error"]] == [False, True]
