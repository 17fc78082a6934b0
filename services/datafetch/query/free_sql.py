"""Fallback for questions that no typed query fits: a model writes SQL, which is checked before it runs.

A statement must parse as one SELECT, and every table and column in it must be in the schema; otherwise the error with
the nearest names goes back to the model, once. It runs read-only with limits of time and rows, and its sheet is marked
as unchecked.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.core.errors import InvalidField
from fathom.domain.chat.tolerant import extract_statement
from fathom.services.datafetch.catalog.files import import_duckdb

Schema = Mapping[str, Sequence[tuple[str, str]]]
"""The columns of each table with their types."""
Write = Callable[[str], Awaitable[str]]
"""Returns a model's reply to a prompt, or "" when it does not answer in time."""
# A model that does not mend its statement when it is told the fault once seldom does later.
ATTEMPTS = 2
# The schema goes into the prompt whole; more columns do not fit the window of a small model.
MAX_SCHEMA_COLUMNS = 400
# DuckDB's functions that read files, settings or the catalog, or run a text as SQL.
CLOSED = re.compile(
    r"^(?:read_|pragma_|duckdb_|sniff_|parquet_|getenv$|current_setting$|query$|query_table$|glob$)", re.I
)
# Table functions that only make rows; all others are refused, since many read files or the catalog.
ROWS_MADE = {"unnest", "range", "generate_series"}
# The schema stands before the question: its prefix is the same for every question, so that a model's server can cache
# it.
PROMPT = """Write one DuckDB SELECT statement that answers the question from these tables.
Use only their tables and columns. Give the statement alone, without explanation.

{schema}
{notes}
Question: {question}

SQL:
"""
AGAIN = "{prompt}{statement}\n\nThis statement is wrong: {fault}\nThe right statement is:\n\nSQL:\n"


@dataclass(frozen=True)
class Written:
    """A statement that passed the checks; empty when none did, with the fault of the last one."""

    statement: str = ""
    fault: str = ""
    attempts: int = 0


@dataclass
class Names:
    """The tables, columns and functions that a syntax tree refers to.

    ``made`` are the names that the statement itself defines, such as aliases.
    """

    tables: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    columns: list[tuple[str, ...]] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)


def format_schema(schema: Schema) -> str:
    """Format the schema for a prompt; raises ``InvalidField("schema")`` when it has too many columns."""
    if sum(len(columns) for columns in schema.values()) > MAX_SCHEMA_COLUMNS:
        raise InvalidField("schema", f"has more than {MAX_SCHEMA_COLUMNS} columns")
    return "\n".join(
        f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns)});"
        for table, columns in schema.items()
    )


def check_statement(statement: str, schema: Schema, connection: Any) -> None:
    """Raise ``InvalidField("sql")`` unless the statement is one SELECT over the schema.

    The message has the nearest names.
    """
    # DuckDB's own parser decides what the text is; it serialises SELECT statements only.
    told = json.loads(connection.execute("select json_serialize_sql(?)", [statement]).fetchone()[0])
    if told["error"]:
        raise InvalidField("sql", f"is no SELECT: {told['error_message']}")
    if len(told["statements"]) != 1:
        raise InvalidField("sql", "must be one statement")
    names = Names()
    collect(told["statements"][0], names)
    closed = sorted(name for name in names.functions if CLOSED.match(name)) + sorted(names.sources - ROWS_MADE)
    if closed:
        raise InvalidField("sql", f"may not use {', '.join(closed)}")
    # SQL compares unquoted names without case.
    known = {table.lower(): {name.lower(): name for name, _ in columns} for table, columns in schema.items()}
    short = {table.rsplit(".", 1)[-1]: table for table in known}
    for alias, table in names.tables.items():
        # Names that the statement makes (WITH, aliases) are tables too.
        if table not in known and table not in short and table not in names.made:
            raise InvalidField("sql", f"there is no table {table!r}{suggest_names(table, [*schema])}")
        names.tables[alias] = table if table in known else short.get(table, "")
    check_columns(names, known)


def check_columns(names: Names, known: Mapping[str, Mapping[str, str]]) -> None:
    """Raise ``InvalidField("sql")`` for a column that is not in its table, nor defined by the statement.

    A column without a table may belong to any table that the statement reads.
    """
    read = {column: name for table in names.tables.values() for column, name in known.get(table, {}).items()}
    for path in names.columns:
        column, owner = path[-1], path[-2] if len(path) > 1 else ""
        table = names.tables.get(owner, "")
        if owner and owner not in names.tables and owner not in names.made:
            raise InvalidField("sql", f"there is no table or alias {owner!r}{suggest_names(owner, list(names.tables))}")
        allowed: Mapping[str, str] = known.get(table, {}) if table else read
        if column not in allowed and column not in names.made:
            raise InvalidField(
                "sql", f"there is no column {'.'.join(path)!r}{suggest_names(column, list(allowed.values()))}"
            )


def suggest_names(name: str, names: Sequence[str]) -> str:
    found = difflib.get_close_matches(name.lower(), [item.lower() for item in names], 3, 0.5)
    return f"; nearest: {', '.join(dict.fromkeys(found))}" if found else ""


def collect(node: Any, names: Names) -> None:
    """Collect the names of DuckDB's syntax tree into ``names``."""
    for item in walk(node):
        kind = item.get("type")
        if kind == "BASE_TABLE":
            whole = ".".join(filter(None, (item.get("schema_name"), item["table_name"]))).lower()
            for alias in filter(None, (item.get("alias"), item["table_name"])):
                names.tables.setdefault(alias.lower(), whole)
        elif kind == "COLUMN_REF":
            names.columns.append(tuple(part.lower() for part in item["column_names"]))
        elif kind == "TABLE_FUNCTION":
            names.sources.add(item["function"]["function_name"].lower())
        elif item.get("class") == "FUNCTION":
            names.functions.add(item["function_name"].lower())
        # Common table expressions are a map in the tree: the name is its key.
        if isinstance(item.get("key"), str) and "value" in item:
            names.made.add(item["key"].lower())
        if isinstance(item.get("alias"), str) and item["alias"] and kind != "BASE_TABLE":
            names.made.add(item["alias"].lower())
        names.made |= {name.lower() for name in item.get("column_name_alias") or [] if isinstance(name, str)}


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping of a tree."""
    # Not recursive: a model's statement may nest as deep as it likes.
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


class SqlFallback:
    """The fallback that asks a model for SQL over one database."""

    def __init__(self, write: Write, model: str) -> None:
        self._write, self.model = write, model

    async def write_statement(self, question: str, schema: Schema, connection: Any, notes: str = "") -> Written:
        """Return a checked statement; the fault of a rejected one goes back to the model, once."""
        prompt = PROMPT.format(schema=format_schema(schema), notes=notes, question=question)
        asked, fault, attempt = prompt, "", 0
        for attempt in range(1, ATTEMPTS + 1):
            statement = extract_statement(await self._write(asked))
            if not statement:
                return Written(fault=fault or "the model wrote no statement", attempts=attempt)
            try:
                check_statement(statement, schema, connection)
                # Planning finds wrong types and ambiguous columns without running anything.
                connection.execute(f"explain {statement}")
            except InvalidField as error:
                fault = error.message
            except import_duckdb().Error as error:
                fault = str(error).splitlines()[0]
            else:
                return Written(statement, attempts=attempt)
            asked = AGAIN.format(prompt=prompt, statement=statement, fault=fault)
        return Written(fault=fault, attempts=attempt)
