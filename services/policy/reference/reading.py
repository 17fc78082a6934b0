"""The data tool's typed reading of a question: what its words mean, and which computation they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import yaml

from fathom.services.policy.reference.conversation import Step

Words = tuple[str, str, str]
"""Kind, words and canonical value of a mention."""
NOTHING: Words = ("", "", "")
SERIES = ("entity", "indicator")


@cache
def load_table(name: str) -> Mapping[str, Any]:
    """Return a table of this package: "measures" (calls of the finance library) or "texts" (words of answers)."""
    text = resources.files("fathom.services.policy.reference").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


@dataclass(frozen=True)
class Reading:
    """The mentions of a question in their order, the query made of them, and what was missing or not understood."""

    mentions: tuple[Words, ...] = ()
    query: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[Mapping[str, Any], ...] = ()
    has_found: bool = False
    """True when the catalogue knew the words that the data tool did not."""
    asked: tuple[Words, ...] = ()
    """What each clause asks for as the classifier sees it, its words, and "rise" or "fall" if it presumes that."""

    @property
    def sure(self) -> set[str]:
        """Return the measures that the classifier is sure of."""
        return {name for name, _, _ in self.asked if name}

    def spans(self, text: str, number: str, unit: str) -> bool:
        """Return whether a number says what is known anyway: one, how many series, or how many years the period has."""
        ends = [int(day[:4]) for window in self.windows[:1] for day in window if day]
        # "Two" names or dates are as many as there are; a number in digits may be a bound or a length.
        is_span = (not unit and not any(map(str.isdigit, text))) or (
            unit == "years" and len(ends) == 2 and number.isdigit() and abs(ends[1] - ends[0] - int(number)) <= 1
        )
        return is_span or number in ("1", str(len(self.entities)))

    def values(self, kind: str) -> list[str]:
        """Return the distinct values of one kind of mentions, in order."""
        return list(dict.fromkeys(value for one, _, value in self.mentions if one == kind))

    def texts(self, kind: str) -> list[str]:
        """Return the distinct words of one kind of mentions, in order."""
        return list(dict.fromkeys(text for one, text, _ in self.mentions if one == kind))

    @property
    def names(self) -> dict[str, str]:
        """Return the question's own words for each entity and indicator; those of a group name none of its members."""
        named = [(text, value) for kind, text, value in reversed(self.mentions) if kind in ("entity", "indicator")]
        if self.cross_rate:
            priced, base = self.cross_rate
            return {priced: f"{base}/{priced}"} | {value: text for text, value in named if value not in (priced, base)}
        groups = {text for text, value in named if any(other == text and one != value for other, one in named)}
        return {value: text for text, value in named if text not in groups}

    @property
    def cross_rate(self) -> tuple[str, str] | None:
        """Return the currency that is priced and the one that it is priced for, neither of them the euro."""
        names, base = self.query.get("entities", ()), str(self.query.get("currency", ""))
        is_rate = list(self.query.get("indicators", ())) == [load_table("measures")["inverse"]]
        return (str(names[0]), base) if base and is_rate and len(names) == 1 else None

    @property
    def entities(self) -> list[str]:
        if self.cross_rate:
            return [self.cross_rate[0]]
        # Names behind shares are those of a portfolio, beside the currency of its value.
        pairs = pairwise(self.mentions)
        held = [one[2] for before, one in pairs if one[0] == "entity" and before[0] == "parameter" and "%" in before[2]]
        if len(held) > 1:
            return list(dict.fromkeys(held))
        # An economy is no series, and the euro is the base of all rates.
        return [name for name in self.values("entity") if name not in load_table("measures")["no_series"]]

    @property
    def series(self) -> list[str]:
        """Return the entities that have series, or else the indicators beside prices."""
        table = load_table("measures")
        others = {*table["inputs"], *table["price_indices"]}
        return self.entities or [name for name in self.values("indicator") if name not in others]

    def complete(self, other: Reading) -> Reading:
        """Return this part of a question with the series and the periods of another part, where it has none itself."""
        kinds = (*(() if self.series else SERIES), *(() if self.windows else ("period",)))
        taken = tuple(one for one in other.mentions if one[0] in kinds and one not in self.mentions)
        return replace(self, mentions=taken + self.mentions)

    def has_own_move(self) -> bool:
        """Return whether a clause asks how far a value moved, and for no count or period of it."""
        marks = [text for kind, text, _ in self.mentions if kind == "condition"]
        moves = [words for name, words, _ in self.asked if name in ("return", "max_drawdown")]
        return any(not any(text in words for text in marks) for words in moves)

    @property
    def windows(self) -> list[tuple[str, str]]:
        """Return the periods as first and last day, "" for an open end; two single days are one period."""
        found = [value.partition("/")[::2] for value in self.values("period") if "/" in value]
        if len(found) == 2 and all(first == last for first, last in found):
            return [(found[0][0], found[1][1])]
        return [(first.strip("."), last.strip(".")) for first, last in found]

    @property
    def frequency(self) -> str:
        """Return the frequency right before a measure, in which its returns are taken; "" for none."""
        pairs = pairwise(self.mentions)
        return next((one[2] for one, other in pairs if (one[0], other[0]) == ("frequency", "measure")), "")

    @property
    def measures(self) -> list[tuple[str, str]]:
        """Return words and values of measures; a return behind its frequency is only the input of another one."""
        pairs = pairwise([NOTHING, *self.mentions])
        found = [one for before, one in pairs if one[0] == "measure" and (before[0], one[2]) != ("frequency", "return")]
        return [(text, value) for kind, text, value in found or self.mentions if kind == "measure"]

    def counts(self, text: str, value: str) -> bool:
        """Return whether a word asks for a measure by itself, beside what the classifier says of its clause."""
        weak = load_table("measures")["weak"].get(value, "")
        verdicts = [name for name, clause, _ in self.asked if text in clause]
        known = load_table("measures")["measures"]
        calls = {known[name]["call"] for name in self.sure if name in known}
        # Measures of one call show the same figures, "highest" beside "average" more of them.
        if known.get(load_table("measures")["aliases"].get(value, value), {}).get("call") in calls:
            return True
        if weak == "still" and "return" in verdicts:
            return False
        return not self.sure or not weak or weak == "still" or (bool(verdicts) and (weak == "clause" or "" in verdicts))

    def unknown_names(self) -> list[str]:
        return [str(item.get("subject", "")) for item in self.missing if item.get("reason") == "UNKNOWN_ENTITY"]


