"""Public sets answered by SQL: the question with its tables is put to a model, whose statement is run."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fathom.core.errors import InvalidField, NotFound
from fathom.domain.chat.tolerant import extract_statement
from fathom.operations.evaluation.public.invented import Column, Tables, invent_database
from fathom.operations.evaluation.public.question import PublicItem
from fathom.operations.evaluation.public.rows import read_objects
from fathom.operations.evaluation.public.statements import Row, Run, equals, holds, open_duckdb, run_duckdb, run_sqlite

PROMPT = """Write one {dialect} SELECT statement that answers the question from these tables.
Use only their tables and columns. Give the statement alone, without explanation.

{tables}

Question: {question}

SQL:
"""
SEEDS = (1, 2, 3)
# Types of MySQL's that are no text.
KINDS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("int", "bigint", "smallint", "tinyint"), "integer")
    | dict.fromkeys(("date", "datetime", "timestamp"), "day")
    | dict.fromkeys(("decimal", "float", "double", "money"), "real")
)
SORTS = re.compile(r"\border\s+by\b", re.IGNORECASE)
BRACES = re.compile(r"\{([^{}]*)\}")


def read_bull(folder: Path) -> Iterator[PublicItem]:
    """Yield the questions of BULL's Chinese development set, each to be tried on three databases of invented rows."""
    databases = read_bull_tables(folder / "bull_db_info.json")
    for place, row in read_objects(folder / "dev.jsonl"):
        try:
            tables, gold = databases[row["db_name"]], str(row["sql_query"]).strip().rstrip(";")
            yield PublicItem(
                str(row["q_id"]), row["question"], (gold,), row["db_name"], (), score_bull(tables, gold),
                make_prompt("SQLite", tables, row["question"]),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidField(place, f"is no row of bull: {error!r}") from error


def read_bull_tables(path: Path) -> dict[str, Tables]:
    """Return the tables of each database with what their columns hold."""
    with open_text(path) as file:
        try:
            return {one["db_name"]: dict(map(read_bull_table, one["column_info"])) for one in json.load(file)}
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidField(path.name, f"is no description of databases: {error!r}") from error


def read_bull_table(info: Mapping[str, Any]) -> tuple[str, list[Column]]:
    """Return the name and the columns of a table; the first of them is a sign for all."""
    rows = zip(info["columns"], info["column_chiName"], info["columnType_MySQL"], strict=True)
    return info["table"], [
        Column(name, words or name, KINDS.get(kind.split("(")[0].casefold(), "text"))
        for name, words, kind in rows
        if name != "*"
    ]


def score_bull(tables: Tables, gold: str) -> Callable[[str], Mapping[str, float]]:
    """Return a scorer: ``ex`` for the same result on all databases, ``tells`` where the gold result has rows."""

    def score(given: str) -> Mapping[str, float]:
        statement, right, tells = extract_statement(given), True, False
        for seed in SEEDS:
            connection = invent_database(tables, gold, seed)
            # Not guarded: a statement of the authors that fails is a fault of ours, in the types or the rows.
            wanted = run_sqlite(connection, gold)
            tells = tells or bool(wanted)
            found = find_rows(partial(run_sqlite, connection), statement)
            right = right and found is not None and equals(wanted, found, is_ordered=bool(SORTS.search(gold)))
            connection.close()
        # Where the gold result is empty on all of them, any statement that finds nothing would be right.
        return {"ex": float(right and tells), "tells": float(tells)}

    return score


def read_defog(folder: Path) -> Iterator[PublicItem]:
    """Yield the questions of defog's set over its four databases, whose rows are the authors'."""
    for path in sorted(folder.glob("instruct_*.csv")):
        with open_text(path) as file:
            for number, row in enumerate(csv.DictReader(file), 1):
                try:
                    base, question = row["db_name"], row["question"]
                    gold = tuple(itertools.chain.from_iterable(map(list_variants, split_statements(row["query"]))))
                except (KeyError, TypeError, AttributeError) as error:
                    raise InvalidField(f"{path.name}:{number + 1}", f"is no row of defog_sql: {error!r}") from error
                text = read_defog_database(folder / f"{base}.sql")
                yield PublicItem(
                    f"{path.stem}-{number}", question, gold, base, (), score_defog(text, gold),
                    make_prompt("DuckDB", list_defog_tables(text), question),
                )  # fmt: skip


def split_statements(text: str) -> list[str]:
    """Return the statements of a cell; each of them is right."""
    return [part.strip() for part in text.split(";") if part.strip()]


def list_variants(statement: str) -> list[str]:
    """Return a statement with each choice of the columns that stand in braces, since all of these are right."""
    match = BRACES.search(statement)
    if match is None:
        return [statement]
    # Any of the columns, or several: the question leaves open which of them are wanted.
    names = [name.strip() for name in match[1].split(",")]
    choices = [some for size in range(1, len(names) + 1) for some in itertools.combinations(names, size)]
    each = [statement[: match.start()] + ", ".join(some) + statement[match.end() :] for some in choices]
    return list(itertools.chain.from_iterable(map(list_variants, each)))


@lru_cache(maxsize=8)
def read_defog_database(path: Path) -> tuple[str, ...]:
    """Return the statements that make a database, in DuckDB's dialect of PostgreSQL's."""
    with open_text(path) as file:
        text = re.sub(r"--[^\n]*", "", file.read())
    # Keys to other tables would only fix the order in which these are filled.
    text = re.sub(r"\s+REFERENCES\s+[\w.]+\s*\([^)]*\)", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\bSERIAL\b", "INTEGER", re.sub(r"\bBIGSERIAL\b", "BIGINT", text, flags=re.I), flags=re.I)
    macro = (
        "create macro to_char(moment, form) as strftime(moment, replace(replace(replace(replace(replace(form, 'YYYY',"
        " '%Y'), 'MM', '%m'), 'DD', '%d'), '%i', '%M'), '%s', '%S'))"
    )
    return (macro, *(part for part in re.split(r";\s*\n", f"{text}\n") if part.strip()))


@lru_cache(maxsize=8)
def list_defog_tables(statements: tuple[str, ...]) -> Mapping[str, Sequence[Column]]:
    """Return the tables that statements make, with the types of their columns."""
    connection, found = open_duckdb(statements), dict[str, list[Column]]()
    query = "select schema_name, table_name, column_name, data_type from duckdb_columns() where not internal"
    query += " order by schema_name, table_name, column_index"
    for place, table, column, kind in connection.execute(query).fetchall():
        name = table if place == "main" else f"{place}.{table}"
        found.setdefault(name, []).append(Column(column, "", kind))
    connection.close()
    return found


def score_defog(statements: tuple[str, ...], gold: Sequence[str]) -> Callable[[str], Mapping[str, float]]:
    """Return a scorer: ``ex`` where the result holds that of the gold statement, or of one of its variants."""

    def score(given: str) -> Mapping[str, float]:
        connection = open_duckdb(statements)
        try:
            found = find_rows(partial(run_duckdb, connection), extract_statement(given))
            is_right = found is not None and any(holds(run_duckdb(connection, one), found) for one in gold)
        finally:
            connection.close()
        return {"ex": float(is_right)}

    return score


def find_rows(run: Run, statement: str) -> list[Row] | None:
    """Return the rows of a statement; None for none, and for one that fails."""
    if not statement:
        return None
    try:
        return run(statement)
    except InvalidField:
        return None


def make_prompt(dialect: str, tables: Tables, question: str) -> str:
    """Return what a model is asked."""
    return PROMPT.format(dialect=dialect, tables="\n".join(describe_tables(tables)), question=question)


def describe_tables(tables: Tables) -> Iterable[str]:
    """Yield a line for each table: its columns, with their words where they have some, else their types."""
    for name, columns in tables.items():
        yield f"{name}({', '.join(f'{column.name} {column.words or column.kind}' for column in columns)})"


def open_text(path: Path) -> Any:
    """Open a file of a set; raise ``NotFound`` for a missing one."""
    if not path.is_file():
        raise NotFound("file", str(path))
    return path.open(encoding="utf-8", newline="")
