"""What tasks over the tables share: series, typed queries, periods, and a draft that becomes a task."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from fathom.errors import InvalidField
from trainers.synth.bundle import Bundle
from trainers.synth.task import Language, Scenario, Step, SynthTask, Wording, unique

PRICE, RATE = "close_adj", "eur_rate"
FIRST_YEAR, LAST_YEAR = 2000, 2021
"""Whole years that all companies' prices and all monthly series cover."""
TOLERANCE = {"rel_tol": 0.005}
EXACT = {"rel_tol": 0.0}
MAX_DRAWS = 200


@dataclass(frozen=True)
class Draft:
    """A task before it has a language: ``fields`` fill its wording, by language where they differ."""

    wording: Wording
    fact: str
    fields: Mapping[Language, Mapping[str, object]]
    references: tuple[str, ...]
    path: tuple[Step, ...]
    grader: str = "number"
    parameters: Mapping[str, float] = field(default_factory=lambda: TOLERANCE)


Template = Callable[[Bundle, random.Random], Draft | None]
"""Draws a question of one kind and computes its answer; None when what was drawn has no clear one."""


def drafted(
    bundle: Bundle, scenario: Scenario, templates: Mapping[str, Template], count: int, seed: int
) -> list[SynthTask]:
    """``count`` tasks, kinds and languages in turn; raises ``InvalidField`` when the data do not give so many."""
    draw = random.Random(f"{scenario}:{seed}")
    return unique(turns(bundle, scenario, templates, draw, MAX_DRAWS + 4 * count), count)


def turns(
    bundle: Bundle, scenario: Scenario, templates: Mapping[str, Template], draw: random.Random, rounds: int
) -> Iterator[SynthTask]:
    """One task of each kind per round, in a language that alternates."""
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
    """Fields that read the same in both languages."""
    return {"en": dict(fields), "zh": dict(fields)}


def data(entities: Sequence[str], indicators: Sequence[str], start: str, end: str) -> Step:
    """The typed query that gives these series as ``sheet_1``, a column ENTITY.indicator each."""
    return Step(
        "data",
        {"entities": list(entities), "indicators": list(indicators), "start_date": start, "end_date": end},
    )


def cell(code: str, **fields: Any) -> Step:
    """A Python cell; ``code`` is a template in which fields stand as @name@."""
    for name, value in fields.items():
        code = code.replace(f"@{name}@", repr(value))
    if "@" in code:
        raise InvalidField("code", f"has a field without a value: {code}")
    return Step("python", {"code": code})


def years(draw: random.Random, least: int, most: int) -> tuple[int, int]:
    """The first and the last year of a period of ``least`` to ``most`` years."""
    length = draw.randint(least, most)
    first = draw.randint(FIRST_YEAR, LAST_YEAR - length + 1)
    return first, first + length - 1


def span(first: int, last: int) -> tuple[str, str]:
    """ISO dates of the first and the last day."""
    return f"{first}-01-01", f"{last}-12-31"


def percentage(value: float) -> tuple[str, ...] | None:
    """References of a percentage, with and without its sign; None when it is too small to compare."""
    return (f"{value:.2f}%", f"{value:.2f}") if math.isfinite(value) and abs(value) >= 1 else None


def plain(value: float, decimals: int = 4) -> tuple[str, ...]:
    """The reference of a number."""
    return (f"{value:.{decimals}f}",)
