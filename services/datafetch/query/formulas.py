"""Formula language of derived indicators, parsed and checked before anything runs.

It has ``+ - * /``, numbers, parentheses, and the functions ``prev(x)`` (a year before), ``prev(x, months)``,
``yoy(x)``, ``qoq(x)``, ``mom(x)`` (fractions), ``change(x)`` (a year's difference), ``single(x)`` (one quarter),
``ytd(x)``, ``ttm(x)``, ``running(x)``, ``average(x)`` (of the values at begin and end of a year) and ``abs(x)``.
Division by zero gives null.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from fathom.core.errors import InvalidField
from fathom.services.datafetch.catalog.schema import IndicatorSpec

FUNCTIONS = ("prev", "yoy", "qoq", "mom", "change", "single", "ytd", "ttm", "running", "average", "abs")
OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
# Catalog formulas nest three or four deep; these bounds stop circles and texts meant to exhaust the parser.
MAX_DEPTH = 12
MAX_CHARS = 2_000


@dataclass(frozen=True)
class Leaf:
    """A node for a stored indicator."""

    id: str


@dataclass(frozen=True)
class Number:
    """A node for a constant."""

    value: float


@dataclass(frozen=True)
class Binary:
    """A node for an arithmetic operation; ``operator`` is one of + - * /."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Call:
    """A node for a call of one of ``FUNCTIONS``; ``months`` applies to ``prev`` only."""

    name: str
    argument: Node
    months: int = 0


Node = Leaf | Number | Binary | Call


def parse(text: str, where: str) -> Node:
    """Parse a formula without looking up its names; raises ``InvalidField(where)``."""
    if len(text) > MAX_CHARS:
        raise InvalidField(where, f"a formula has at most {MAX_CHARS:,} characters")
    try:
        # Python's grammar is used as a parser only: nothing is compiled or evaluated.
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InvalidField(where, f"{text!r} is no formula") from error
    return convert_node(body, where, 0)


def convert_node(node: ast.expr, where: str, depth: int) -> Node:
    """Convert one syntax node; raises ``InvalidField(where)`` for anything outside the language."""
    # A chain of 2,000 minus signs would exhaust the stack.
    if depth > 50:
        raise InvalidField(where, "is nested too deeply")
    match node:
        case ast.Name(id=name):
            return Leaf(name)
        # bool is an int in Python, and True is no number here.
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return Number(float(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Binary("-", Number(0.0), convert_node(operand, where, depth + 1))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            sides = convert_node(left, where, depth + 1), convert_node(right, where, depth + 1)
            return Binary(OPERATORS[type(operator)], *sides)
        case ast.Call(func=ast.Name(id=name), args=[argument, *rest], keywords=[]) if name in FUNCTIONS:
            return Call(name, convert_node(argument, where, depth + 1), read_months(name, rest, where))
    raise InvalidField(where, f"{ast.unparse(node)!r} is not part of the formula language")


def read_months(name: str, rest: list[ast.expr], where: str) -> int:
    """Return the offset of ``prev`` in months, 12 by default; raises ``InvalidField(where)`` for other arguments."""
    if not rest:
        return 12
    if name == "prev" and len(rest) == 1 and isinstance(rest[0], ast.Constant):
        months = rest[0].value
        if isinstance(months, int) and 1 <= months <= 120:
            return months
    raise InvalidField(where, f"{name} takes one indicator, prev also 1 to 120 months")


def expand(ident: str, indicators: Mapping[str, IndicatorSpec], trail: tuple[str, ...] = ()) -> Node:
    """Return the tree of an indicator, expanded down to stored indicators.

    Raises ``InvalidField`` for an unknown name, a circular definition or a text.
    """
    # The trail names the whole circle to whoever wrote the files.
    if ident in trail or len(trail) > MAX_DEPTH:
        raise InvalidField(f"semantic.{trail[0]}.formula", f"goes in a circle through {' → '.join((*trail, ident))}")
    spec = indicators.get(ident)
    if spec is None:
        raise InvalidField(f"semantic.{trail[-1] if trail else ident}.formula", f"no indicator {ident!r}")
    if spec.text and trail:
        raise InvalidField(f"semantic.{trail[-1]}.formula", f"{ident!r} is a text")
    if not spec.formula:
        return Leaf(ident)
    return replace_leaves(parse(spec.formula, f"semantic.{ident}.formula"), indicators, (*trail, ident))


def replace_leaves(node: Node, indicators: Mapping[str, IndicatorSpec], trail: tuple[str, ...]) -> Node:
    """Return the tree with its leaves expanded; raises what ``expand`` does."""
    match node:
        case Leaf(id=ident):
            return expand(ident, indicators, trail)
        case Binary(operator=operator, left=left, right=right):
            return Binary(operator, replace_leaves(left, indicators, trail), replace_leaves(right, indicators, trail))
        case Call(name=name, argument=argument, months=months):
            return Call(name, replace_leaves(argument, indicators, trail), months)
    return node


def list_leaves(node: Node) -> list[str]:
    """Return the stored indicators of a tree in reading order, without duplicates."""
    match node:
        case Leaf(id=ident):
            return [ident]
        case Binary(left=left, right=right):
            return list(dict.fromkeys([*list_leaves(left), *list_leaves(right)]))
        case Call(argument=argument):
            return list_leaves(argument)
    return []


def measure_lookback(node: Node) -> int:
    """Return how many months before a period the value of a tree reads."""
    match node:
        case Binary(left=left, right=right):
            return max(measure_lookback(left), measure_lookback(right))
        case Call(name=name, argument=argument, months=months):
            # All other functions look back a year.
            own = {"prev": months, "qoq": 3, "mom": 1, "single": 3, "abs": 0, "ytd": 12, "running": 0}.get(name, 12)
            return own + measure_lookback(argument)
    return 0


def classify_metric(spec: IndicatorSpec) -> str:
    """Return ``simple``, ``ratio``, ``derived``, ``cumulative`` or ``offset``."""
    if not spec.formula:
        return "simple"
    node = parse(spec.formula, spec.id)
    # "100 * yoy(x)" is the growth of x in per cent, not a product.
    while isinstance(node, Binary) and node.operator == "*" and isinstance(node.left, Number):
        node = node.right
    if isinstance(node, Call):
        return "offset" if node.name in ("prev", "yoy", "qoq", "mom", "change") else "cumulative"
    return "ratio" if isinstance(node, Binary) and node.operator == "/" else "derived"
