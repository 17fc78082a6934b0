"""From accepted rows to a training file: decisions of people, limits of stages, shares, lengths, leaks, evolution."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fathom.core.errors import FailedPrecondition, InvalidField
from fathom.domain.chat.pipeline import ask
from fathom.trainers.commands.stage_reviews import edit_text
from fathom.trainers.data.mixtures.exporting import LIMITS, Kind, build_rows, describe_saving
from fathom.trainers.data.mixtures.lengths import measure
from fathom.trainers.data.mixtures.mixing import mix, read_mixture
from fathom.trainers.data.queries.record import make_query
from fathom.trainers.data.stages import evolving
from fathom.trainers.data.stages.record import Record, Turn
from fathom.trainers.data.stages.reviewing import Review, decide, list_waiting, read_records
from fathom.trainers.data.stages.running import run_tasks
from tests.unit.trainers.data.stages.peers import RulesRenderer, by_title, make_asker, make_rules

PLAN = '[{"tool": "data", "subquery": "Apple revenue"}]'


def make_record(name: str, stage: str = "rewrite", status: str = "review", **more: Any) -> Record:
    messages = (Turn(role="user", content=f"question of {name}"),)
    fields = {"id": name, "stage": stage, "status": status, "source": "f:1", "messages": messages, "output": "out"}
    return Record.model_validate(fields | more)


def write_records(path: Path, *records: Record) -> Path:
    path.write_text("".join(one.model_dump_json(exclude_defaults=True) + "\n" for one in records))
    return path


def make_row(name: str, tokens: int, text: str = "") -> dict[str, Any]:
    mask = [0] * (tokens - 2) + [1] * 2
    return {"id": name, "messages": [{"role": "user", "content": text}], "token_ids": [1] * tokens, "loss_mask": mask}


def write_mixture(folder: Path, files: dict[str, list[dict[str, Any]]], **more: Any) -> Path:
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    listed = [{"file": f"{name}.jsonl", "share": share} for name, share in zip(files, (3, 1), strict=False)]
    (folder / "mix.yaml").write_text(yaml.safe_dump({"total": 8, "max_tokens": 50, "parts": listed} | more))
    return folder / "mix.yaml"


PARTS = {
    "a": [make_row(f"a{number}", 10 + number) for number in range(20)],
    "b": [make_row(f"b{number}", 20) for number in range(20)],
}


def test_a_person_s_decision_counts_and_an_edit_keeps_what_was_there(tmp_path: Path) -> None:
    path = write_records(tmp_path / "r.jsonl", make_record("x"), make_record("y"), make_record("z"))
    before = path.read_bytes()
    reviews = [
        Review(id="x", decision="accept", by="Ada", output="better"),
        Review(id="y", decision="reject", by="Ada", note="names nobody"),
    ]
    assert decide(path, reviews) == 2
    assert decide(path, reviews) == 0
    found = {one.id: one for one in read_records(path)}
    assert (found["x"].status, found["x"].output, found["x"].before) == ("accepted", "better", "out")
    assert (found["y"].status, found["y"].reason, found["y"].reviewed_by) == ("rejected", "names nobody", "Ada")
    assert [one.id for one in list_waiting(path)] == ["z"]
    assert path.read_bytes() == before


def test_an_edit_is_what_the_person_s_editor_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    editor = tmp_path / "an editor"
    editor.write_text('#!/bin/sh\necho better > "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", f"'{editor}'")
    assert edit_text("out") == "better\n"
    monkeypatch.setenv("VISUAL", "/not/there")
    assert edit_text("out") == ""
    assert "/not/there" in capsys.readouterr().err


def test_contradictory_unknown_and_unusable_decisions_are_refused_whole(tmp_path: Path) -> None:
    path = write_records(
        tmp_path / "p.jsonl", make_record("x", "plan", output=PLAN), make_record("y", "plan", output=PLAN)
    )
    decide(path, [Review(id="x", decision="accept", by="Ada")])
    good = Review(id="y", decision="accept", by="Ada")
    for wrong, field in (
        (Review(id="x", decision="reject", by="Bob"), "decision"),
        (Review(id="w", decision="accept", by="Bob"), "id"),
        (Review(id="x", decision="accept", by="Bob", output="no plan"), "output"),
    ):
        with pytest.raises(InvalidField) as refused:
            decide(path, [good, wrong])
        assert refused.value.field in (field, "decision")
    assert [one.id for one in list_waiting(path)] == ["y"]


NEEDED = {
    ("rewrite", "sft"): 400,
    ("plan", "sft"): 1_000,
    ("plan", "dpo"): 300,
    ("reflect", "dpo"): 100,
    ("answer", "sft"): 1_000,
    ("answer", "dpo"): 100,
    ("repair", "sft"): 1_000,
    ("repair", "dpo"): 100,
    ("reading", "sft"): 20_000,
    ("reading", "dpo"): 20_000,
}


def test_each_stage_with_data_has_its_number() -> None:
    assert LIMITS == NEEDED


# Reading takes all there are; its 20,000 rows would show nothing more.
@pytest.mark.parametrize(("stage", "kind"), sorted(NEEDED.keys() - {("reading", "sft"), ("reading", "dpo")}))
def test_only_accepted_rows_are_exported_up_to_the_stage_s_number(stage: str, kind: Kind) -> None:
    most = NEEDED[stage, kind]
    base = make_record("r", stage, "accepted", output=PLAN, rejected="worse" if kind == "dpo" else "")
    records = [
        # Checked once and then copied, which is faster a thousand times.
        base.model_copy(update={"id": f"r{number}", "messages": (Turn(role="user", content=f"question {number}"),)})
        for number in range(most + 5)
    ]
    built = asyncio.run(build_rows([*records, make_record("waiting", stage, output=PLAN)], kind))
    assert len(built.rows) == most
    assert built.left_out == {f"there are {most:,} already": 5, "it is review": 1}
    output = built.rows[0]["chosen"][0] if kind == "dpo" else built.rows[0]["messages"][-1]
    assert output == {"role": "assistant", "content": PLAN, "weight": 1}
    assert built.rows[0]["provenance"]["source"] == "f:1"


@pytest.mark.parametrize("kind", ["sft", "dpo"])
async def test_plans_say_how_many_tokens_their_framework_costs(kind: Kind) -> None:
    prompt = ask(
        "plan", {"question": "How profitable is Apple?", "framework": "# company\n- gross margin [data]\n" * 20}
    )
    turns = (Turn(role="user", content=prompt),)
    plain = (Turn(role="user", content="How profitable is Apple?"),)
    worse = {"rejected": "worse"} if kind == "dpo" else {}
    records = [
        make_record(name, "plan", "accepted", output=PLAN, messages=shown, **worse)
        for name, shown in (("with", turns), ("plain", plain))
    ]
    long, short = (await build_rows(records, kind, renderer=RulesRenderer())).rows
    served, _ = (await build_rows(records, kind, renderer=RulesRenderer(), with_framework=False)).rows
    assert long["tokens"] > long["tokens_served"] == served["tokens"]
    assert "tokens_served" not in short
    assert "tokens_served" not in served
    said = describe_saving([long, short])
    assert f"1 rows with frameworks: {long['tokens']:,} tokens on average" in said
    assert f"{1 - served['tokens'] / long['tokens']:.1%} less" in said
    assert describe_saving([short]) == describe_saving([]) == ""


def test_rewriting_has_no_pairs_unless_somebody_wants_them() -> None:
    records = [make_record("x", status="accepted", rejected="worse")]
    with pytest.raises(InvalidField, match="rewrite has no dpo data"):
        asyncio.run(build_rows(records, "dpo"))
    (row,) = asyncio.run(build_rows(records, "dpo", limit=1)).rows
    assert (row["chosen"][0]["content"], row["rejected"][0]["content"]) == ("out", "worse")


def test_pairs_are_of_accepted_rows_with_a_worse_side() -> None:
    rows = [
        make_record("a", "answer", "accepted", rejected="worse"),
        make_record("b", "answer", "accepted"),
        make_record("c", "answer", "review", rejected="worse"),
    ]
    built = asyncio.run(build_rows(rows, "dpo"))
    assert [row["id"] for row in built.rows] == ["a"]
    assert built.left_out == {"it has no worse output": 1, "it is review": 1}


def test_a_mixture_has_its_shares_exactly_and_is_the_same_again(tmp_path: Path) -> None:
    path = write_mixture(tmp_path, PARTS)
    first, again = mix(read_mixture(path)), mix(read_mixture(path))
    assert first == again
    assert {name: sum(row["id"].startswith(name) for row in first.rows) for name in "ab"} == {"a": 6, "b": 2}
    assert mix(read_mixture(write_mixture(tmp_path, PARTS, seed=8))).rows != first.rows


def test_a_part_with_too_few_rows_is_reported_and_not_filled_up(tmp_path: Path) -> None:
    mixed = mix(read_mixture(write_mixture(tmp_path, PARTS | {"b": PARTS["b"][:1]})))
    assert (mixed.short, len(mixed.rows)) == ({"b": 1}, 7)


def test_rows_above_the_limit_are_refused_or_left_out_and_counted(tmp_path: Path) -> None:
    parts = {"a": [*PARTS["a"][:6], make_row("long", 51)], "b": PARTS["b"]}
    with pytest.raises(InvalidField, match="51 tokens"):
        mix(read_mixture(write_mixture(tmp_path, parts)))
    mixed = mix(read_mixture(write_mixture(tmp_path, parts, too_long="drop")))
    assert mixed.too_long == {"a": 1}
    assert max(lengths.most for lengths in mixed.lengths.values()) <= 50


def test_lengths_are_those_of_the_rows_and_pairs_count_their_longer_side() -> None:
    lengths = measure(PARTS["a"])
    assert (lengths.rows, lengths.least, lengths.median, lengths.most) == (20, 10, 20, 29)
    assert (lengths.tokens, lengths.learned) == (sum(range(10, 30)), 40)
    pair = {"id": "p", "prompt_ids": [1, 2], "chosen_ids": [3], "rejected_ids": [3, 4, 5]}
    assert measure([pair]).most == 5
    with pytest.raises(InvalidField, match="export with --model"):
        measure([{"id": "x", "messages": []}])


def test_a_question_of_an_evaluation_in_a_row_stops_the_mixture(tmp_path: Path) -> None:
    question = "By how many percent did the shares of Boeing fall between February and March of 2020?"
    (tmp_path / "held.jsonl").write_text(json.dumps({"question": question}) + "\n")
    leaking = PARTS | {"b": [make_row("leak", 20, f"Please say: {question}"), make_row("other", 20)]}
    with pytest.raises(FailedPrecondition, match="b leak"):
        mix(read_mixture(write_mixture(tmp_path, leaking, held=["held.jsonl"])))
    assert mix(read_mixture(write_mixture(tmp_path, PARTS, held=["held.jsonl"]))).rows


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"total": 0}, "total"),
        ({"shares": 1}, "shares"),
        ({"parts": []}, "parts"),
        ({"too_long": "cut"}, "too_long"),
        ({"parts": [{"file": "a.jsonl", "share": 1}, {"file": "a.jsonl", "share": 1}]}, "one name"),
    ],
)
def test_a_wrong_mixture_file_names_its_field(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match=message):
        read_mixture(write_mixture(tmp_path, PARTS, **more))


def test_each_operator_makes_another_question_that_can_be_traced(tmp_path: Path) -> None:
    query = make_query("What was the return of Apple in 2019?", "f:1")
    tasks = evolving.make_tasks([query], evolving.OPERATORS, make_rules())
    records = list(asyncio.run(run_tasks(tasks, tmp_path / "e.jsonl", Record)).values())
    assert [one.tags["operator"] for one in records] == list(evolving.OPERATORS)
    made = evolving.list_queries(records)
    assert len({one.text for one in made} | {query.text}) == 1 + len(made)
    assert {one.parent for one in made} == {query.id}
    assert len(made) >= 3


@pytest.mark.parametrize("said", ["What was the return of Apple in 2019", "苹果2019年的收益率是多少？"])
def test_the_same_question_or_one_of_another_language_is_rejected(said: str, tmp_path: Path) -> None:
    query = make_query("What was the return of Apple in 2019?", "f:1")
    writer = make_asker(by_title({"evolved": {"question": said}}))
    tasks = evolving.make_tasks([query], ["deepen"], writer)
    (record,) = asyncio.run(run_tasks(tasks, tmp_path / "e.jsonl", Record)).values()
    assert record.status == "rejected"
    assert evolving.list_queries([record]) == []
