"""The words of a question that its program does not use, as the reading by rules finds them.

The learned reader has no notion of words that it passes over; whoever computes its program must know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType

from fathom.domain.programs.language import EURO
from fathom.domain.programs.resolved import FUNCTION
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import EntitySpec
from fathom.services.datafetch.catalog.text import normal
from fathom.services.datafetch.parser.acceptance import is_in, join_names
from fathom.services.datafetch.parser.builder import STEP_MONTHS
from fathom.services.datafetch.parser.lexicon import cue, find_joined, is_shared
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
from fathom.services.datafetch.programs.catalogue import HOME
from fathom.services.datafetch.programs.numbers import ENGLISH, LATIN
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import Gap, GapReason, NamedSeries
from fathom.services.datafetch.programs.wording import windows
from fathom.services.datafetch.query.model import Transform
from fathom.services.datafetch.query.units import PER_EURO, find_currency, parse_unit

REASONS = MappingProxyType(
    {
        MentionKind.ENTITY: GapReason.UNUSED_NAME,
        MentionKind.PERIOD: GapReason.UNUSED_PERIOD,
        MentionKind.PARAMETER: GapReason.UNUSED_NUMBER,
        MentionKind.CONDITION: GapReason.UNUSED_NUMBER,
        MentionKind.INDICATOR: GapReason.UNUSED_INDICATOR,
        MentionKind.OUTPUT: GapReason.UNUSED_NAME,
        MentionKind.UNKNOWN: GapReason.UNREAD,
        MentionKind.MEASURE: GapReason.UNUSED_NUMBER,
    }
)


# The comparisons of steps that a condition of a question may be computed by: "above 5", "at least 5".
SIDES = MappingProxyType({">": frozenset({"above", "at_least"}), "<": frozenset({"below", "at_most"})})
# A bound below zero turns them round: who "lost more than 8 %" moved below -8 %.
COMPARED = re.compile(r"'(above|below|at_least|at_most)'(?!, (?:f\.neg\(|-))")
NAMED = (MentionKind.ENTITY, MentionKind.INDICATOR)
NUMBER = re.compile(r"\d+")
# Steps that compute a change between two values, whatever lies between them.
MOVES = ("pct", "ret", "change", "minus", "over")
# Steps that set two values against each other.
COMPARED_BY = frozenset({"minus", "pct", "over", "share"})
CHANGES = frozenset({"change", "ret", "rise", "drawdown"})
# Probability of a link from which on the series' title has what is asked for, whatever names the catalog has for it.
SURE_LINK = 0.95


def find_unused(question: str, mentions: Sequence[Mention], program: ProgramReading, layer: Layer) -> list[Gap]:
    """Return the names, periods, numbers and unread words of a question that a program uses neither by word nor value.

    An unread word among those for a series is used only if the series is called so: no peso of Mexico is Chilean.
    """
    return UnusedFinder(question, mentions, program, layer).find()


class UnusedFinder:
    """A finder of the words of one question that one program does not use."""

    def __init__(self, question: str, mentions: Sequence[Mention], program: ProgramReading, layer: Layer) -> None:
        self._question, self._mentions, self._program, self._layer = question, mentions, program, layer
        # Economies have many series, and the euro is the base of all rates.
        economies = {EURO, *(name for name, spec in layer.entities.items() if spec.kind == "economy")}
        self._entities = {item.value for item in select(mentions, MentionKind.ENTITY)} - economies
        self._homes = set(list_homes(program.series, layer.entities))
        self._computed = {one.indicator for one in program.series}
        self._monies = list_monies(program.series, layer) | {""}
        self._used = [text.casefold() for text in program.words]
        qualifiers = set(find_qualifiers(question, mentions, program.series, layer))
        self._partners = set(find_partners(question, mentions, program.series, layer))
        # A proper name makes it another series, unless its title has the name as well, which makes a link sure. The
        # first word of a question has a capital of its own.
        is_sure = program.link_confidence >= SURE_LINK
        named = {each.words for each in program.series}
        parts = [one for one in qualifiers if question[one.start : one.end] not in named]
        self._cut = set(find_cut_names(question, mentions, program.series, is_sure))
        self._cut |= {one for one in parts if one.start and not is_sure and has_capital(question[one.start : one.end])}
        # These are not used, though words for a series may hold them.
        self._apart = self._cut | qualifiers | self._partners

    def find(self) -> list[Gap]:
        """Return the gaps in the order of the question, each once."""
        found: list[Gap] = []
        for item in self._mentions:
            text = self._question[item.start : item.end]
            if item.kind not in REASONS or not self._is_asked(item, text):
                continue
            reason = self._choose_reason(item)
            if item in self._apart or not self._is_used(item, text, reason):
                found.append(Gap(text, reason, f"no step uses {text!r}"))
        return list(dict.fromkeys(found))

    def _is_asked(self, item: Mention, text: str) -> bool:
        """Return whether the values of a program leave a mention out, whatever its words."""
        match item.kind:
            case MentionKind.ENTITY:
                is_home = item.value in self._homes and item not in self._partners
                return not is_home and not (item.value in self._monies and is_unit(item, self._question))
            case MentionKind.PARAMETER:
                return self._is_number(item, text)
            case MentionKind.INDICATOR:
                return item.value not in self._computed
            case MentionKind.PERIOD:
                return not is_computed(item, self._program.steps)
            case MentionKind.CONDITION:
                return self._is_open_condition(item, text)
            case MentionKind.MEASURE:
                is_length = bool(NUMBER.search(text)) and not is_moved(item, self._program.steps)
                return is_length or self._is_open_difference(item, text)
            case MentionKind.OUTPUT:
                return bool(self._program.series) and find_money(item, self._layer) not in self._monies
        return True

    def _is_number(self, item: Mention, text: str) -> bool:
        """Return whether a number is a value, and no count of what is named beside it."""
        number, is_written = item.value.split(" ")[0], any(map(str.isdigit, text))
        if not windows.is_length(item.value):
            return is_written and number not in ("1", str(len(self._entities)))
        # "Two-year" counts none of two companies, and "three-month" has no digit.
        return number != "1" and (is_written or windows.is_attributive(item, self._question, self._mentions))

    def _is_open_condition(self, item: Mention, text: str) -> bool:
        is_named = any(word in text.casefold() for word in self._used)
        return not is_named or is_opposite(item, self._program.steps) or self._is_of_other(item)

    def _is_of_other(self, condition: Mention) -> bool:
        """Return whether a condition is on a series that no step has: "gold when inflation was above 5 %"."""
        before = [item for item in select(self._mentions, *NAMED) if item.end <= condition.start]
        owner = max(before, key=lambda item: item.end, default=None)
        if owner is None or owner.kind != MentionKind.INDICATOR or not self._computed.isdisjoint(owner.ids):
            return False
        words = self._question[owner.start : owner.end].casefold()
        return not any(words in one or one in words for one in self._used if not one.isdigit())

    def _is_open_difference(self, measure: Mention, text: str) -> bool:
        """Return whether a difference is asked for that no step computes, and that is no series of its own."""
        names = {name for step in self._program.steps for name in FUNCTION.findall(step)}
        is_named = any(text.casefold() in one for one in self._used) or any(
            measure.span == item.span for item in select(self._mentions, MentionKind.INDICATOR)
        )
        # A change is the difference of two days; of two things it is none.
        is_change = bool(names & CHANGES) and len(self._program.steps) == 1 and "each" not in names
        is_computed = bool(names & COMPARED_BY) or is_change
        return measure.value == "spread" and bool(names) and not is_computed and not is_named

    def _choose_reason(self, item: Mention) -> GapReason:
        # "Gold in America" is the same gold: the economy is named as open, and the program stays. So it does with a
        # number that begins an unread word: 811汇改.
        is_economy = item.kind == MentionKind.ENTITY and item.value not in self._entities
        if is_economy or is_part_of_word(item, self._mentions) or self._is_circumstance(item):
            return GapReason.UNREAD
        return GapReason.UNUSED_NAME if item in self._cut else REASONS[item.kind]

    def _is_circumstance(self, item: Mention) -> bool:
        """Return whether a mention leaves the values as they are: it is named as open, and the program stays.

        A difference is one of values that are given. A period by its name, the financial crisis, tells more of the one
        whose dates the question has.
        """
        if item.kind == MentionKind.PERIOD:
            others = [one for one in select(self._mentions, MentionKind.PERIOD) if list_numbers(self._get_text(one))]
            is_dated = any(is_computed(one, self._program.steps) for one in others)
            return is_dated and ".." not in item.value and not list_numbers(self._get_text(item))
        return item.kind == MentionKind.MEASURE and item.value == "spread"

    def _get_text(self, item: Mention) -> str:
        return self._question[item.start : item.end]

    def _is_used(self, item: Mention, text: str, reason: GapReason) -> bool:
        """Return whether the words of a program have those of a mention, or parts of them that say as much."""
        if item.kind in (MentionKind.OUTPUT, MentionKind.CONDITION, MentionKind.MEASURE):
            return False
        is_length = item.kind == MentionKind.PARAMETER and windows.is_length(item.value)
        if is_length and windows.is_window(item, self._program.steps):
            return True
        is_part = is_decisive(reason) and not is_length and has_numbers(item, text, self._used)
        return any(text.casefold() in one or (is_part and one in text.casefold()) for one in self._used)


def find_partners(
    question: str, mentions: Sequence[Mention], series: Sequence[NamedSeries], layer: Layer
) -> Iterator[Mention]:
    """Yield entities joined to another one that lack the one figure asked of all, and economies without a series.

    "Apple and the US" asks for both, where "Apple in the US" is the same share.
    """
    owners, named = {one.entity for one in series}, select(mentions, MentionKind.INDICATOR)
    specs = [layer.indicators[item.value] for item in named if item.value in layer.indicators]
    kinds = {kind for spec in specs for kind in spec.kinds} if is_shared(question, mentions) else set()
    for item in find_joined(question, mentions):
        spec = layer.entities.get(item.value)
        is_foreign = bool(kinds) and spec is not None and spec.kind not in kinds
        if is_foreign or (spec is not None and spec.kind == "economy" and item.value not in owners):
            yield item


def list_homes(series: Sequence[NamedSeries], known: Mapping[str, EntitySpec]) -> Iterator[str]:
    """Yield the entities that another word may name as well: those of the series, and their economies."""
    yield EURO
    for one in series:
        spec = known.get(one.entity)
        # A second word for a currency may name the money that is asked for: "Yen-based, what did we make in JPY?".
        if spec is not None and spec.kind != "currency":
            yield from (spec.id, spec.market)


def list_monies(series: Sequence[NamedSeries], layer: Layer) -> set[str]:
    """Return the currencies that values of the series are in, or can be converted into by rates among the series."""
    units = {one.name: spec.unit for one in series if (spec := layer.indicators.get(one.indicator)) is not None}
    rates = {EURO, *(one.entity for one in series if units.get(one.name) == PER_EURO)}
    own = set(filter(None, map(find_currency, units.values())))
    # Every rate is per euro: from dollars to yen it takes that of the dollar, too.
    return own | rates if own <= rates and len(rates) > 1 else own


def find_money(unit: Mention, layer: Layer) -> str:
    """Return the currency that an answer is asked in; "" for a unit that names none."""
    spec, parsed = layer.entities.get(unit.value), parse_unit(unit.value)
    return spec.id if spec is not None else parsed.currency if parsed is not None else ""


def is_unit(currency: Mention, question: str) -> bool:
    """Return whether a currency is what something costs, "the dollar price", and nothing that is asked for besides."""
    ahead, behind = question[: currency.start], question[currency.end :]
    return not (cue("conjunct").search(ahead.removesuffix("the ")) or cue("joined").match(behind))


def is_computed(period: Mention, steps: Sequence[str]) -> bool:
    """Return whether a program computes over all days of a period, whatever its words."""
    start, _, end = period.value.partition("/")
    # "On record" has all days, as a series has that nothing limits.
    is_all = start == end == ".."
    # "Q3" apart from its year has the days of both together, and a program may have those of the year.
    return is_all or (period.how != "part" and any(f"f.period({start!r}, {end!r})" in step for step in steps))


def has_numbers(item: Mention, text: str, used: Sequence[str]) -> bool:
    """Return whether all numbers of a period are among used words: of "the 60 days to 31 March 2019", 60 as well."""
    numbers = list_numbers(text) if item.kind == MentionKind.PERIOD else set()
    return numbers <= list_numbers(" ".join(used))


def list_numbers(text: str) -> set[str]:
    """Return the numbers of a text in digits, those in English words as well; "one" is more often none."""
    words = {str(ENGLISH[word]) for word in LATIN.findall(text.casefold()) if ENGLISH.get(word, 1) > 1}
    return {*NUMBER.findall(text), *words}


def is_moved(measure: Mention, steps: Sequence[str]) -> bool:
    """Return whether steps compute a change over a length, "12-month change"; other measures have no length."""
    months = STEP_MONTHS.get(Transform(measure.value)) if measure.value in set(Transform) else None
    named = any(f"f.{name}(" in step for step in steps for name in (measure.value, *MOVES))
    return months is None or named or windows.is_moving(months, "month", steps)


def is_opposite(condition: Mention, steps: Sequence[str]) -> bool:
    """Return whether all comparisons of a program go the other way than a condition of its question."""
    compared = {word for step in steps for word in COMPARED.findall(step)}
    wanted = SIDES.get(condition.value[:1], compared)
    return bool(compared) and not compared & wanted


def is_part_of_word(number: Mention, mentions: Sequence[Mention]) -> bool:
    """Return whether a bare number begins an unread word, of which it is a part."""
    unread = {item.start for item in select(mentions, MentionKind.UNKNOWN) if item.end - item.start > 1}
    return number.kind == MentionKind.PARAMETER and number.value.isdigit() and number.end in unread


def is_decisive(reason: GapReason) -> bool:
    """Return whether a program without such words computes something else than what is asked."""
    return reason in (GapReason.UNUSED_NAME, GapReason.UNUSED_PERIOD, GapReason.UNUSED_NUMBER)


def has_capital(text: str) -> bool:
    return any(map(str.isupper, text))


def find_cut_names(
    question: str, mentions: Sequence[Mention], series: Sequence[NamedSeries], is_sure: bool
) -> Iterator[Mention]:
    """Yield unread words right before a series' words, where one is a proper name: "UK" and "gilt" of "UK gilt 10y"."""
    unread = {question[item.start : item.end]: item for item in select(mentions, MentionKind.UNKNOWN)}
    for one in series:
        before = question[: question.find(one.words)].split() if one.words in question else []
        run = list(takewhile(unread.__contains__, reversed(before)))
        # The first word of a question has a capital of its own: "Drug makers JNJ" are none but these.
        is_start = is_sure and one.entity != HOME and len(run) == len(before) > 0 and not has_capital(run[-1][1:])
        if any(map(has_capital, run[:-1] if is_start else run)):
            yield from (unread[word] for word in run)


def find_qualifiers(
    question: str, mentions: Sequence[Mention], series: Sequence[NamedSeries], layer: Layer
) -> Iterator[Mention]:
    """Yield unread words among those for a series that is not called so: "Chilean" of "Chilean pesos"."""
    for one in series:
        specs = [layer.indicators[one.indicator]] if one.indicator in layer.indicators else []
        names = join_names(specs, [one.entity], layer)
        # A table of the user's own has names that no catalog knows. Words that stand apart are joined in a series'.
        for item in select(mentions, MentionKind.UNKNOWN) if names else ():
            text = question[slice(*item.span)]
            # A single word for a statistic qualifies nothing; one for a company may be somebody else's name.
            is_part = text in one.words and (text != one.words or one.entity != HOME)
            if is_part and not is_in(normal(text), names):
                yield item
