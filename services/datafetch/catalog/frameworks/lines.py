"""Lines of a framework file in which its problems are, for writers who look at the text and not at the tree."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

Step = int | str


def find_line(root: yaml.Node | None, location: Sequence[Step]) -> int:
    """Return the line, from 1, of the deepest step of a location that the document has; 0 for an empty document."""
    if root is None:
        return 0
    here, line = root, root.start_mark.line
    for step in location:
        found = get_entry(here, step)
        if found is None:
            break
        key, here = found
        line = key.start_mark.line
    return int(line) + 1


def get_entry(node: yaml.Node, step: Step) -> tuple[yaml.Node, yaml.Node] | None:
    """Return where an entry of a mapping or a list begins, and its value; None where there is none."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def locate_path(path: Sequence[str], root: yaml.Node | None) -> list[Step]:
    """Return the location of a tree's node by the names that lead to it."""
    steps: list[Step] = []
    here = root
    for name in path:
        found = get_entry(here, "nodes") if here is not None else None
        nodes = found[1].value if found and isinstance(found[1], yaml.SequenceNode) else []
        place = next((at for at, node in enumerate(nodes) if read_name(node) == name), None)
        if place is None:
            break
        steps += ["nodes", place]
        here = nodes[place]
    return steps


def read_name(node: yaml.Node) -> str:
    """Return the name of a tree's node as the reader trims it; empty for none."""
    found = get_entry(node, "name")
    return str(found[1].value).strip() if found and isinstance(found[1], yaml.ScalarNode) else ""
