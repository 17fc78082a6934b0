"""Tests of programs as competitions write them: text in and text out, or a function with arguments and its result.

A reference is the JSON ``{"inputs": […], "outputs": […]}`` of Eurus, APPS and TACO, with ``fn_name`` where a function
is called. What is expected never enters the sandbox: a program is told its input alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.grading.graders import Score

FENCED = re.compile(r"```[ \t]*(?:[Pp]ython3?|py)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
# Sums of floats end in other digits on another machine.
CLOSE = 1e-6
READ = """\
import io, sys
sys.stdin = io.StringIO({given})
try:
    exec(compile({code}, "<program>", "exec"), {{"__name__": "__main__"}})
except SystemExit:
    pass
"""
CALL = """\
import json
scope = {{"__name__": "program"}}
exec(compile({code}, "<program>", "exec"), scope)
called = scope.get({name}) or getattr(scope["Solution"](), {name})
print("\\n" + json.dumps(called(*json.loads({given}))))
"""


@dataclass(frozen=True)
class ProgramTest:
    """One test: the cell that runs the program on its input, and what is expected of it."""

    cell: str
    expected: Any
    is_call: bool

    def accepts(self, stdout: str) -> bool:
        """Return whether the program's output is the expected one."""
        if not self.is_call:
            return same_text(stdout, str(self.expected))
        try:
            found = json.loads(stdout.strip().rpartition("\n")[2])
        except ValueError:
            return False
        # Some sets put a result into a list of its own.
        wrapped = isinstance(self.expected, list) and len(self.expected) == 1
        return bool(found == self.expected or (wrapped and found == self.expected[0]))


def read_tests(reference: str, program: str, most: int) -> list[ProgramTest]:
    """Return the first ``most`` tests of a reference; raise ``ValueError`` for one that holds none."""
    try:
        found = json.loads(reference)
    except ValueError as error:
        raise ValueError("the reference is no JSON of inputs and outputs") from error
    inputs, outputs = (found.get(name) if isinstance(found, dict) else None for name in ("inputs", "outputs"))
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs) or not inputs:
        raise ValueError("the reference needs inputs and outputs, one of each per test")
    name = found.get("fn_name")
    pairs = list(zip(inputs, outputs, strict=True))[:most]
    if name is None:
        return [ProgramTest(READ.format(given=repr(join(given)), code=repr(program)), join(wanted), False)
                for given, wanted in pairs]  # fmt: skip
    return [
        ProgramTest(
            CALL.format(given=repr(json.dumps(read_arguments(given))), code=repr(program), name=repr(name)),
            json.loads(wanted) if isinstance(wanted, str) and is_json(wanted) else wanted,
            True,
        )
        for given, wanted in pairs
    ]


def join(lines: Any) -> str:
    """Return a text; some sets keep its lines in a list."""
    return "\n".join(map(str, lines)) if isinstance(lines, list) else str(lines)


def read_arguments(given: Any) -> list[Any]:
    """Return a function's arguments: a list, or a text with one JSON value a line."""
    if isinstance(given, str):
        return [json.loads(line) for line in given.splitlines() if line.strip()]
    return given if isinstance(given, list) else [given]


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def find_program(answer: str) -> str:
    """Return the last fenced program of an answer, else all of it."""
    found = FENCED.findall(answer)
    return str(found[-1]) if found else answer


def same_text(given: str, expected: str) -> bool:
    """Return whether two outputs have the same words, numbers by their value."""
    own, wanted = given.split(), expected.split()
    return len(own) == len(wanted) and all(map(same_word, own, wanted))


def same_word(given: str, expected: str) -> bool:
    if given == expected:
        return True
    try:
        return math.isclose(float(given), float(expected), rel_tol=CLOSE, abs_tol=CLOSE)
    except ValueError:
        return False


def score_tests(passed: Sequence[bool]) -> Score:
    """Return the share of tests passed; ``correct`` says whether all are."""
    share = sum(passed) / len(passed)
    return Score(share, {"correct": float(all(passed)), "passed": share, "tests": float(len(passed))})
