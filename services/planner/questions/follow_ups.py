"""Completion of a follow-up question from the slots of earlier turns, without a language model.

What a follow-up names takes the place of the same slot in the last question, or joins or leaves it, if it says nothing
else ("and Lilly?", "add Exxon"). In any other one the referring words are replaced, and slots that it lacks are added
in brackets. A reference with no or several candidates is reported instead of guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.domain.text.language import language_of
from fathom.domain.text.scripts import HAN_CHARACTER
from fathom.services.planner.model.slots import (
    ENTITY,
    FREQUENCY,
    PERIOD,
    TOPIC,
    UNKNOWN,
    ReadText,
    Slot,
    SlotKind,
)
from fathom.services.planner.questions.frames import Frame, Turn, find_frame
from fathom.services.planner.questions.names import promote_names
from fathom.services.planner.questions.periods import (
    Shift,
    begin_at,
    find_named,
    name_period,
    parse_period,
    shift_period,
    take_edge,
)
from fathom.services.planner.questions.phrasing import (
    add_in_brackets,
    join_names,
    replace_slots,
    replace_span,
)
from fathom.services.planner.questions.references import (
    ADD,
    COMPARED,
    EARLIER,
    FOUND,
    HIGHEST,
    LOWEST,
    MAXIMUM,
    MINIMUM,
    NAMING,
    ONE,
    OTHER,
    REMOVE,
    SAME,
    SEVERAL,
    SHIFTED,
    STATEMENT,
    THEN,
    Reference,
    drop_overlapped,
    find_references,
    list_rest,
)
from fathom.services.planner.questions.substitution import (
    PAIRWISE,
    is_qualifier,
    substitute_slots,
)

# A follow-up without any slot ("Why?") refers to the last turn as a whole only when it is as short as this.
BARE_CHARS = 40
# Measures that put things in an order, by datafetch's names.
ORDERED = frozenset({"rank"})
# Measures that are found at a time, and those of which less is better.
DRAWDOWN = "max_drawdown"
DATED, RISKS = frozenset({"max", "min", DRAWDOWN}), frozenset({DRAWDOWN, "volatility"})
DATING = (SlotKind.UNKNOWN, SlotKind.PARAMETER, SlotKind.PERIOD)
COUNTED = {2: re.compile("two|both|[两二俩]"), 3: re.compile("three|三")}
# Words that judge instead of comparing sizes.
JUDGING = re.compile(r"better|best|worse|worst|winner|loser|leader|laggard|[好差强弱赢输]", re.IGNORECASE)
# What stands right before a name that is denied: "not in 2018", 不是, 而不是.
DENIED = re.compile(r"(?:\b(?:not|instead of|rather than)|不是|而不是|不要)\s*(?:in |for )?$", re.IGNORECASE)
# What stands right before a period that another one is measured against: "below February", 比2019年.
AGAINST = re.compile(
    r"(?:\b(?:than|below|above|versus|vs|against|compared (?:to|with))|[比较])\s*(?:in |the )?$", re.IGNORECASE
)
# What stands right before the end of a span: "through to 2012", 到2015年.
END_OF_SPAN = re.compile(r"(?:\b(?:up to|through to|through|until|till|to)\s*(?:the )?|[到至])$", re.IGNORECASE)
# Several candidates are worth a choice, a long list of them is not.
MAX_OPTIONS = 4


@dataclass(frozen=True)
class Completed:
    """The question made whole; with ``unresolved`` words, ``options`` are the questions that may be meant."""

    text: str
    unresolved: str = ""
    options: tuple[str, ...] = ()


def complete_question(question: ReadText, turns: Sequence[Turn]) -> Completed:
    """Return the follow-up as a whole question; ``turns`` are oldest first."""
    if not turns:
        return Completed(question.text)
    turns = [turn for turn in turns if turn.has_data]
    known = [slot for turn in turns for slot in turn.question.of(ENTITY)]
    question = promote_names(complete_ends(complete_dates(question, turns), turns), known, is_follow_up=True)
    references = settle_then(find_references(question), question, turns)
    question = merge_inputs(drop_denied(drop_overlapped(question, references)))
    kinds = {one.kind for one in references}
    if not turns:
        return ask_without_turns(question, references)
    if EARLIER in kinds:
        return recall_turn(question, references, turns)
    frame = find_frame(question, turns, references)
    text = ""
    if kinds & {ADD, REMOVE}:
        text = edit_names(question, references, turns[-1], frame)
    elif not kinds - {STATEMENT}:
        text = substitute_slots(question, turns)
    elif kinds <= {SHIFTED, SAME} and not question.of(ENTITY):
        text = move_period(question, references, turns[-1], frame)
    return Completed(text) if text else resolve_references(question, references, frame)


def complete_dates(question: ReadText, turns: Sequence[Turn]) -> ReadText:
    """Return the text with whole dates: "and in March?" is of the year that was talked about, '15 is 2015."""
    chinese, whole = language_of(question.text) == "zh", question
    for one in reversed(find_named(question.text, find_year(turns))):
        taken = any(
            slot.start < one.end
            and one.start < slot.end
            and (slot.kind not in DATING or len(slot.text) > one.end - one.start)
            for slot in question.slots
        )
        period = parse_period(one.value)
        if taken or not one.is_partial or period is None:
            continue
        words = name_period(*period, chinese)
        whole = replace_span(whole, one.start, one.end, words)
        made = Slot(SlotKind.PERIOD, words, one.value, one.start, one.start + len(words))
        whole = replace(whole, slots=tuple(sorted([*whole.slots, made], key=lambda slot: slot.start)))
    return whole