def is_reason(question: str) -> bool:
    """Return whether a question asks for a reason or an explanation, which only a document can give."""
    return any(word in question.lower() for word in load_table("measures")["reasons"])


def read_step(step: Step) -> Reading:
    """Return the reading that a result of the data tool carries."""
    words = step.head.get("words", ())
    measures = {text for kind, text, _ in words if kind == "measure"}
    # "Returns" names the prices that they are computed of as well.
    inputs = {("indicator", text, name) for text in measures for name in load_table("measures")["inputs"]}
    mentions = tuple(one for kind, text, value in words if (one := (str(kind), str(text), str(value))) not in inputs)
    asked = tuple((str(name), str(text), str(premise)) for name, text, premise in step.head.get("asked", ()))
    return Reading(mentions, step.head.get("read_as") or {}, tuple(step.head.get("missing") or ()), asked=asked)


def is_incomplete(reading: Reading) -> bool:
    """Return whether a question names no series, or nothing that is asked of one."""
    indicators = reading.values("indicator")
    has_measure = reading.values("measure") or indicators or reading.sure
    return not (reading.entities or indicators) or not has_measure or is_bare(reading)


def is_bare(reading: Reading) -> bool:
    """Return whether a question names no measure but points to an earlier one, as "now for 2021 instead" does.

    What the classifier makes of such a rest is mostly a return.
    """
    measures, neutral = {*reading.values("measure")}, {*load_table("measures")["neutral"]}
    points = measures & neutral or {"same", "comparison"} & {*reading.values("output")}
    return bool(points) and not measures - neutral and reading.sure <= {"return", "level"}


def inherit(reading: Reading, earlier: Reading) -> Reading:
    """Return the reading of a follow-up with what it leaves out from the reading of the question before."""
    takes = is_bare(reading) and bool(earlier.values("measure"))
    asked = ("measure", "frequency", "parameter")
    groups = (SERIES, ("period",), asked)
    taken = [kind for one in groups if (one is asked and takes) or not any(map(reading.values, one)) for kind in one]
    mentions = reading.mentions + tuple(one for one in earlier.mentions if one[0] in taken)
    return replace(reading, mentions=mentions, asked=earlier.asked if takes else reading.asked)


def add_series(reading: Reading, step: Step) -> Reading:
    """Return the reading with the first series of the catalogue, if it is one whose name has all words asked for."""
    rows = [line.split(" | ") for line in step.body.splitlines()[1:]]
    if not step.is_ok or step.head.get("unmatched") or not rows or len(rows[0]) < 3 or ", " in rows[0][0]:
        return reading
    entity, indicator, name = rows[0][:3]
    found = (("entity", name, entity), ("indicator", name, indicator))
    return replace(reading, mentions=reading.mentions + found, has_found=True)
