"""The parquet schema is kept, and what breaks it is named. What a model is told."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField, NotFound
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.trainers.data.instructions import format_question, instruction
from fathom.trainers.data.records import Record, parse, read, write
from fathom.trainers.data.sources import find_grader

RECORD = Record(
    "nq",
    (("system", "be brief"), ("user", "谁写了《红楼梦》？")),
    "fact-reasoning",
    ("曹雪芹", "Cao Xueqin"),
    "train",
    3,
    "nq-3",
    "谁写了《红楼梦》？",
    "zh",
    "number",
    {"rel_tol": 0.01, "abs_tol": 0.5},
    "search",
    ("search", "fetch"),
    '{"entities": ["AAPL"]}',
    (("user", "红楼梦是什么？"), ("assistant", "一部小说。")),
    "2014-03-31T16:00:00+00:00",
)


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    write([RECORD], tmp_path / "a" / "train.parquet")
    assert read(tmp_path / "a" / "train.parquet") == [RECORD]
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["train.parquet"]


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip)


@given(texts, texts, st.lists(texts, min_size=1, max_size=4), st.integers(0, 2**40))
def test_any_text_survives(
    tmp_path_factory: pytest.TempPathFactory, question: str, source: str, answers: list[str], index: int
) -> None:
    record = Record(source, (("user", question),), "any", tuple(answers), "test", index, "id", question)
    path = tmp_path_factory.mktemp("rows") / "x.parquet"
    write([record], path)
    assert read(path) == [record]


def test_the_columns_are_those_of_the_row(tmp_path: Path) -> None:
    write([RECORD], tmp_path / "x.parquet")
    row = pq.read_table(tmp_path / "x.parquet").to_pylist()[0]
    assert list(row) == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
    assert row["prompt"][1] == {"role": "user", "content": "谁写了《红楼梦》？"}
    assert row["reward_model"] == {"style": "rule", "ground_truth": {"target": ["曹雪芹", "Cao Xueqin"]}}
    assert (row["extra_info"]["split"], row["extra_info"]["index"]) == ("train", 3)


def test_a_file_of_the_seeds_schema_alone_is_read(tmp_path: Path) -> None:
    """Files made by Search-R1's own scripts have no more than split and index."""
    row = {
        "data_source": "nq",
        "prompt": [{"role": "user", "content": "who?"}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": ["he"]}},
        "extra_info": {"split": "train", "index": 0},
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "x.parquet")
    (record,) = read(tmp_path / "x.parquet")
    assert (record.id, record.question, record.targets, record.grader) == ("nq-train-0", "who?", ("he",), "em")


# Rows as the scripts of verl, DAPO, PRIME and Search-R1 write them.
GSM8K = {
    "data_source": "openai/gsm8k",
    "prompt": [{"role": "user", "content": 'How many? Let\'s think step by step and write the answer after "####".'}],
    "ability": "math",
    "reward_model": {"ground_truth": "72", "style": "rule"},
    "extra_info": {"answer": "It is 72 #### 72", "index": 0, "question": "How many?", "split": "train"},
}
DAPO = {
    "data_source": "math_dapo",
    "prompt": [{"content": "Solve it. Remember to put your answer on its own line.", "role": "user"}],
    "ability": "MATH",
    "reward_model": {"ground_truth": "34", "style": "rule-lighteval/MATH_v2"},
    "extra_info": {"index": "9a9b6eb4-a1cb-49d1-8c1e-62eaf2f74079"},
}
EURUS = {
    "data_source": "numina_olympiads",
    "prompt": [{"role": "system", "content": "You may plan."}, {"role": "user", "content": "Find x in \\boxed{}."}],
    "ability": "math",
    "reward_model": {"ground_truth": "\\frac{1}{2}", "style": "rule"},
    "extra_info": {"index": 7, "split": "train"},
}
TESTS = '{"inputs": ["1 2\\n"], "outputs": ["3\\n"]}'
EURUS_CODE = {
    **EURUS,
    "data_source": "taco",
    "ability": "code",
    "reward_model": {"ground_truth": TESTS, "style": "rule"},
}
SEARCH_R1 = {
    "id": "train_0",
    "question": "who wrote it?",
    "golden_answers": ["he"],
    "data_source": "nq",
    "prompt": [{"role": "user", "content": "Answer the given question. … Question: who wrote it?\n"}],
    "ability": "fact-reasoning",
    "reward_model": {"ground_truth": {"target": ["he"]}, "style": "rule"},
    "extra_info": {"index": 0, "split": "train"},
}


@pytest.mark.parametrize(
    ("row", "name", "question", "targets", "grader"),
    [
        (GSM8K, "openai/gsm8k-train-0", "How many?", ("72",), "math"),
        (DAPO, "math_dapo-9a9b6eb4-a1cb-49d1-8c1e-62eaf2f74079", DAPO["prompt"][0]["content"], ("34",), "math"),  # type: ignore[index]
        (EURUS, "numina_olympiads-train-7", "Find x in \\boxed{}.", ("\\frac{1}{2}",), "math"),
        (EURUS_CODE, "taco-train-7", "Find x in \\boxed{}.", (TESTS,), "code_tests"),
        # The question and not the chat, which holds Search-R1's instruction: planner has its own.
        (SEARCH_R1, "nq-train-0", "who wrote it?", ("he",), "em"),
    ],
)
def test_files_as_the_field_writes_them_are_read(
    row: dict[str, Any], name: str, question: str, targets: tuple[str, ...], grader: str, tmp_path: Path
) -> None:
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "x.parquet")
    (record,) = read(tmp_path / "x.parquet")
    assert (record.id, record.question, record.targets, record.grader) == (name, question, targets, grader)
    assert [{"role": role, "content": content} for role, content in record.prompt] == row["prompt"]
    assert parse(record.row(), 0) == record