def complete_ends(question: ReadText, turns: Sequence[Turn]) -> ReadText:
    """Return the text with whole spans: "through to 2012" begins where the last question did, "May to June" is one."""
    chinese, whole = language_of(question.text) == "zh", question
    anchors = turns[-1].question.of(PERIOD) if turns else ()
    slots = [slot for slot in question.slots if slot.kind in PERIOD]
    for place, slot in reversed(list(enumerate(slots))):
        before = slots[place - 1] if place else None
        end = END_OF_SPAN.search(question.text[: slot.start])
        if not (end or slot.value.startswith("../")) or (before is None and not anchors):
            continue
        start = end.start() if end else slot.start
        if before is not None and before.end >= start - 1:
            start, words = before.start, question.text[before.start : slot.end]
            value = f"{before.value.partition('/')[0]}/{slot.value.rpartition('/')[2]}"
        elif before is None:
            words = begin_at(slot.value, slot.text, anchors[0].value, chinese)
            value = f"{anchors[0].value.partition('/')[0]}/{slot.value.rpartition('/')[2]}"
        else:
            words = value = ""
        if words:
            whole = replace_span(whole, start, slot.end, words)
            made = Slot(SlotKind.PERIOD, words, value, start, start + len(words))
            whole = replace(whole, slots=tuple(sorted([*whole.slots, made], key=lambda one: one.start)))
    return whole


def find_year(turns: Sequence[Turn]) -> int:
    """Return the year of the newest question, or of its answer where that runs over several; 0 for none."""
    for turn in reversed(turns):
        for text in (turn.question, turn.answer):
            for slot in text.of(PERIOD):
                period = parse_period(slot.value)
                if period and period[0].year == period[1].year:
                    return period[0].year
    return 0


def settle_then(found: Sequence[Reference], question: ReadText, turns: Sequence[Turn]) -> list[Reference]:
    """Return the references with "then" as a time where the last question asked for one, and without it elsewhere."""
    asked_when = bool(turns) and turns[-1].moment is not None and not question.of(PERIOD)
    asked_when = asked_when and any(slot.value in DATED for slot in turns[-1].question.of(TOPIC))
    return [replace(one, kind=SAME) if one.kind == THEN else one for one in found if one.kind != THEN or asked_when]


def ask_without_turns(question: ReadText, references: Sequence[Reference]) -> Completed:
    """Return the question as it stands, as unresolved if it leans on a turn that there was not."""
    is_named = bool(question.of(ENTITY)) or any(not slot.is_measure for slot in question.of(TOPIC))
    leaning = [one for one in references if one.kind != COMPARED and (one.kind != STATEMENT or not is_named)]
    is_short = bool(question.slots) and not is_named and len(question.text) <= BARE_CHARS
    words = leaning[0].text if leaning else question.text if is_short and not is_bare(question) else ""
    return Completed(question.text, words)


