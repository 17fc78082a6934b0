"""Decision per slot: filled, open or unsure, by what the used material offers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from fathom.domain.text.numerals import parse_numeral
from fathom.domain.text.terms import list_words as list_terms
from fathom.services.planner.answering.verification.dates import find_moments
from fathom.services.planner.answering.verification.numbers import find_numbers, is_close
from fathom.services.planner.coverage.facts import Facts, Used
from fathom.services.planner.model.episode import MaterialKind
from fathom.services.planner.model.slots import TOPIC, Slot, SlotKind, SlotState, parse_interval
from fathom.services.planner.reader import MIN_CONFIDENCE

# Days by which a series may begin or end inside a period: holidays and weekends, or one step of the series.
SLACK_DAYS = 7
QUARTER_DAYS = 92
# Conditions that ask for the dates on which something holds.
DATED = frozenset({"rows", "first", "last"})
LAYOUTS = frozenset({"comparison", "series", "each", "report"})
LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s", re.MULTILINE)
# Words of an identifier such as ``max_drawdown`` or ``closeAdj``; each Chinese character is one.
TOKEN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[\u3400-\u9fff]")
WORD = re.compile(r"\w+")
# The same length or share in other units: trading and calendar days of weeks, months and years, and shares of 万分之.
EQUAL = (
    (re.compile(r"years?|年"), (12, 52, 252, 365)),
    (re.compile(r"months?|个月"), (1 / 12, 21, 30)),
    (re.compile(r"weeks?|周"), (5, 7)),
    (re.compile("万分之"), (1e-4,)),
    (re.compile("千分之"), (1e-3,)),
)
LETTER = re.compile(r"[^\W\d_]")
YEAR = re.compile(r"\d{4}")
# Measures that answer the question of another one.
ALIKE: Mapping[str, tuple[str, ...]] = {
    "return": ("cagr", "index"),
    # Asked for without a statistic, it is answered by any that says how far a value moved.
    "performance": ("return", "cagr", "change", "growth", "index"),
    "change": ("return", "growth", "yoy", "qoq", "mom"),
    "growth": ("return", "cagr", "change", "yoy", "qoq", "mom"),
    "yoy": ("growth",),
    "sum": ("count",),
    "crossover": ("moving_average", "rolling"),
}
# A drawdown answers the question of the largest one: they say which value of a series is meant.
QUALIFIERS = frozenset({"max", "maximum", "min", "minimum", "largest", "total", "annualized", "annualised", "最", "大"})
# A company may be listed by any spelling; shorter words would be found inside others.
LEAST_NAME = 2
FILLED, OPEN, UNSURE = SlotState.FILLED, SlotState.OPEN, SlotState.UNSURE
Verdict = tuple[SlotState, str, Sequence[int]]


@dataclass(frozen=True)
class SlotChecker:
    """Checks slots against the material that an answer uses."""

    used: Used

    def check(self, slots: Sequence[Slot]) -> tuple[Slot, ...]:
        """Return the slots with state, reason and material."""
        entities = [slot for slot in slots if slot.kind is SlotKind.ENTITY]

        periods = [slot for slot in slots if slot.kind is SlotKind.PERIOD]

        def check_period(slot: Slot) -> Verdict:
            state, detail, material = self._judge_period(slot, entities)
            # "The five days before" counts from the date beside it, which a reading of the words alone cannot know.
            is_relative = len(periods) > 1 and not YEAR.search(slot.text)
            return (UNSURE if state is OPEN and is_relative else state), detail, material

        def check_parameter(slot: Slot) -> Verdict:
            # "The three of them" counts the names beside it.
            if len(entities) > 1 and any(value == len(entities) for value, _ in find_values(slot)):
                return FILLED, "", ()
            return self._check_parameter(slot)

        checks: Mapping[SlotKind, Callable[[Slot], Verdict]] = {
            SlotKind.ENTITY: self._check_entity,
            SlotKind.INDICATOR: self._check_indicator,
            SlotKind.PERIOD: check_period,
            SlotKind.FREQUENCY: self._check_frequency,
            SlotKind.MEASURE: self._check_measure,
            SlotKind.CONDITION: self._check_condition,
            SlotKind.PARAMETER: check_parameter,
            SlotKind.OUTPUT: self._check_output,
            SlotKind.UNKNOWN: self._check_unknown,
        }
        found = []
        for slot in slots:
            state, detail, material = checks[slot.kind](slot)
            if state is OPEN and slot.kind in TOPIC and slot.confidence < MIN_CONFIDENCE:
                state = UNSURE  # "case drawn" may mean a drawdown: what is only likely to be asked for is not missing
            found.append(replace(slot, state=state, detail=detail, material=tuple(sorted(set(material)))))
        return tuple(found)

    def _says(self, text: str) -> bool:
        return text.casefold() in self.used.markdown.casefold()

    @property
    def _cells(self) -> list[Facts]:
        return self.used.of(MaterialKind.CODE)

    def _check_entity(self, slot: Slot) -> Verdict:
        names = [name.casefold() for name in (slot.value, slot.text) if len(name) >= LEAST_NAME]
        by_id = [facts.number for facts in self.used.facts if slot.value and slot.value in facts.entities]
        if by_id:
            return FILLED, "", by_id
        # Documents name their entities in words; so do results that a cell has printed by name.
        said = [facts.number for facts in self.used.facts if any(name in facts.text for name in names)]
        return (FILLED, "", said) if said else (OPEN, "nothing that the answer uses is about it", ())

    def _check_indicator(self, slot: Slot) -> Verdict:
        # A derived column names its inputs in its formula.
        exact = [f.number for f in self.used.facts if slot.value in f.indicators or slot.value in list_words(f.labels)]
        if slot.value and exact:
            return FILLED, "", exact
        said = [f.number for f in self.used.facts if slot.text.casefold() in f.text and not f.indicators]
        if said:
            return FILLED, "", said
        near = self.used.alike.get(slot.text, frozenset())
        like = sorted({name for facts in self.used.facts for name in facts.indicators & near})
        if like:
            return UNSURE, f"the data are of {', '.join(like)}", ()
        # What a source was asked for and lacks is no other name of the data that there are.
        if slot.value and slot.value in list_words(self.used.lacks):
            return OPEN, "nothing that the answer uses holds it", ()
        if self._says(slot.text) and self._cells:
            return UNSURE, "the answer names it, its data have another name", ()
        if any(facts.indicators for facts in self.used.facts) or not self._cells:
            return OPEN, "nothing that the answer uses holds it", ()
        return UNSURE, "the calculation does not name its data", ()

    def _check_measure(self, slot: Slot) -> Verdict:
        wanted = slot.value or slot.text.casefold()
        ordered = [facts.number for facts in self.used.facts if wanted in facts.orders]
        if ordered:
            return FILLED, "", ordered
        # Whoever is ranked is seen by the reader, whoever ordered them.
        if wanted == "rank" and self._cells:
            return UNSURE, "the order was not verified", ()
        alike = {wanted, *ALIKE.get(wanted, ())}
        exact = [facts.number for facts in self.used.facts if alike & facts.measures]
        # A function such as ``sharpe_ratio`` says what it computes; so does a column of that name.
        named = [f.number for f in self.used.facts if find_core(wanted) <= f.measures.union(*map(tokenize, f.labels))]
        said = [f.number for f in self.used.of(MaterialKind.PASSAGE) if slot.text.casefold() in f.text]
        if exact or named or said:
            return FILLED, "", exact or named or said
        # The newest value is the last row of any table with dates.
        if wanted == "last" and self.used.of(MaterialKind.SHEET):
            return FILLED, "", [facts.number for facts in self.used.of(MaterialKind.SHEET)]
        # Nothing but the answer's own words says so.
        if self._cells and (alike & self.used.measures or not any(facts.measures for facts in self._cells)):
            return UNSURE, "no calculation says that it computes it", ()
        # What could not be looked at is not missing.
        if any(facts.has_unread_names for facts in self.used.facts):
            return UNSURE, "what the calculations give could not be read", ()
        return OPEN, "no calculation gives it", ()

    def _check_frequency(self, slot: Slot) -> Verdict:
        asked = slot.value or slot.text.casefold()
        exact = [facts.number for facts in self.used.facts if asked in facts.frequencies]
        if exact:
            return FILLED, "", exact
        found = sorted({name for facts in self.used.facts for name in facts.frequencies})
        if found:
            return OPEN, f"the values are {', '.join(found)}", ()
        return (UNSURE, "the material has no dates", ()) if self.used.facts else (OPEN, "there are no values", ())

    def _judge_period(self, slot: Slot, entities: Sequence[Slot]) -> Verdict:
        """Compare the asked period with the dates of the tables, of each asked entity where there are several."""
        first, last = parse_interval(slot.value)
        if first is None and last is None:
            return UNSURE, "the period was not understood", ()
        tables = [facts for facts in self.used.of(MaterialKind.SHEET) if facts.first and facts.last]
        if not tables:
            return self._judge_undated(first, last)
        owned = [[t for t in tables if slot.value in t.entities] for slot in entities]
        names = {slot.value for slot in entities}
        groups = [group for group in [*owned, [t for t in tables if not names & t.entities]] if group]
        # One table that covers the period is enough: others may be of other use.
        misses = [[describe_miss(table, first, last) for table in group] for group in groups]
        missed = [reasons[0] for reasons in misses if all(reasons)]
        if missed:
            # A later step may look at a part of the period only, as the year that an earlier one has found.
            return (OPEN if len(missed) == len(groups) else UNSURE), missed[0], ()
        wide = [table for table in tables if is_wider(table, first, last)]
        if len(wide) == len(tables) and not self._restricts(first, last):
            return UNSURE, f"the data run from {tables[0].first} to {tables[0].last}", ()
        return FILLED, "", [table.number for table in tables]

    def _judge_undated(self, first: date | None, last: date | None) -> Verdict:
        """Decide by the dates that cells and documents name, when no table has dates."""
        moments = [moment for facts in self.used.facts for moment in facts.moments]
        inside = [m for m in moments if (m.first or m.last) and overlaps(m.first, m.last, first, last)]
        if inside:
            return FILLED, "", [facts.number for facts in self.used.facts if set(facts.moments) & set(inside)]
        return (UNSURE, "the material has no dates", ()) if self.used.facts else (OPEN, "there are no values", ())

    def _restricts(self, first: date | None, last: date | None) -> bool:
        """Return whether a cell or the answer names a date inside the period."""
        moments = [*find_moments(self.used.markdown), *(m for facts in self._cells for m in facts.moments)]
        return any((m.first or m.last) and overlaps(m.first, m.last, first, last) for m in moments)

    def _check_condition(self, slot: Slot) -> Verdict:
        # Its value may hold a number that nobody wrote, such as the 1 of "the largest".
        if find_values(replace(slot, value="")):
            return self._check_parameter(slot)
        if slot.value in DATED:
            dated = [facts.number for facts in self.used.facts if facts.days or facts.moments]
            return (FILLED, "", dated) if dated else (OPEN, "the answer uses no dates", ())
        return self._check_measure(replace(slot, value=slot.value.partition(" ")[0]))

    def _check_parameter(self, slot: Slot) -> Verdict:
        wanted = find_values(slot)
        if not wanted:
            return UNSURE, "the number was not understood", ()
        by_cell = [facts.number for facts in self._cells if any(is_close(value, wanted) for value in facts.numbers)]
        # "10-year" is part of a name rather than a number that a calculation takes.
        names = [word.casefold() for word in slot.text.split() if any(map(str.isdigit, word)) and LETTER.search(word)]
        by_cell = by_cell or [f.number for f in self.used.facts if any(name in f.text for name in names)]
        if by_cell:
            return FILLED, "", by_cell
        # A table of as many rows as were asked for, or one whose own query names the number.
        rows = [f.number for f in self.used.of(MaterialKind.SHEET) if any(f.rows == value for value, _ in wanted)]
        asked = [number for claim in self.used.claims for number in find_numbers(claim)]
        if rows or (not self._cells and any(is_close(number.value, wanted) for number in asked)):
            return FILLED, "", rows
        # A year, or a numeral without a unit, is rather a part of the words around it.
        is_part = bool(find_moments(slot.text)) or len(slot.text) == 1
        return (UNSURE if is_part else OPEN), "no calculation uses it", ()

    def _check_output(self, slot: Slot) -> Verdict:
        asked = slot.value.casefold() or slot.text.casefold()
        if asked == "chart":
            return (FILLED, "", ()) if self.used.has_figure else (OPEN, "the answer has no chart", ())
        if asked == "table":
            listed = self.used.has_table or LIST_ITEM.search(self.used.markdown)
            return (FILLED, "", ()) if listed else (OPEN, "the answer has no table", ())
        # How a text is arranged is seen by its reader; a unit or a currency is in the words.
        is_unit = any(asked in unit.casefold() for facts in self.used.facts for unit in facts.units)
        is_said = any(text in self.used.markdown.casefold() for text in (asked, slot.text.casefold()))
        return (FILLED, "", ()) if asked in LAYOUTS or is_unit or is_said else (UNSURE, "the unit is not known", ())

    def _check_unknown(self, slot: Slot) -> Verdict:
        # The model has said itself what it makes of the word, or that it leaves it open.
        if slot.detail:
            return slot.state, slot.detail, ()
        # Latin words stand by themselves; Chinese has no word limits.
        edge = r"\b" if slot.text.isascii() else ""
        word = re.compile(f"{edge}{re.escape(slot.text.casefold())}{edge}")
        traces = [facts.number for facts in self.used.facts if word.search(facts.text)]
        # A document may say all of it in another order, as a sentence has it.
        words = set(list_terms(slot.text))
        passages = self.used.of(MaterialKind.PASSAGE) if len(words) > 1 else []
        traces = traces or [facts.number for facts in passages if words <= set(list_terms(facts.text))]
        if traces:
            return FILLED, "", traces
        # A name, or what a source was asked for and lacks, is a part of the question for sure; another word may be one
        # that only joins the others.
        lacking = any(word.search(text.casefold()) for text in self.used.lacks)
        is_name = slot.start > 0 and slot.text[:1].isupper() and not self._says(slot.text)
        return (OPEN if lacking or is_name else UNSURE), "nothing was made of it", ()


def find_core(text: str) -> frozenset[str]:
    """Return the words of a measure's name without those that only say which value of it is meant."""
    words = tokenize(text)
    return words - QUALIFIERS or words


