"""Restricted YAML: no aliases, which let a small file expand without bound, no tags, repeated keys or deep nesting."""

from __future__ import annotations

from typing import Any

import yaml

# libyaml's loader if PyYAML was built with it: ten times as fast, with the same results.
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# libyaml builds nested nodes by recursion that nothing bounds: 250 KB of brackets end the process. A framework of six
# levels needs some fifteen.
MAX_NESTING = 50
OPENING = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
CLOSING = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
# Numbers to base 60 ("1:30:00") take the square of their length to convert; those of a framework have one digit.
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
MAX_NUMBER_CHARS = 40


class PlainLoader(FAST):  # type: ignore[misc]
    """A safe loader that raises ``yaml.MarkedYAMLError``, with line and column, for a repeated or compound key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen = set()
        # PyYAML keeps the last of two equal keys without a word.
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key is a list or a mapping", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag in NUMBERS and len(node.value) > MAX_NUMBER_CHARS:
            problem = f"a number has more than {MAX_NUMBER_CHARS} characters"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return super().construct_scalar(node)


def load_plain(text: str) -> Any:
    """Parse one YAML document; raises ``yaml.MarkedYAMLError`` also for what this module refuses.

    A plain value that looks like a date and is none is a ``ValueError``.
    """
    check_events(text)
    return yaml.load(text, Loader=PlainLoader)  # noqa: S506 - a SafeLoader that refuses more


def compose_plain(text: str) -> yaml.Node | None:
    """Return the nodes of a document with their lines; raises as ``load_plain`` does, but for repeated keys."""
    check_events(text)
    return yaml.compose(text, Loader=FAST)


def check_events(text: str) -> None:
    """Raise ``yaml.MarkedYAMLError`` for an alias, a tag and deep nesting, before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=FAST):
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=mark)
        # A tag makes a value of a text that is none: PyYAML fails in ways of its own.
        if getattr(event, "tag", None):
            raise yaml.MarkedYAMLError(problem="tags are not allowed", problem_mark=mark)
        depth += isinstance(event, OPENING) - isinstance(event, CLOSING)
        if depth > MAX_NESTING:
            raise yaml.MarkedYAMLError(problem=f"is nested more than {MAX_NESTING} deep", problem_mark=mark)
