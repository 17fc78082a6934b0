"""The computations that a reading asks for: per group of clauses the series, the periods, and calls of the library."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

from fathom.services.policy.reference.reading import NOTHING, Reading, Words, load_table

YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
BOUND = re.compile(r"[<>](=?) (-?[\d.]+)( %)?")
# Arguments of a query that a computation from the bare series would leave out.
REFINEMENTS = ("unit", "currency", "transform", "entity_kind")


@dataclass(frozen=True)
class Plan:
    """A computation: the typed query of its data, and the calls of the finance library over them by measure."""

    query: Mapping[str, Any]
    measures: tuple[str, ...]
    windows: tuple[tuple[str, str], ...]
    values: Mapping[str, str] = field(default_factory=dict)

    def find(self, key: str) -> list[Any]:
        """Return what the table of measures says of these ones under a key."""
        known = load_table("measures")["measures"]
        return [known[name][key] for name in self.measures if key in known[name]]


@dataclass(frozen=True)
class Refusal:
    """What of a question this policy cannot compute, in the question's words."""

    words: tuple[str, ...]


def make_plans(reading: Reading, question: str) -> list[Plan | Refusal]:
    """Return what is to be computed, or stands against it, for each group of clauses that asks for something."""
    plans = [make_plan(group) for group in split_groups(reading, question)]
    return [plan for place, plan in enumerate(plans) if plan is not None and plan not in plans[:place]]


def split_groups(reading: Reading, question: str) -> list[Reading]:
    """Return the reading in parts: a clause with a measure, and another series or period than before, begins a new one.

    What a part leaves out it takes from the one before, the first one from the next.
    """
    starts = locate([words for _, words, _ in reading.asked], question)
    clauses: list[list[Words]] = [[] for _ in starts or [0]]
    for mention, at in zip(reading.mentions, locate([text for _, text, _ in reading.mentions], question), strict=True):
        clauses[max(sum(start <= at for start in starts) - 1, 0)].append(mention)
    groups: list[Reading] = []
    for place, mentions in enumerate(clauses):
        part = replace(reading, mentions=tuple(mentions), asked=reading.asked[place : place + 1])
        if groups and not begins_group(groups[-1], part):
            last = groups.pop()
            part = replace(part, mentions=last.mentions + part.mentions, asked=last.asked + part.asked)
        groups.append(part)
    for place in [*range(1, len(groups)), *range(len(groups) - 2, -1, -1)]:
        groups[place] = groups[place].complete(groups[place - 1 if place else 1])
    return groups


def locate(texts: Sequence[str], question: str) -> list[int]:
    """Return where each text begins, in their order; one that is not found is taken to stand where the last one is."""
    places, at = [], 0
    for text in texts:
        at = max(question.find(text, at), at)
        places.append(at)
    return places


def begins_group(group: Reading, part: Reading) -> bool:
    """Return whether a clause asks of other series or another period than the group before it."""
    is_other = bool(group.series and set(part.series) - set(group.series))
    is_other = is_other or bool(part.windows and group.windows and part.windows != group.windows)
    known = load_table("measures")["measures"]
    # A correlation with another series needs the series before as well.
    needed = max((known[name].get("series", 1) for name in list_names(part) & {*known}), default=1)
    return is_other and asks(group) and asks(part) and not 0 < len(part.series) < needed


def asks(part: Reading) -> bool:
    """Return whether a part of a question asks for a computation by itself."""
    table = load_table("measures")
    return bool(list_names(part) & {*table["measures"]} - {*table["ordering"]})


def list_names(part: Reading) -> set[str]:
    """Return the measures that a part of a question names or surely asks for."""
    return {*part.sure, *(load_table("measures")["aliases"].get(value, value) for _, value in part.measures)}


