"""Calls of tools, and programs that a model has written, as the reference policy hands them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.programs.resolved import ResolvedProgram

# Least probability of a program's words and of its least sure series with which it is computed; below ``CERTAIN`` the
# answer says first that the question may have been read wrongly.
CONFIDENCE, LINK_CONFIDENCE, CERTAIN = 0.75, 0.5, 0.94


@dataclass(frozen=True)
class Call:
    """A call of a tool, as the reference policy makes it; ``beside`` are further calls of the same round."""

    tool: str
    arguments: Mapping[str, Any]
    beside: tuple[Call, ...] = ()


def finish(answer: str, left: Sequence[str] = (), **more: object) -> Call:
    """Return the last call, with the answer and what it leaves open."""
    return Call("finish", {"answer": answer, **more, **({"reading": {"open": list(left)}} if left else {})})


@dataclass(frozen=True)
class Written:
    """A program that a language model has written of a question, and how sure the model is of it.

    Without text it has written none, and the data tool's own does not take its place.
    """

    text: str = ""
    is_likely: bool = False
    is_certain: bool = False

    @classmethod
    def from_program(cls, program: ResolvedProgram) -> Written:
        """Return how sure the data tool is of the program that it has read itself."""
        return cls("", program.confidence >= CONFIDENCE, program.confidence >= CERTAIN)
