"""Names and texts that a reader meets: bare participles, citations of requirements, unexplained thresholds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.bench.house.source import Source

# Participles that do not end in -ed; those that are also the verb's plain form (read, put, set, cut) are left out.
IRREGULAR_TEXT = (
    "told kept shown said taken given asked made found held left sent built written spoken seen known drawn done gone "
    "begun bound broken chosen dealt fed felt forgotten grown heard hidden laid led lent lost meant met paid proven "
    "sold spent stood stuck taught thought thrown understood won worn rebuilt spelled sworn brought bought caught"
)
NOT_TEXT = "seed feed speed need embed shed proceed exceed bleed red led"
IRREGULAR, NOT_PARTICIPLES = frozenset(IRREGULAR_TEXT.split()), frozenset(NOT_TEXT.split())
# A "row" or "rows" and its id, "SR" with a number, a chapter of a specification ("rl.md" and a number), and
# names of tests that begin with an id.
REQUIREMENT = re.compile(
    r"\brows? [A-Z]{1,3}\d|\bSR\d{1,3}\b|\b[a-z]+\.md,? \d|\bspecs[:,]? (?:of|in|section|[a-z]+\.md)"
    r"|\b(?:requirement|req)s? [A-Z]*\d|def test_[a-z]{1,3}\d{2}_"
)
LONG_PATTERN = 60
# A text that begins with one of them is no sentence, and says what its subject is only at its end.
INTERROGATIVES = frozenset(["What", "Who", "Whose", "Which", "Where", "When", "Why", "How", "Whether"])


def is_participle(name: str) -> bool:
    """Return whether a function's name is a single participle, such as ``told``."""
    word = name.strip("_")
    if not word or "_" in word or word in NOT_PARTICIPLES:
        return False
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 3)


def find_participles(source: Source) -> Iterator[str]:
    for name, node in source.functions:
        if is_participle(node.name):
            yield f"{source.path}:{node.lineno} {name}"


def find_requirement_ids(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if REQUIREMENT.search(line):
            yield f"{source.path}:{number} {line.strip()[:100]}"


def find_noun_clauses(source: Source) -> Iterator[str]:
    """Yield docstrings, those of attributes too, that begin as a question would: "Whether…", "What…"."""
    for node in source.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            words = node.value.value.split(maxsplit=1)
            if words and words[0].rstrip(",;:") in INTERROGATIVES:
                yield f"{source.path}:{node.lineno} {node.value.value[:100]}"


def find_unexplained_excepts(source: Source) -> Iterator[str]:
    """Yield handlers of every exception with no comment on their line or one of the two around it."""
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and catches_all(node.type):
            first = node.body[0].lineno
            if not any(line in source.comments for line in range(node.lineno - 1, first + 1)):
                yield f"{source.path}:{node.lineno}"


def catches_all(kind: ast.expr | None) -> bool:
    """Return whether a handler takes all exceptions: bare, ``Exception``, ``BaseException``, or a tuple with one."""
    if isinstance(kind, ast.Tuple):
        return any(map(catches_all, kind.elts))
    return kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))


def is_compile(called: ast.expr) -> bool:
    """Return whether this is ``re.compile``."""
    if not isinstance(called, ast.Attribute) or called.attr != "compile":
        return False
    return isinstance(called.value, ast.Name) and called.value.id == "re"


def find_unexplained_patterns(source: Source) -> Iterator[str]:
    """Yield calls of ``re.compile`` with a pattern over 60 characters and no comment above, on or in it."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and is_compile(node.func) and node.args:
            length = sum(
                len(part.value)
                for part in ast.walk(node.args[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
            lines = range(node.lineno - 1, (node.end_lineno or node.lineno) + 1)
            if length > LONG_PATTERN and not any(line in source.comments for line in lines):
                yield f"{source.path}:{node.lineno}"