def drop_denied(question: ReadText) -> ReadText:
    """Return a correction ("not 2007, 2017") without what it denies, where something of the kind is left."""
    kept = [slot for slot in question.slots if not DENIED.search(question.text[: slot.start])]
    left = {slot.kind for slot in kept}
    gone = [slot for slot in question.slots if slot not in kept and slot.kind in left]
    text = list(question.text)
    for slot in gone:
        denial = DENIED.search(question.text[: slot.start])
        start = denial.start() if denial else slot.start
        text[start : slot.end] = " " * (slot.end - start)
    return ReadText("".join(text), tuple(slot for slot in question.slots if slot not in gone)) if gone else question


def merge_inputs(question: ReadText) -> ReadText:
    """Return the text with "monthly returns" as a frequency: the returns are the input of another measure."""
    slots: list[Slot] = []
    for slot in sorted(question.slots, key=lambda one: one.start):
        before = slots[-1] if slots else None
        if before and before.kind in FREQUENCY and slot.value == "return" and slot.start - before.end <= 1:
            slots[-1] = replace(before, end=slot.end, text=question.text[before.start : slot.end])
        else:
            slots.append(slot)
    return replace(question, slots=tuple(slots))


def recall_turn(question: ReadText, references: Sequence[Reference], turns: Sequence[Turn]) -> Completed:
    """Return the question on a turn before the last one ("the ratio we talked about last time")."""
    words = next(one.text for one in references if one.kind == EARLIER)
    earlier = [turn for turn in turns[:-1] if turn.has_data]
    others = [one for one in references if one.kind != EARLIER]
    texts = [resolve_references(question, others, find_frame(question, [turn], others)).text for turn in earlier]
    if len(texts) == 1:
        return Completed(texts[0])
    return Completed(question.text, words, tuple(texts[-MAX_OPTIONS:]))


def edit_names(question: ReadText, references: Sequence[Reference], last: Turn, frame: Frame) -> str:
    """Return the last question with names added or removed; "" for a follow-up that says more."""
    operators = [one for one in references if one.kind in (ADD, REMOVE)]
    names, chinese = list(frame.entities), language_of(last.question.text) == "zh"
    ends = [*(one.start for one in operators[1:]), len(question.text)]
    used = []
    for operator, end in zip(operators, ends, strict=True):
        part = question.text[operator.end : end]
        if operator.kind == REMOVE:
            gone = [name for name in names if is_named(name, part, question, last)]
            names = [name for name in names if name not in gone]
            used += gone
        else:
            new = [slot.text for slot in question.of(ENTITY) if operator.end <= slot.start < end]
            names += [name for name in new if name not in names]
            used += new
    words = {word.lower() for name in used for word in re.findall(r"\w+", name)}
    rest = [word for word in list_rest(question, references) if word.lower() not in words]
    if not used or not names or rest:
        return ""
    text = replace_slots(last.question, ENTITY, join_names(names, chinese), chinese)
    return replace_periods(text, question, chinese).text


def is_named(name: str, part: str, question: ReadText, last: Turn) -> bool:
    """Return whether the words name an entity of the last question, by the same or another of its names."""
    values = {slot.value for slot in last.question.of(ENTITY) if slot.text == name and slot.value}
    known = any(slot.value in values and slot.text in part for slot in question.of(ENTITY))
    return known or name.lower() in part.lower()


def replace_periods(text: ReadText, question: ReadText, chinese: bool) -> ReadText:
    """Return the text with the periods and the frequency of the follow-up, if it has any."""
    for kind in (PERIOD, FREQUENCY):
        words = [slot.text for slot in question.of(kind)]
        if words:
            text = replace_slots(text, kind, join_names(words, chinese), chinese)
    return text


