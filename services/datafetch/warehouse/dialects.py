"""Translation of compiled statements, which are DuckDB's, to the dialect of the database that has the tables.

SQLGlot parses the statement and writes it in the other dialect. What it cannot translate by itself is replaced in the
syntax tree before: values before a date that skip nulls, the value of the first or last day, series of periods, names
that are too long. PostgreSQL is run by the tests; ClickHouse and Trino are only compiled, never run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import TokenType

from fathom.core.ids import sha256

# What stands for a parameter until the text is written; no name or literal of a statement looks like it.
MARK = re.compile(r"__parameter_(\d+)__")
# A window over the months before: months, and the days around their ends.
FRAME = re.compile(r"(?P<months>\d+) months (?P<days>-?\d+) days")
# Bytes of a name that PostgreSQL keeps; it cuts longer ones, so that two columns could become one.
MOST_NAME_BYTES = 63


@dataclass(frozen=True)
class Translated:
    """A statement in another dialect.

    ``order`` are the numbers of the parameters as they stand in the text, from 0; ``names`` are the columns of the
    result whose names had to be cut.
    """

    sql: str
    order: tuple[int, ...]
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dialect:
    """Rules of one dialect: what is replaced in the tree, how a parameter is written, and what ends a statement."""

    rewrites: tuple[Callable[[exp.Expr], exp.Expr], ...]
    write_parameter: Callable[[int, Any], str]
    ending: str = ""
    most_name_bytes: int = 0
    """The bytes of a name that the database keeps; 0 for as many as there are."""


def translate(statement: str, parameters: Sequence[Any], dialect: str) -> Translated:
    """Translate a statement of the compiler with ``?`` for its parameters; ``dialect`` is a key of ``DIALECTS``."""
    target = DIALECTS[dialect]
    tree: exp.Expr = parse_one(number_parameters(statement), read="duckdb")
    for rewrite in (name_subqueries, *target.rewrites):
        tree = rewrite(tree)
    names = shorten_names(tree, target.most_name_bytes) if target.most_name_bytes else {}
    for node in list(tree.find_all(exp.Placeholder)):
        node.replace(exp.Var(this=f"__parameter_{node.name}__"))
    text = tree.sql(dialect)
    order: list[int] = []

    def write(found: re.Match[str]) -> str:
        number = int(found[1]) - 1
        order.append(number)
        return target.write_parameter(number, parameters[number])

    return Translated(MARK.sub(write, text) + target.ending, tuple(order), names)


def number_parameters(statement: str) -> str:
    """Replace each ``?`` by ``$`` and its number, so that the tree may be rearranged."""
    pieces, end = [], 0
    marks = [token for token in DuckDB().tokenize(statement) if token.token_type == TokenType.PLACEHOLDER]
    for number, token in enumerate(marks, 1):
        pieces += [statement[end : token.start], f"${number}"]
        end = token.end + 1
    return "".join([*pieces, statement[end:]])


def name_subqueries(tree: exp.Expr) -> exp.Expr:
    """Give each nameless subquery of a FROM or JOIN a name, which most databases require."""
    for number, node in enumerate(tree.find_all(exp.Subquery)):
        if isinstance(node.parent, exp.From | exp.Join) and not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(f"q{number}")))
    return tree


def shorten_names(tree: exp.Expr, most_bytes: int) -> dict[str, str]:
    """Replace the names that the database would cut; return the whole names by the short ones."""
    whole: dict[str, str] = {}
    for node in tree.find_all(exp.Identifier):
        if len(node.name.encode()) > most_bytes:
            short = f"n_{sha256(node.name.encode())[:32]}"
            whole[short] = node.name
            node.set("this", short)
    return whole


def is_known(value: exp.Expr) -> exp.Expr:
    """Return the condition that a value is not null."""
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))


def iter_extremes(tree: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield each ``arg_max`` and ``arg_min`` with its filter around it, or itself where it has none."""
    for node in list(tree.find_all(exp.ArgMax, exp.ArgMin)):
        yield node, node.parent if isinstance(node.parent, exp.Filter) else node


