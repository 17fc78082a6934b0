"""Sets whose answers are SQL: what is read, which results are equal, and what a statement may not do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.cli.evaluate import public
from fathom.cli.records.public import write_statement
from fathom.core.errors import InvalidField, NotFound
from fathom.operations.evaluation.public.invented import Column, find_literals, invent_database
from fathom.operations.evaluation.public.items import load_items
from fathom.operations.evaluation.public.statements import equals, holds, open_duckdb, run_duckdb, run_sqlite
from tests.unit.trainers.data.stages.peers import make_asker

TABLES = {
    "funds": [Column("Code", "代码", "integer"), Column("Kind", "类别", "text"), Column("Day", "日期", "day")],
    "returns": [Column("Code", "代码", "integer"), Column("Share", "收益", "real")],
}
RISING = (
    "select Kind, count(*) from funds join returns on funds.Code = returns.Code "
    "where Share > 10 and strftime('%Y', Day) = '2017' group by Kind"
)


def write_bull(folder: Path, *rows: dict[str, object]) -> None:
    folder = folder / "bull_cn_text2sql"
    folder.mkdir(parents=True, exist_ok=True)
    columns = {
        "columns": ["*", "Kind", "Share"], "column_chiName": [None, "类别", "收益"],
        "columnType_MySQL": [None, "varchar(20)", "decimal(10,2)"],
    }  # fmt: skip
    info = [{"db_name": "fund", "column_info": [{"table": "funds", **columns}]}]
    (folder / "bull_db_info.json").write_text(json.dumps(info, ensure_ascii=False), encoding="utf-8")
    (folder / "dev.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_defog(folder: Path) -> None:
    folder = folder / "defog_sql"
    folder.mkdir(parents=True)
    (folder / "shop.sql").write_text(
        "CREATE TABLE sales (id SERIAL PRIMARY KEY, town varchar(9), -- where\n amount numeric(10,2));\n"
        "INSERT INTO sales VALUES (1, 'Ayr', 2.5),\n(2, 'Ayr', 4.5),\n(3, 'Oban', 1.0);\n",
        encoding="utf-8",
    )
    (folder / "instruct_basic.csv").write_text(
        "db_name,query_category,question,query\n"
        'shop,sum,Sales by town?,"select {town,upper(town)}, sum(amount) from sales group by town;"\n',
        encoding="utf-8",
    )


def test_a_statement_is_right_where_its_result_equals_on_invented_rows(tmp_path: Path) -> None:
    gold = "select Kind from funds where Share > 50 order by Share"
    write_bull(tmp_path, {"q_id": 0, "question": "哪些类别?", "db_name": "fund", "sql_query": gold})
    [item] = load_items("bull", tmp_path, 10, 0)
    assert "funds(Kind 类别, Share 收益)" in item.prompt
    assert item.score(f"```sql\n{gold};\n```") == {"ex": 1.0, "tells": 1.0}
    assert item.score("select Kind from funds where Share >= 49 order by Share")["ex"] == 0.0
    # The question's own statement sorts, so that the order belongs to the answer.
    assert item.score("select Kind from funds where Share > 50 order by -Share")["ex"] == 0.0
    assert item.score("I do not know.")["ex"] == item.score("select nothing from nowhere")["ex"] == 0.0


def test_a_question_whose_own_statement_finds_nothing_is_never_right(tmp_path: Path) -> None:
    gold = "select Kind from funds where Share > 5 and Share < 5"
    write_bull(tmp_path, {"q_id": 0, "question": "?", "db_name": "fund", "sql_query": gold})
    [item] = load_items("bull", tmp_path, 10, 0)
    assert item.score(gold) == {"ex": 0.0, "tells": 0.0}


def test_invented_rows_meet_what_a_statement_compares_and_joins() -> None:
    literals = find_literals(RISING + " and Kind like '%股票%' and Day > '2016-05'")
    assert literals.texts == ("股票",)
    assert literals.numbers == (10.0,)
    assert literals.days == ("2017-06-30", "2017-12-31", "2016-05-15")
    first, again, other = (run_sqlite(invent_database(TABLES, RISING, seed), RISING) for seed in (1, 1, 2))
    assert first
    assert first == again != other


def test_a_result_may_have_further_columns_in_any_order_for_defog_alone(tmp_path: Path) -> None:
    write_defog(tmp_path)
    [item] = load_items("defog_sql", tmp_path, 10, 0)
    assert "sales(id INTEGER, town VARCHAR, amount DECIMAL(10,2))" in item.prompt
    assert item.score("select count(*), sum(amount), town from sales group by town")["ex"] == 1.0
    assert item.score("select upper(town), sum(amount) from sales group by town")["ex"] == 1.0
    assert item.score("select town, max(amount) from sales group by town")["ex"] == 0.0
    assert item.score("")["ex"] == 0.0
    rows, more = [("a", 1.0)], [("a", 1.0, 2.0)]
    assert holds(rows, more)
    assert not equals(rows, more, is_ordered=False)


@pytest.mark.parametrize(("given", "is_ordered", "expected"), [
    ([(2.0, "b"), (1.0, "a")], False, True),
    ([(2.0, "b"), (1.0, "a")], True, False),
    ([(1.0, "a"), (2.0, "b")], True, True),
    ([(1.0, "a")], False, False),
    ([(1.0, "b"), (2.0, "a")], False, False),
])  # fmt: skip
def test_rows_are_equal_under_some_order_of_columns(
    given: list[tuple[float, str]], is_ordered: bool, expected: bool
) -> None:
    assert equals([("a", 1.0), ("b", 2.0)], given, is_ordered=is_ordered) is expected


def test_a_row_that_counts_twice_is_no_row_that_counts_once() -> None:
    assert not equals([("a",), ("a",), ("b",)], [("a",), ("b",), ("b",)], is_ordered=False)
    assert holds([("a",), ("a",)], [("a",)])


@pytest.mark.parametrize("statement", ["delete from funds", "attach 'x' as y", "pragma user_version = 3", "select ("])
def test_a_statement_that_does_more_than_read_is_refused(statement: str) -> None:
    connection = invent_database(TABLES, RISING, 1)
    with pytest.raises(InvalidField, match="sql"):
        run_sqlite(connection, statement)
    assert run_sqlite(connection, "select count(*) from funds") == [(40.0,)]


@pytest.mark.parametrize(
    "statement", ["drop table t", "select 1; drop table t", "select * from read_text('/etc/hosts')"]
)
def test_a_statement_reaches_no_file_and_changes_nothing(statement: str) -> None:
    connection = open_duckdb(["create table t (a integer)"])
    with pytest.raises(InvalidField, match="sql"):
        run_duckdb(connection, statement)
    assert run_duckdb(connection, "select count(*) from t -- all") == [(0.0,)]


def test_a_wrong_row_or_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="bull_db_info"):
        load_items("bull", tmp_path, 10, 0)
    write_bull(tmp_path, {"q_id": 0, "question": "?", "db_name": "other", "sql_query": "select 1"})
    with pytest.raises(InvalidField, match=r"dev\.jsonl:1"):
        load_items("bull", tmp_path, 10, 0)


async def test_the_model_itself_is_shown_the_tables_and_its_statement_is_scored(tmp_path: Path) -> None:
    write_defog(tmp_path)
    [item] = load_items("defog_sql", tmp_path, 10, 0)

    def reply(request: policy.GenerateRequest) -> str:
        assert "sales(id INTEGER, town VARCHAR" in request.messages[0].content
        assert request.model == "small"
        return "Here it is:\n```sql\nselect town, sum(amount) from sales group by 1\n```"

    text = await write_statement(make_asker(reply).clients, "small", item)
    assert item.score(text)["ex"] == 1.0


def test_a_planner_elsewhere_is_asked_for_no_statements() -> None:
    with pytest.raises(InvalidField, match="defog_sql") as raised:
        public("defog_sql", planner="grpc://127.0.0.1:1")
    assert raised.value.field == "policy"
