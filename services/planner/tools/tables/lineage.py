"""Lineage of a cell's values: the sheets from which they were computed, by the names that cells read and write."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence

# Code that a parser rejects is IPython's own syntax, such as ``%time``; its sheets are found as words.
WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def find_inputs(cells: Sequence[str], sheets: Collection[str]) -> tuple[str, ...]:
    """Return the sheets that the last cell read, directly or through variables of earlier cells.

    ``cells`` ran in this order in one session. A cell counts as a whole: whatever it writes depends on all it reads.
    """
    origin: dict[str, frozenset[str]] = {name: frozenset({name}) for name in sheets}
    found: frozenset[str] = frozenset()
    for code in cells:
        read, written = list_names(code)
        found = frozenset(sheet for name in read for sheet in origin.get(name, ()))
        for name in written:
            # A sheet that is changed in place is itself still its origin.
            origin[name] = found | ({name} if name in sheets else frozenset())
    return tuple(name for name in sheets if name in found)


def list_names(code: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell reads and those that it writes, also by changing a part of their value."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        words = set(WORD.findall(code))
        return words, words
    read: set[str] = set()
    written: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else written).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            written.add(node.name)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            base: ast.expr = node
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name):
                written.add(base.id)
    return read, written


def name_result(code: str) -> str:
    """Return the variable or function behind a cell's last expression as words; "" when it has none."""
    try:
        last = ast.parse(code).body[-1]
    except (SyntaxError, ValueError, RecursionError, IndexError):
        return ""
    value = last.value if isinstance(last, ast.Expr) else None
    # The first name of a chain such as ``yearly_returns(prices).round(2)`` says what the table is.
    while isinstance(value, (ast.Attribute, ast.Subscript, ast.Call)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return value.id.replace("_", " ").strip() if isinstance(value, ast.Name) else ""