def list_wanted(reading: Reading, is_price: bool) -> list[str]:
    """Return the measures that a question asks for, by the classifier and by its own words."""
    table = load_table("measures")
    known, kinds = table["measures"], table["of_prices" if is_price else "of_levels"]
    sure = [kinds.get(name, name) for name, _, _ in reading.asked]
    sure = [name for name in sure if name in known and (is_price or known[name].get("levels"))]
    named = [table["aliases"].get(value, value) for text, value in reading.measures if reading.counts(text, value)]
    found = [*sure, *named]
    meant = found if is_price else [kinds.get(name, name) for name in found]
    inputs = {other for name in meant for other in known.get(name, {}).get("replaces", ())}
    # What a change is called replaces none.
    inputs -= set() if is_price or len({*found} & {*kinds, *kinds.values()}) > 1 else {*kinds}
    # "When was the spread lowest, and how low was it?" asks for no extremes of the series that the spread is made of.
    derives = {name for name in found if name not in kinds and known.get(name, {}).get("derives")}
    derived = {other for name in derives for other in known[name]["replaces"]}
    kept = [name for name in found if name not in (derived if name in sure else inputs)]
    return list(dict.fromkeys(name if name in kinds.values() else kinds.get(name, name) for name in kept))


def specialise(reading: Reading, asked: Sequence[str], is_price: bool) -> tuple[list[str], dict[str, Any]]:
    """Return the measures in the form that the series and the conditions of a question call for, and their values."""
    table = load_table("measures")
    # A sum of prices is nothing.
    found = [name for name in asked if name != "sum" or not is_price]
    values: dict[str, Any] = {}
    indicators, entities = reading.values("indicator"), reading.entities
    outputs, days = reading.values("output"), [value for value in reading.values("parameter") if " days" in value]
    rates = [*indicators, *reading.query.get("indicators", ())]
    if len(entities) == 2 and is_price and ("conversion" in outputs or table["inverse"] in rates):
        # Beside the euro each of them is asked for as well.
        replaced = () if "euro" in outputs else table["measures"]["cross"]["replaces"]
        found = ["cross", *(name for name in found if name not in replaced)]
    if "crossover" in found and len(days) == 1:
        found = ["average_gap"]
    # A portfolio without shares is one only where the question says so, and not only the classifier.
    if not any(" %" in value for value in reading.values("parameter")) and "portfolio" not in reading.values("measure"):
        found = [name for name in found if name != "portfolio"]
    is_deflated = reading.series and set(table["price_indices"]) & set(indicators)
    if is_deflated and not {"correlation", "spread", "beta"} & set(found):
        found = ["real", *(name for name in found if name not in table["measures"]["real"]["replaces"])]
    if "recovery" in found and is_price:
        found.append("max_drawdown")
    if is_price and "growth" in found and not {*table["months"]} & set(reading.values("measure")):
        found = ["return" if name == "growth" else name for name in found]
    if "growth" in found:
        months = [table["months"][value] for _, value in reading.measures if value in table["months"]]
        values |= {"months": (months or [12])[0], "annual": "annualized" in reading.values("measure")}
    elif "average_gap" not in found and (periods := find_periods(reading, found, is_price)):
        name, given = periods
        replaced = table["measures"][name]["replaces"]
        # The return of the whole period is asked for only where a clause of its own does so.
        moves = {"return", "change", "price"} if not reading.has_own_move() else set()
        found = [name, *(one for one in found if one not in {*replaced, *moves})]
        values |= given
    shown = [other for name in found for other in (name, table["measures"].get(name, {}).get("with")) if other]
    return list(dict.fromkeys(shown)), values


