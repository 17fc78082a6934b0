"""What a conversation is about: the newest names, measures, periods and figures of its turns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, UNKNOWN, Kinds, ReadText, Slot
from fathom.services.planner.questions.names import merge_neighbours, promote_names
from fathom.services.planner.questions.periods import parse_period
from fathom.services.planner.questions.references import ONE, STATEMENT, Reference

# A number with its unit, in both languages; digits are grouped by commas, and a sign may be the typographic minus.
FIGURE = re.compile(r"[-−]?\d(?:[\d,]*\d)?(?:\.\d+)?\s*(?:%|percentage points|[A-Z]{3}\b|美元|元|点|亿|万)?")
NUMBER = re.compile(r"\d(?:[\d,]*\d)?(?:\.\d+)?")
# "20 million" may repeat "20,493 thousand".
SCALES = (1.0, 1e3, 1e4, 1e6, 1e8, 1e9)
CITATION = re.compile(r"\[\d+\]")
SENTENCE = re.compile(r"(?<=[。！？!?])|(?<=\.)\s+|\n+")
CLAUSE = re.compile(r"(?<=[，,；;、])(?!\d)")


ECONOMIES = frozenset({"US"})


@dataclass(frozen=True)
class Turn:
    """An earlier question, whole, and the answer to it."""

    question: ReadText
    answer: ReadText

    @classmethod
    def of(cls, question: ReadText, answer: ReadText) -> Turn:
        """Create a turn; names that the data do not know count as entities in both texts."""
        asked = promote_names(question)
        return cls(asked, promote_names(answer, [slot.text for slot in asked.of(ENTITY)]))

    @property
    def entities(self) -> tuple[Slot, ...]:
        """Return the entities of the question."""
        return self.question.of(ENTITY)

    @property
    def has_data(self) -> bool:
        """Return whether the turn is about data, unlike a greeting and what the assistant says of itself."""
        return any(slot.kind not in UNKNOWN for slot in self.question.slots) or bool(CITATION.search(self.answer.text))


@dataclass(frozen=True)
class Frame:
    """The newest slots of each kind, and the figure of the last answer."""

    entities: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    """The same entities in the order of the answer, if it has all of them."""
    topics: tuple[Slot, ...] = ()
    periods: tuple[Slot, ...] = ()
    days: tuple[Slot, ...] = ()
    """Single days that the last answer names, else the last question."""
    answered_periods: tuple[Slot, ...] = ()
    """Longer periods that the last answer names, such as the month of an extreme."""
    recent: tuple[str, ...] = ()
    """The entities of all turns, oldest first, for words that stand for several of them."""
    figure: str = ""
    is_quoted: bool = False
    """True when the follow-up repeats a figure of an answer."""

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
    entities = next((tuple(slot.text for slot in text.of(ENTITY)) for text in named if text.of(ENTITY)), ())
    measured = [*([sentence] if sentence is not None and is_quoted else []), *texts]
    topics = next((found for text in measured if (found := text.of(TOPIC) or list_unknown_topics(text))), ())
    # Of a quoted figure, too, the question says for which period it was asked.
    periods = next((text.of(PERIOD) for text in texts if text.of(PERIOD)), ())
    days = list_days(turns[-1].answer) or list_days(turns[-1].question)
    figure = "" if is_quoted else figure or find_figure(turns[-1].answer)
    answered = turns[-1].answer.of(PERIOD)
    recent = tuple({slot.value: slot.text for turn in turns for slot in turn.question.of(ENTITY)}.values())
    order = order_by_answer(entities, turns[-1])
    return Frame(entities, order, topics, periods, days, answered, recent, figure, is_quoted)


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
