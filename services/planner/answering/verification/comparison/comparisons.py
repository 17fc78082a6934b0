"""Comparisons in words against the numbers beside them and the tables of the run.

A sentence may be read in several ways: a month's level is its last value or its mean, a change is relative or absolute.
A comparison is false only when every reading that the tables can decide says the opposite.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fathom.domain.text.numerals import ONE_TO_TEN
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.comparison.extremes import (
    LOCAL,
    choose_candidate,
    has_candidate,
    is_extreme,
    is_reached,
    widen,
    year_of,
)
from fathom.services.planner.answering.verification.comparison.measuring import (
    ANY,
    CHANGE,
    LEVEL,
    MEAN,
    Tables,
    Values,
    measure_all,
    measure_period,
    split_periods,
)
from fathom.services.planner.answering.verification.comparison.multiples import (
    Multiple,
    compare_stated,
    contradicts_values,
    find_false_share,
    find_multiple,
    split_sides,
)
from fathom.services.planner.answering.verification.comparison.order import find_disorder
from fathom.services.planner.answering.verification.comparison.parts import (
    EVERY,
    JOINT,
    PART,
    Clause,
    Falsehood,
    cut,
    find_scopes,
    find_unit,
    is_stated,
    list_relations,
    split_clauses,
)
from fathom.services.planner.answering.verification.comparison.readings import (
    FALL,
    align_merit,
    choose_statistic,
    contradicts,
    drop_differences,
    is_decline,
    is_definite,
    is_of_period,
    is_opposite,
    measure_stated,
    pick_number,
    pick_pair,
    pick_values,
    sign_change,
)
from fathom.services.planner.answering.verification.comparison.relations import LEVEL as BY_LEVEL
from fathom.services.planner.answering.verification.comparison.relations import (
    MERIT,
    SIZE,
    Relation,
    find_relations,
    split_operands,
)
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.events import DIRECTIONS, NEGATION
from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.lookup import find_mentions
from fathom.services.planner.answering.verification.numbers import CURRENCIES
from fathom.services.planner.answering.verification.units import PERCENT, find_kind, has_unit

OPPOSITE = "the numbers say the opposite"
# "at the end of 2018", 2018年底: the last value and no mean.
AT_END = re.compile(r"\bend(?:-|\s+)(?:of|\w+\b)|\byear-?end\b|[年季月]底|[年季月]末|期末", re.IGNORECASE)
# The comparison must hold at every value of the period, not only between its ends.
ALWAYS = re.compile(
    r"\bthroughout\b|\balways\b|\bat all times\b|\ball (?:year|through)\b|始终|一直|全年都", re.IGNORECASE
)
# "higher than it had opened the year": compared with the beginning of the same period.
BEGINNING = re.compile(r"\b(?:open(?:s|ed)|start(?:s|ed)|beg[aiu]n|begins)\b|年初|期初|开盘时", re.IGNORECASE)
# "the highest of the two", 两只中: what is compared is named before, so the sentence need not name it again.
OF_THEM = re.compile(
    r"\bof (?:the |all )?(?:two|three|four|five|all|both)\b|[两二三四五几](?:只|个|家|种|支|者)[^，。]{0,6}[中里]|两者",
    re.IGNORECASE,
)
# "from 1.7% in May to 1.2%", 由5.0%升至5.4%: the first value and the last one of a course.
FROM, TO = (
    re.compile(r"\bfrom\s+\W*$|[从由自][^，,；;]*$", re.IGNORECASE),
    re.compile(r"\bto\s+\W*$|[到至]\W*$", re.IGNORECASE),
)
# Changes of pace, in which not a column but its rate goes up or down.
PACES = (
    re.compile(r"\b(?:quickened|accelerated)\b|加快|加速", re.IGNORECASE),
    re.compile(r"\b(?:slowed|decelerated|eased)\b|放缓|减速", re.IGNORECASE),
)
# "No month had a higher rate than May", 没有一个月比5月高: May is the highest.
NONE = re.compile(r"\b(?:no|never|none|not once)\b|没有(?:一|哪|任何)|从未|从来没有|无一", re.IGNORECASE)
# "than the one before", 比上月: each period is compared with the period before it.
ONE_BEFORE = re.compile(
    r"^\s*(?:in |of |at )?(?:the |its )?(?:(?:one|month|quarter|year|day) before|previous|preceding|last\b)|^[上前]",
    re.IGNORECASE,
)
# "in these eleven years", "of the table", 样本中: all periods that there are.
WHOLE = re.compile(
    r"\b(?:of|in) (?:the|this) (?:table|sample|series|data)\b|\bon record\b|"
    rf"(?:[两这{ONE_TO_TEN}]|(?<!\d)\d{{1,2}})年(?:中|里|间|来|以来)|样本[中里内]|有记录以来",
    re.IGNORECASE,
)
# Before and behind "any other": the periods that a superlative compares with.
ANY_LATER = re.compile(r"\bany (?:later|following|subsequent)\b", re.IGNORECASE)
ANY_EARLIER = re.compile(r"\bany (?:earlier|previous|preceding|prior)\b", re.IGNORECASE)
# "a mark that April 2020 surpassed": the head of a relative clause is the object of its verb.
RELATIVE_CLAUSE = re.compile(r"\b(?:that|which)\s+", re.IGNORECASE)
# "every year except 2020": what follows is left out of the periods that are compared.
EXCEPTION = re.compile(r"\b(?:except|apart from|other than|save for|but for|excluding)\b|除|以外", re.IGNORECASE)


# Shares of several columns, their sums, and parts of a group.
BEYOND = re.compile(
    r"\b(?:share|proportion|ratio|part) of\b|\brelative to\b|\bper (?:head|capita)\b|"
    r"\b(?:combined|together|in total)\b|"
    r"\b(?:one|two|three|four|five|\d+) of (?:the |its )?(?:two|three|four|five|six|\d+)\b|"
    rf"占比|比重|份额|之和|合计|总和|人均|[{ONE_TO_TEN}两]者都",
    re.IGNORECASE,
)


class ComparisonCheck:
    """Check of the comparisons of sentences that cite some sources."""

    def __init__(self, tables: Tables, known: dict[str, tuple[str, ...]]) -> None:
        """Create the check; ``known`` has the names of all entities of the run."""
        self.tables, self._known = tables, known
        # "Best Buy" compares nothing.
        self._comparing = [(name, key) for key, names in known.items() for name in names if find_relations(name)]

    def find(self, sentence: Sentence) -> Iterator[Falsehood]:
        """Yield the comparisons that the numbers or tables contradict, at most one per clause."""
        for name, key in self._comparing:
            if len(key) <= len(name):
                sentence = replace(sentence, text=sentence.text.replace(name, key.ljust(len(name))))
        for clause in split_clauses(sentence):
            if EXCEPTION.search(clause.text) or self._is_beyond(clause):
                continue
            if place := find_disorder(clause):
                yield Falsehood(clause.start + place[0], clause.start + place[1], "the dates are in the other order")
                continue
            if place := find_false_share(clause):
                yield Falsehood(clause.start + place[0], clause.start + place[1], OPPOSITE)
                continue
            if multiple := find_multiple(clause.text):
                # "less than five times" is no less than.
                yield from [found for found in [self._judge_multiple(clause, multiple)] if found]
                continue
            relations = list_relations(clause)
            if denied := NEGATION.search(self._hide(clause.text, relations)):
                if found := self._judge_denied(clause, relations, denied, sentence):
                    yield found
                continue
            # Of several comparisons each has a part of its own; an extreme may also be one side: "the largest rise
            # exceeded the largest fall".
            comparing = [align_merit(one, relations) for one in relations if not one.is_superlative]
            if len(relations) > len(comparing) == 1:
                if found := self._judge_stated(clause, comparing[0]):
                    yield found
                    continue
                # "Its worst fall was deeper than theirs": which fall is meant, a change of the period does not say.
                if relations[0].start < comparing[0].start:
                    continue
            parts = cut(clause, PART) if len(relations) > 1 else [clause]
            parts = [one for part in parts for one in (cut(part, JOINT) if len(list_relations(part)) > 1 else [part])]
            yield from [found for part in parts if (found := self._judge_clause(part, sentence))][:1]

    def _is_beyond(self, clause: Clause) -> bool:
        """Return whether a clause compares what is no value of a column: shares, sums, parts of a group, currencies.

        A currency rises where the price of another one in it falls.
        """
        named = self.tables.find_series(clause.text) or self.tables.series
        return BEYOND.search(clause.text) is not None or any(one.per in CURRENCIES.values() for one in named)

    def _judge_stated(self, clause: Clause, relation: Relation) -> Falsehood | None:
        """Return the words of a comparison that the two numbers beside it contradict."""
        spans = split_operands(clause.text, relation)
        if spans is None:
            return None
        left, right = (clause.inside(span) for span in spans)
        one, other = pick_pair(left, right, clause, relation)
        if one is None or other is None or not contradicts(one, other, relation, is_decline(clause, relation)):
            return None
        return Falsehood(clause.start + relation.start, clause.start + relation.end, OPPOSITE)

    def _hide(self, text: str, relations: Sequence[Relation]) -> str:
        """Return a text with blanks in place of words of comparison: some hold a negation, as 未及 does."""
        for one in relations:
            text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
        return text

    def _judge_clause(self, clause: Clause, sentence: Sentence) -> Falsehood | None:
        """Return what is false of a clause with one comparison, or with a direction only."""
        relations = list_relations(clause)
        if len(relations) == 1:
            return self._judge_relation(clause, relations[0], sentence)
        return judge_course(clause) or self._judge_direction(clause) if not relations else None

    def _judge_relation(self, clause: Clause, relation: Relation, sentence: Sentence) -> Falsehood | None:
        """Return the words of a comparison if it is false."""
        why = self._judge(clause, relation, sentence)
        return Falsehood(clause.start + relation.start, clause.start + relation.end, why) if why else None

    def _judge_denied(
        self, clause: Clause, relations: Sequence[Relation], denied: re.Match[str], sentence: Sentence
    ) -> Falsehood | None:
        """Return what is false of "no month was higher than May" and of "no close was above 34"; None for the rest."""
        spans = split_operands(clause.text, relations[0]) if len(relations) == 1 else None
        if spans is None or not NONE.match(clause.text, denied.start()) or denied.start() > relations[0].start:
            return None
        relation, (left, right) = self._orient(clause, relations[0]), (clause.inside(span) for span in spans)
        scopes = find_scopes(right)
        if has_candidate(scopes):
            extreme = replace(relation, is_superlative=True, needs_than=False)
            candidate = choose_candidate([one for one in scopes if one.first and one.last], relation)
            why = self._judge_period(clause, extreme, candidate, [*find_scopes(left), candidate], sentence.text)
        else:
            why = self._judge_none(left, right, relation)
        return Falsehood(clause.start + relation.start, clause.start + relation.end, why) if why else None

    def _judge_none(self, left: Clause, right: Clause, relation: Relation) -> str:
        """Return why a column does pass the bound that no value of it is said to pass."""
        bounds = [one for one in right.numbers if is_stated(one) and not one.is_difference]
        series, scopes = self.tables.find_series(left.text), find_scopes(left)
        if len(bounds) != 1 or len(series) != 1 or len(scopes) != 1 or not has_unit(bounds[0], series[0].unit):
            return ""
        scale = series[0].scale if bounds[0].scaled else 1.0
        days = zip(series[0].days or (), series[0].values, strict=True)
        excess = [relation.sign * (value * scale - bounds[0].value) for day, value in days if scopes[0].covers(day)]
        return f"{series[0].name} is there in {scopes[0].text}" if max(excess, default=0) > bounds[0].tolerance else ""

    def _judge_multiple(self, clause: Clause, multiple: Multiple) -> Falsehood | None:
        """Return a multiple, such as "more than twice", that the numbers or the tables do not have."""
        has_ratio = compare_stated(clause, multiple)
        if has_ratio is None:
            has_ratio = not self._contradicts(clause, multiple)
        place = clause.start + multiple.start, clause.start + multiple.end
        return None if has_ratio else Falsehood(*place, "the numbers have another ratio")

    def _contradicts(self, clause: Clause, multiple: Multiple) -> bool:
        """Return whether the tables have no reading of a multiple of two sides, or of one column over time."""
        relation = Relation(multiple.start, multiple.end, 1, BY_LEVEL)
        if multiple.is_verb:
            series = self.tables.find_series(clause.text) or self.tables.series
            scopes = find_scopes(clause)
            if len(series) != 1 or not scopes:
                return False
            if len(scopes) > 1:
                ratios = list_ratios(series[0], scopes[0], scopes[-1])
            else:
                changes = drop_differences(measure_period(series[0], scopes[0], CHANGE))
                ratios = [1 + value for value in changes.values()]
            return bool(ratios) and not any(multiple.allows(ratio) for ratio in ratios)
        sides = split_sides(clause, multiple)
        found = self._find_sides(*sides) if sides else None
        if sides is None or found is None:
            return False
        periods = [find_scopes(side) for side in sides]
        if found[0] is found[1] and not all(periods):
            return False
        before, after = periods[0] or periods[1], periods[1] or periods[0]
        statistic = choose_statistic(clause, relation)
        one, other = (
            (column, scopes[-1] if scopes else None, side)
            for column, scopes, side in zip(found, (before, after), sides, strict=True)
        )
        return contradicts_values(*self._measure_sides(one, other, statistic), multiple)

    def _judge(self, clause: Clause, relation: Relation, sentence: Sentence) -> str:
        """Return why a comparison is false; "" when it holds or cannot be decided."""
        relation = self._orient(clause, relation)
        among = OF_THEM.search(clause.text) is not None or is_definite(clause, relation)
        if relation.is_superlative or (among and split_operands(clause.text, relation) is None):
            return self._judge_superlative(clause, relation, among, sentence)
        spans = split_operands(clause.text, relation)
        every = EVERY.search(clause.text)
        if spans is None and not every:
            return ""
        left, right = (clause.inside(span) for span in spans or ((0, relation.start), (0, 0)))
        right = cut_statement(right)
        left, right = self._turn_relative(clause, left, right, relation)
        if every and ONE_BEFORE.search(right.text):
            return self._judge_steps(left, relation)
        if spans and (why := self._judge_bound(clause, left, right, relation)):
            return why
        one, other = pick_pair(left, right, clause, relation)
        if one and other:
            falling = is_decline(clause, relation)
            if relation.dimension == MERIT and falling:
                one, other, falling = sign_change(one, clause), sign_change(other, clause), False
            return OPPOSITE if contradicts(one, other, relation, falling) else ""
        return self._compare_operands(clause, left, right, relation)

    def _turn_relative(self, clause: Clause, left: Clause, right: Clause, relation: Relation) -> tuple[Clause, Clause]:
        """Return the sides with what a relative clause says of its head turned: "a mark that April surpassed"."""
        found = list(RELATIVE_CLAUSE.finditer(left.text))
        is_verb = not relation.needs_than and not relation.is_superlative
        if not found or not is_verb or not clause.text[: relation.end].isascii():
            return left, right
        subject = clause.inside((found[-1].end(), relation.start))
        # "which exceeded 5%" has no subject of its own, and "that April surpassed it" an object.
        if not find_scopes(subject) and not find_mentions(subject.text, self._known):
            return left, right
        if not re.match(r"\s*(?:with|by|at|in|on|,|$)", right.text):
            return left, right
        own = clause.inside((found[-1].end(), len(clause.text)))
        return own, clause.inside((0, found[-1].start()))

    def _orient(self, clause: Clause, relation: Relation) -> Relation:
        """Return a relation as one of values: the worse rate of unemployment is the higher one, a loss has a size."""
        is_adjective = relation.needs_than or relation.is_superlative
        if relation.dimension == MERIT and is_adjective and self._is_adverse(clause):
            # Verbs such as 不及 compare the numbers as they are.
            relation = replace(relation, sign=-relation.sign, dimension=BY_LEVEL)
        if relation.dimension == BY_LEVEL and FALL.search(clause.text[: relation.end]):
            relation = replace(relation, dimension=SIZE)
        return relation

    def _judge_steps(self, left: Clause, relation: Relation) -> str:
        """Return why not each period of a unit is above, or below, the one before it."""
        series, scopes, unit = (
            self.tables.find_series(left.text) or self.tables.series,
            find_scopes(left),
            find_unit(left.text),
        )
        if len(series) != 1 or not scopes or not unit:
            return ""
        for period in split_periods(series[0], choose_widest(scopes), unit):
            changes = measure_period(series[0], period, CHANGE)
            if changes and all(relation.sign * value < 0 for value in changes.values()):
                return f"{series[0].name} went the other way in {period.text}"
        return ""

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
            mine, theirs = self._measure_sides((one, start, left), (other, end, right), statistic)
            if statistic in (LEVEL, ANY) and AT_END.search(clause.text):
                mine, theirs = ({name: side[name] for name in side if name == "last"} for side in (mine, theirs))
            if is_opposite(mine, theirs, relation, falling):
                return f"the tables say the opposite for {start.text if start and every else 'the period'}"
        return ""

    def _measure_sides(
        self,
        one: tuple[Series, Moment | None, Clause],
        other: tuple[Series, Moment | None, Clause],
        statistic: str,
    ) -> tuple[Values, Values]:
        """Return the values of both sides, in the reading that a number beside one of them gives."""
        told = [measure_stated(column, period, pick_values(side)) for column, period, side in (one, other)]
        names = told[0].keys() & told[1].keys() or told[0].keys() or told[1].keys()
        mine: Values
        theirs: Values
        if names:
            found = [measure_all(column, period) for column, period, _ in (one, other)]
            mine, theirs = ({name: value for name, value in side.items() if name in names} for side in found)
        else:
            mine, theirs = measure_period(*one[:2], statistic), measure_period(*other[:2], statistic)
        if one[0] is not other[0] and PERCENT not in (find_kind(one[0].unit), find_kind(other[0].unit)):
            # Differences of two prices say nothing of which rose more.
            mine, theirs = drop_differences(mine), drop_differences(theirs)
        if not one[1] and not other[1] and one[0].entity and other[0].entity:
            printed = [self.tables.find_printed(column.entity, statistic) for column, _, _ in (one, other)]
            mine, theirs = (printed[0], printed[1]) if all(printed) else (mine, theirs)
        return mine, theirs

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
        # "three times its close of 2015": of whom the other side speaks.
        if len(first) == 1 and first[0] in second and not find_mentions(right.text, self._known):
            second = first
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
        place = clause.start + relation.start
        part = next((one for one in cut(clause, PART) if one.start <= place < one.start + len(one.text)), clause)
        # "A -45%, B -21%, of which B fell most": the part of the superlative says whom it is of.
        named = list(find_mentions(part.text, self._known) or find_mentions(clause.text, self._known))
        scopes = find_scopes(clause) or find_scopes(Clause(0, sentence.text, sentence.moments, ()))
        pool = list(dict.fromkeys([*self.tables.entities]))
        is_listed = len(find_mentions(clause.text, self._known)) > 2
        among = among or relation.is_rank or is_listed or is_of_period(clause, relation)
        if len(named) == 1 and named[0] in pool and len(pool) > 1 and (among or not has_candidate(scopes)):
            return self._judge_entity(clause, relation, named[0], pool, scopes)
        dated = [one for one in scopes if one.first and one.last]
        if not has_candidate(scopes):
            return ""
        return self._judge_period(clause, relation, choose_candidate(dated, relation), scopes, sentence.text)

    def _judge_period(
        self, clause: Clause, relation: Relation, candidate: Moment, scopes: Sequence[Moment], context: str
    ) -> str:
        """Return why a period is not the highest or lowest one of its kind, or has another rank among them."""
        series = self.tables.find_series(clause.text) or self.tables.find_series(context) or self.tables.series
        # The extreme of a spread is none of the columns that it is made of.
        if self.tables.has_difference(series, candidate.text):
            return ""
        if self.tables.has_extreme(clause.numbers, candidate.text, relation.sign):
            return ""
        readings: list[Moment | None] = [one for one in scopes if one is not candidate and one.days > candidate.days]
        readings = readings or [year_of(candidate), None]
        if WHOLE.search(clause.text):
            readings = [None]
        elif ANY_LATER.search(clause.text):
            readings = [replace(candidate, last=None)]
        elif ANY_EARLIER.search(clause.text):
            readings = [replace(candidate, first=None)]
        # "It peaked in May" may speak of one peak among several.
        if clause.text[relation.start : relation.end].lower().startswith(LOCAL):
            readings.append(widen(candidate))
        statistic = choose_statistic(clause, relation, context)
        # A drawdown runs through periods and is none of their values.
        if statistic not in (LEVEL, CHANGE, MEAN, ANY):
            return ""
        # "the steepest fall came in May and the second steepest in June": the fall is named once.
        falling, numbers = is_decline(clause, relation) or FALL.search(context) is not None, clause.numbers
        outcomes = [
            is_extreme(one, candidate, scope, relation, ANY if is_rate(one, statistic) else statistic, falling, numbers)
            for one in series
            for scope in readings
        ]
        decided = [one for one in outcomes if one is not None]
        # "the highest close of 2018 was 55.64": the extreme inside of the period, no period among others.
        if relation.rank == 1 and any(is_reached(one, candidate, relation, clause.numbers) for one in series):
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
        columns = [one for one in self.tables.series if one.entity in pool]
        if PERCENT not in {find_kind(one.unit) for one in columns}:
            values = {entity: drop_differences(held) for entity, held in values.items()}
        falling, mine = is_decline(clause, relation), values[name]
        others = {entity: value for entity, value in values.items() if entity != name}
        above = [entity for entity, value in others.items() if is_opposite(mine, value, relation, falling)]
        below = [entity for entity, value in others.items() if is_opposite(value, mine, relation, falling)]
        if len(above) < relation.rank <= len(pool) - len(below):
            return ""
        return f"the tables say so of {above[0]}" if above else f"the tables have {name} in another place"

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


def judge_course(clause: Clause) -> Falsehood | None:
    """Return a rise or fall that goes the other way between the two numbers that it states."""
    stated = [one for one in clause.numbers if is_stated(one) and not one.is_difference]
    ways = [
        pattern.search(clause.text) or pace.search(clause.text) for pattern, pace in zip(DIRECTIONS, PACES, strict=True)
    ]
    if len(stated) != 2 or bool(ways[0]) == bool(ways[1]) or stated[0].kind != stated[1].kind:
        return None
    first, last = (clause.text[: one.start - clause.start] for one in stated)
    way, match = (1, ways[0]) if ways[0] else (-1, ways[1])
    if match is None or not FROM.search(first) or not TO.search(last):
        return None
    # "from 151.0 to 130.5 million": both are in millions.
    start, end = (one.value * one.shared for one in stated)
    is_false = way * (end - start) < 0 and (stated[0].scaled or stated[0].shared != 1.0) == stated[1].scaled
    return Falsehood(clause.start + match.start(), clause.start + match.end(), OPPOSITE) if is_false else None


def choose_widest(scopes: Sequence[Moment]) -> Moment:
    """Return the longest of some periods, one with both ends if there is any."""
    return max(scopes, key=lambda one: (bool(one.first and one.last), one.days))


def is_rate(series: Series, statistic: str) -> bool:
    """Return whether a change is what a column itself holds: CPI同比涨幅 is a level of the rate of inflation."""
    return statistic == CHANGE and find_kind(series.unit) == PERCENT and not series.is_adverse


def list_ratios(series: Series, start: Moment, end: Moment) -> list[float]:
    """Return the ratios of a column's levels in two periods, from any reading of the first to any of the second."""
    first, last = (
        [value for name, value in measure_all(series, period).items() if name in ("last", "mean", "top", "bottom")]
        for period in (start, end)
    )
    return [after / before for before in first for after in last if before]


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


def cut_statement(side: Clause) -> Clause:
    """Return the side of a comparison without a further statement behind a comma that has a date of its own."""
    for border in re.finditer(r"[,，;；]", side.text):
        if any(moment.start >= border.end() for moment in side.moments):
            return side.inside((0, border.start())) if side.text[: border.start()].strip() else side
    return side
