"""Loader of frameworks from folders of YAML files; errors name the file, the place in the tree and the field."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import ValidationError

from fathom.core.errors import FathomError, InvalidField, NotFound
from fathom.services.datafetch.catalog.frameworks.lines import find_line, locate_path
from fathom.services.datafetch.catalog.frameworks.model import LEVELS, MAX_DEPTH, MAX_NODES, Framework, Placed, walk
from fathom.services.datafetch.catalog.frameworks.plain import compose_plain, load_plain
from fathom.services.datafetch.catalog.frameworks.topics import TopicWords

BUNDLED = Path(__file__).resolve().parent
# A user's folder may be large or hostile: the largest bundled file has some 10 KB, and errors beyond 20 help nobody.
MAX_FILE_BYTES = 256 * 1024
MAX_FILES = 100
MAX_PROBLEMS = 20
TOO_LARGE = f"is larger than {MAX_FILE_BYTES:,} bytes"


@dataclass(frozen=True)
class Problem:
    """One error in a file; ``place`` is the path of names from the root of the tree to the node, "" at the root.

    ``line`` counts from 1; 0 where the error has none.
    """

    file: str
    place: str
    field: str
    message: str
    line: int = 0

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.file, self.place, self.field, self.message)))


class InvalidFramework(FathomError):
    """A framework file is invalid; ``problems`` has up to 20 of its errors."""

    code, reason = "INVALID_ARGUMENT", "INVALID_FIELD"

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        field = ": ".join(filter(None, (first.file, first.place, first.field)))
        super().__init__("\n".join(map(str, problems)), metadata={"field": field})
        self.problems = tuple(problems)


@dataclass(frozen=True)
class FrameworkFile:
    """The file that a framework was read from; ``is_bundled`` where it is one of the package's own."""

    name: str
    text: str
    is_bundled: bool


@dataclass(frozen=True)
class Frameworks:
    """The immutable library of frameworks, with topics sorted by name, and the file of each."""

    topics: Mapping[str, Framework]
    files: Mapping[str, FrameworkFile]
    words: TopicWords

    def __getitem__(self, topic: str) -> Framework:
        """Return the framework of a topic; raises ``NotFound`` with the nearest topics."""
        if topic not in self.topics:
            raise NotFound("topic", topic, difflib.get_close_matches(topic, self.topics, cutoff=0.4))
        return self.topics[topic]

    def classify(self, question: str) -> list[tuple[str, float]]:
        """Return the topics of a question by its words, best first, with shares that sum to 1; empty for none.

        Deterministic: no model, and ties are ordered by topic name.
        """
        return self.words.classify(question)

    def list_nodes(self, topic: str, level: int = LEVELS) -> list[Placed]:
        """Return the nodes down to ``level`` (1 to 3), each before its children; raises as ``list_indicators`` does."""
        return list(walk(self[topic].nodes, check_level(level)))

    def list_indicators(self, topic: str, level: int = LEVELS) -> list[Placed]:
        """Return the nodes at ``level``, and those above it without children.

        Raises ``NotFound`` for an unknown topic and ``InvalidField`` for a level other than 1 to 3.
        """
        return [place for place in self.list_nodes(topic, level) if place.level == level or not place.node.nodes]


def check_level(level: int) -> int:
    """Return the level; raise ``InvalidField`` for one that no list goes down to."""
    if not 1 <= level <= LEVELS:
        raise InvalidField("level", f"must be 1 to {LEVELS}; deeper nodes are for readers of the file")
    return level


def load_frameworks(folder: Path = BUNDLED, *extra: Path) -> Frameworks:
    """Load all ``*.yaml`` files of a folder and of further ones, which add topics.

    Raises ``InvalidFramework`` for a folder without frameworks, and for a file that cannot be read, is malformed or
    repeats the topic of another file.
    """
    found: dict[str, tuple[Path, Framework]] = {}
    files: dict[str, FrameworkFile] = {}
    for path in [file for place in (folder, *extra) for file in list_files(place)]:
        text = read_text(path)
        framework = parse_framework(str(path), text)
        if framework.topic in found:
            other = found[framework.topic][0]
            raise InvalidFramework([Problem(str(path), "", "topic", f"{framework.topic!r} is also in {other}")])
        found[framework.topic] = (path, framework)
        files[framework.topic] = FrameworkFile(path.name, text, path.resolve().parent == BUNDLED)
    # Sorted, so that the answer does not depend on the order of the folders.
    topics = {topic: found[topic][1] for topic in sorted(found)}
    return Frameworks(MappingProxyType(topics), MappingProxyType(files), TopicWords.from_frameworks(topics))


