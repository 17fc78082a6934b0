"""The data tool's typed reading of a question: what its words mean, and which computation they ask for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import yaml

from fathom.services.policy.reference.conversation import Step

Words = tuple[str, str, str]
"""Kind, words and canonical value of a mention."""
NOTHING: Words = ("", "", "")
YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
# Arguments of a query that a computation from the bare series would leave out.
REFINEMENTS = ("unit", "currency", "transform", "entity_kind")


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
        return not self.sure or not weak or (bool(verdicts) and (weak == "clause" or "" in verdicts))

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
    return not (reading.entities or indicators) or not (reading.values("measure") or indicators or reading.sure)


def inherit(reading: Reading, earlier: Reading) -> Reading:
    """Return the reading of a follow-up with what it leaves out from the reading of the question before."""
    groups = (("entity", "indicator"), ("measure", "frequency", "parameter"), ("period",))
    taken = [kind for kinds in groups if not any(map(reading.values, kinds)) for kind in kinds]
    return replace(reading, mentions=reading.mentions + tuple(one for one in earlier.mentions if one[0] in taken))


def add_series(reading: Reading, step: Step) -> Reading:
    """Return the reading with the first series of the catalogue, if it is one whose name has all words asked for."""
    rows = [line.split(" | ") for line in step.body.splitlines()[1:]]
    if not step.is_ok or step.head.get("unmatched") or not rows or len(rows[0]) < 3 or ", " in rows[0][0]:
        return reading
    entity, indicator, name = rows[0][:3]
    found = (("entity", name, entity), ("indicator", name, indicator))
    return replace(reading, mentions=reading.mentions + found, has_found=True)


@dataclass(frozen=True)
class Plan:
    """A computation: the typed query of its data, and the calls of the finance library over them by measure."""

    query: Mapping[str, Any]
    measures: tuple[str, ...]
    windows: tuple[tuple[str, str], ...]
    values: Mapping[str, str] = field(default_factory=dict)


def needs_history(plan: Plan) -> bool:
    """Return whether a measure of a plan reads values from before its period."""
    return any("history_days" in load_table("measures")["measures"][name] for name in plan.measures)


@dataclass(frozen=True)
class Refusal:
    """What of a question this policy cannot compute, in the question's words."""

    words: tuple[str, ...]


def list_wanted(reading: Reading, is_price: bool) -> list[str]:
    """Return the measures that a question asks for, by the classifier and by its own words."""
    table = load_table("measures")
    known, kinds = table["measures"], table["of_prices" if is_price else "of_levels"]
    sure = [kinds.get(name, name) for name, _, _ in reading.asked]
    sure = [name for name in sure if name in known and (is_price or known[name].get("levels"))]
    named = [table["aliases"].get(value, value) for text, value in reading.measures if reading.counts(text, value)]
    found = [*sure, *named]
    inputs = {other for name in found for other in known.get(name, {}).get("replaces", ())}
    # "When was the spread lowest, and how low was it?" asks for no extremes of the series that the spread is made of.
    derives = {name for name in found if name not in kinds and known.get(name, {}).get("derives")}
    derived = {other for name in derives for other in known[name]["replaces"]}
    kept = [name for name in found if name not in (derived if name in sure else inputs)]
    return list(dict.fromkeys(name if name in kinds.values() else kinds.get(name, name) for name in kept))


def make_plan(reading: Reading) -> Plan | Refusal | None:
    """Return the computation that a reading asks for, what stands against it, or None when it asks for none."""
    table = load_table("measures")
    known = table["measures"]
    is_price = bool(reading.entities) and not set(reading.values("indicator")) - {*table["inputs"]}
    asked = list_wanted(reading, is_price)
    has_order = len(reading.entities) > 1 or "max_drawdown" in asked
    modifiers = {*table["neutral"], *(table["ordering"] if has_order or is_price else ["rank"])}
    wanted = [name for name in asked if name not in modifiers - reading.sure]
    if not wanted and (is_price or reading.has_found or "extreme" in asked) and reading.windows:
        # Extremes modify other measures, and stand for themselves without one. A period of which nothing is asked in
        # words that are understood is described as a whole.
        wanted = [name for name in asked if name in known] or ["summary"] * bool(reading.texts("unknown"))
    if not wanted:
        return None
    computed = [name for name in wanted if name in known]
    inputs = {other for name in computed for other in known[name].get("replaces", ())}
    against = list(find_unsupported(reading, {*computed, *inputs, *({"return"} - {*asked})}, is_price))
    # What is deflated is not the index by which it is.
    index = table["price_index"] if "real" in computed else ""
    series = reading.entities or [name for name in reading.values("indicator") if name != index]
    needed = max((known[name].get("series", 1) for name in computed), default=1)
    if len(series) < needed or (needed > 1 and is_price):
        against += reading.unknown_names()
    if reading.entities and not reading.has_found:
        # What is asked of something else than the price is no question about the price.
        held = {*table["inputs"], index}
        against += [text for kind, text, value in reading.mentions if kind == "indicator" and value not in held]
    if not is_price and not reading.has_found:
        against += [name for name in computed if not known[name].get("levels")]
    windows = reading.windows or [("", "")]
    # A period that is none is not the whole series.
    against += [str(one["subject"]) for one in reading.missing if one.get("period") and not reading.windows]
    # A portfolio has one period. The return of a day counts from the row before, which only the first period has.
    if len(windows) > 1 and ("portfolio" in computed or any(first == last for first, last in windows)):
        against += reading.texts("period")
    has_series = len(series) >= needed
    values = find_values(reading, computed, series) if has_series and not against else None
    if values is None:
        unread = [] if has_series else reading.texts("unknown")
        return Refusal(tuple(dict.fromkeys([*against, *unread] or reading.texts("measure"))))
    return Plan(make_query(reading, computed, windows), tuple(computed), tuple(windows), values)


