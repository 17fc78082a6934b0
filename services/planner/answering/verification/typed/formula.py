"""Evaluation of formulas over the columns of an answer's material: a small language with the syntax of expressions.

Formulas are written by a model: only what is listed here is evaluated, and their length and their work are bounded.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.answering.verification.typed.functions import FUNCTIONS, cut
from fathom.services.planner.answering.verification.typed.values import (
    Column,
    FormulaError,
    Operation,
    Scalar,
    Truths,
    Value,
    add,
    compare,
    divide,
    make_column,
    multiply,
    require_number,
    require_text,
    subtract,
)

# A formula of this many characters or nodes is no rendering of a sentence.
MOST_CHARACTERS, MOST_NODES = 2_000, 400
# Values that the formulas of one answer may pass through, some seconds of work at most.
MOST_VALUES = 50_000_000
COLUMN = "column"


def is_same(left: Any, right: Any) -> Any:
    """Return whether values are equal, but for the last digits of what was computed in two ways."""
    return np.isclose(left, right, rtol=1e-9, atol=1e-12)


ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: add,
    ast.Sub: subtract,
    ast.Mult: multiply,
    ast.Div: divide,
}
COMPARISONS: Mapping[type[ast.cmpop], Operation] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: is_same,
    ast.NotEq: lambda left, right: ~is_same(left, right),
}


class Evaluator:
    """Evaluator of the formulas of one answer."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}
        self._columns: dict[tuple[int, str], Column] = {}
        self._left = MOST_VALUES
        # Checks of the form: an unknown node is refused by name.
        self._by_node: Mapping[type[ast.expr], Callable[[Any], Value]] = {
            ast.Constant: self._read_constant,
            ast.Compare: self._compare,
            ast.BoolOp: self._join,
            ast.BinOp: self._calculate,
            ast.UnaryOp: self._negate,
            ast.Call: self._call,
            ast.List: self._read_list,
            ast.Tuple: self._read_list,
        }

    def evaluate(self, formula: str) -> Value:
        """Return the value of a formula; raise ``FormulaError`` where it has none."""
        if len(formula) > MOST_CHARACTERS:
            raise FormulaError("the formula is too long")
        try:
            tree = ast.parse(formula.strip(), mode="eval")
        # Deep nesting is a RecursionError or a MemoryError of the parser.
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise FormulaError(f"the formula cannot be read: {error}") from error
        if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
            raise FormulaError("the formula is too long")
        # Overflows and empty divisions have no value, which is seen in the result.
        with np.errstate(all="ignore"):
            found = self._visit(tree.body)
        if isinstance(found, Scalar) and not np.isfinite(found.value):
            raise FormulaError("the formula has no finite value")
        return found

    def _visit(self, node: ast.expr) -> Value:
        visit = self._by_node.get(type(node))
        if visit is None:
            raise FormulaError(f"{type(node).__name__} is no part of a formula")
        found = visit(node)
        if isinstance(found, Column | Truths):
            self._left -= len(found.days)
            if self._left < 0:
                raise FormulaError("the formulas of this answer go through too many values")
        return found

    def _read_constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, int | float):
            # True is an int in Python, and a condition here.
            return node.value if isinstance(node.value, bool) else Scalar(float(node.value))
        raise FormulaError(f"{node.value!r} is no number")

    def _read_list(self, node: ast.List | ast.Tuple) -> Value:
        return tuple(self._visit(one) for one in node.elts)

    def _compare(self, node: ast.Compare) -> Value:
        sides = [self._visit(one) for one in (node.left, *node.comparators)]
        found: list[Value] = []
        for place, sign in enumerate(node.ops):
            if type(sign) not in COMPARISONS:
                raise FormulaError(f"{type(sign).__name__} is no comparison of a formula")
            found.append(compare(COMPARISONS[type(sign)], sides[place], sides[place + 1]))
        return join_all(found, is_all=True)

    def _join(self, node: ast.BoolOp) -> Value:
        return join_all([self._visit(one) for one in node.values], isinstance(node.op, ast.And))

    def _calculate(self, node: ast.BinOp) -> Value:
        if type(node.op) not in ARITHMETIC:
            raise FormulaError(f"{type(node.op).__name__} is no part of a formula")
        sides = [require_number(self._visit(one)) for one in (node.left, node.right)]
        found: Value = ARITHMETIC[type(node.op)](*sides)
        return found

    def _negate(self, node: ast.UnaryOp) -> Value:
        held = self._visit(node.operand)
        if isinstance(node.op, ast.USub):
            return multiply(Scalar(-1.0), require_number(held)) if isinstance(held, Scalar | Column) else refuse()
        if not isinstance(node.op, ast.Not):
            raise FormulaError(f"{type(node.op).__name__} is no part of a formula")
        if isinstance(held, Truths):
            return Truths(held.days, ~held.values)
        return not held if isinstance(held, bool) else refuse()

    def _call(self, node: ast.Call) -> Value:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            raise FormulaError("arguments of formulas have no names")
        arguments = [self._visit(one) for one in node.args]
        if name == COLUMN:
            return self._find_column(arguments)
        if name not in FUNCTIONS:
            raise FormulaError(f"there is no function {name!r}")
        try:
            return FUNCTIONS[name](*arguments)
        # Too few or too many arguments: the functions check the kinds of those that they get.
        except TypeError as error:
            raise FormulaError(f"{name}: {error}") from error

    def _find_column(self, arguments: Sequence[Value]) -> Column:
        """Return a column of a source by their number and name, within a period if one is given."""
        if len(arguments) not in (2, 3) or not isinstance(arguments[0], Scalar):
            raise FormulaError("column(source, name) or column(source, name, period)")
        key = int(arguments[0].value), require_text(arguments[1])
        if key not in self._columns:
            source = self._sources.get(key[0])
            found = [one for one in source.series if one.name == key[1]] if source else []
            if len(found) != 1:
                raise FormulaError(f"source {key[0]} has no column {key[1]!r}")
            self._columns[key] = make_column(found[0])
        return self._columns[key] if len(arguments) == 2 else cut(self._columns[key], arguments[2])


def join_all(found: Sequence[Value], is_all: bool) -> Truths | bool:
    """Return the conjunction or the disjunction of conditions, by dates where all of them have some."""
    if all(isinstance(one, bool) for one in found):
        return all(found) if is_all else any(found)
    truths = [one for one in found if isinstance(one, Truths)]
    if len(truths) < len(found):
        raise FormulaError("conditions over dates and single ones are not joined: use all() or any()")
    joined = truths[0]
    for one in truths[1:]:
        days, ours, theirs = np.intersect1d(joined.days, one.days, return_indices=True)
        values = (joined.values[ours], one.values[theirs])
        joined = Truths(days, values[0] & values[1] if is_all else values[0] | values[1])
    if not len(joined.days):
        raise FormulaError("the conditions have no date in common")
    return joined


def refuse() -> Value:
    raise FormulaError("a number or a condition is wanted here")