def list_files(folder: Path) -> list[Path]:
    """Return the framework files of a folder, sorted by name."""
    paths = sorted(folder.glob("*.yaml"))
    if not 1 <= len(paths) <= MAX_FILES:
        raise InvalidFramework(
            [Problem(str(folder), "", "", f"has {len(paths)} *.yaml files; 1 to {MAX_FILES} are read")]
        )
    return paths


def read_framework(path: Path) -> Framework:
    """Read and check one file; raises ``InvalidFramework`` with up to 20 problems."""
    return parse_framework(str(path), read_text(path))


def read_text(path: Path) -> str:
    """Return the text of a file; raises ``InvalidFramework`` for one that is too large or no text."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidFramework([Problem(str(path), "", "", TOO_LARGE)])
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidFramework([Problem(str(path), "", "", error.strerror or str(error))]) from error
    except UnicodeDecodeError as error:
        raise InvalidFramework([Problem(str(path), "", "", f"is not UTF-8 at byte {error.start:,}")]) from error


def parse_framework(file: str, text: str) -> Framework:
    """Read and check the text of a file; raises ``InvalidFramework`` with up to 20 problems."""
    raw = parse(file, text)
    try:
        framework = Framework.model_validate(raw)
    except ValidationError as error:
        root = compose_plain(text)
        problems = [locate_problem(file, raw, root, item["loc"], item["msg"]) for item in error.errors()[:MAX_PROBLEMS]]
        raise InvalidFramework(problems) from error
    found = check_tree(file, framework)
    if found:
        root = compose_plain(text)
        raise InvalidFramework(
            [replace(one, line=find_line(root, locate_path(where, root))) for one, where in found[:MAX_PROBLEMS]]
        )
    return framework


def parse(file: str, text: str) -> Any:
    """Parse the YAML of a text."""
    if len(text.encode()) > MAX_FILE_BYTES:
        raise InvalidFramework([Problem(file, "", "", TOO_LARGE)])
    try:
        return load_plain(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        raise InvalidFramework([Problem(file, "", "", " ".join(str(error).split()), line)]) from error
    # YAML makes dates of what looks like them, and there is no 31 February.
    except ValueError as error:
        raise InvalidFramework([Problem(file, "", "", f"has a value that cannot be read: {error}")]) from error


def locate_problem(
    file: str, raw: Any, root: yaml.Node | None, location: tuple[int | str, ...], message: str
) -> Problem:
    """Convert a pydantic error location to a problem: positions in ``nodes`` become the names of the nodes."""
    names: list[str] = []
    fields: list[str] = []
    here = raw
    for step in location:
        here = get_child(here, step)
        # A writer knows the name of a node, not its number in a list.
        if fields and fields[-1] == "nodes" and isinstance(step, int):
            name = here.get("name") if isinstance(here, dict) else None
            names.append(str(name) if name else f"node {step + 1}")
            fields = []
        else:
            fields.append(str(step))
    line = find_line(root, location)
    return Problem(file, " / ".join(names), ".".join(fields), message.removeprefix("Value error, "), line)


def get_child(value: Any, step: int | str) -> Any:
    """Return an element of a list or mapping, or None."""
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None


def check_tree(file: str, framework: Framework) -> list[tuple[Problem, tuple[str, ...]]]:
    """Check the tree as a whole: branches that end before level 3, too many or too deep nodes; each with its path."""
    # One level more than allowed, to find the node that is too deep.
    places = list(walk(framework.nodes, MAX_DEPTH + 1))
    problems: list[tuple[Problem, tuple[str, ...]]] = []
    if not places:
        problems.append((Problem(file, "", "nodes", "has no nodes"), ()))
    if len(places) > MAX_NODES:
        message = f"has {len(places):,} nodes; at most {MAX_NODES} are allowed"
        problems.append((Problem(file, "", "nodes", message), ()))
    for place in places:
        where = " / ".join(place.path)
        if place.level < LEVELS and not place.node.nodes:
            message = f"ends at level {place.level}; indicators are at level {LEVELS}"
            problems.append((Problem(file, where, "nodes", message), place.path))
        if place.level > MAX_DEPTH:
            problems.append((Problem(file, where, "nodes", f"is deeper than {MAX_DEPTH} levels"), place.path))
    return problems
