"""The last resort: what a model writes is checked name by name before it runs, and marked after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from fathom.core.errors import DeadlineExceeded, InvalidField
from fathom.domain.chat.tolerant import extract_statement
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.free_sql import (
    SqlFallback,
    check_statement,
    format_schema,
)
from fathom.services.datafetch.warehouse.statements import run_statement

SCHEMA = {
    "sales": [("region", "VARCHAR"), ("amount", "DOUBLE")],
    "shops": [("region", "VARCHAR"), ("manager", "VARCHAR")],
}


@pytest.fixture
def connection() -> Iterator[Any]:
    with duckdb.connect(":memory:") as made:
        made.execute("create table sales (region varchar, amount double)")
        made.execute("create table shops (region varchar, manager varchar)")
        made.execute("insert into sales values ('north', 1.5), ('south', 2.5), ('north', 3)")
        yield made


@pytest.mark.parametrize(
    "statement",
    [
        "select region, sum(amount) as total from sales group by region order by total desc limit 3",
        "with best as (select region, max(amount) as top from sales group by 1) select b.region from best b where b.top > 1",
        "select s.region, p.manager from sales s join shops as p on s.region = p.region",
        "select count(*) from (select distinct region as place from sales) x where x.place is not null",
    ],
)
def test_a_select_over_the_schema_passes(connection: Any, statement: str) -> None:
    check_statement(statement, SCHEMA, connection)
    assert run_statement(connection, statement, 10, 5.0).num_columns >= 1


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("delete from sales", "is no SELECT"),
        ("select 1; select 2", "one statement"),
        ("drop table sales", "is no SELECT"),
        ("select amonut from sales", "nearest: amount"),
        ("select s.manager from sales s", "no column 's.manager'"),
        ("select * from salse", "nearest: sales"),
        ("select t.amount from sales s", "no table or alias 't'"),
        ("select * from read_csv('/etc/passwd')", "may not use"),
        ("select getenv('HOME') from sales", "may not use getenv"),
        ("selec amount from sales", "is no SELECT"),
    ],
)
def test_anything_else_is_refused_by_name(connection: Any, statement: str, said: str) -> None:
    with pytest.raises(InvalidField, match="sql") as refused:
        check_statement(statement, SCHEMA, connection)
    assert said in refused.value.message


def test_rows_and_time_are_limited(connection: Any) -> None:
    assert run_statement(connection, "select * from sales", 2, 5.0).num_rows == 2
    with pytest.raises(DeadlineExceeded):
        run_statement(connection, "select sum(a.range * b.range) from range(1000000) a, range(1000000) b", 1, 0.2)


def test_the_statement_is_found_in_what_was_said() -> None:
    assert extract_statement("Sure!\n```sql\nselect 1\nfrom t;\n```\nThat is it.") == "select 1\nfrom t"
    assert extract_statement("SELECT a FROM t; SELECT b") == "SELECT a FROM t"
    assert extract_statement("I do not know.") == ""


def test_a_schema_too_large_for_a_prompt_is_refused() -> None:
    with pytest.raises(InvalidField, match="schema"):
        format_schema({"wide": [(f"c{number}", "DOUBLE") for number in range(500)]})


def writer(answers: Sequence[str]) -> tuple[Any, list[str]]:
    prompts: list[str] = []

    async def write(prompt: str) -> str:
        prompts.append(prompt)
        return answers[min(len(prompts), len(answers)) - 1]

    return write, prompts


async def test_what_is_wrong_goes_back_once(connection: Any) -> None:
    write, prompts = writer(["select amonut from sales", "select amount from sales"])
    written = await SqlFallback(write, "coder").write_statement("all amounts", SCHEMA, connection)
    assert (written.statement, written.attempts) == ("select amount from sales", 2)
    assert "nearest: amount" in prompts[1]
    write, prompts = writer(["drop table sales"])
    written = await SqlFallback(write, "coder").write_statement("all amounts", SCHEMA, connection)
    assert (written.statement, len(prompts)) == ("", 1)


async def test_a_question_without_a_typed_query_gets_a_marked_sheet(tables_dir: Path) -> None:
    statement = (
        "select entity, count(*) as n from m_bundled where indicator = 'close_adj' group by 1 order by n desc limit 4"
    )
    write, _ = writer([f"```sql\n{statement}\n```"])
    engine = Engine(Config(data_dir=tables_dir, embedding="off"), None, SqlFallback(write, "coder"))
    await engine.start()
    try:
        result = await engine.ask("which four names have the longest records of anything?", None)
        (sheet,) = result.sheets
        assert sheet.title.startswith("Free SQL, unchecked")
        assert {column.source for column in sheet.columns} == {"free SQL written by coder, unchecked"}
        assert {column.formula for column in sheet.columns} == {statement}
        assert (sheet.rows, bool(result.missing)) == (4, True)
        assert not (await engine.ask("which four names have the longest records?", date(2020, 1, 1))).sheets
    finally:
        await engine.close()
