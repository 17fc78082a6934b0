"""Check of the text of a framework before it is a file: the reader's rules, the other topics and the tables' ids."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass

from fathom.services.datafetch.catalog.frameworks.lines import find_line, locate_path
from fathom.services.datafetch.catalog.frameworks.load import (
    MAX_PROBLEMS,
    Frameworks,
    InvalidFramework,
    Problem,
    parse_framework,
)
from fathom.services.datafetch.catalog.frameworks.model import LEVELS, Framework, walk
from fathom.services.datafetch.catalog.frameworks.plain import compose_plain

# Only while it is no file: a topic gives the file its name.
DRAFT = "draft.yaml"


@dataclass(frozen=True)
class CheckedDraft:
    """A draft's framework, None where the text is none, and its problems; it may be used without any."""

    framework: Framework | None
    problems: tuple[Problem, ...]


def check_draft(library: Frameworks, known: Collection[str], text: str, replaces: str = "") -> CheckedDraft:
    """Check a text as the file of a framework; ``replaces`` is the topic whose file it is to take the place of.

    Without ``known`` the ids of the tables are not checked.
    """
    try:
        framework = parse_framework(DRAFT, text)
    except InvalidFramework as error:
        return CheckedDraft(None, error.problems)
    root = compose_plain(text)
    problems = []
    other = library.files.get(framework.topic)
    if other is not None and framework.topic != replaces:
        message = f"{framework.topic!r} is the topic of another file, {other.name}"
        problems.append(Problem(DRAFT, "", "topic", message, find_line(root, ["topic"])))
    for place, ident, message in find_unknown_ids(framework, known):
        steps = [*locate_path(place, root), "ids"]
        line = find_line(root, steps)
        problems.append(Problem(DRAFT, " / ".join(place), "ids", f"{ident!r} {message}", line))
    return CheckedDraft(framework, tuple(problems[:MAX_PROBLEMS]))


def find_unknown_ids(framework: Framework, known: Collection[str]) -> list[tuple[tuple[str, ...], str, str]]:
    """Return place, id and words for each indicator id that the tables do not have, with the nearest ones.

    At most ``MAX_PROBLEMS``: looking for what is near takes milliseconds each.
    """
    wrong = [
        (place.path, ident)
        for place in walk(framework.nodes, LEVELS)
        for ident in place.node.ids
        if known and ident not in known
    ]
    found = []
    for path, ident in wrong[:MAX_PROBLEMS]:
        # A longer text is no slip of the pen, and to compare it takes long.
        near = difflib.get_close_matches(ident, known) if len(ident) <= 80 else []
        found.append((path, ident, "is no indicator of the tables" + (f"; near: {', '.join(near)}" if near else "")))
    return found