def find_unsupported(reading: Reading, known: Collection[str], is_price: bool) -> Iterator[str]:
    """Yield the words for measures that are not ``known``, for conditions, and for numbers that no measure takes."""
    table = load_table("measures")
    measures = [table["measures"][name] for name in known if name in table["measures"]]
    takes = {unit for measure in measures for unit in measure.get("takes", ())}
    has_order = len(reading.entities) > 1 or "max_drawdown" in known
    computed = {*known, *table["neutral"], *(table["ordering"] if has_order else ())}
    computed |= {*table["weak"]} if reading.sure else set()
    has_frequency = bool(takes) or not is_price or any("frequency" in measure for measure in measures)
    for (kind, text, value), after in pairwise([*reading.mentions, NOTHING]):
        name, (number, _, unit) = table["aliases"].get(value, value), value.partition(" ")
        years, (first, _, last) = YEAR.findall(text), value.partition("/")
        refused = {
            "measure": name not in computed or (value == "last" and is_whole_month(after)),
            "frequency": value not in ("daily", reading.frequency) and not has_frequency,
            "condition": True,
            "unknown": any(map(str.isdigit, text)),
            # "Same" refers to words that are not in this question.
            "output": value == "conversion" or (value == "same" and not reading.windows),
            "parameter": unit not in takes and value not in table["plain"] and not reading.spans(text, number, unit),
            # One mention may stand for several years, of which it has one.
            "period": any(year < first[:4] or (last[:4].isdigit() and year > last[:4]) for year in years),
        }
        if refused.get(kind):
            yield text
    taken = {"currency"} if reading.cross_rate else set()
    yield from (str(reading.query[name]) for name in REFINEMENTS if name in reading.query and name not in taken)


def is_whole_month(mention: Words) -> bool:
    """Return whether a mention is a period from the first of a month: the end of it is a day that it does not say."""
    return mention[0] == "period" and mention[2].partition("/")[0].endswith("-01")


def find_values(reading: Reading, wanted: Sequence[str], series: Sequence[str]) -> dict[str, str] | None:
    """Return the arguments beside data and dates that the measures take; None when one of them is not given."""
    table = load_table("measures")
    takes = {unit for name in wanted for unit in table["measures"][name].get("takes", ())}
    given = [value.partition(" ") for kind, _, value in reading.mentions if kind == "parameter"]
    given = [one for one in given if re.fullmatch(r"[\d.]+", one[0])]
    rates = [float(number) for number, _, unit in given if unit == "%"]
    days = sorted(int(number) for number, _, unit in given if unit == "days" and number.isdigit())
    periods = [table["periods"].get(value, "none") for value in reading.values("frequency")]
    amounts = [float(number) for number, _, unit in given if not unit and number != "1"]
    is_portfolio = "portfolio" in wanted
    if ("%" in takes and len(rates) != (len(series) if is_portfolio else 1)) or ("days" in takes and len(days) != 2):
        return None
    values: dict[str, Any] = {"weights": [rate / 100 for rate in rates], "rebalance": (periods or ["none"])[0]}
    values |= {"amount": (amounts or [100.0])[0]}
    values |= {"rate": (rates or [0.0])[0], "fast": min(days, default=0), "slow": max(days, default=0)}
    return {name: repr(value) for name, value in values.items()}


def make_query(reading: Reading, wanted: Sequence[str], windows: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the arguments of the data tool for the series of a computation."""
    table = load_table("measures")
    measures = [table["measures"][name] for name in wanted]
    indicators = reading.values("indicator") if reading.has_found or not reading.entities else []
    if any("index" in measure for measure in measures):
        indicators = list(dict.fromkeys([*(indicators or table["inputs"][:1]), table["price_index"]]))
    starts, ends = [first for first, _ in windows], [last for _, last in windows]
    frequency = next((measure["index"] for measure in measures if "index" in measure), "")
    if not frequency and any(measure.get("frequency") for measure in measures) and reading.frequency != "daily":
        frequency = reading.frequency
    query = {"entities": reading.entities, "indicators": indicators, "frequency": frequency}
    if reading.cross_rate:
        query["currency"] = reading.cross_rate[1]
    query["end_date"] = max(ends) if all(ends) else ""
    if all(starts):
        history = timedelta(days=max(measure.get("history_days", 0) for measure in measures))
        # Returns count from the last value before the period.
        query |= {"start_date": str(date.fromisoformat(min(starts)) - history), "include_previous": True}
    return {name: value for name, value in query.items() if value}
