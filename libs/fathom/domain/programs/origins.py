"""Origins of the value of a step: the series that a measure is of, and all the values that one is the best of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain, repeat

from fathom.domain.programs.language import EITHER, LINES, SIGNATURES, split_signature

# Functions whose value is that of a day, which no course explains.
OF_A_DAY = frozenset({"at", "start", "end", "ahead"})


def find_ranking(code: str) -> str:
    """Return the expression of all values of which a step gives the first, the last or some; "" for other steps."""
    match ast.parse(code, mode="eval").body:
        case ast.Call(func=ast.Attribute(attr="item"), args=[ast.Call(func=ast.Attribute(attr="rank")) as all_, _]):
            return ast.unparse(all_)
        # The highest values of a series are days, and no ranking of names.
        case ast.Call(
            func=ast.Attribute(attr="top" | "bottom"), args=[ast.Call(func=ast.Attribute(attr=of)) as all_, *_]
        ):
            return "" if of in LINES | EITHER else f"f.rank({ast.unparse(all_)})"
        case _:
            return ""


def list_courses(code: str) -> list[str]:
    """Return the expressions of the series that a step takes its values from; none for the value of a day."""
    return [ast.unparse(node) for node in find_courses(ast.parse(code, mode="eval").body)]


def find_courses(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the outermost series among the arguments of calls."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    name = node.func.attr
    if name in OF_A_DAY or name not in SIGNATURES:
        return
    kinds = split_signature(name)
    # The last kind may be that of any number of arguments.
    for kind, argument in zip(chain(kinds, repeat(kinds[-1])), node.args, strict=False):
        if kind[0] == "L":
            yield argument
        else:
            yield from find_courses(argument)