def pick_from_arrays(tree: exp.Expr) -> exp.Expr:
    """Write the value at the last or first day as the first element of an ordered array."""
    for node, whole in iter_extremes(tree):
        value, day = node.this, node.expression
        known = is_known(value)
        condition = whole.expression.this if isinstance(whole, exp.Filter) else None
        ordered = exp.Order(
            this=value.copy(), expressions=[exp.Ordered(this=day.copy(), desc=isinstance(node, exp.ArgMax))]
        )
        gathered = exp.Filter(
            this=exp.ArrayAgg(this=ordered),
            expression=exp.Where(this=exp.and_(condition.copy(), known) if condition else known),
        )
        # PostgreSQL counts from 1; the tree, as DuckDB's offset says, from 0.
        whole.replace(exp.Bracket(this=exp.Paren(this=gathered), expressions=[exp.Literal.number(0)]))
    return tree


def skip_nulls_of_extremes(tree: exp.Expr) -> exp.Expr:
    """Leave out rows without a value where the value at the last or first day is taken, as DuckDB does."""
    for node, whole in iter_extremes(tree):
        known = is_known(node.this)
        if isinstance(whole, exp.Filter):
            whole.expression.set("this", exp.and_(whole.expression.this.copy(), known))
        else:
            node.replace(exp.Filter(this=node.copy(), expression=exp.Where(this=known)))
    return tree


def iter_lags(tree: exp.Expr) -> Iterator[tuple[exp.Window, exp.Expr]]:
    """Yield each window that takes the last known value of a stretch before the date, with the value."""
    for node in list(tree.find_all(exp.Window)):
        if isinstance(node.this, exp.IgnoreNulls) and isinstance(node.this.this, exp.LastValue):
            yield node, node.this.this.this


def take_last_of_frames(tree: exp.Expr) -> exp.Expr:
    """Write the last known value of a window as the greatest pair of day and value in it."""
    for node, value in iter_lags(tree):
        pair: Any = exp.maybe_parse("max(array[date - date '1970-01-01', 1.0])", dialect="postgres")
        pair.this.set("expressions", [pair.this.expressions[0], value.copy()])
        known = is_known(value)
        window = node.copy()
        window.set("this", exp.Filter(this=pair, expression=exp.Where(this=known)))
        node.replace(exp.Bracket(this=exp.Paren(this=window), expressions=[exp.Literal.number(1)]))
    return tree


def select_last_before(tree: exp.Expr) -> exp.Expr:
    """Write the last known value of a window as a subquery, where windows cannot reach back by months and days."""
    for node, value in iter_lags(tree):
        select = node.find_ancestor(exp.Select)
        table = select.args["from_"].this.name if select else ""
        edges = []
        for side in ("start", "end"):
            found = FRAME.fullmatch(node.args["spec"].args[side].this.name)
            if found is None:
                raise AssertionError(node.sql())
            edge: exp.Expr = exp.column("date", table=table)
            for count, unit in ((int(found["months"]), "MONTH"), (int(found["days"]), "DAY")):
                step = exp.Interval(this=exp.Literal.string(str(abs(count))), unit=exp.Var(this=unit))
                edge = exp.Sub(this=edge, expression=step) if count >= 0 else exp.Add(this=edge, expression=step)
            edges.append(edge)
        column, day = exp.column(value.name, table="p", quoted=True), exp.column("date", table="p")
        inner = (
            exp.select(exp.ArgMax(this=column, expression=day))
            .from_(exp.alias_(exp.to_table(table), "p", table=True))
            .where(
                exp.column("entity", table="p").eq(exp.column("entity", table=table)),
                exp.Between(this=day.copy(), low=edges[0], high=edges[1]),
                is_known(column),
            )
        )
        node.replace(exp.Subquery(this=inner))
    return tree


def call_series(tree: exp.Expr) -> exp.Expr:
    """Write series of periods as the function that makes their rows."""
    for node in list(tree.find_all(exp.Unnest)):
        made = node.expressions[0]
        if isinstance(made, exp.GenerateSeries):
            node.replace(exp.Table(this=made.copy(), alias=node.args["alias"].copy()))
    return tree


def take_any(tree: exp.Expr) -> exp.Expr:
    """Write any value of a group as its greatest, which older servers know."""
    for node in list(tree.find_all(exp.AnyValue)):
        whole = node.parent if isinstance(node.parent, exp.IgnoreNulls) else node
        whole.replace(exp.Max(this=node.this.copy()))
    return tree