def move_period(question: ReadText, references: Sequence[Reference], last: Turn, frame: Frame) -> str:
    """Return the last question at another period, for "And the year after?"; "" when the follow-up says more."""
    chinese = language_of(last.question.text) == "zh"
    # A date of its own says more exactly what the shift means.
    words = [slot.text for slot in question.of(PERIOD)][:1] or name_shifted(references[0], frame, chinese)
    if not words or list_rest(question, references) or is_qualifier(question, last.question):
        return ""
    text = replace_slots(last.question, PERIOD, words[0], chinese) if len(words) == 1 else None
    if text is None:
        return ""
    for slot in question.of(TOPIC):
        text = replace_slots(text, TOPIC, slot.text, chinese)
    return text.text


def name_shifted(reference: Reference, frame: Frame, chinese: bool) -> list[str]:
    """Return the periods that the words may mean; several for "that day" after an answer with several days."""
    first = frame.periods[0] if frame.periods else None
    if frame.moment is not None and (reference.shift is None or not reference.shift.count):
        # "That month", "then": what the answer has found, where the question was about a longer time.
        if reference.shift is None:
            return [frame.moment.text]
        first = frame.moment
    if reference.shift is None:
        return [] if first is None else [first.text]
    # "That month" of two is either.
    several = () if reference.shift.count or frame.moment else frame.periods
    if reference.shift.unit == "day":
        anchors = frame.days or ((first,) if first is not None else ())
    else:
        anchors = several or ((first,) if first is not None else ())
    if found := shift_all(anchors, reference.shift, chinese):
        return found if reference.shift.unit == "day" or len(several) > 1 else found[:1]
    # "That month" is one that the answer has found, where the question is about a longer time; of several it is either.
    return shift_all(frame.days + (() if reference.shift.count else frame.answered_periods), reference.shift, chinese)


def shift_all(anchors: Sequence[Slot], shift: Shift, chinese: bool) -> list[str]:
    """Return the names of the shifted periods, each once."""
    names = [shift_period(anchor.value, shift, chinese) for anchor in anchors]
    return list(dict.fromkeys(name for name in names if name))


def name_found(reference: Reference, frame: Frame, chinese: bool) -> str:
    """Return "that low" with the time at which the answer has found it; "" where it has none or several.

    A fall from its peak leads from a high to a low.
    """
    if frame.moment is None:
        return ""
    days, words = parse_period(frame.moment.value), frame.moment.text
    if any(slot.value == DRAWDOWN for slot in frame.topics):
        edge = take_edge(frame.moment.value, is_first=reference.extreme == MAXIMUM)
        days = parse_period(edge) if reference.extreme in (MAXIMUM, MINIMUM) else None
        words = name_period(*days, chinese) if days else ""
    if not days or not words:
        return ""
    return f"{reference.text}（{words}）" if chinese else f"{reference.text} {choose_preposition(words)} {words}"


def resolve_references(question: ReadText, references: Sequence[Reference], frame: Frame) -> Completed:
    """Replace referring words and add what the question lacks."""
    chinese = language_of(question.text) == "zh"
    if not has_tie(question, references, frame) or is_whole(question, references):
        return Completed(question.text)
    guess = write(question, references, frame, frame.entities, {}, chinese)
    if frame == Frame():
        # Nothing was asked yet that the words could mean.
        return Completed(question.text, references[0].text if references else question.text)
    meanings: list[tuple[str, ...]] = []
    for one in references:
        if one.kind in NAMING or is_one_figure(one, frame, question):
            names = list_meant(one, frame, question)
            # "Compare it with them": nothing is compared with itself.
            if len(names) != 1 or (one.kind == SEVERAL and names[0] in meanings):
                texts = [write(question, references, frame, meant, {}, chinese) for meant in names]
                # The guess, for a conversation in which nothing is asked back any more.
                return Completed(guess, one.text, tuple(dict.fromkeys(texts))[:MAX_OPTIONS])
            meanings += names
            guess = write(question, references, frame, names[0], {}, chinese)
        elif one.kind == SHIFTED and one.shift is not None:
            days = name_shifted(one, frame, chinese)
            if len(days) > 1 or not (days or question.of(PERIOD) or one.shift.unit != "day"):
                texts = [write(question, references, frame, frame.entities, {one.start: day}, chinese) for day in days]
                return Completed(guess, one.text, tuple(texts[:MAX_OPTIONS]))
    return Completed(guess)