def find_periods(reading: Reading, asked: Sequence[str], is_price: bool) -> tuple[str, dict[str, Any]] | None:
    """Return the measure by periods that a count, a condition or a best and worst period asks for, and its values."""
    table = load_table("measures")
    conditions = [(text, value) for kind, text, value in reading.mentions if kind == "condition"]
    bounds = [match for _, value in conditions if (match := BOUND.match(value))]
    counted = [text for text, value in conditions if value in table["counted"] or value[:4] in ("min ", "max ")]
    counted += [text for text, value in reading.measures if value == "count"]
    # A sum of prices is nothing.
    means = [name for name in ("mean", *(() if is_price else ("sum",))) if name in reading.values("measure")]
    named = {table["aliases"].get(value, value) for value in reading.values("measure")}
    is_ranked = bool(means) and ("extreme" in named or bool(reading.values("frequency") and "return" not in named))
    # The clause with the bound says what is counted; its period is none of the lengths.
    clauses = [words for _, words, _ in reading.asked if is_ranked or any(text in words for text, _ in conditions)]
    for text in reading.texts("period"):
        clauses = [words.replace(text, "") for words in clauses]
    words = [*reading.values("frequency"), *clauses, *counted]
    every = next((length for word in words if (length := find_length(word))), "")
    is_counted = bool(bounds or counted or "count" in reading.sure)
    # "Monthly data" is no average of each month.
    if not every or not (is_counted or (is_ranked and every in ("year", "quarter"))):
        return None
    levels = [float(match[2]) for match in bounds]
    is_return = is_price and not means and (not bounds or bool(bounds[0][3]) or levels[0] == 0)
    moves = {"return", "change"} & set(asked)
    aggregate = "return" if is_return else means[0] if means else "change" if moves and not bounds else "last"
    level = levels[0] if levels else 0.0
    below, above = (-abs(level) / 100, abs(level) / 100) if is_return else (level, level)
    limits = (below, above) if levels or is_return else (None, None)
    of_spread = (
        len(reading.series) == 2 and "spread" in {*asked, *reading.sure, *reading.values("measure")} and not is_price
    )
    if of_spread:
        limits = (level, level)
    name = "periods_return" if is_return else "periods_spread" if of_spread else "periods_value"
    given = {"every": every, "aggregate": aggregate, "below": limits[0], "above": limits[1]}
    return name, given | {"inclusive": bool(bounds) and bool(bounds[0][1])}


def find_length(word: str) -> str:
    """Return the length of periods that a frequency or words name, as the finance library calls it; "" for none."""
    table = load_table("measures")
    named = (length for length, names in table["lengths"].items() if any(name in word.lower() for name in names))
    return str(table["periods"].get(word) or next(named, ""))


def make_plan(reading: Reading) -> Plan | Refusal | None:
    """Return the computation that a reading asks for, what stands against it, or None when it asks for none."""
    table = load_table("measures")
    known = table["measures"]
    prices = {*table["inputs"], *table["price_indices"]}
    is_price = bool(reading.entities) and not set(reading.values("indicator")) - prices
    asked, given = specialise(reading, list_wanted(reading, is_price), is_price)
    has_order = len(reading.entities) > 1 or "max_drawdown" in asked
    modifiers = {*table["neutral"], *(table["ordering"] if has_order or is_price else ["rank"])}
    wanted = [name for name in asked if name not in modifiers - reading.sure]
    if not wanted and (is_price or reading.has_found or "extreme" in asked) and reading.windows:
        # Extremes modify other measures, and stand for themselves without one. A period of which nothing is asked in
        # words that are understood is described as a whole.
        wanted = [name for name in asked if name in known] or ["summary"] * bool(reading.texts("unknown"))
    if not wanted and is_price and not reading.windows and "last" in reading.values("measure"):
        wanted = ["recent"]
    if not wanted:
        return None
    computed = [name for name in wanted if name in known]
    inputs = {other for name in computed for other in known[name].get("replaces", ())}
    against = list(find_unsupported(reading, {*computed, *inputs, *({"return"} - {*asked})}, is_price))
    # What is deflated is not the index by which it is.
    indices = {*table["price_indices"]} if "real" in computed else set()
    series = reading.entities or [name for name in reading.values("indicator") if name not in indices]
    needed = max((known[name].get("series", 1) for name in computed), default=1)
    if len(series) < needed or (needed > 1 and is_price):
        against += reading.unknown_names()
    if reading.entities and not reading.has_found:
        # What is asked of something else than the price is no question about the price.
        held = {*table["inputs"], *indices}
        against += [text for kind, text, value in reading.mentions if kind == "indicator" and value not in held]
    if not is_price and not reading.has_found:
        against += [name for name in computed if not known[name].get("levels") and name != "return"]
    # Both years together; a count of months in both; of averages each year is one.
    is_whole = given.get("below") is not None or ("sum" in reading.values("measure") and is_price)
    windows = (join_windows(reading.windows) if is_whole else reading.windows) or [("", "")]
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
    values |= {name: repr(value) for name, value in given.items()}
    return Plan(make_query(reading, computed, windows), tuple(computed), tuple(windows), values)