@pytest.mark.parametrize(
    ("source", "has_targets", "grader"),
    [("searchR1_hotpotqa", True, "em"), ("aime2025", False, "math"), ("ours", True, "em"), ("ours", False, "")],
)
def test_graders_by_data_source(source: str, has_targets: bool, grader: str) -> None:
    assert find_grader(source, has_targets) == grader


def test_a_wrong_row_is_named_with_its_file(tmp_path: Path) -> None:
    rows = [GSM8K, {**GSM8K, "reward_model": {"ground_truth": " ", "style": "rule"}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    with pytest.raises(InvalidField) as caught:
        read(tmp_path / "x.parquet")
    assert caught.value.field == f"{tmp_path / 'x.parquet'}: rows[1].reward_model.ground_truth"


@pytest.mark.parametrize(
    ("given", "instant"),
    [
        ("2014-03-31", "2014-03-31T23:59:59.999999+00:00"),
        (date(2014, 3, 31), "2014-03-31T23:59:59.999999+00:00"),
        ("2014-03-31T16:00:00+08:00", "2014-03-31T16:00:00+08:00"),
        (datetime(2014, 3, 31, 16), "2014-03-31T16:00:00+00:00"),
        (None, ""),
    ],
)
def test_a_day_is_its_end(given: Any, instant: str) -> None:
    row = RECORD.row()
    row["extra_info"]["as_of"] = given
    assert parse(row, 0).as_of == instant


def change_field(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        for key in path[:-1]:
            row = row[key]
        row[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (change_field("data_source", to=""), "rows[7].data_source"),
        (change_field("ability", to=3), "rows[7].ability"),
        (change_field("prompt", to=[]), "rows[7].prompt"),
        (change_field("prompt", to="a text"), "rows[7].prompt"),
        (change_field("prompt", 1, "role", to="robot"), "rows[7].prompt[1].role"),
        (change_field("prompt", 0, "content", to=" "), "rows[7].prompt[0].content"),
        (change_field("reward_model", "style", to=None), "rows[7].reward_model.style"),
        (change_field("reward_model", "ground_truth", to=None), "rows[7].reward_model.ground_truth"),
        (change_field("reward_model", "ground_truth", to=True), "rows[7].reward_model.ground_truth"),
        (change_field("reward_model", "ground_truth", "target", to={}), "rows[7].reward_model.ground_truth.target"),
        (change_field("reward_model", "ground_truth", "target", to=[]), "rows[7].reward_model.ground_truth.target"),
        (
            change_field("reward_model", "ground_truth", "target", to=["a", ""]),
            "rows[7].reward_model.ground_truth.target",
        ),
        (change_field("extra_info", to="x"), "rows[7].extra_info"),
        (change_field("extra_info", "split", to=3), "rows[7].extra_info.split"),
        (change_field("extra_info", "grader", to=3), "rows[7].extra_info.grader"),
        (change_field("extra_info", "grader_parameters", to=[{"name": "a"}]), "rows[7].extra_info.grader_parameters"),
        (change_field("extra_info", "history", 0, "role", to="tool"), "rows[7].extra_info.history[0].role"),
        (change_field("extra_info", "history", to="said"), "rows[7].extra_info.history"),
        (change_field("extra_info", "as_of", to="last year"), "rows[7].extra_info.as_of"),
        (change_field("extra_info", "conversation_id", to="conv_1"), "rows[7].extra_info.conversation_turns"),
        (change_field("extra_info", "conversation_id", to=3), "rows[7].extra_info.conversation_id"),
        (change_field("extra_info", "conversation_turns", to=3), "rows[7].extra_info.conversation_turns"),
        (change_field("extra_info", "conversation_turns", to=-1), "rows[7].extra_info.conversation_turns"),
        (change_field("extra_info", "index", to=[3]), "rows[7].extra_info.index"),
        (change_field("extra_info", "index", to=True), "rows[7].extra_info.index"),
        (change_field("extra_info", "index", to=-1), "rows[7].extra_info.index"),
    ],
)
def test_what_is_wrong_is_named(change: Callable[[dict[str, Any]], None], field: str) -> None:
    row = copy.deepcopy(RECORD.row())
    change(row)
    with pytest.raises(InvalidField) as caught:
        parse(row, 7)
    assert caught.value.field == field


def test_the_same_place_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match=r"rows\[1\].extra_info.index"):
        write([RECORD, RECORD], tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no parquet")
    with pytest.raises(InvalidField, match="no parquet file"):
        read(tmp_path / "x.parquet")
    pq.write_table(pa.table({"data_source": ["nq"]}), tmp_path / "y.parquet")
    with pytest.raises(InvalidField) as caught:
        read(tmp_path / "y.parquet", "chat")
    assert caught.value.field == "chat"


def test_another_column_may_hold_the_chat(tmp_path: Path) -> None:
    write([RECORD], tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").rename_columns({"prompt": "chat"})
    pq.write_table(table, tmp_path / "y.parquet")
    assert read(tmp_path / "y.parquet", "chat") == [RECORD]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_instruction_has_all_five_rules(language: str) -> None:
    text = instruction("search_r1", language)
    for tag in ("think", "search", "information", "answer"):
        assert f"<{tag}>" in text
        assert f"</{tag}>" in text
    as_often, short, example = {
        "en": ("Search as often as you want", "short and without explanation", "<answer> Beijing </answer>"),
        "zh": ("需要搜索多少次就搜索多少次", "要简短，不加解释", "<answer> 北京 </answer>"),
    }[language]
    assert as_often in text
    assert short in text
    assert text.rstrip("。.").endswith(example)


def test_the_instruction_is_planners_own() -> None:
    """The prompt of a file is what planner sends to a model in a rollout: one environment."""
    own = load_catalogue().find("search_r1", "en", "").render()
    assert instruction("search_r1", "en") == own
    assert format_question("who wrote it", "search_r1", "en") == f"{own}\n\nQuestion: who wrote it?\n"


def test_questions_end_in_a_mark() -> None:
    assert format_question(" 谁写的 ", "reason", "zh").endswith("\n\n问题：谁写的？\n")
    assert format_question("Tell me.", "reason", "en").endswith("Question: Tell me.\n")


def test_an_unknown_instruction_names_those_that_there_are() -> None:
    with pytest.raises(NotFound, match=r"search_r1\.v1\.zh\.md"):
        instruction("search_r2", "en")
    with pytest.raises(NotFound, match=r"search_r1\.v9\.en"):
        instruction("search_r1", "en", 9)
