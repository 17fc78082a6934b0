"""Labels that contradict each other, or stand twice under two ids: a mixture with them is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fathom.core.errors import InvalidField

Row = Mapping[str, Any]


def refuse_contradictions(chosen: Mapping[str, Sequence[Row]]) -> None:
    """Raise ``InvalidField`` naming two rows of stages that teach different things, or the same, of one prompt.

    Rows of recorded episodes are no labels: several right answers to one question are what their training is for.
    """
    outputs: dict[str, tuple[str, str]] = {}
    preferred: dict[tuple[str, str, str], str] = {}
    for row in (row for rows in chosen.values() for row in rows if _is_label(row)):
        name = str(row["id"])
        if "chosen" in row:
            prompt, better, worse = (_join(row[field]) for field in ("prompt", "chosen", "rejected"))
            if other := preferred.get((prompt, worse, better)):
                raise InvalidField("parts", f"{name} prefers what {other} rejects, of the same prompt")
            if other := preferred.get((prompt, better, worse)):
                raise InvalidField("parts", f"{name} is the pair of {other} under another id")
            preferred[prompt, better, worse] = name
        for prompt, output in _list_labels(row):
            other, taught = outputs.setdefault(prompt, (name, output))
            if taught != output:
                raise InvalidField("parts", f"{name} teaches another output than {other} of the same prompt")
            if other != name:
                raise InvalidField("parts", f"{name} is the row of {other} under another id")


def _is_label(row: Row) -> bool:
    """Return whether a row is of a stage, as its provenance says."""
    provenance = row.get("provenance")
    return isinstance(provenance, Mapping) and bool(provenance.get("stage"))


def _list_labels(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the prompt and the output of a row that imitates; none of a pair, or of a row without an output."""
    messages = row.get("messages") or ()
    if messages and messages[-1].get("role") == "assistant":
        yield _join(messages[:-1]), _join(messages[-1:])


def _join(messages: Sequence[Row]) -> str:
    """Return messages as one text that differs wherever they do."""
    return json.dumps([[message.get("role"), message.get("content")] for message in messages], ensure_ascii=False)
