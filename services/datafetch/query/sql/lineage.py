"""Provenance of a SELECT over sheets: from which stored columns each column of the result comes, and in which unit.

It reads DuckDB's own syntax tree. What it cannot follow (PIVOT, recursive queries, table functions) is given the
sources of all sheets and no unit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.services.datafetch.query.model import Column

Node = Mapping[str, Any]
# Functions whose value is in the unit of their first argument.
KEEPING = frozenset({
    "abs", "any_value", "arg_max", "arg_min", "avg", "ceil", "coalesce", "first", "first_value", "floor",
    "greatest", "ifnull", "lag", "last", "last_value", "lead", "least", "mad", "max", "max_by", "mean",
    "median", "min", "min_by", "mode", "nth_value", "nullif", "quantile", "quantile_cont", "quantile_disc",
    "round", "stddev", "stddev_pop", "stddev_samp", "sum", "trunc",
})  # fmt: skip
# Of these, functions whose value is another quantity than a single value of the column.
OTHER_QUANTITIES = frozenset({"mad", "stddev", "stddev_pop", "stddev_samp", "sum"})
# Key of the columns that a join has merged; no alias can be called so.
MERGED = "\0"
# A long statement stands once in the record of the call; a column only needs enough of it to be recognised.
SHOWN_CHARS = 300


@dataclass(frozen=True)
class Origin:
    """The stored columns behind an expression; ``unit`` is None for a constant, which takes any unit.

    ``is_copy`` when the expression is a stored column as it is.
    """

    columns: tuple[Column, ...] = ()
    unit: str | None = ""
    is_copy: bool = False
    is_value: bool = False
    """True when the value is of the same quantity as its column, such as its greatest one."""


Outputs = list[tuple[str, Origin]]
Scope = dict[str, Outputs]


class UnknownShape(Exception):
    """The statement has a part that is not followed."""


def trace_columns(statement: str, result: Any, sheets: Mapping[str, Sequence[Column]], connection: Any) -> list[Column]:
    """Return the columns of a result table with units, sources and formula.

    ``sheets`` holds the columns of each table by the name that the statement uses for it.
    """
    row = connection.execute("select json_serialize_sql(?)", [statement]).fetchone()
    tree = json.loads(row[0])
    tables = {name.lower(): [(c.name, as_origin(c)) for c in columns] for name, columns in sheets.items()}
    try:
        outputs = [] if tree["error"] else list_outputs(tree["statements"][0]["node"], tables)
    except UnknownShape:
        outputs = []
    names = result.column_names
    if len(outputs) != len(names):
        everything = tuple(c for columns in sheets.values() for c in columns if c.indicator)
        outputs = [(name, Origin(everything)) for name in names]
    shown = " ".join(statement.split())[:SHOWN_CHARS]
    return [
        describe(name, str(result.schema.field(name).type), result.column(name).null_count, origin, shown)
        for name, (_, origin) in zip(names, outputs, strict=True)
    ]


def as_origin(column: Column) -> Origin:
    return Origin((column,), column.unit, is_copy=True, is_value=True)


def describe(name: str, kind: str, nulls: int, origin: Origin, statement: str) -> Column:
    """Return the description of a result's column."""
    # A table that a cell has shown may have units without indicators.
    sources = [column for column in origin.columns if column.indicator or column.unit or column.source]
    if origin.is_copy:
        return replace(origin.columns[0], name=name, type=kind, nulls=nulls)
    if not sources:
        return Column(name, kind, nulls=nulls)
    return Column(
        name,
        kind,
        origin.unit or "",
        take_common([c.indicator for c in sources]) if origin.is_value else "",
        take_common([c.entity for c in sources]),
        join_all([c.source for c in sources]),
        min((c.as_of for c in sources if c.as_of), default=""),
        nulls,
        statement,
        tuple(dict.fromkeys(c.indicator for c in sources if c.indicator)),
        join_all([c.vendor for c in sources]),
        basis=take_common([c.basis for c in sources]) if origin.is_value else "",
    )


def take_common(values: Sequence[str]) -> str:
    """Return the value that all have, or ""."""
    return values[0] if len(set(values)) == 1 else ""


def join_all(values: Sequence[str]) -> str:
    """Return the parts of lists separated by commas, each once."""
    return ", ".join(dict.fromkeys(part for value in values for part in value.split(", ") if part))


def list_outputs(node: Node, tables: Scope) -> Outputs:
    """Return names and origins of the columns of a query; raises ``UnknownShape``."""
    scope = dict(tables)
    for entry in node.get("cte_map", {}).get("map", ()):
        made = list_outputs(entry["value"]["query_node"], scope)
        scope[entry["key"].lower()] = rename(made, entry["value"].get("aliases") or ())
    if node["type"] == "SET_OPERATION_NODE":
        children = [list_outputs(child, scope) for child in node["children"]]
        if len({len(child) for child in children}) != 1:
            raise UnknownShape
        return [(group[0][0], merge([origin for _, origin in group])) for group in zip(*children, strict=True)]
    if node["type"] != "SELECT_NODE":
        raise UnknownShape
    inside = list_tables(node["from_table"], scope)
    outputs: Outputs = []
    for item in node["select_list"]:
        if item["class"] == "STAR":
            outputs += expand_star(item, inside)
        else:
            named = item.get("alias") or (item["column_names"][-1] if item["class"] == "COLUMN_REF" else "")
            outputs.append((named, trace(item, inside)))
    return outputs


