"""Check that an answer holds what was expected, and that each of its numbers stands in the material that it cites."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.golden.agent.reference import NAMES, Reference
from tests.golden.agent.schema import Expected, Question

CITATION = re.compile(r"\[(\d{1,3})\]")
PLACEHOLDER = re.compile(r"\{\{[^}]*\}\}")
DATE = re.compile(r"(?<![\d-])\d{4}-\d\d(?:-\d\d)?(?![\d-])")
NUMBER = re.compile(r"(?<![A-Za-z0-9_.,])[-+−]?\d[\d,]*(?:\.\d+)?(?![\d])")
SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
LACK = re.compile(r"missing|no data|not among|no such|缺失|没有|不在", re.IGNORECASE)
NAMED = re.compile(r"S&P 500|标普500|(?:\d+|十)-?(?:year|年期?)|3-month|M[12]\b|U-6|《[^》]*》|“[^”]*”")


@dataclass(frozen=True)
class Given:
    """Hold what came back: Markdown, the text of each material by number, points of the figures, rounds and seconds."""

    markdown: str
    material: Mapping[int, str]
    points: int = 0
    rounds: int = 0
    seconds: float = 0.0
    lacks: str = ""
    """Items that were reported as missing: a period that has no data is named, not cited."""
    claims: int = 0
    """Numbers and dates of the answer, as the product's verifier reads it."""
    doubts: tuple[str, ...] = ()
    """Numbers that the product's verifier does not find in the cited material, or finds uncited."""


@dataclass
class Verdict:
    """List what is wrong, in words; right when nothing is. ``loose`` are numbers that no cited material holds."""

    question: Question
    given: Given
    faults: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    numbers: int = 0

    @property
    def right(self) -> bool:
        return not self.faults


def judge(question: Question, given: Given, reference: Reference) -> Verdict:
    """Every expectation, and every number."""
    verdict = Verdict(question, given)
    for expected in question.expected:
        fault = fault_of(expected, given, reference)
        if fault:
            verdict.faults.append(fault)
    verdict.numbers, verdict.loose = trace_numbers(given, question.ask)
    return verdict


def fault_of(expected: Expected, given: Given, reference: Reference) -> str:
    """Return what an expectation lacks; "" for nothing."""
    text = given.markdown
    if expected.figure:
        return "" if given.points >= expected.figure else f"figure of {given.points} points, not {expected.figure}"
    if expected.missing:
        said = any(LACK.search(part) and has_name(part, expected.missing) for part in parts_of(text))
        return "" if said else f"does not say that {expected.missing[0]} is missing"
    if expected.says:
        wanted = reference.value(expected.says)
        options = [wanted] if isinstance(wanted, str) else list(wanted)
        return "" if any(option.lower() in text.lower() for option in options) else f"does not say {options[0]!r}"
    if expected.order:
        return order_fault(reference.value(expected.order), text)
    value = float(reference.value(expected.is_))
    near = [number for part in parts_of(text) if has_name(part, expected.name) for number in numbers_in(part)]
    found = any(abs(number - value) <= expected.tol + 1e-9 for number, _ in near)
    return "" if found else f"{'/'.join(expected.name)}: {value:.4f} ({expected.is_}) is not among {near[:12]}"


def order_fault(keys: Sequence[str], text: str) -> str:
    """ "" when some line or paragraph names all in this order."""
    for part in [*text.split("\n\n"), *parts_of(text)]:
        places = [min((part.find(name) for name in NAMES[key] if name in part), default=-1) for key in keys]
        if min(places) >= 0 and places == sorted(places):
            return ""
    return f"does not name {', '.join(keys)} in this order"


def has_name(part: str, names: Sequence[str]) -> bool:
    return any(name.lower() in part.lower() for name in names)


def parts_of(text: str) -> list[str]:
    """Sentences and table rows."""
    return [part for part in SENTENCE.split(text) if part.strip()]


def numbers_in(part: str) -> list[tuple[float, int]]:
    """Numbers with their decimals; no dates, citations, placeholders and numbers that are part of a name."""
    for pattern in (PLACEHOLDER, CITATION, NAMED, DATE):
        part = pattern.sub(" ", part)
    found = [match.group().replace(",", "").replace("−", "-") for match in NUMBER.finditer(part)]
    return [(float(text), len(text.partition(".")[2])) for text in found]


def trace_numbers(given: Given, question: str) -> tuple[int, list[str]]:
    """Count the numbers and dates, and list those that neither the question nor the cited material holds."""
    total, loose = 0, []
    for paragraph in re.split(r"\n\n+", given.markdown):
        cited = [int(number) for number in CITATION.findall(paragraph)]
        known = " ".join([question, given.lacks, *(given.material.get(number, "") for number in cited)])
        values = all_numbers(known)
        # Growth is kept as a fraction and written in per cent.
        values += [100 * value for value in values] if "fraction" in known else []
        bare = NAMED.sub(" ", CITATION.sub(" ", PLACEHOLDER.sub(" ", paragraph)))
        for day in DATE.findall(bare):
            total += 1
            if day not in known:
                loose.append(day)
        for number, decimals in numbers_in(paragraph):
            total += 1
            slack = 0.5000001 * 10.0**-decimals
            if not any(abs(abs(number) - abs(value)) <= slack for value in values):
                loose.append(f"{number:g}")
    return total, loose


def all_numbers(text: str) -> list[float]:
    """All numbers of a material, also those inside of dates and names."""
    found = re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", text)
    return [float(number.replace(",", "")) for number in found]