def order_by_bytes(tree: exp.Expr) -> exp.Expr:
    """Order entities by the bytes of their ids, whatever the language of the database."""
    for node in list(tree.find_all(exp.Ordered)):
        if isinstance(node.this, exp.Column) and node.this.name == "entity":
            node.set("this", exp.Collate(this=node.this.copy(), expression=exp.to_identifier("C", quoted=True)))
    return tree


def add_days(tree: exp.Expr) -> exp.Expr:
    """Write a day and a number of days as the function that adds them."""
    for node in list(tree.find_all(exp.Add)):
        left, right = node.this, node.expression
        is_day = isinstance(left, exp.Cast) and left.to.this == exp.DataType.Type.DATE
        if (is_day and isinstance(right, exp.Literal)) or (isinstance(right, exp.Column) and right.name == "days"):
            node.replace(exp.DateAdd(this=left.copy(), expression=right.copy(), unit=exp.Var(this="DAY")))
    return tree


def join_arrays(tree: exp.Expr) -> exp.Expr:
    """Write series of periods as an array whose elements become rows."""
    for node in list(tree.find_all(exp.Unnest)):
        made, select = node.expressions[0], node.find_ancestor(exp.Select)
        if not isinstance(made, exp.GenerateSeries) or select is None or not isinstance(node.parent, exp.Join):
            continue
        months = int(made.args["step"].this.name)
        first, last = made.args["start"].sql("clickhouse"), made.args["end"].sql("clickhouse")
        # Numbers of months are the elements, since ClickHouse has no series of dates.
        rows = f"arrayJoin(range(0, dateDiff('month', {first}, {last}) + 1, {months}))"
        period = parse_one(f"addMonths({first}, {rows})", read="clickhouse")
        for column in list(select.find_all(exp.Column)):
            if column.table == node.alias:
                column.replace(period.copy())
        node.parent.pop()
    return tree


def select_values(tree: exp.Expr) -> exp.Expr:
    """Write lists of rows as selects, each with the names of the columns, which ClickHouse takes from the first."""
    for node in list(tree.find_all(exp.Values)):
        # The names of the columns stand at the list itself, or at the step that it is.
        holder: Any = node if node.args["alias"].columns else node.find_ancestor(exp.CTE)
        alias = holder.args["alias"].copy()
        names = [column.name for column in alias.columns]
        rows = [
            exp.select(*(exp.alias_(value.copy(), name) for value, name in zip(list_cells(row), names, strict=True)))
            for row in node.expressions
        ]
        whole: Any = exp.union(*rows, distinct=False) if len(rows) > 1 else rows[0]
        alias.set("columns", None)
        if holder is node:
            node.replace(exp.Subquery(this=whole, alias=alias))
        else:
            holder.set("this", whole)
            holder.set("alias", alias)
    return tree


def list_cells(row: exp.Expr) -> list[exp.Expr]:
    """Return the cells of a row of values; one of a single cell is only in brackets."""
    return list(row.expressions) if isinstance(row, exp.Tuple) else [row.unnest()]


def widen_dates(tree: exp.Expr) -> exp.Expr:
    """Use the types of ClickHouse that hold days before 1970."""
    kinds = exp.DataType.Type
    for node in tree.find_all(exp.DataType):
        if node.this == kinds.DATE:
            node.set("this", kinds.DATE32)
        elif node.this in (kinds.TIMESTAMP, kinds.TIMESTAMPNTZ, kinds.DATETIME):
            node.set("this", kinds.DATETIME64)
    return tree


def write_typed(number: int, value: Any) -> str:
    """Write a parameter of ClickHouse with the type of its value."""
    kind = "Date32" if isinstance(value, date) else "Int32" if isinstance(value, int) else "String"
    return f"{{p{number + 1}: Nullable({kind})}}"


DIALECTS: Mapping[str, Dialect] = {
    "postgres": Dialect(
        (pick_from_arrays, take_last_of_frames, call_series, take_any, order_by_bytes),
        lambda number, _: f"${number + 1}",
        most_name_bytes=MOST_NAME_BYTES,
    ),
    "clickhouse": Dialect(
        (skip_nulls_of_extremes, select_last_before, join_arrays, select_values, widen_dates),
        write_typed,
        # As elsewhere: no row to join is null, and so is an aggregate of nothing.
        " SETTINGS join_use_nulls = 1, aggregate_functions_null_for_empty = 1",
    ),
    "trino": Dialect((skip_nulls_of_extremes, select_last_before, add_days), lambda *_: "?"),
}
