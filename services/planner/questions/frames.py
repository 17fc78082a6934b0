"""What a conversation is about: the newest names, measures, periods and figures of its turns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fathom.services.planner.model.slots import ENTITY, FREQUENCY, PERIOD, TOPIC, UNKNOWN, Kinds, ReadText, Slot
from fathom.services.planner.questions.names import merge_neighbours, promote_names
from fathom.services.planner.questions.periods import NamedPeriod, contains, find_named, parse_period
from fathom.services.planner.questions.references import ONE, STATEMENT, Reference

# A number with its unit, in both languages; digits are grouped by commas, and a sign may be the typographic minus.
FIGURE = re.compile(r"[-−]?\d(?:[\d,]*\d)?(?:\.\d+)?\s*(?:%|percentage points|[A-Z]{3}\b|美元|元|点|亿|万)?")
NUMBER = re.compile(r"\d(?:[\d,]*\d)?(?:\.\d+)?")
# "20 million" may repeat "20,493 thousand".
SCALES = (1.0, 1e3, 1e4, 1e6, 1e8, 1e9)
SIGNED = re.compile(r"[-−]?\d(?:[\d,]*\d)?(?:\.\d+)?")
CITATION = re.compile(r"\[\d+\]")
SENTENCE = re.compile(r"(?<=[。！？!?])|(?<=\.)\s+|\n+")
CLAUSE = re.compile(r"(?<=[，,；;、])(?!\d)")
FALLING = re.compile(r"\b(?:lost|fell|declined|dropped|down)\b|跌|下降|亏", re.IGNORECASE)
RISING = re.compile(r"\b(?:gained|rose|grew|up)\b|涨|上升|增长", re.IGNORECASE)
UNIT_OF = re.compile(r"\d\s*$")
ECONOMIES = frozenset({"US"})


@dataclass(frozen=True)
class Turn:
    """An earlier question, whole, and the answer to it."""

    question: ReadText
    answer: ReadText

    @classmethod
    def of(cls, question: ReadText, answer: ReadText) -> Turn:
        """Create a turn; names that the data do not know count as entities in both texts."""
        asked = promote_names(join_same(question))
        said = replace(answer, slots=tuple(slot for slot in date_slots(answer) if not is_unit(slot, answer)))
        return cls(asked, promote_names(said, asked.of(ENTITY)))

    @property
    def entities(self) -> tuple[Slot, ...]:
        """Return the entities of the question."""
        return self.question.of(ENTITY)

    @property
    def referents(self) -> tuple[Slot, ...]:
        """Return the entities other than economies, or where there is none the indicators of the question."""
        indicators = tuple(slot for slot in self.question.of(TOPIC) if not slot.is_measure)
        return tuple(slot for slot in self.entities if slot.value not in ECONOMIES) or indicators or self.entities

    @property
    def moment(self) -> Slot | None:
        """Return the period that the answer found in that of the question; None for none or several."""
        asked = self.question.of(PERIOD)
        found = [
            slot
            for slot in self.answer.of(PERIOD)
            if parse_period(slot.value) and (not asked or any(contains(one.value, slot.value) for one in asked))
        ]
        return found[0] if len(found) == 1 else None

    @property
    def scores(self) -> tuple[tuple[str, float], ...]:
        """Return the names of the question that the answer gives a figure, with the first one after each."""
        names = {slot.value: slot.text for slot in self.entities}
        text = CITATION.sub(lambda match: " " * len(match.group()), remove_slots(self.answer, PERIOD + ENTITY))
        places = [slot for slot in self.answer.slots if slot.kind in ENTITY and slot.value in names]
        found: dict[str, float] = {}
        is_falling = bool(FALLING.search(text)) and not RISING.search(text)
        for place, slot in enumerate(places, 1):
            end = places[place].start if place < len(places) else len(text)
            match = SIGNED.search(text, slot.end, end)
            if match and names[slot.value] not in found:
                figure = float(match.group().replace(",", "").replace("−", "-"))
                # "Lost 63.1%" is a return of -63.1%.
                found[names[slot.value]] = -figure if is_falling and figure > 0 else figure
        return tuple(found.items())

    @property
    def has_data(self) -> bool:
        """Return whether the turn is about data, unlike a greeting and what the assistant says of itself."""
        return any(slot.kind not in UNKNOWN for slot in self.question.slots) or bool(CITATION.search(self.answer.text))


@dataclass(frozen=True)
class Frame:
    """The newest slots of each kind, and the figure of the last answer."""

    entities: tuple[str, ...] = ()
    economies: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    """The same entities in the order of the answer, if it has all of them."""
    topics: tuple[Slot, ...] = ()
    periods: tuple[Slot, ...] = ()
    days: tuple[Slot, ...] = ()
    """Single days that the last answer names, else the last question."""
    answered_periods: tuple[Slot, ...] = ()
    """Longer periods that the last answer names, such as the month of an extreme."""
    recent: tuple[str, ...] = ()
    """What all turns were about, oldest first, for words that stand for several of them."""
    scores: tuple[tuple[str, float], ...] = ()
    """The figures of the newest entities, for "the higher one"."""
    lead: tuple[str, ...] = ()
    """Which one of several the last answer names, if only one of them."""
    moment: Slot | None = None
    """The period that the last answer found, e.g. the month of an extreme."""
    figure: str = ""
    is_quoted: bool = False
    """True when the follow-up repeats a figure of an answer."""

    @property
    def referents(self) -> tuple[str, ...]:
        """Return what "it" and "they" may stand for: the entities, or where there is none the indicators."""
        indicators = tuple(slot.text for slot in self.topics if not slot.is_measure)
        # An economy is not what rose or fell: that is its indicator.
        is_economy = {name.casefold() for name in self.entities} <= {name.casefold() for name in self.economies}
        return indicators if is_economy and indicators else self.entities

    @property
    def values(self) -> frozenset[str]:
        """Return the canonical values of the topics."""
        return frozenset(slot.value for slot in self.topics if slot.value)


def find_frame(question: ReadText, turns: Sequence[Turn], references: Sequence[Reference]) -> Frame:
    """Return the frame; a follow-up on a statement is about the sentence of the answer that makes it."""
    turns = [turn for turn in turns if turn.has_data]
    if not turns:
        return Frame()
    if any(one.kind == ONE and one.is_category for one in references):
        # "The stock" is no economy: the turn is meant that was about one.
        about = [
            place for place, turn in enumerate(turns) if any(slot.value not in ECONOMIES for slot in turn.entities)
        ]
        turns = turns[: about[-1] + 1] if about else turns
    sentence = find_quoted(list_figures(question), turns)
    is_quoted, figure = sentence is not None, ""
    if sentence is None and any(one.kind == STATEMENT for one in references):
        sentence, figure = find_statement(turns[-1].answer)
    texts: list[ReadText] = []
    for turn in reversed(turns):
        lead = split_sentences(turn.answer)[:1]
        texts += [turn.question, *lead]
    # "Which share fell most?": the answer leads with the one that is meant.
    named = [*([sentence] if sentence is not None else []), *texts]
    entity_slots = next((text.of(ENTITY) for text in named if text.of(ENTITY)), ())
    entities = tuple(slot.text for slot in entity_slots)
    economies = tuple(slot.text for slot in entity_slots if slot.value in ECONOMIES)
    measured = [*([sentence] if sentence is not None and is_quoted else []), *texts]
    topics = next((found for text in measured if (found := text.of(TOPIC) or list_unknown_topics(text))), ())
    # Of a quoted figure, too, the question says for which period it was asked.
    periods = next((find_periods(text, turns) for text in texts if text.of(PERIOD)), ())
    days = list_days(turns[-1].answer) or list_days(turns[-1].question)
    figure = "" if is_quoted else figure or find_figure(turns[-1].answer)
    answered = turns[-1].answer.of(PERIOD)
    recent = tuple({slot.value: slot.text for turn in turns for slot in turn.referents}.values())
    order = order_by_answer(entities, turns[-1])
    return Frame(
        entities,
        economies,
        order,
        topics,
        periods,
        days,
        answered,
        recent,
        list_scores(turns),
        list_lead(turns[-1]),
        turns[-1].moment,
        figure,
        is_quoted,
    )


def list_lead(turn: Turn) -> tuple[str, ...]:
    """Return the name of the question that the answer begins with, if the question has several and it no other."""
    names = {slot.value: slot.text for slot in turn.entities}
    first = split_sentences(turn.answer)[:1]
    found = {slot.value for text in first for slot in text.of(ENTITY) if slot.value in names}
    return tuple(names[value] for value in found) if len(names) > 1 and len(found) == 1 else ()


def find_periods(text: ReadText, turns: Sequence[Turn]) -> tuple[Slot, ...]:
    """Return the periods of a question, or the first one of an answer, which is the one it is about."""
    is_asked = any(text is turn.question for turn in turns)
    return text.of(PERIOD) if is_asked else text.of(PERIOD)[:1]


def join_same(text: ReadText) -> ReadText:
    """Return the text with neighbouring words of one meaning as one slot: "annualised daily volatility"."""
    slots: list[Slot] = []
    for slot in sorted(text.slots, key=lambda one: one.start):
        # A frequency may stand between.
        last = next((one for one in reversed(slots) if one.kind not in FREQUENCY), None)
        place = slots.index(last) if last else 0
        is_near = all(right.start - left.end <= 1 for left, right in pairwise([*slots[place:], slot]))
        if last and slot.value and (slot.kind, slot.value) == (last.kind, last.value) and is_near:
            slots[place:] = [replace(last, text=text.text[last.start : slot.end], end=slot.end)]
        else:
            slots.append(slot)
    return replace(text, slots=tuple(slots))


def list_scores(turns: Sequence[Turn]) -> tuple[tuple[str, float], ...]:
    """Return the figures of the last answer by name, or those of the turns about one name each."""
    if len(turns[-1].scores) > 1:
        return turns[-1].scores
    found: dict[str, float] = {}
    for turn in turns:
        found.update(turn.scores if len(turn.entities) == 1 else ())
    return tuple(found.items())


def date_slots(text: ReadText) -> tuple[Slot, ...]:
    """Return the slots with periods as their own words say: "twelve-month inflation in June 2022" names a month."""
    named = {slot: find_named(slot.text) for slot in text.slots if slot.kind in PERIOD}
    dated = {slot.value for slot, found in named.items() if found}
    kept = [slot for slot in text.slots if slot.kind not in PERIOD or named[slot] or slot.value not in dated]
    return tuple(
        replace(slot, value=named[slot][0].value) if slot.kind in PERIOD and is_one_date(slot, named[slot]) else slot
        for slot in kept
    )


def is_one_date(slot: Slot, named: Sequence[NamedPeriod]) -> bool:
    """Return whether the words are a single date and nothing more."""
    return len(named) == 1 and (named[0].start, named[0].end) == (0, len(slot.text))


def is_unit(slot: Slot, text: ReadText) -> bool:
    """Return whether a currency only says in what a figure is: "39.95 USD"."""
    return slot.kind in ENTITY and bool(UNIT_OF.search(text.text, 0, slot.start))


def order_by_answer(entities: Sequence[str], turn: Turn) -> tuple[str, ...]:
    """Return the entities in the order in which the answer names them; () unless it names all."""
    values = {slot.text: slot.value for slot in turn.question.of(ENTITY)}
    places = {slot.value: slot.start for slot in reversed(turn.answer.slots) if slot.kind in ENTITY}
    if not entities or any(values.get(name) not in places for name in entities):
        return ()
    return tuple(sorted(entities, key=lambda name: places[values[name]]))


def list_days(text: ReadText) -> tuple[Slot, ...]:
    """Return the periods of a text that are single days."""
    return tuple(slot for slot in text.of(PERIOD) if (days := parse_period(slot.value)) and days[0] == days[1])


def list_figures(text: ReadText) -> list[str]:
    """Return the figures of a text that belong to no name, measure or period."""
    return [match.group().strip() for match in FIGURE.finditer(remove_slots(text, PERIOD + ENTITY + TOPIC))]


def has_quoted(question: ReadText, turns: Sequence[Turn]) -> bool:
    """Return whether the question repeats a figure of an answer."""
    return find_quoted(list_figures(question), turns) is not None


def find_quoted(quoted: Sequence[str], turns: Sequence[Turn]) -> ReadText | None:
    """Return the newest clause of an answer with a quoted figure, with the names of its sentence if it has none."""
    for turn in reversed(turns):
        for sentence in split_sentences(turn.answer):
            if not has_figure(sentence, quoted):
                continue
            clause = next((one for one in split_text(sentence, CLAUSE) if has_figure(one, quoted)), sentence)
            return clause if clause.of(ENTITY) else sentence
    return None


def has_figure(text: ReadText, quoted: Sequence[str]) -> bool:
    """Return whether the text has one of the figures, as precisely as they are quoted."""
    plain = CITATION.sub(" ", remove_slots(text, PERIOD))
    there = [float(match.group().replace(",", "")) for match in NUMBER.finditer(plain)]
    for figure in quoted:
        digits = NUMBER.findall(figure)[0].replace(",", "")
        margin = 0.5 * 10.0 ** -len(digits.partition(".")[2]) + 1e-9
        if any(abs(number / scale - float(digits)) <= margin for number in there for scale in SCALES):
            return True
    return False


def find_statement(answer: ReadText) -> tuple[ReadText | None, str]:
    """Return the first sentence of an answer with a figure, and that figure."""
    sentences = split_sentences(answer)
    found = next(((one, figure) for one in sentences if (figure := find_figure(one))), None)
    return found or (None, "")


def find_figure(answer: ReadText) -> str:
    """Return the first figure of a text that is no part of a date; "" without one."""
    match = FIGURE.search(CITATION.sub(" ", remove_slots(answer, PERIOD)))
    return match.group().strip() if match else ""


def remove_slots(text: ReadText, kinds: Kinds) -> str:
    """Return the text with the slots of some kinds blanked out."""
    letters = list(text.text)
    for slot in text.slots:
        if slot.kind in kinds:
            letters[slot.start : slot.end] = " " * (slot.end - slot.start)
    return "".join(letters)


def split_sentences(text: ReadText) -> list[ReadText]:
    """Return the sentences with the slots in them."""
    return split_text(text, SENTENCE)


def split_text(text: ReadText, boundary: re.Pattern[str]) -> list[ReadText]:
    """Return the parts of a text between boundaries, with the slots in them."""
    found, start = [], 0
    for end in [*(match.start() for match in boundary.finditer(text.text)), len(text.text)]:
        if text.text[start:end].strip():
            inside = tuple(
                replace(slot, start=slot.start - start, end=slot.end - start)
                for slot in text.slots
                if start <= slot.start and slot.end <= end
            )
            found.append(ReadText(text.text[start:end], inside))
        start = end
    return found


def list_unknown_topics(text: ReadText) -> tuple[Slot, ...]:
    """Return the first unknown words, which say what is measured where no known ones do."""
    return tuple(slot for slot in merge_neighbours(text) if len(slot.text) > 1)[:2]
