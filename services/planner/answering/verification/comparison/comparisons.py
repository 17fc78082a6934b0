"""Comparisons in words against the numbers beside them and the tables of the run.

A sentence may be read in several ways: a month's level is its last value or its mean, a change is relative or absolute.
A comparison is false only when every reading that the tables can decide says the opposite, and it is undecided where
they decide none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fathom.domain.text.numerals import ONE_TO_TEN
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.comparison.courses import judge_course, judge_direction
from fathom.services.planner.answering.verification.comparison.extremes import choose_candidate, has_candidate
from fathom.services.planner.answering.verification.comparison.measuring import CHANGE, Tables, measure_period
from fathom.services.planner.answering.verification.comparison.multiples import (
    Multiple,
    compare_stated,
    find_false_share,
    find_multiple,
    has_common_ratio,
    split_sides,
)
from fathom.services.planner.answering.verification.comparison.order import find_disorder
from fathom.services.planner.answering.verification.comparison.parts import (
    JOINT,
    OPPOSITE,
    PART,
    Clause,
    Comparison,
    cut,
    find_scopes,
    is_stated,
    list_relations,
    split_clauses,
)
from fathom.services.planner.answering.verification.comparison.quantified import QuantifiedCheck
from fathom.services.planner.answering.verification.comparison.quantifiers import Quantity, find_quantity
from fathom.services.planner.answering.verification.comparison.readings import (
    FALL,
    align_merit,
    choose_statistic,
    contradicts,
    drop_differences,
    is_decline,
    is_definite,
    pick_pair,
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
from fathom.services.planner.answering.verification.comparison.sides import (
    SideCheck,
    cut_statement,
    list_ratios,
)
from fathom.services.planner.answering.verification.comparison.superlatives import SuperlativeCheck
from fathom.services.planner.answering.verification.events import NEGATION
from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.answering.verification.numbers import CURRENCIES
from fathom.services.planner.answering.verification.typed.programs import Programs
from fathom.services.planner.answering.verification.units import has_unit

# "the highest of the two", 两只中: what is compared is named before, so the sentence need not name it again.
OF_THEM = re.compile(
    r"\bof (?:the |all )?(?:two|three|four|five|all|both)\b|[两二三四五几](?:只|个|家|种|支|者)[^，。]{0,6}[中里]|两者",
    re.IGNORECASE,
)
# "No month had a higher rate than May", 没有一个月比5月高: May is the highest.
NONE = re.compile(r"\b(?:no|never|none|not once)\b|没有(?:一|哪|任何)|从未|从来没有|无一", re.IGNORECASE)
# "every year except 2020": what follows is left out of the periods that are compared.
EXCEPTION = re.compile(r"\b(?:except(?:ed)?|apart from|other than|save for|but for|excluding)\b|除|以外", re.IGNORECASE)
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

    def __init__(self, sources: Sequence[Source], known: Mapping[str, tuple[str, ...]]) -> None:
        """Create the check; ``known`` has the names of all entities of the run."""
        self.tables = tables = Tables(sources, known)
        self._quantified = QuantifiedCheck(tables, Programs(sources), known)
        self._sides, self._superlatives = SideCheck(tables, known), SuperlativeCheck(tables, known)
        # "Best Buy" compares nothing.
        self._comparing = [(name, key) for key, names in known.items() for name in names if find_relations(name)]

    def judge(self, sentence: Sentence) -> Iterator[Comparison]:
        """Yield the comparisons of a sentence, one per clause: a false one if it has any, else an undecided one."""
        for name, key in self._comparing:
            if len(key) <= len(name):
                sentence = replace(sentence, text=sentence.text.replace(name, key.ljust(len(name))))
        whole = Clause(0, sentence.text, sentence.moments, sentence.numbers)
        for clause in split_clauses(sentence):
            quantity = None if EXCEPTION.search(clause.text) else find_quantity(clause.text)
            why = self._quantified.judge(clause, quantity, whole) if quantity else None
            found = [make_comparison(clause, quantity, why)] if quantity else []
            if why is None:
                # Its parts may contradict a quantified statement that is not read, and cannot prove it.
                others = list(self._list_comparisons(clause, sentence))
                found = [one for one in others if one.why] or found or others
            false = [one for one in found if one.why]
            undecided = [one for one in found if one.why is None]
            yield from (false or undecided or found)[:1]

    def _list_comparisons(self, clause: Clause, sentence: Sentence) -> Iterator[Comparison]:
        """Yield the comparisons of a clause."""
        relations, multiple = list_relations(clause), find_multiple(clause.text)
        if EXCEPTION.search(clause.text) or self._is_beyond(clause):
            yield from [make_comparison(clause, one, None) for one in (*relations, *([multiple] if multiple else ()))]
        elif place := find_disorder(clause):
            yield Comparison(clause.start + place[0], clause.start + place[1], "the dates are in the other order")
        elif place := find_false_share(clause):
            yield Comparison(clause.start + place[0], clause.start + place[1], OPPOSITE)
        elif multiple:
            # "less than five times" is no less than.
            yield self._judge_multiple(clause, multiple)
        elif denied := NEGATION.search(self._hide(clause.text, relations)):
            yield from self._judge_denied(clause, relations, denied, sentence)
        else:
            yield from self._judge_parts(clause, relations, sentence)

    def _judge_parts(self, clause: Clause, relations: Sequence[Relation], sentence: Sentence) -> Iterator[Comparison]:
        """Yield the comparisons of the parts of a clause: of several comparisons each has a part of its own."""
        # An extreme may also be one side: "the largest rise exceeded the largest fall".
        comparing = [align_merit(one, relations) for one in relations if not one.is_superlative]
        if len(relations) > len(comparing) == 1:
            why = self._judge_stated(clause, comparing[0])
            # "Its worst fall was deeper than theirs": which fall is meant, a change of the period does not say.
            if why or relations[0].start < comparing[0].start:
                yield make_comparison(clause, comparing[0], why)
                return
        parts = cut(clause, PART) if len(relations) > 1 else [clause]
        parts = [one for part in parts for one in (cut(part, JOINT) if len(list_relations(part)) > 1 else [part])]
        yield from [found for part in parts if (found := self._judge_clause(part, sentence))]

    def _is_beyond(self, clause: Clause) -> bool:
        """Return whether a clause compares what is no value of a column: shares, sums, parts of a group, currencies.

        A currency rises where the price of another one in it falls.
        """
        named = self.tables.find_series(clause.text) or self.tables.series
        return BEYOND.search(clause.text) is not None or any(one.per in CURRENCIES.values() for one in named)

    def _judge_stated(self, clause: Clause, relation: Relation) -> str | None:
        """Return why the two numbers beside a comparison contradict it."""
        spans = split_operands(clause.text, relation)
        if spans is None:
            return None
        sides = [clause.inside(span) for span in spans]
        left, right = self._sides.turn_relative(clause, sides[0], sides[1], relation)
        one, other = pick_pair(left, right, clause, relation)
        if one is None or other is None:
            return None
        return OPPOSITE if contradicts(one, other, relation, is_decline(clause, relation)) else ""

    def _hide(self, text: str, relations: Sequence[Relation]) -> str:
        """Return a text with blanks in place of words of comparison: some hold a negation, as 未及 does."""
        for one in relations:
            text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
        return text

    def _judge_clause(self, clause: Clause, sentence: Sentence) -> Comparison | None:
        """Return the comparison of a clause with one, or with a direction only; of several none is decided."""
        relations = list_relations(clause)
        if not relations:
            return judge_course(clause) or judge_direction(self.tables, clause)
        why = self._judge(clause, relations[0], sentence) if len(relations) == 1 else None
        return make_comparison(clause, relations[0], why)

    def _judge_denied(
        self, clause: Clause, relations: Sequence[Relation], denied: re.Match[str], sentence: Sentence
    ) -> Iterator[Comparison]:
        """Yield "no month was higher than May" and "no close was above 34"; other denials are not decided."""
        spans = split_operands(clause.text, relations[0]) if len(relations) == 1 else None
        if spans is None or not NONE.match(clause.text, denied.start()) or denied.start() > relations[0].start:
            yield from [make_comparison(clause, one, None) for one in relations]
            return
        relation, (left, right) = self._orient(clause, relations[0]), (clause.inside(span) for span in spans)
        scopes = find_scopes(right)
        if has_candidate(scopes):
            extreme = replace(relation, is_superlative=True, needs_than=False)
            candidate = choose_candidate([one for one in scopes if one.first and one.last], relation)
            why = self._superlatives.judge_period(
                clause, extreme, candidate, [*find_scopes(left), candidate], sentence.text
            )
        else:
            why = self._judge_none(left, right, relation)
        yield make_comparison(clause, relation, why)

    def _judge_none(self, left: Clause, right: Clause, relation: Relation) -> str | None:
        """Return why a column does pass the bound that no value of it is said to pass."""
        bounds = [one for one in right.numbers if is_stated(one) and not one.is_difference]
        series, scopes = self.tables.find_series(left.text), find_scopes(left)
        if len(bounds) != 1 or len(series) != 1 or len(scopes) != 1 or not has_unit(bounds[0], series[0].unit):
            return None
        scale = series[0].scale if bounds[0].scaled else 1.0
        days = zip(series[0].days or (), series[0].values, strict=True)
        excess = [relation.sign * (value * scale - bounds[0].value) for day, value in days if scopes[0].covers(day)]
        return f"{series[0].name} is there in {scopes[0].text}" if max(excess, default=0) > bounds[0].tolerance else ""

    def _judge_multiple(self, clause: Clause, multiple: Multiple) -> Comparison:
        """Return a multiple, such as "more than twice", with why the numbers or the tables do not have it."""
        has_ratio = compare_stated(clause, multiple)
        if has_ratio is None:
            has_ratio = self._has_ratio(clause, multiple)
        why = None if has_ratio is None else "" if has_ratio else "the numbers have another ratio"
        return make_comparison(clause, multiple, why)

    def _has_ratio(self, clause: Clause, multiple: Multiple) -> bool | None:
        """Return whether the tables have some reading of a multiple; None where they have no such values."""
        relation = Relation(multiple.start, multiple.end, 1, BY_LEVEL)
        if multiple.is_verb:
            series = self.tables.find_series(clause.text) or self.tables.series
            scopes = find_scopes(clause)
            if len(series) != 1 or not scopes:
                return None
            if len(scopes) > 1:
                ratios = list_ratios(series[0], scopes[0], scopes[-1])
            else:
                changes = drop_differences(measure_period(series[0], scopes[0], CHANGE))
                ratios = [1 + value for value in changes.values()]
            return any(multiple.allows(ratio) for ratio in ratios) if ratios else None
        sides = split_sides(clause, multiple)
        found = self._sides.find(*sides) if sides else None
        if sides is None or found is None:
            return None
        periods = [find_scopes(side) for side in sides]
        if found[0] is found[1] and not all(periods):
            return None
        before, after = periods[0] or periods[1], periods[1] or periods[0]
        statistic = choose_statistic(clause, relation)
        one, other = (
            (column, scopes[-1] if scopes else None, side)
            for column, scopes, side in zip(found, (before, after), sides, strict=True)
        )
        return has_common_ratio(*self._sides.measure(one, other, statistic), multiple)

    def _judge(self, clause: Clause, relation: Relation, sentence: Sentence) -> str | None:
        """Return why a comparison is false; "" where it holds, None where nothing decides it."""
        relation = self._orient(clause, relation)
        among = OF_THEM.search(clause.text) is not None or is_definite(clause, relation)
        if relation.is_superlative or (among and split_operands(clause.text, relation) is None):
            return self._superlatives.judge(clause, relation, among, sentence)
        spans = split_operands(clause.text, relation)
        if spans is None:
            return None
        left, right = (clause.inside(span) for span in spans)
        right = cut_statement(right)
        left, right = self._sides.turn_relative(clause, left, right, relation)
        bound = self._sides.judge_bound(clause, left, right, relation)
        if bound:
            return bound
        one, other = pick_pair(left, right, clause, relation)
        if one and other:
            falling = is_decline(clause, relation)
            if relation.dimension == MERIT and falling:
                one, other, falling = sign_change(one, clause), sign_change(other, clause), False
            return OPPOSITE if contradicts(one, other, relation, falling) else ""
        compared = self._sides.compare(clause, left, right, relation)
        return bound if compared is None else compared

    def _orient(self, clause: Clause, relation: Relation) -> Relation:
        """Return a relation as one of values: the worse rate of unemployment is the higher one, a loss has a size."""
        is_adjective = relation.needs_than or relation.is_superlative
        if relation.dimension == MERIT and is_adjective and self._is_adverse(clause):
            # Verbs such as 不及 compare the numbers as they are.
            relation = replace(relation, sign=-relation.sign, dimension=BY_LEVEL)
        if relation.dimension == BY_LEVEL and FALL.search(clause.text[: relation.end]):
            relation = replace(relation, dimension=SIZE)
        return relation

    def _is_adverse(self, clause: Clause) -> bool:
        """Return whether a clause is about measures of which less is better."""
        series = self.tables.find_series(clause.text) or self.tables.series
        return bool(series) and all(one.is_adverse for one in series)


def make_comparison(clause: Clause, words: Relation | Multiple | Quantity, why: str | None) -> Comparison:
    """Return the comparison of some words of a clause."""
    return Comparison(clause.start + words.start, clause.start + words.end, why)