def join_windows(windows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the periods with neighbours as one."""
    joined: list[tuple[str, str]] = []
    for first, last in sorted(windows):
        before = date.fromisoformat(joined[-1][1]) if joined and joined[-1][1] else None
        if first and before is not None and date.fromisoformat(first) - before <= timedelta(days=1):
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def find_unsupported(reading: Reading, known: Collection[str], is_price: bool) -> Iterator[str]:
    """Yield the words for measures that are not ``known``, for conditions, and for numbers that no measure takes."""
    table = load_table("measures")
    measures = [table["measures"][name] for name in known if name in table["measures"]]
    takes = {unit for measure in measures for unit in measure.get("takes", ())}
    has_order = len(reading.entities) > 1 or "max_drawdown" in known
    computed = {*known, *table["neutral"], *(table["ordering"] if has_order else ())}
    computed |= {*table["weak"]} if reading.sure else set()
    is_converted = bool({*known} & {"cross", "growth", "real"})
    has_conversion = is_converted or reading.cross_rate is not None
    has_periods = any("{every}" in measure["call"] or "finance.by_period" in measure["call"] for measure in measures)
    has_frequency = bool(takes) or has_periods or not is_price or any("frequency" in one for one in measures)
    for (kind, text, value), after in pairwise([*reading.mentions, NOTHING]):
        name, (number, _, unit) = table["aliases"].get(value, value), value.partition(" ")
        years, (first, _, last) = YEAR.findall(text), value.partition("/")
        is_counted = has_periods and (value in table["counted"] or number in ("min", "max", "<", ">", "<=", ">="))
        refused = {
            "measure": name not in computed or (value == "last" and is_whole_month(after)),
            "frequency": value not in ("daily", reading.frequency) and not has_frequency,
            "condition": not is_counted,
            "unknown": any(map(str.isdigit, text)),
            # "Same" refers to words that are not in this question.
            "output": (value == "conversion" and not has_conversion) or (value == "same" and not reading.windows),
            "parameter": unit not in takes and value not in table["plain"] and not reading.spans(text, number, unit),
            # One mention may stand for several years, of which it has one.
            "period": any(year < first[:4] or (last[:4].isdigit() and year > last[:4]) for year in years),
        }
        if refused.get(kind):
            yield text
    taken = REFINEMENTS if is_converted else ("currency",) if reading.cross_rate else ()
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
    # Shares that nobody states are equal.
    rates = [100 / len(series)] * len(series) if is_portfolio and not rates else rates
    if ("%" in takes and len(rates) != (len(series) if is_portfolio else 1)) or (
        "days" in takes and len(days) != (1 if "average_gap" in wanted else 2)
    ):
        return None
    rebalance = (periods or ["none"])[0].replace("observation", "day")
    values: dict[str, Any] = {"weights": [rate / 100 for rate in rates], "rebalance": rebalance}
    values |= {"amount": (amounts or [100.0])[0]}
    values |= {"rate": (rates or [0.0])[0], "fast": min(days, default=0), "slow": max(days, default=0)}
    return {name: repr(value) for name, value in values.items()}


def make_query(reading: Reading, wanted: Sequence[str], windows: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the arguments of the data tool for the series of a computation."""
    table = load_table("measures")
    measures = [table["measures"][name] for name in wanted]
    indicators = [name for one in measures for name in one.get("indicators", ())]
    if not indicators and (reading.has_found or not reading.entities):
        indicators = reading.values("indicator")
    if any("index" in measure for measure in measures):
        indicators = [name for name in indicators if name not in table["price_indices"]] or table["inputs"][:1]
        indicators = [*indicators, table["price_index"]]
    starts, ends = [first for first, _ in windows], [last for _, last in windows]
    frequency = next((measure["index"] for measure in measures if "index" in measure), "")
    if not frequency and any(measure.get("frequency") for measure in measures) and reading.frequency != "daily":
        frequency = reading.frequency
    query = {"entities": reading.entities, "indicators": indicators, "frequency": frequency}
    if reading.cross_rate:
        query["currency"] = reading.cross_rate[1]
    is_open = any("forward" in measure for measure in measures)
    query["end_date"] = max(ends) if all(ends) and not is_open else ""
    if all(starts):
        history = timedelta(days=max(measure.get("history_days", 0) for measure in measures))
        # Returns count from the last value before the period.
        query |= {"start_date": str(date.fromisoformat(min(starts)) - history), "include_previous": True}
    return {name: value for name, value in query.items() if value}