def is_one_figure(reference: Reference, frame: Frame, question: ReadText) -> bool:
    """Return whether the words are of one figure, where the last question asked for those of several things."""
    is_named = bool(question.of(ENTITY)) or any(not slot.is_measure for slot in question.of(TOPIC))
    return reference.is_figure and not is_named and not frame.is_quoted and len(frame.referents) > 1


def is_whole(question: ReadText, references: Sequence[Reference]) -> bool:
    """Return whether a question names what it is about, what of it and when, beside a word on the turn before."""
    is_complete = all(question.of(kind) for kind in (ENTITY, TOPIC, PERIOD))
    starts = [slot.start for slot in question.slots if slot.kind not in UNKNOWN]
    return is_complete and all(one.kind == STATEMENT and one.end <= min(starts) for one in references)


def list_meant(reference: Reference, frame: Frame, question: ReadText) -> list[tuple[str, ...]]:
    """Return the entities that the words may stand for, an empty list for none."""
    names, answered = frame.referents, frame.answered
    if reference.kind in (HIGHEST, LOWEST):
        return rank_by_score(reference, frame)
    if reference.kind == SEVERAL:
        return list_several(reference, frame, question)
    if reference.kind in (ONE, STATEMENT):
        return [(name,) for name in names]
    if reference.kind == OTHER:
        # An answer that leads with one of two leaves the other.
        if len(names) < 2:
            return []
        return [answered[1:]] if len(answered) == 2 else [(name,) for name in names]
    text = question.text.lower()
    orders = [names] if "问题" in text or "question" in text else [names, answered or names]
    if answered and ("名" in reference.text or any(slot.value in ORDERED for slot in frame.topics)):
        # Of a ranking the places are those of the answer; 第一名 is always one.
        orders = [answered]
    if len(names) < 2:
        names, orders = frame.recent, [frame.recent]
    if len(names) < 2 or max(reference.rank, 1) > len(names):
        return []
    place = reference.rank if reference.rank < 0 else reference.rank - 1
    return list(dict.fromkeys((order[place],) for order in orders))


def list_several(reference: Reference, frame: Frame, question: ReadText) -> list[tuple[str, ...]]:
    """Return what "both" and "they" stand for: with what the question itself names before, or of several turns."""
    count = next((number for number, words in COUNTED.items() if words.search(reference.text)), 0)
    own = [slot.text for slot in question.of(ENTITY) if slot.end <= reference.start]
    names = tuple(dict.fromkeys((*frame.referents, *own)))
    if len(names) < max(count, 2):
        names = frame.recent
    if len(names) >= max(count, 2):
        return [names[-count:]]
    # A company is "they" in English, and housing starts are plural.
    is_one = not count and len(frame.referents) == 1 and not HAN_CHARACTER.search(reference.text)
    return [frame.referents] if is_one else []


def rank_by_score(reference: Reference, frame: Frame) -> list[tuple[str, ...]]:
    """Return the name with the highest or lowest figure of the answer; [] where fewer than two have one."""
    scores = list(frame.scores)
    if len(scores) < 2:
        # Who did best is the one that the answer names.
        return [(name,) for name in frame.lead]
    if any(slot.value in RISKS for slot in frame.topics):
        # Falls are written with and without a minus, and who fell or swung least did best.
        scores = [(name, abs(figure)) for name, figure in scores]
    is_high = (reference.kind == HIGHEST) != (
        any(slot.value in RISKS for slot in frame.topics) and bool(JUDGING.search(reference.text))
    )
    best = (max if is_high else min)(figure for _, figure in scores)
    return [(name,) for name, figure in scores if figure == best]


def has_tie(question: ReadText, references: Sequence[Reference], frame: Frame) -> bool:
    """Return whether the question leans on earlier turns."""
    if any(one.kind not in (COMPARED, ADD, REMOVE) for one in references) or frame.is_quoted:
        return True
    names, topics, periods = question.of(ENTITY), question.of(TOPIC), question.of(PERIOD)
    if any(one.kind in (ADD, REMOVE) for one in references) and names:
        return True
    if any(one.kind == COMPARED for one in references) and len(names) == 1:
        return not periods
    if names and not topics:
        return not periods and len(question.text) <= BARE_CHARS
    if names:
        same_topic = bool(frame.values & {slot.value for slot in topics})
        same_name = {slot.text.lower() for slot in names} <= {name.lower() for name in frame.entities}
        return (same_topic or (same_name and bool(topics))) and not periods
    if topics:
        # "How volatile in 2021?" does not say of what; "inflation in 2021" does.
        return not periods or all(slot.is_measure for slot in topics)
    return len(question.text) <= BARE_CHARS


