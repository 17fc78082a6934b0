"""The program of a question as a result of the data tool carries it: steps with their series, and what it leaves out.

The planner writes it into the head of the result; whoever reads the conversation, a policy or the planner's own check
of an answer, reads it here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from fathom.domain.programs.language import LOOKING_UP

CALCULATION = "calculation"
# Kinds of unused words without which a program computes something else.
DECISIVE = ("UNUSED_NAME", "UNUSED_PERIOD", "UNUSED_NUMBER")
# A call as the steps write it: "f.maximum(f.within(s1, …))".
FUNCTION = re.compile(r"\bf\.(\w+)\(")
# What steps write for the periods of the language.
PERIOD = "period"


@dataclass(frozen=True)
class ProgramSeries:
    """A series by its name in the steps, with the question's words for it.

    One of the user's own table has that table's variable, its column there, the column of the dates and its place in
    the file. ``rows`` is "yes" where the steps take its rows as they stand there, and no series over time.
    """

    name: str
    words: str = ""
    entity: str = ""
    indicator: str = ""
    variable: str = ""
    column: str = ""
    dates: str = ""
    cells: str = ""
    rows: str = ""


@dataclass(frozen=True)
class ResolvedProgram:
    """Steps as Python over ``finance.steps``, the series that they need, and what keeps them from being computed.

    ``labels`` are the steps in words, English and Chinese, ``words`` those of the question that it uses; ``missing``
    and ``unused`` have words with a reason. Both confidences are probabilities, of its words and of its least sure
    series.
    """

    kind: str = ""
    steps: tuple[str, ...] = ()
    labels: tuple[Sequence[str], ...] = ()
    series: tuple[ProgramSeries, ...] = ()
    assumptions: tuple[Mapping[str, Any], ...] = ()
    missing: tuple[Mapping[str, str], ...] = ()
    unused: tuple[Mapping[str, str], ...] = ()
    confidence: float = 0.0
    link_confidence: float = 0.0
    words: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, found: object) -> ResolvedProgram | None:
        """Return the program that the head of a result has; None for none."""
        if not isinstance(found, Mapping):
            return None
        known = {one.name: found[one.name] for one in fields(cls) if one.name in found}
        lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list | tuple)}
        names = [one.name for one in fields(ProgramSeries)]
        series = [{name: str(one[name]) for name in names if name in one} for one in lists.get("series", ())]
        return cls(**{**known, **lists, "series": tuple(ProgramSeries(**one) for one in series)})

    def to_json(self) -> dict[str, Any]:
        """Return the program as the head of a result has it, its series without what they have not."""
        series = [{name: text for name, text in asdict(one).items() if text} for one in self.series]
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, "series": series}

    @property
    def is_computable(self) -> bool:
        """Return whether it is a calculation of which nothing is missing."""
        return self.kind == CALCULATION and bool(self.steps and self.series) and not self.missing

    @property
    def leaves_out(self) -> bool:
        """Return whether the question has a name, a period or a number that no step uses."""
        return any(one["reason"] in DECISIVE for one in self.unused)

    @property
    def is_lookup(self) -> bool:
        """Return whether its one step only looks up a value of its one series."""
        return len(self.steps) == len(self.series) == 1 and {*self.functions[0]} <= {*LOOKING_UP, PERIOD}

    @property
    def functions(self) -> list[list[str]]:
        """Return the functions that each step calls, the outer ones first."""
        return [FUNCTION.findall(code) for code in self.steps]
