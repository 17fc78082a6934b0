"""Analysis framework: a topic, the words that indicate it, and a tree of what to examine.

Level 1 holds the dimensions of the topic, level 2 their aspects, level 3 the indicators. A file may go deeper for its
readers, but only three levels are used: a larger tree does not fit a prompt and leads to plans that are too large.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from fathom.domain.text.scripts import HAN_CHARACTER

# Three levels are used (see above); files may go to six, so that a reader's own notes are kept but bounded.
LEVELS = 3
MAX_NODES = 500
MAX_DEPTH = 6


def require_letter(name: str) -> str:
    """Return an English name; raises ``ValueError``, which a writer can read unlike a pattern that does not match."""
    if not re.search("[A-Za-z]", name):
        raise ValueError("needs a Latin letter")
    return name


def require_han(name: str) -> str:
    """Return a Chinese name; raises ``ValueError``."""
    if not HAN_CHARACTER.search(name):
        raise ValueError("needs a Chinese character")
    return name


# Names are shown in prompts and tables; longer ones are sentences. English names need a letter, Chinese ones a Chinese
# character.
Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80), AfterValidator(require_letter)
]
ZhName = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=40), AfterValidator(require_han)
]
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]


class Tool(StrEnum):
    """The tool for an indicator: numbers are fetched, views and texts are searched."""

    DATA = "data"
    SEARCH = "search"


class Closed(BaseModel):
    """Base of immutable models that reject unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Node(Closed):
    """A dimension, an aspect or an indicator.

    ``ids`` are indicators of the catalog, ``hint`` says where or how to look.
    """

    name: Name
    zh: ZhName
    ids: tuple[str, ...] = ()
    hint: str = Field("", max_length=200)
    tool: Tool = Tool.DATA
    nodes: tuple[Node, ...] = ()

    @model_validator(mode="after")
    def siblings(self) -> Self:
        """Reject two children with one name."""
        refuse_duplicate_names(self.nodes)
        return self


class Signals(Closed):
    """The words of a question that indicate the topic, in any language; ``strong`` ones count three times as much."""

    strong: tuple[Word, ...] = Field(min_length=1, max_length=200)
    words: tuple[Word, ...] = Field((), max_length=200)


class Framework(Closed):
    """The content of one framework file."""

    version: Literal[1]
    topic: str = Field(pattern=r"^[a-z][a-z0-9_]{1,39}$")
    name: Name
    zh: ZhName
    about: str = Field(min_length=1, max_length=300)
    signals: Signals
    nodes: tuple[Node, ...]

    @model_validator(mode="after")
    def siblings(self) -> Self:
        """Reject two dimensions with one name."""
        refuse_duplicate_names(self.nodes)
        return self


@dataclass(frozen=True)
class Placed:
    """A node with its position; ``path`` holds the names from level 1 down to the node itself."""

    path: tuple[str, ...]
    node: Node

    @property
    def level(self) -> int:
        return len(self.path)


def walk(nodes: tuple[Node, ...], level: int, above: tuple[str, ...] = ()) -> Iterator[Placed]:
    """Yield all nodes down to ``level``, each before its children."""
    for node in nodes:
        path = (*above, node.name)
        yield Placed(path, node)
        if len(path) < level:
            yield from walk(node.nodes, level, path)


def refuse_duplicate_names(nodes: tuple[Node, ...]) -> None:
    """Raise ``ValueError`` for two nodes with one name, in either language."""
    for names in ([node.name.casefold() for node in nodes], [node.zh for node in nodes]):
        # Counted in one pass: a file of 256 KB may list ten thousand.
        name, count = Counter(names).most_common(1)[0] if names else ("", 0)
        if count > 1:
            raise ValueError(f"two nodes are called {name!r}")
