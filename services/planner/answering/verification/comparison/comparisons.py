"""Comparisons in words against the numbers beside them and the tables of the run.

A sentence may be read in several ways: a month's level is its last value or its mean, a change is relative or absolute.
A comparison is false only when every reading that the tables can decide says the opposite.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.comparison.measuring import (
    ANY,
    CHANGE,
    DRAWDOWN,
    LEVEL,
    Tables,
    Values,
    measure_period,
    name_period,
    split_periods,
)
from fathom.services.planner.answering.verification.comparison.relations import LEVEL as BY_LEVEL
from fathom.services.planner.answering.verification.comparison.relations import (
    MERIT,
    SIZE,
    Relation,
    find_relations,
    load_lexicon,
    split_operands,
)
from fathom.services.planner.answering.verification.dates import Moment, find_ranges
from fathom.services.planner.answering.verification.elliptical import complete_moments, settle_days
from fathom.services.planner.answering.verification.events import DIRECTIONS, NEGATION
from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.lookup import find_mentions
from fathom.services.planner.answering.verification.numbers import Number, is_close
from fathom.services.planner.answering.verification.units import PERCENT, find_kind, has_unit

OPPOSITE = "the numbers say the opposite"
# Where one comparison ends and the next begins; a full stop without a space behind it belongs to a number.
CLAUSES = re.compile(r"[;；。]|\.\s|[,，]?\s*\b(?:while|whereas|but|although|though)\b|[,，]\s*(?:而|但)")
PART = re.compile(r"[,，:：]")
# "at the end of 2018", 2018年底: the last value and no mean.
AT_END = re.compile(r"\bend(?:-|\s+)(?:of|\w+\b)|\byear-?end\b|[年季月]底|[年季月]末|期末", re.IGNORECASE)
# The comparison must hold at every value of the period, not only between its ends.
ALWAYS = re.compile(
    r"\bthroughout\b|\balways\b|\bat all times\b|\ball (?:year|through)\b|始终|一直|全年都", re.IGNORECASE
)
# Between ups and downs: "grew in 2007 and shrank in 2008".
JOINT = re.compile(r"[,，]|\band\b|\bthen\b|而", re.IGNORECASE)
# "higher than it had opened the year": compared with the beginning of the same period.
BEGINNING = re.compile(r"\b(?:open(?:s|ed)|start(?:s|ed)|beg[aiu]n|begins)\b|年初|期初|开盘时", re.IGNORECASE)
# "in each of the five years", 每个季度: the comparison holds for every period of this unit, not for their sum.
EVERY = re.compile(
    r"\b(?:every|each|all)\s+(?:single\s+|calendar\s+|the\s+)*(?:(?:two|three|four|five|six|ten|twelve)\s+)?"
    r"(year|quarter|month|day)s?\b|[每各](?:一|个)*(?:自然)?(年|季度|月|日)|(?<=个)(年|季度|月)(?:份)?[^，。]{0,6}都",
    re.IGNORECASE,
)
UNITS = {"年": "year", "季度": "quarter", "月": "month", "日": "day"}
# "the highest of the two", 两只中: what is compared is named before, so the sentence need not name it again.
OF_THEM = re.compile(
    r"\bof (?:the |all )?(?:two|three|four|five|all|both)\b|[两二三四五几](?:只|个|家|种|支|者)[^，。]{0,6}[中里]|两者",
    re.IGNORECASE,
)
# Things whose numbers are given as sizes without a sign: "a loss of 5%" is a change of -5 %.
DECLINE = re.compile(r"\b(?:loss(?:es)?|drawdowns?|downturn|slump|plunge)\b|回撤|跌幅|降幅|亏损|损失", re.IGNORECASE)
# Falls as things with a size: "the decline of October", "its loss", 跌幅.
FALL = re.compile(
    r"\b(?:the|an?|its|their|this|that|\w+'s?)\s+(?:\w+\s+)?(?:decline|drop|fall|decrease|loss|drawdown|slump|slide)\b|"
    r"\bdrawdown\b|回撤|跌幅|降幅|亏损",
    re.IGNORECASE,
)
# "every year except 2020": what follows is left out of the periods that are compared.
EXCEPTION = re.compile(r"\b(?:except|apart from|other than|save for|but for|excluding)\b|除|以外", re.IGNORECASE)
# Verbs and nouns of an extreme that may be one of several, and the periods around it above which it must stand.
LOCAL, NEIGHBOURS, FEWEST_DAYS = ("peak", "trough", "bottom", "top", "见", "触", "探"), 4, 45
# Readings of a change, which are negative in a fall.
FALLING = ("relative", "difference", "inside", "average", DRAWDOWN)
# Days of the longest period of each unit.
LENGTHS = ((1, "day"), (31, "month"), (92, "quarter"), (366, "year"))


@dataclass(frozen=True)
class Clause:
    """A part of a sentence with its offset in it, and the dates and numbers in it by offsets in the clause."""

    start: int
    text: str
    moments: tuple[Moment, ...]
    numbers: tuple[Number, ...]

    def inside(self, span: tuple[int, int]) -> Clause:
        """Return the part of a span."""
        start, end = span
        moments = tuple(shift(one, -start) for one in self.moments if start <= one.start < end)
        numbers = tuple(one for one in self.numbers if start <= one.start - self.start < end)
        return Clause(self.start + start, self.text[start:end], moments, numbers)


@dataclass(frozen=True)
class Falsehood:
    """Words of a comparison, by offsets in the sentence, and why it does not hold."""

    start: int
    end: int
    why: str


def shift(moment: Moment, by: int) -> Moment:
    """Return a moment at another offset."""
    return Moment(moment.start + by, moment.stop + by, moment.text, moment.first, moment.last, moment.month_day)


def split_clauses(sentence: Sentence) -> list[Clause]:
    """Return the clauses of a sentence that a contrast parts, and those of a list of ups and downs."""
    moments = settle_days(complete_moments(sentence.text, sentence.moments))
    whole = Clause(0, sentence.text, tuple(moments), sentence.numbers)
    out = []
    for clause in cut(whole, CLAUSES):
        both = all(pattern.search(clause.text) for pattern in DIRECTIONS)
        out += cut(clause, JOINT) if both and not find_relations(clause.text) else [clause]
    return out


def cut(clause: Clause, pattern: re.Pattern[str]) -> list[Clause]:
    """Return a clause cut at the matches of a pattern."""
    edges = [0]
    for match in pattern.finditer(clause.text):
        edges += [match.start(), match.end()]
    edges.append(len(clause.text))
    spans = zip(edges[::2], edges[1::2], strict=True)
    return [clause.inside(span) for span in spans if clause.text[slice(*span)].strip()]


class ComparisonCheck:
    """Check of the comparisons of sentences that cite some sources."""

    def __init__(self, tables: Tables, known: dict[str, tuple[str, ...]]) -> None:
        """Create the check; ``known`` has the names of all entities of the run."""
        self.tables, self._known = tables, known

    def find(self, sentence: Sentence) -> Iterator[Falsehood]:
        """Yield the comparisons that the numbers or tables contradict, at most one per clause."""
        for clause in split_clauses(sentence):
            if NEGATION.search(clause.text) or EXCEPTION.search(clause.text):
                continue
            relations = find_relations(clause.text)
            # Of several comparisons each has a part of its own.
            parts = cut(clause, PART) if len(relations) > 1 else [clause]
            for part in parts:
                if found := self._judge_clause(part, sentence):
                    yield found
                    break

    def _judge_clause(self, clause: Clause, sentence: Sentence) -> Falsehood | None:
        """Return what is false of a clause with one comparison, or with a direction only."""
        relations = find_relations(clause.text)
        if len(relations) == 1:
            why = self._judge(clause, relations[0], sentence)
            place = clause.start + relations[0].start, clause.start + relations[0].end
            return Falsehood(*place, why) if why else None
        return self._judge_direction(clause) if not relations else None

    def _judge(self, clause: Clause, relation: Relation, sentence: Sentence) -> str:
        """Return why a comparison is false; "" when it holds or cannot be decided."""
        is_adjective = relation.needs_than or relation.is_superlative
        if relation.dimension == MERIT and is_adjective and self._is_adverse(clause):
            # The higher rate of unemployment is the worse one; verbs such as 不及 compare the numbers as they are.
            relation = replace(relation, sign=-relation.sign, dimension=BY_LEVEL)
        if relation.dimension == BY_LEVEL and FALL.search(clause.text[: relation.end]):
            relation = replace(relation, dimension=SIZE)
        among = OF_THEM.search(clause.text) is not None or is_definite(clause, relation)
        if relation.is_superlative or (among and split_operands(clause.text, relation) is None):
            return self._judge_superlative(clause, relation, among, sentence)
        spans = split_operands(clause.text, relation)
        every = EVERY.search(clause.text)
        if spans is None and not every:
            return ""
        left, right = (clause.inside(span) for span in spans or ((0, relation.start), (0, 0)))
        if spans and (why := self._judge_bound(clause, left, right, relation)):
            return why
        numbers = [pick_number(left, clause, relation), pick_number(right, clause, relation)]
        if numbers[0] and numbers[1]:
            return OPPOSITE if contradicts(numbers[0], numbers[1], relation, is_decline(clause, relation)) else ""
        return self._compare_operands(clause, left, right, relation)

    def _compare_operands(self, clause: Clause, left: Clause, right: Clause, relation: Relation) -> str:
        """Return why the tables contradict a comparison of two entities, measures or periods."""
        sides = self._find_sides(left, right)
        if sides is None:
            return ""
        every = find_unit(clause.text)
        one, other = sides
        periods = find_scopes(left), find_scopes(right)
        if one is other and not (periods[0] and periods[1]):
            return ""
        # A date on one side is of both, unless the other one has its own; "in 2018 and in 2019" is true of both years.
        before, after = periods[0] or periods[1], periods[1] or periods[0]
        if all(periods):
            before, after = before[-1:], after[-1:]
        scopes: list[tuple[Moment | None, Moment | None]] = [*zip(before, after, strict=True)] or [(None, None)]
        if one is other and any(start == end for start, end in scopes):
            return ""
        pairs = [pair for scope in scopes for pair in pair_periods(one, other, scope, every)]
        statistic = choose_statistic(clause, relation)
        falling = is_decline(clause, relation)
        for start, end in pairs:
            mine, theirs = measure_period(one, start, statistic), measure_period(other, end, statistic)
            if statistic in (LEVEL, ANY) and AT_END.search(clause.text):
                mine, theirs = ({name: side[name] for name in side if name == "last"} for side in (mine, theirs))
            if one is not other and PERCENT not in (find_kind(one.unit), find_kind(other.unit)):
                # Differences of two prices say nothing of which rose more.
                mine, theirs = drop_differences(mine), drop_differences(theirs)
            if not start and not end and one.entity and other.entity:
                printed = [self.tables.find_printed(side.entity, statistic) for side in (one, other)]
                mine, theirs = (printed[0], printed[1]) if all(printed) else (mine, theirs)
            if is_opposite(mine, theirs, relation, falling):
                return f"the tables say the opposite for {start.text if start and every else 'the period'}"
        return ""

    def _is_adverse(self, clause: Clause) -> bool:
        """Return whether a clause is about measures of which less is better."""
        series = self.tables.find_series(clause.text) or self.tables.series
        return bool(series) and all(one.is_adverse for one in series)

    def _judge_bound(self, clause: Clause, left: Clause, right: Clause, relation: Relation) -> str:
        """Return why a column never passes the bound that a clause names: "fell below 4.4% in 2007"."""
        scopes = find_scopes(clause)
        named = [one for one in right.numbers if is_stated(one) and not one.is_difference]
        if relation.dimension != BY_LEVEL or len(named) != 1 or len(scopes) != 1 or pick_number(left, clause, relation):
            return self._judge_beginning(left, right, relation, scopes)
        behind = clause.text[relation.end : named[0].start - clause.start]
        series = [one for one in self.tables.find_series(left.text) if has_unit(named[0], one.unit)]
        # The number is the bound only right behind the words of comparison.
        if len(series) != 1 or any(char.isalnum() for char in re.sub(r"\b(?:than|the|level|of)\b", "", behind)):
            return ""
        days, bound = series[0].days or (), named[0].value / (series[0].scale if named[0].scaled else 1.0)
        inside = [float(value) for day, value in zip(days, series[0].values, strict=True) if scopes[0].covers(day)]
        passed = [relation.sign * (value - bound) > 0 for value in inside]
        is_true = all(passed) if ALWAYS.search(clause.text) else any(passed)
        return "" if is_true or not inside else f"{series[0].name} is not in {scopes[0].text}"

    def _judge_beginning(self, left: Clause, right: Clause, relation: Relation, scopes: Sequence[Moment]) -> str:
        """Return why a column did not end a period higher, or lower, than it began it."""
        series = self.tables.find_series(left.text) or self.tables.series
        if not BEGINNING.search(right.text) or right.numbers or len(scopes) != 1 or len(series) != 1:
            return ""
        changes = measure_period(series[0], scopes[0], CHANGE)
        is_false = changes and all(relation.sign * value < 0 for value in changes.values())
        return f"{series[0].name} went the other way in {scopes[0].text}" if is_false else ""

    def _find_sides(self, left: Clause, right: Clause) -> tuple[Series, Series] | None:
        """Return the column of each side; None unless each has exactly one, of one unit where they differ."""
        first, second = self.tables.find_series(left.text), self.tables.find_series(right.text)
        if len(first) > 1 and second and len({one.entity for one in self.tables.series}) > 1:
            first = [one for one in first if one not in second] or first
        if not first and not second and len(self.tables.series) == 1:
            first = self.tables.series
        # "Apple returned more in every year": more than the other one of two.
        if not second and not find_scopes(right) and len(first) == 1:
            same = [
                one for one in self.tables.series if one.name.rpartition(".")[2] == first[0].name.rpartition(".")[2]
            ]
            second = [one for one in same if one.entity != first[0].entity]
        first, second = first or second, second or first
        if len(first) != 1 or len(second) != 1 or first[0].unit.split(" (")[0] != second[0].unit.split(" (")[0]:
            return None
        return first[0], second[0]

    def _judge_superlative(self, clause: Clause, relation: Relation, among: bool, sentence: Sentence) -> str:
        """Return why what is called the highest or lowest is not."""
        named = list(find_mentions(clause.text, self._known))
        scopes = find_scopes(clause) or find_scopes(Clause(0, sentence.text, sentence.moments, ()))
        pool = list(dict.fromkeys([*self.tables.entities]))
        if len(named) == 1 and named[0] in pool and len(pool) > 1 and (among or not has_candidate(scopes)):
            return self._judge_entity(clause, relation, named[0], pool, scopes)
        series = self.tables.find_series(clause.text) or self.tables.find_series(sentence.text) or self.tables.series
        if not has_candidate(scopes):
            return ""
        candidate = min(scopes, key=lambda moment: moment.days)
        # The extreme of a spread is none of the columns that it is made of.
        if self.tables.has_difference(series, candidate.text):
            return ""
        whole = [one for one in scopes if one is not candidate and one.days > candidate.days]
        readings: list[Moment | None] = [*whole] if whole else [year_of(candidate), None]
        # "It peaked in May" may speak of one peak among several.
        if clause.text[relation.start : relation.end].lower().startswith(LOCAL):
            readings.append(widen(candidate))
        statistic = choose_statistic(clause, relation)
        # A drawdown runs through periods and is none of their values.
        if statistic not in (LEVEL, CHANGE, ANY):
            return ""
        outcomes = [
            is_extreme(one, candidate, scope, relation, statistic, is_decline(clause, relation))
            for one in series
            for scope in readings
        ]
        decided = [one for one in outcomes if one is not None]
        # "the highest close of 2018 was 55.64": the extreme inside of the period, no period among others.
        if any(is_reached(one, candidate, relation, clause.numbers) for one in series):
            return ""
        return f"the tables have another one than {candidate.text}" if decided and not any(decided) else ""

    def _judge_entity(
        self, clause: Clause, relation: Relation, name: str, pool: Sequence[str], scopes: Sequence[Moment]
    ) -> str:
        """Return why an entity is not the first of several by a statistic."""
        statistic = choose_statistic(clause, relation)
        period = scopes[-1] if scopes else None
        values = {}
        for entity in pool:
            columns = [one for one in self.tables.series if one.entity == entity]
            printed = self.tables.find_printed(entity, statistic) if period is None else {}
            values[entity] = printed or (measure_period(columns[0], period, statistic) if len(columns) == 1 else {})
        falling = is_decline(clause, relation)
        better = [
            other for other in pool if other != name and is_opposite(values[name], values[other], relation, falling)
        ]
        return f"the tables say so of {better[0]}" if better else ""

    def _judge_direction(self, clause: Clause) -> Falsehood | None:
        """Return a rise or fall without a number that the columns do not show in its period."""
        ways = [pattern.search(clause.text) for pattern in DIRECTIONS]
        if bool(ways[0]) == bool(ways[1]) or any(is_stated(number) for number in clause.numbers):
            return None
        way, match = (1, ways[0]) if ways[0] else (-1, ways[1])
        scopes, unit = find_scopes(clause), find_unit(clause.text)
        series = self.tables.find_series(clause.text) or (self.tables.series if len(self.tables.series) == 1 else [])
        if (
            match is None
            or not scopes
            or (len(series) > 1 and len({one.name.rpartition(".")[2] for one in series}) > 1)
        ):
            return None
        for one in series:
            for scope in scopes if not unit else scopes[-1:]:
                for period in split_periods(one, scope, unit) if unit else [scope]:
                    values = measure_period(one, period, CHANGE)
                    if values and all(way * value < 0 for value in values.values()):
                        why = f"{one.name} went the other way in {period.text}"
                        return Falsehood(clause.start + match.start(), clause.start + match.end(), why)
        return None


def is_definite(clause: Clause, relation: Relation) -> bool:
    """Return whether a comparative is one of two: "the deeper one"."""
    return relation.needs_than and re.search(r"\bthe $", clause.text[: relation.start], re.IGNORECASE) is not None


def drop_differences(values: Values) -> Values:
    """Return the values without absolute changes."""
    return {name: value for name, value in values.items() if name != "difference"}


def find_scopes(clause: Clause) -> list[Moment]:
    """Return the periods of a clause, with a range in place of its two ends, in the order of the text."""
    dated = [moment for moment in clause.moments if moment.first or moment.last]
    ranges = [one for one in find_ranges(clause.text, dated) if one not in dated and not is_list(clause.text, one)]
    out = [one for one in dated if not any(r.start <= one.start and one.stop <= r.stop for r in ranges)]
    return sorted([*out, *ranges], key=lambda moment: moment.start)


def is_list(text: str, found: Moment) -> bool:
    """Return whether two dates are joined by "and" without "between": two periods and no range."""
    joined = re.search(r"\band\b|[和与及、]", found.text) is not None
    return joined and not re.search(r"\bbetween\b|[在从]", text[: found.start], re.IGNORECASE)


def find_unit(text: str) -> str:
    """Return the unit of "every year" or 各月; "" without one."""
    match = EVERY.search(text)
    word = next((group for group in match.groups() if group), "").lower() if match else ""
    return UNITS.get(word, word)


def pair_periods(
    left: Series, right: Series, scopes: tuple[Moment | None, Moment | None], unit: str
) -> Iterator[tuple[Moment | None, Moment | None]]:
    """Yield the periods to compare: both whole ones, or those of a unit in turn."""
    if not unit:
        yield scopes
        return
    pairs = zip(split_periods(left, scopes[0], unit), split_periods(right, scopes[1], unit), strict=False)
    for one, other in pairs:
        # Months of two years go together in order, those of one by their name.
        if scopes[0] != scopes[1] or one.text == other.text:
            yield one, other


def is_stated(number: Number) -> bool:
    """Return whether a number is a value and no count."""
    return bool(number.kind or number.decimals or number.scaled or number.currency or number.noun)


def pick_number(side: Clause, clause: Clause, relation: Relation) -> Number | None:
    """Return the only value of a side; none that says by how much the sides differ."""
    place = clause.start + relation.start, clause.start + relation.end
    values = [
        number
        for number in side.numbers
        if is_stated(number)
        and not number.is_difference
        and not is_amount(number, clause, relation)
        and not (clause.text[relation.start] == "比" and number.start >= place[1] - 1)
    ]
    return values[0] if len(values) == 1 else None


def is_amount(number: Number, clause: Clause, relation: Relation) -> bool:
    """Return whether a number says by how much: "2.3 % higher than"."""
    between = clause.text[max(0, number.end - clause.start) : relation.start]
    before = number.end - clause.start <= relation.start
    return before and not between.strip() and clause.text[relation.start].isascii()


def contradicts(left: Number, right: Number, relation: Relation, falling: bool) -> bool:
    """Return whether two stated numbers of one kind say the opposite."""
    if left.kind != right.kind or (left.currency and right.currency and left.currency != right.currency):
        return False
    values = {"stated": left.value}, {"stated": right.value}
    # "fell 3 %, worse than 2 %": the signs are in the words.
    if falling and relation.dimension == MERIT and left.value > 0 and right.value > 0:
        values = {"stated": -left.value}, {"stated": -right.value}
    return is_opposite(*values, relation, falling)


def is_decline(clause: Clause, relation: Relation) -> bool:
    """Return whether a clause is about falls, apart from its words of comparison."""
    rest = clause.text[: relation.start] + " " + clause.text[relation.end :]
    return DIRECTIONS[1].search(rest) is not None or DECLINE.search(rest) is not None


def choose_statistic(clause: Clause, relation: Relation) -> str:
    """Return the statistic that a clause compares; ``ANY`` for levels and changes where it says neither."""
    rest = clause.text[: relation.start] + " " + clause.text[relation.end :]
    # The adjective may name it: "more volatile".
    if found := load_lexicon().find_statistic(clause.text if relation.dimension == SIZE else rest):
        return found
    if relation.dimension == MERIT or any(pattern.search(rest) for pattern in DIRECTIONS):
        return CHANGE
    return LEVEL if relation.dimension == BY_LEVEL else ANY


def is_opposite(left: Values, right: Values, relation: Relation, falling: bool) -> bool:
    """Return whether all readings of both sides contradict a relation; False without a common one."""
    differences = []
    for name in left.keys() & right.keys():
        one, other = left[name], right[name]
        if relation.dimension == SIZE and one < 0 and other < 0:
            one, other = abs(one), abs(other)
        elif relation.dimension == SIZE and falling and name in FALLING:
            one, other = -one, -other
        differences.append(relation.sign * (one - other))
    return bool(differences) and all(one < 0 for one in differences)


def has_candidate(scopes: Sequence[Moment]) -> bool:
    """Return whether some period is short enough to be one of several."""
    return any(moment.first and moment.last and moment.days <= LENGTHS[-1][0] for moment in scopes)


def year_of(moment: Moment) -> Moment:
    """Return the year around a period."""
    first, last = moment.first or date.min, moment.last or date.max
    return Moment(moment.start, moment.stop, moment.text, date(first.year, 1, 1), date(last.year, 12, 31))


def widen(period: Moment) -> Moment:
    """Return a period with several of its length before and behind it."""
    first, last = period.first or date.min, period.last or date.max
    around = timedelta(days=max(NEIGHBOURS * period.days, FEWEST_DAYS))
    return Moment(period.start, period.stop, period.text, first - around, last + around)


def is_reached(series: Series, period: Moment, relation: Relation, numbers: Sequence[Number]) -> bool:
    """Return whether one of some numbers is the extreme value of a column inside a period of several values."""
    days = series.days or ()
    inside = [float(value) for day, value in zip(days, series.values, strict=True) if period.covers(day)]
    if len(inside) < 2:
        return False
    extreme = max(inside) if relation.sign > 0 else min(inside)
    candidates = [pair for number in numbers if is_stated(number) for pair in number.candidates()]
    return any(is_close(extreme * scale, candidates) for scale in (1.0, series.scale))


def is_extreme(
    series: Series, candidate: Moment, scope: Moment | None, relation: Relation, statistic: str, falling: bool
) -> bool | None:
    """Return whether a period is the extreme one of its kind within a scope, in some reading; None if undecidable."""
    unit = next(unit for length, unit in LENGTHS if candidate.days <= length)
    periods = list(split_periods(series, scope, unit))
    mine = [one for one in periods if candidate.covers(one.first or date.min)]
    names = {name_period(day, unit) for day in (candidate.first, candidate.last) if day}
    if len(names) != 1 or len(mine) != 1 or len(periods) < 2:
        return None
    values = {one.text: measure_period(series, one, statistic) for one in periods}
    if statistic in (LEVEL, ANY):
        for one in periods:
            inside = [
                float(value) for day, value in zip(series.days or (), series.values, strict=True) if one.covers(day)
            ]
            values[one.text] = {**values[one.text], "top": max(inside), "bottom": min(inside)}
    # A fall is the larger the lower its change is.
    sign = -relation.sign if relation.dimension == SIZE and falling and statistic == CHANGE else relation.sign
    held = values.pop(mine[0].text)
    outcomes = []
    for name, value in held.items():
        others = [other[name] for other in values.values() if name in other]
        if others:
            outcomes.append(all(sign * (value - other) >= 0 for other in others))
    return any(outcomes) if outcomes else None
