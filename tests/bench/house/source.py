"""Python files of a tree, parsed once, under the module names that they have in this layout."""

from __future__ import annotations

import ast
import io
import os
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PRODUCT, TESTS = ("libs", "services", "trainers"), ("tests",)
GENERATED = "libs/fathom/api"
# Comments that speak to a tool instead of a reader.
DIRECTIVES = ("noqa", "type:", "fmt:", "pragma", "!", "pyright:")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One file; ``path`` is relative to the root of its tree, with slashes."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, each before what is below it, so that a subtree is one piece of the list."""
        return list(self.ends)

    @cached_property
    def ends(self) -> dict[ast.AST, tuple[int, int]]:
        """Places in ``nodes`` of a node and of what is below it."""
        # A dozen searches walk the same trees, and ast's own walk looks at each field of each node every time.
        found: dict[ast.AST, tuple[int, int]] = {}
        self._number(self.tree, found)
        return found

    def _number(self, node: ast.AST, found: dict[ast.AST, tuple[int, int]]) -> None:
        start = len(found)
        found[node] = (start, start)
        for child in ast.iter_child_nodes(node):
            # Contexts and operators are one shared object each, which stands nowhere in particular.
            if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop | ast.boolop):
                self._number(child, found)
        found[node] = (start, len(found))

    def below(self, node: ast.AST) -> list[ast.AST]:
        """Return a node of the tree and what is below it, without contexts and operators."""
        start, end = self.ends[node]
        return self.nodes[start:end]

    @cached_property
    def texts(self) -> list[tuple[ast.AST, str]]:
        """String constants in lower case, each with the node around it; docstrings are none."""
        return [
            (node, child.value.lower())
            for node in self.nodes
            if not isinstance(node, ast.Expr)
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.Constant) and isinstance(child.value, str)
        ]

    @cached_property
    def module(self) -> str:
        """Name of the module below ``fathom``, also for the older layout, where services stood beside it."""
        parts = self.path.removesuffix(".py").removesuffix("/__init__").split("/")
        return ".".join(parts[1:] if parts[0] == "libs" else ["fathom", *parts] if parts[0] in PRODUCT else parts)

    @cached_property
    def comments(self) -> dict[int, bool]:
        """Lines with a comment for readers; the value is whether the line holds nothing else."""
        found = {}
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT and not token.string.lstrip("# ").startswith(DIRECTIVES):
                found[token.start[0]] = not token.line[: token.start[1]].strip()
        return found

    @cached_property
    def functions(self) -> list[tuple[str, Function]]:
        """Every function with its qualified name, the inner ones too."""
        return list(inner_functions(self.tree, ""))


Search = Callable[[Source], Iterator[str]]
"""Yields the places in a file that a figure counts."""


def inner_functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Yield the functions below ``node``, their names behind ``prefix``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # no function stands in an expression, and most nodes do
        if isinstance(child, Function):
            yield prefix + child.name, child
        yield from inner_functions(
            child, f"{prefix}{child.name}." if isinstance(child, Function | ast.ClassDef) else prefix
        )


def read_sources(root: Path, rooms: tuple[str, ...]) -> list[Source]:
    """Return the Python files below these folders of ``root``, without links, generated stubs and environments."""
    found = []
    for room in rooms:
        for folder, folders, files in os.walk(root / room):  # follows no links: libs/fathom has some to other rooms
            below = Path(folder).relative_to(root).as_posix()
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
            if f"{below}/".startswith(f"{GENERATED}/"):
                continue
            for name in sorted(files):
                if name.endswith(".py"):
                    found.append(Source(f"{below}/{name}", (Path(folder) / name).read_text()))
    return found