def tokenize(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, plurals as singulars."""
    return frozenset(strip_plural(token.casefold()) for token in TOKEN.findall(text))


def strip_plural(word: str) -> str:
    """Return an English word without the s of its plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def list_words(labels: Sequence[str]) -> frozenset[str]:
    """Return the identifiers in labels, such as ``cpiaucsl`` in ``100 * yoy(cpiaucsl)``."""
    return frozenset(word for label in labels for word in WORD.findall(label))


def find_values(slot: Slot) -> list[tuple[float, float]]:
    """Return the numbers of a slot in each unit in which a cell may write them, with tolerances."""
    values: list[float] = []
    for text in (slot.text, slot.value):
        values = [abs(value) for number in find_numbers(text) for value, _ in number.candidates()]
        if values:
            break
    if not values:
        plain = [parse_numeral(text.strip()) for text in (slot.value, slot.text)]
        values = [float(value) for value in plain if value is not None]
    said = f"{slot.text} {slot.value}".casefold()
    factors = [factor for pattern, others in EQUAL if pattern.search(said) for factor in others]
    values += [value * factor for value in values for factor in factors]
    return [(value, 1e-9 + value * 1e-9) for value in values]


def describe_miss(table: Facts, first: date | None, last: date | None) -> str:
    """Return what of a period the dates of a table leave out; "" for nothing."""
    slack = timedelta(days=max(SLACK_DAYS, table.step))
    if table.first is None or table.last is None:
        return "the table has no dates"
    # One value of a month or a quarter, which is dated with its last day.
    if table.step == 0 and first is not None and last is not None and (last - first).days <= QUARTER_DAYS:
        return "" if first <= table.last <= last else f"the data are of {table.last}"
    if first is not None and table.first > first + slack:
        return f"the data begin on {table.first}"
    if last is not None and table.last < last - slack:
        return f"the data end on {table.last}"
    # "Since" a day asks for what came after it.
    if last is None and first is not None and table.last <= first + slack:
        return f"the data end on {table.last}"
    if first is not None and last is not None and not any(first - slack <= day <= last for day in table.days):
        return f"the data have no date from {first} to {last}"
    return ""


def is_wider(table: Facts, first: date | None, last: date | None) -> bool:
    """Return whether a table goes beyond a period on either side by more than a fifth of a year."""
    room = timedelta(days=75)
    before = first is not None and table.first is not None and table.first < first - room
    after = last is not None and table.last is not None and table.last > last + room
    return before or after


def overlaps(first: date | None, last: date | None, start: date | None, end: date | None) -> bool:
    """Return whether two periods share a day; None is an open end."""
    return (first or date.min) <= (end or date.max) and (start or date.min) <= (last or date.max)