def write(
    question: ReadText,
    references: Sequence[Reference],
    frame: Frame,
    entities: Sequence[str],
    days: dict[int, str],
    chinese: bool,
) -> str:
    """Return the question with names for referring words, and the slots that it lacks in brackets.

    ``days`` has the day chosen for a reference, by its start.
    """
    text, has_statement = question.text, frame.is_quoted
    # What is left out of a period is left out of an earlier one, and what is compared with one is that of another.
    is_against = len(question.of(PERIOD)) == 1 and bool(AGAINST.search(text[: question.of(PERIOD)[0].start]))
    is_against |= any(one.kind == COMPARED for one in references) and not question.of(ENTITY)
    has_period = bool(question.of(PERIOD)) and not is_against and not any(one.kind == REMOVE for one in references)
    meant = entities if entities != frame.entities else frame.referents
    # "Compare with gold": the other side of the comparison is what was talked about.
    operands = [*question.of(ENTITY), *(slot for slot in question.of(TOPIC) if not slot.is_measure)]
    joins = any(one.kind in (COMPARED, ADD) for one in references)
    is_half = len(operands) == 1 and (joins or any(slot.value in PAIRWISE for slot in question.of(TOPIC)))
    joins |= is_half
    named = bool(question.of(ENTITY)) and not joins
    for one in reversed(references):
        has_statement |= one.kind == STATEMENT
        if one.kind == FOUND:
            found = name_found(one, frame, chinese)
            text = text[: one.start] + (found or one.text) + text[one.end :]
            has_statement |= not found
            has_period |= bool(found)
            continue
        new = join_names(meant, chinese) if one.kind in NAMING else ""
        if one.kind in (SAME, SHIFTED):
            shifted = name_shifted(one, frame, chinese)
            new = days.get(one.start, shifted[0] if shifted else "")
            # What is compared with another time needs both.
            has_period |= bool(new) and not any(other.kind == COMPARED for other in references)
            new = new if chinese or not new or new.startswith(("in ", "from ")) else f"{choose_preposition(new)} {new}"
        if not new:
            continue
        named |= one.kind in NAMING
        text = text[: one.start] + new + ("'s" if one.is_genitive else "") + text[one.end :]
    lacking = [] if named or not entities else [join_names(entities, chinese)]
    lacking += list_lacking_topics(question, text, frame, has_statement or is_half)
    if not has_period and frame.periods:
        lacking.append(join_names(list(dict.fromkeys(slot.text for slot in frame.periods)), chinese))
    if (has_statement or (is_bare(question) and not references)) and frame.figure and frame.figure not in text:
        lacking.append(frame.figure)
    return add_in_brackets(text, lacking, chinese)


def choose_preposition(period: str) -> str:
    """Return "on" for a day, "in" for anything longer."""
    return "on" if re.match(r"\d{1,2} [A-Z]|\d{4}-\d\d-\d\d$", period) else "in"


def is_bare(question: ReadText) -> bool:
    """Return whether nothing in the question is known."""
    return all(slot.kind in UNKNOWN for slot in question.slots)


def list_lacking_topics(question: ReadText, text: str, frame: Frame, has_statement: bool) -> list[str]:
    """Return what is measured, as earlier turns said it and the question does not.

    A measure alone ("and the average?") leaves the indicator of the earlier question; that of a named entity, as in
    "how volatile was it", replaces a former measure.
    """
    topics = question.of(TOPIC)
    # A question on several indicators is left whole.
    several = [slot for slot in frame.topics if not slot.is_measure]
    wanted: Sequence[Slot] = frame.topics[: max(2, len(several))]
    if topics and not has_statement and not is_bare(question):
        wanted = several
        if any(not slot.is_measure for slot in topics):
            wanted = []
    return [slot.text for slot in wanted if slot.text.lower() not in text.lower()]
