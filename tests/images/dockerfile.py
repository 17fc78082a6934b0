"""Reads a Dockerfile into its stages, as far as the tests of ours need it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """One FROM: its parent and its instructions in order."""

    name: str
    parent: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [text for name, text in self.steps if name == instruction]


def stages(path: Path) -> dict[str, Stage]:
    """The stages by name; what stands before the first FROM is the stage ""."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = {"": Stage("", "")}
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            parent, _, name = rest.partition(" AS ")
            found[name] = Stage(name, parent)
        else:
            list(found.values())[-1].steps.append((instruction, " ".join(rest.split())))
    return found


def is_ignored(path: str, rules: list[str]) -> bool:
    """Return whether .dockerignore keeps a path out of the context: the last rule that fits decides."""
    out = False
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        parts = path.split("/")
        ahead = ["/".join(parts[: length + 1]) for length in range(len(parts))]
        fits = pattern == "*" or pattern in (parts if "**/" in rule else ahead)
        if fits:
            out = not rule.startswith("!")
    return out
