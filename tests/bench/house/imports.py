"""Find who imports whom: circles of modules and of sibling packages, and imports from the library upwards."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tests.bench.house.source import PRODUCT, Source

UPPER = ("fathom.services", "fathom.trainers")

Graph = Mapping[str, set[str]]
"""Whom each node imports."""


def find_imports(source: Source) -> Iterator[tuple[str, int]]:
    """Yield each imported module or name with its line; imports for the type checker alone do not count."""
    skipped: set[ast.AST] = set()
    for node in source.nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(inner for part in node.body for inner in ast.walk(part))
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            # The older layout imported `services` and `trainers` by those names.
            yield (f"fathom.{name}" if name.split(".")[0] in PRODUCT else name), node.lineno


def build_graph(sources: Iterable[Source]) -> dict[str, set[str]]:
    """Return whom each module of ours imports among them, also inside functions."""
    sources = list(sources)
    graph: dict[str, set[str]] = {source.module: set() for source in sources}
    for source in sources:
        for name, _ in find_imports(source):
            module = name if name in graph else name.rpartition(".")[0]
            if module in graph and module != source.module:
                graph[source.module].add(module)
    return graph


def find_circles(graph: Graph) -> list[list[str]]:
    """Return the groups of nodes of which each reaches every other one."""
    importers: dict[str, set[str]] = defaultdict(set)
    for importer, imported in graph.items():
        for name in imported:
            importers[name].add(importer)
    circles, done = [], set[str]()
    for name in sorted(graph):
        if name not in done:
            circle = reach(graph, name) & reach(importers, name)
            done |= circle
            if len(circle) > 1:
                circles.append(sorted(circle))
    return circles


def reach(graph: Graph, start: str) -> set[str]:
    """Return the nodes that a walk from ``start`` meets, with itself."""
    found, waiting = {start}, [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def find_package_circles(graph: Graph) -> list[list[str]]:
    """Return the circles among sibling packages, level by level.

    A module that lies right in the common parent (a service's ``config.py`` or ``server.py``) belongs to no sibling.
    """
    packages = {".".join(name.split(".")[:depth]) for name in graph for depth in range(1, name.count(".") + 1)}
    levels: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for importer, others in graph.items():
        for imported in others:
            one, other = importer.split("."), imported.split(".")
            common = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
            pair = ".".join(one[: common + 1]), ".".join(other[: common + 1])
            if common and pair[0] in packages and pair[1] in packages:
                levels[".".join(one[:common])][pair[0]].add(pair[1])
    return [circle for level in levels.values() for circle in find_circles(level)]


def find_upward_imports(sources: Iterable[Source]) -> Iterator[str]:
    """Yield imports of services or trainers from ``libs``."""
    for source in sources:
        if source.path.startswith("libs/"):
            lines = {line: name for name, line in find_imports(source) if name.startswith(UPPER)}
            for line, name in sorted(lines.items()):
                yield f"{source.path}:{line} {name}"
