"""YAML without its traps: no aliases, which a small file can multiply without end, and no key that hides another."""

from __future__ import annotations

from typing import Any

import yaml


class PlainLoader(yaml.SafeLoader):
    """Raises ``yaml.MarkedYAMLError``, with line and column, for an alias or a repeated key."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_plain(text: str) -> Any:
    """The content of one YAML document."""
    return yaml.load(text, Loader=PlainLoader)
