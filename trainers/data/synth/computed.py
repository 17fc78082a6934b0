"""Shared parts of the table-based generators: series, typed queries, periods, and drafts of tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from fathom.core.errors import InvalidField
from fathom.trainers.data.synth.bundle import Bundle
from fathom.trainers.data.synth.task import Language, Scenario, Step, SynthTask, Wording, unique

PRICE, RATE = "close_adj", "eur_rate"
FIRST_YEAR, LAST_YEAR = 2000, 2021
"""Calendar years fully covered by all companies' prices and all monthly series."""
# Half a percent, so that an answer rounded to three digits is right.
TOLERANCE = {"rel_tol": 0.005}
EXACT = {"rel_tol": 0.0}
# Draws beyond the wanted tasks, since a draw may lack data or repeat an earlier task.
MAX_DRAWS = 200


@dataclass(frozen=True)
class Draft:
    """A task without a language; ``fields`` fill its wording, by language where they differ."""

    wording: Wording
    fact: str
    fields: Mapping[Language, Mapping[str, object]]
    references: tuple[str, ...]
    path: tuple[Step, ...]
    grader: str = "number"
    parameters: Mapping[str, float] = field(default_factory=lambda: TOLERANCE)


Template = Callable[[Bundle, random.Random], Draft | None]
"""Draws a question of one kind and computes its answer; None when the drawn question has no unambiguous answer."""


def generate_tasks(
    bundle: Bundle, scenario: Scenario, templates: Mapping[str, Template], count: int, seed: int
) -> list[SynthTask]:
    """Generate ``count`` tasks, cycling through kinds and languages.

    Raises ``InvalidField`` when the data do not yield that many different tasks.
    """
    draw = random.Random(f"{scenario}:{seed}")
    return unique(turns(bundle, scenario, templates, draw, MAX_DRAWS + 4 * count), count)


def turns(
    bundle: Bundle, scenario: Scenario, templates: Mapping[str, Template], draw: random.Random, rounds: int
) -> Iterator[SynthTask]:
    """Yield one task of each kind per round, with the language alternating between rounds."""
    languages: Iterator[Language] = cycle(("en", "zh"))
    for _ in range(rounds):
        language = next(languages)
        for kind, template in templates.items():
            draft = template(bundle, draw)
            if draft is not None:
                yield SynthTask(
                    scenario,
                    kind,
                    draft.fact,
                    language,
                    draft.wording.of(language, **draft.fields[language]),
                    draft.references,
                    draft.grader,
                    draft.path,
                    draft.parameters,
                )


def both(**fields: object) -> dict[Language, dict[str, object]]:
    """Return the same fields for both languages."""
    return {"en": dict(fields), "zh": dict(fields)}


def data(entities: Sequence[str], indicators: Sequence[str], start: str, end: str) -> Step:
    """Build the typed query that returns these series as ``sheet_1``, one column ENTITY.indicator each."""
    return Step(
        "data",
        {"entities": list(entities), "indicators": list(indicators), "start_date": start, "end_date": end},
    )


def cell(code: str, **fields: Any) -> Step:
    """Build a Python cell from a template with fields written as @name@.

    Raises ``InvalidField`` for a field without value.
    """
    for name, value in fields.items():
        code = code.replace(f"@{name}@", repr(value))
    if "@" in code:
        raise InvalidField("code", f"has a field without a value: {code}")
    return Step("python", {"code": code})


def years(draw: random.Random, least: int, most: int) -> tuple[int, int]:
    """Draw a period of ``least`` to ``most`` years; returns its first and last year."""
    length = draw.randint(least, most)
    first = draw.randint(FIRST_YEAR, LAST_YEAR - length + 1)
    return first, first + length - 1


def span(first: int, last: int) -> tuple[str, str]:
    """Return the ISO dates of a period's first and last day."""
    return f"{first}-01-01", f"{last}-12-31"


def percentage(value: float) -> tuple[str, ...] | None:
    """Return the references of a percentage, with and without the sign; None when it is too small to compare."""
    return (f"{value:.2f}%", f"{value:.2f}") if math.isfinite(value) and abs(value) >= 1 else None


def plain(value: float, decimals: int = 4) -> tuple[str, ...]:
    """Return the reference of a number, rounded to ``decimals``."""
    return (f"{value:.{decimals}f}",)
