"""Follow-ups as a language model rewrites them: its reply to the stage ``rewrite``, read and checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.chat.tolerant import read_object
from fathom.domain.text.folding import ungroup_digits
from fathom.domain.text.terms import YEAR
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, ReadText
from fathom.services.planner.model.stages import Fault, Flaw
from fathom.services.planner.workflow.stage_outputs import FENCES, SHOWN, THOUGHT, read_question

# A question that is longer has copied the conversation.
MAX_QUESTION_CHARS = 2_000
# More options than these are no choice.
MAX_OPTIONS = 4
# A page in place of a reply, such as the error of a proxy.
PAGE = re.compile(r"\A\s*(?:<!doctype\b|<\?xml\b|<html\b|<head\b|<body\b)", re.IGNORECASE)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# "15%" is a figure, "15" may have been "fifteen".
PERCENT, SMALL_DIGITS = re.compile(r"\s*[%％]"), 2
AGAIN = "Answer again with one JSON object and nothing else."
ASKING, INTRODUCING = ("?", "？"), (":", "：")


@dataclass(frozen=True)
class ModelReading:
    """A question made whole by a model; ``replaced`` are the words of the follow-up that it says to leave out.

    ``unclear`` are words that may mean several things or nothing, ``options`` the questions that may be meant.
    """

    question: str
    replaced: tuple[str, ...] = ()
    unclear: str = ""
    options: tuple[str, ...] = ()
    flaws: tuple[Flaw, ...] = ()


def read_reply(said: str, question: str) -> ModelReading:
    """Return a model's reply as a question; with ``flaws`` it is the follow-up as it stands.

    The reply is a JSON object with ``question`` and, where they apply, ``replaced``, ``unclear`` and ``options``, or
    the question alone on a line, as models write it that were trained on such rows.
    """
    plain = FENCES.sub("", THOUGHT.sub("", said))
    if PAGE.match(plain):
        return ModelReading(question, flaws=(Flaw(Fault.NOT_JSON, plain.strip()[:SHOWN]),))
    found = read_object(plain, cut_off=False)
    if found is None and is_prose(plain):
        return ModelReading(question, flaws=(Flaw(Fault.NOT_JSON, plain.strip()[:SHOWN]),))
    written, flaws = read_question(said, question, MAX_QUESTION_CHARS)
    if flaws or found is None:
        return ModelReading(written, flaws=flaws)
    unclear = read_texts([found.get("unclear")])
    options = read_texts(found.get("options"))[:MAX_OPTIONS] if unclear else ()
    return ModelReading(written, read_texts(found.get("replaced")), " ".join(unclear), options)


def is_prose(text: str) -> bool:
    """Return whether a text is an answer or thoughts on one: several lines of which not just one asks."""
    lines = [line.strip() for line in text.splitlines() if any(character.isalnum() for character in line)]
    said = [line for line in lines if not line.endswith(INTRODUCING)]
    return len(said) > 1 and sum(line.rstrip("\"'”*` ").endswith(ASKING) for line in said) != 1


def read_texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list, each on one line and once; () for what is no list."""
    texts = [" ".join(one.split()) for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return tuple(dict.fromkeys(one for one in texts if one and len(one) <= MAX_QUESTION_CHARS))


def object_to(made: ModelReading, asked: ReadText, read: ReadText | None, texts: Sequence[str]) -> str:
    """Return what is said to a model of its reply, "" for a good one; ``read`` is the reading of its question.

    ``texts`` are those of the conversation.
    """
    if made.flaws or read is None:
        return f"Your reply is no question ({', '.join(flaw.fault.value for flaw in made.flaws)}). {AGAIN}"
    if lost := find_lost(asked, read, made.replaced):
        return f"Your question no longer has: {'; '.join(lost)}. Put that back, or name it in replaced. {AGAIN}"
    if invented := find_invented(read, (asked.text, *texts)):
        return f"Nobody has said: {'; '.join(invented)}. {AGAIN}"
    return ""


def find_lost(original: ReadText, rewritten: ReadText, replaced: Sequence[str] = ()) -> list[str]:
    """Return the names, measures, years and figures of a question that its rewriting no longer has.

    Words that stand in ``replaced`` are left out on purpose. Times without a year are not looked for: a whole question
    names them by their date.
    """
    values = {slot.value for slot in rewritten.slots}
    named = [slot.text for slot in original.of(ENTITY + TOPIC) if slot.value not in values]
    dated = [(slot.start, slot.end) for slot in original.of(PERIOD)]
    figures = [
        match.group()
        for match in NUMBER.finditer(original.text)
        if YEAR.fullmatch(match.group()) or not any(start <= match.start() < end for start, end in dated)
    ]
    known = [ungroup_digits(text) for text in (rewritten.text, *replaced)]
    return [
        words for words in dict.fromkeys(named + figures) if not any(ungroup_digits(words) in text for text in known)
    ]


def find_invented(rewritten: ReadText, texts: Sequence[str]) -> list[str]:
    """Return the figures of a rewriting that its conversation, ``texts``, does not have.

    Numbers of periods follow from others, and small whole ones may stand there in words.
    """
    dated = {number for slot in rewritten.of(PERIOD) for number in NUMBER.findall(slot.text)}
    said = {ungroup_digits(number) for text in texts for number in NUMBER.findall(text)}
    found = [
        match.group()
        for match in NUMBER.finditer(rewritten.text)
        if len(match.group()) > SMALL_DIGITS or PERCENT.match(rewritten.text, match.end())
    ]
    return [
        one
        for one in dict.fromkeys(found)
        if ungroup_digits(one) not in said and one not in dated and not YEAR.fullmatch(one)
    ]
