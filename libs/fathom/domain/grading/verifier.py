"""Grading subprocess ``python -m fathom.domain.grading.verifier``: grade one JSON line after another until the end.

A separate process, so that a grader that hangs can be killed. It imports only the graders, nothing heavy.
"""

from __future__ import annotations

import json
import logging
import math
import resource
import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, BinaryIO

from fathom.domain.grading.graders import GRADERS, Item, Score, ToolStep

# Messages of exceptions may repeat the whole answer.
MAX_REASON = 500
# Some ten times what the graders need; a power tower or a factorial in an answer takes whatever there is.
MAX_BYTES = 1 << 30


def encode_item(name: str, item: Item) -> bytes:
    """Encode a grader's name and its item as one JSON line."""
    entry = {
        "grader": name,
        "answer": item.answer,
        "references": list(item.references),
        "parameters": dict(item.parameters),
        "response": item.response,
        "steps": list(map(attrgetter("tool", "ok", "repeated"), item.steps)),
        "expected_tools": list(item.expected_tools),
    }
    return json.dumps(entry).encode() + b"\n"


def decode_score(line: bytes) -> Score | str:
    """Decode one output line to the score, or the message why there is none."""
    entry = json.loads(line)
    if "failed" in entry:
        return str(entry["failed"])
    return Score(entry["value"], entry["components"], entry["reason"])


def grade_item(name: str, item: Item) -> Score | str:
    """Grade one item; return the score, or a message for an error of the grader or a non-finite number."""
    try:
        score = GRADERS[name].grade(item)
    except Exception as error:  # whatever a grader raises is its failure, not the batch's
        return f"{type(error).__name__}: {error}"[:MAX_REASON]
    wrong = [value for value in (score.value, *score.components.values()) if not math.isfinite(value)]
    return f"gave {wrong[0]}" if wrong else score


def item_from(entry: Mapping[str, Any]) -> Item:
    return Item(
        entry["answer"],
        entry["references"],
        entry["parameters"],
        entry["response"],
        tuple(ToolStep(*step) for step in entry["steps"]),
        entry["expected_tools"],
    )


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Grade each input line and write the results in order."""
    for line in source:
        entry = json.loads(line)
        found = grade_item(entry["grader"], item_from(entry))
        if isinstance(found, str):
            reply: dict[str, object] = {"failed": found}
        else:
            reply = {"value": found.value, "components": dict(found.components), "reason": found.reason}
        target.write(json.dumps(reply).encode() + b"\n")
        # Each line at once: the parent waits for it before it sends the next one.
        target.flush()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    # math-verify warns of every expression that takes too long, with its text; the score says so already.
    logging.disable(logging.CRITICAL)
    serve(sys.stdin.buffer, sys.stdout.buffer)