def list_tables(node: Node, scope: Scope) -> Scope:
    """Return the tables of a FROM clause by their aliases; raises ``UnknownShape``."""
    kind = node["type"]
    if kind == "EMPTY":
        return {}
    if kind == "JOIN":
        left, right = list_tables(node["left"], scope), list_tables(node["right"], scope)
        merged = [*left.pop(MERGED, []), *right.pop(MERGED, [])]
        merged += [(name, Origin()) for name in node.get("using_columns") or ()]
        return {**left, **right, **({MERGED: merged} if merged else {})}
    if kind == "SUBQUERY":
        made = list_outputs(node["subquery"]["node"], scope)
        return {(node.get("alias") or "subquery").lower(): rename(made, node.get("column_name_alias") or ())}
    if kind == "BASE_TABLE" and node["table_name"].lower() in scope:
        name = node["table_name"].lower()
        return {(node.get("alias") or name).lower(): rename(scope[name], node.get("column_name_alias") or ())}
    raise UnknownShape


def rename(outputs: Outputs, names: Sequence[str]) -> Outputs:
    """Return the columns with the names of an alias such as ``t(a, b)``, which may name the first ones only."""
    return [(names[at] if at < len(names) else name, origin) for at, (name, origin) in enumerate(outputs)]


def expand_star(item: Node, inside: Scope) -> Outputs:
    """Return the columns of ``*`` or ``t.*``, less the excluded ones; raises ``UnknownShape`` for REPLACE."""
    if item.get("replace_list") or item.get("columns") or item.get("rename_list") or item.get("expr"):
        raise UnknownShape
    excluded = {str(name).lower() for name in item.get("exclude_list") or ()}
    excluded |= {
        str((entry.get("name") or {}).get("name", entry) if isinstance(entry, dict) else entry).lower()
        for entry in item.get("qualified_exclude_list") or ()
    }
    wanted = (item.get("relation_name") or "").lower()
    merged = {name.lower() for name, _ in inside.get(MERGED, ())}
    found: Outputs = []
    for alias, outputs in inside.items():
        if alias != MERGED and wanted in ("", alias):
            # A column of USING stands once in the result of a star over all tables.
            seen = {name.lower() for name, _ in found} & merged if not wanted else set()
            found += [(name, origin) for name, origin in outputs if name.lower() not in seen]
    return [(name, origin) for name, origin in found if name.lower() not in excluded]


def trace(node: Node, inside: Scope) -> Origin:
    """Return the origin of an expression."""
    kind = node["class"]
    if kind == "COLUMN_REF":
        return find_column(node["column_names"], inside)
    if kind == "CONSTANT":
        return Origin(unit=None)
    if kind == "CAST":
        return replace(trace(node["child"], inside), is_copy=False)
    parts = [trace(child, inside) for child in list_children(node)]
    columns = merge(parts).columns
    if kind in ("FUNCTION", "WINDOW"):
        name = node["function_name"].lower()
        if name in KEEPING and parts:
            return Origin(columns, parts[0].unit or "", is_value=parts[0].is_value and name not in OTHER_QUANTITIES)
        return Origin(columns, find_unit(name, [part.unit for part in parts]))
    if kind == "CASE":
        return Origin(columns, common_unit([part.unit for part in parts]))
    return Origin(columns)


def list_children(node: Node) -> list[Node]:
    """Return the expressions whose values an expression takes; conditions of CASE are left out."""
    if node["class"] == "CASE":
        return [check["then_expr"] for check in node["case_checks"]] + [node["else_expr"]]
    held = [*(node.get("arguments") or ()), *(node.get("children") or ())]
    held += [
        node[key] for key in ("left", "right", "child", "input", "lower", "upper") if isinstance(node.get(key), dict)
    ]
    # Arguments are wrapped in newer versions of the tree.
    found = [item.get("expression", item) for item in held]
    return [item for item in found if "class" in item]


def find_column(path: Sequence[str], inside: Scope) -> Origin:
    """Return the origin of a column, by its table's alias if that is given; raises ``UnknownShape``."""
    column, owner = path[-1].lower(), path[-2].lower() if len(path) > 1 else ""
    for alias, outputs in inside.items():
        if owner in ("", alias) and alias != MERGED:
            for name, origin in outputs:
                if name.lower() == column:
                    return origin
    raise UnknownShape


def merge(origins: Sequence[Origin]) -> Origin:
    """Return the origin of a value that comes from any of several."""
    columns = tuple(dict.fromkeys(column for origin in origins for column in origin.columns))
    copied = len(columns) == 1 and all(origin.is_copy for origin in origins)
    kept = bool(origins) and all(origin.is_value for origin in origins)
    return Origin(columns, common_unit([origin.unit for origin in origins]), copied, kept)


def common_unit(units: Sequence[str | None]) -> str:
    """Return the unit that all have, constants aside, or ""."""
    found = {unit for unit in units if unit is not None}
    return found.pop() if len(found) == 1 else ""


def find_unit(operator: str, units: Sequence[str | None]) -> str:
    """Return the unit of a sum or a difference; products, ratios and other functions have none that is known."""
    return common_unit(units) if operator in ("+", "-") else ""
