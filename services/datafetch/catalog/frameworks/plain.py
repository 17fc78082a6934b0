"""Restricted YAML: no aliases, which let a small file expand without bound, and no repeated keys."""

from __future__ import annotations

from typing import Any

import yaml

# libyaml's loader if PyYAML was built with it: ten times as fast, with the same results.
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class PlainLoader(FAST):  # type: ignore[misc]
    """A safe loader that raises ``yaml.MarkedYAMLError``, with line and column, for a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen = set()
        # PyYAML keeps the last of two equal keys without a word.
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_plain(text: str) -> Any:
    """Parse one YAML document; raises ``yaml.MarkedYAMLError`` also for an alias or a repeated key."""
    # An alias needs an asterisk; most files have none and are parsed once.
    if "*" in text:
        for event in yaml.parse(text, Loader=FAST):
            if isinstance(event, yaml.AliasEvent):
                mark: Any = event.start_mark
                raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=mark)
    return yaml.load(text, Loader=PlainLoader)  # noqa: S506 - a SafeLoader that refuses more
