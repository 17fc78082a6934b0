"""Outcomes of a check, and how they are reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.lookup import Match
from fathom.services.planner.model.episode import Finding, FindingKind


@dataclass(frozen=True)
class Verdict:
    """Outcome of the check of one number: accepted, or the reason why not."""

    accepted: bool
    kind: FindingKind = FindingKind.NUMBER
    detail: str = ""
    found_in: tuple[int, ...] = ()
    held: float = 0.0
    """The value in the material if found there, else in the text."""
    derived: bool = False
    """True for a value that no cell or line holds, but that follows from a column."""


def make_finding(sentence: Sentence, start: int, end: int, verdict: Verdict) -> Finding:
    """Return the finding of a verdict on some characters of a sentence."""
    place = (sentence.start + start, sentence.start + end)
    return Finding(*place, verdict.kind, sentence.text[start:end], verdict.detail, sentence.cited, verdict.found_in)


def format_numbers(numbers: Sequence[int]) -> str:
    """Format numbers as "[1], [2]"."""
    return ", ".join(f"[{number}]" for number in numbers)


def collect_sources(found: Sequence[Match]) -> tuple[int, ...]:
    return tuple(sorted({match.source for match in found}))
