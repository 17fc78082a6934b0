"""Rewriting of a follow-up before any policy sees it, by the configured model, a program, or the slots of its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import REWRITE, ask
from fathom.domain.text.language import language_of
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.classification.examples import KIND, ROUTE
from fathom.services.planner.episode.llm import complete
from fathom.services.planner.model.episode import Answer, Clarification
from fathom.services.planner.model.programs import ReadProgram
from fathom.services.planner.model.slots import FREQUENCY, PERIOD, TOPIC, UNKNOWN, ReadText, restore_text
from fathom.services.planner.questions.carrying import carry
from fathom.services.planner.questions.compositions import choose_phrase, list_phrases, put_in_place
from fathom.services.planner.questions.follow_ups import Completed, complete_question
from fathom.services.planner.questions.frames import Turn, has_quoted
from fathom.services.planner.questions.model_routing import find_language_model
from fathom.services.planner.questions.periods import contains
from fathom.services.planner.questions.phrasing import replace_slots
from fathom.services.planner.questions.references import NAMING, find_references, list_rest
from fathom.services.planner.questions.routing import find_chart
from fathom.services.planner.questions.settling import prepare, settle_references
from fathom.services.planner.questions.wording import write_question
from fathom.services.planner.reader import Reader, select_names
from fathom.services.planner.workflow.model_rewriting import (
    MAX_QUESTION_CHARS,
    ModelReading,
    object_to,
    read_reply,
)
from fathom.services.planner.workflow.stage_prompts import format_history

# Older turns are rarely meant, and each costs two readings.
TURNS = 3
# A model that thinks first needs most of these for its thoughts; a reply with flaws is returned once.
MAX_TOKENS, MODEL_ROUNDS = 2_000, 2
# Enough for the sentence that leads; a report's tables need not be read for names.
ANSWER_CHARS = 1_200
# A completion by slots is doubted where the program that should say the same is less likely than this.
DOUBTED = 0.74
# What is said to the assistant itself needs nothing of earlier questions.
OWN_WORDS = frozenset({"chat", "edit", "customer_service"})
BROAD = frozenset({"table_query", "coverage", "research"})
ASKS = {"en": "Please say which question you mean", "zh": "请说明您指的是哪个问题"}
SLOTS, PROGRAM, MODEL, STAGE = "slots", "program", "model", "stage"


@dataclass(frozen=True)
class Reading:
    """A question as it is understood. ``method`` names who changed it, "" for nobody, "stage" where a stage of
    the workflow is to do so.

    ``reference`` are words that could not be resolved surely: with ``asks_back`` the run answers with a question, else
    ``question`` is a guess.
    """

    question: str
    method: str = ""
    reference: str = ""
    options: tuple[str, ...] = ()
    asks_back: bool = False
    asked: ReadText | None = None
    """The user's own words as datafetch has read them; None when nobody has."""
    read: ReadText | None = None
    """The same of ``question``."""
    program_texts: tuple[str, ...] = ()
    """Questions whose last one has the program that ``question`` puts into words, read behind the others; () where
    ``question`` says by itself what is meant."""


def restore_reading(stored: Mapping[str, Any]) -> Reading:
    """Return a reading from its JSON form, which is that of ``dataclasses.asdict``."""
    texts = {name: restore_text(stored.get(name)) for name in ("asked", "read")}
    program_texts = tuple(stored.get("program_texts", ()))
    return Reading(**{**stored, **texts, "options": tuple(stored["options"]), "program_texts": program_texts})


@dataclass(frozen=True)
class Completion:
    """A follow-up made whole and by which method; ``doubts`` are the questions to choose from where it is unlikely."""

    done: Completed
    method: str = SLOTS
    program_texts: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rewriter:
    """Rewriter of follow-ups; without a reader or a model that answers, a question stays as it is."""

    clients: Clients
    reader: Reader
    classifier: Classifier
    prompt: Callable[[str], str]
    """Returns the system prompt of the stage ``rewrite`` in a language."""
    model_s: float = 15.0
    may_ask: bool = False

    async def rewrite(
        self,
        question: str,
        history: Sequence[Message],
        model: str = "",
        date: str = "",
        asked: ReadText | None = None,
        as_of: Any = None,
    ) -> Reading:
        """Return the question as understood after ``history``.

        ``model`` rewrites if it is a language model; "" uses the slots alone. ``asked`` is the question as it was read
        before; None reads it, as of a point in time.
        """
        pairs = list_turns(history)
        if not pairs:
            return Reading(question)
        asked = asked or await self.reader.read(question, as_of)
        seen = select_names(asked)
        # So long a text is no follow-up: readers see the beginning of it only.
        if seen is None or len(question) > MAX_QUESTION_CHARS:
            return Reading(question, asked=asked, read=asked)
        said = await self._ask_model(seen, history, model, date, as_of) if model else None
        may_ask = self.may_ask and not has_asked(history)
        if said is not None and (said[0].question != question or said[0].unclear):
            return read_model(said[0], said[1], asked, may_ask=may_ask)
        unchanged = Reading(question, asked=asked, read=asked)
        turns = await self._read_turns(pairs[-TURNS:])
        made = await self._complete(seen, turns, as_of)
        # A sure program of the conversation knows more than the sound of a few words: "vegas" is no small talk there.
        if made.method != PROGRAM and await self._stands_alone(seen, turns):
            return unchanged
        done = made.done
        unclear, options = done.unresolved or (seen.text if made.doubts else ""), done.options or made.doubts
        # A model that has written the question as it is has seen nothing unclear in it.
        if unclear and may_ask and said is None:
            return Reading(done.text, made.method, unclear, options, asks_back=True, asked=asked)
        if done.text == question:
            return unchanged
        return Reading(done.text, made.method, asked=asked, program_texts=made.program_texts)

    async def _complete(self, seen: ReadText, turns: Sequence[Turn], as_of: Any = None) -> Completion:
        """Return the follow-up made whole without a model."""
        if named := await self._complete_name(seen, turns):
            return Completion(named)
        done = complete_question(seen, turns)
        return Completion(done) if done.unresolved else await self._carry(done, seen, turns, as_of)

    async def _carry(self, done: Completed, seen: ReadText, turns: Sequence[Turn], as_of: Any) -> Completion:
        """Return the follow-up made whole by the program of the conversation; without a sure one as by its slots."""
        # The questions are whole. Answers are left out: the reader has learnt from questions, and a figure of an
        # answer draws it to calculations with that.
        last, before = turns[-1], tuple(turn.question.text for turn in turns[-TURNS:])
        settled = settle_references(seen, turns)
        asked, former, chart = await asyncio.gather(
            self.reader.read_program(settled, before, as_of),
            self.reader.read_program(last.question.text, (), as_of),
            find_chart(seen.text, self.classifier),
        )
        names = select_names(asked.text) if asked is not None else None
        if asked is None or former is None or names is None:
            return Completion(done)
        chinese = "zh" in (language_of(seen.text), language_of(last.question.text))
        words = {one.kind for one in prepare(seen, turns)[1]}
        carried = carry(replace(asked, text=names), former, last, chinese, words, bool(chart))
        if carried:
            return Completion(Completed(carried), PROGRAM, (*before, settled))
        return Completion(done, doubts=list_doubts(done, seen, asked, chinese))

    async def _stands_alone(self, seen: ReadText, turns: Sequence[Turn]) -> bool:
        """Return whether the question needs nothing of earlier ones: small talk, work on the text, a general term."""
        kind = await self.classifier.classify_one(ROUTE, seen.text, KIND)
        if not kind.is_sure:
            return False
        if kind.label in BROAD and seen.of(TOPIC) and seen.of(PERIOD) and not find_references(seen):
            # "Rank your bank stocks by 2010 return" is of all that there is.
            return True
        if kind.label == "term":
            # A measure alone ("the volatility?") asks for its value.
            return bool(list_rest(seen)) and not find_references(seen) and not seen.of(FREQUENCY)
        # "28% can't be right" is about the data, however much it sounds like small talk; so is a request to plot.
        about_data = any(slot.kind not in UNKNOWN for slot in seen.slots) or has_quoted(seen, turns)
        # So is "when did it happen": small talk refers to nothing.
        about_data |= kind.label == "chat" and any(one.kind in NAMING for one in find_references(seen))
        return kind.label in OWN_WORDS and not about_data and not await find_chart(seen.text, self.classifier)

    async def _complete_name(self, seen: ReadText, turns: Sequence[Turn]) -> Completed | None:
        """Return the last question with a name that the follow-up gives in part; None for any other follow-up."""
        last = turns[-1].question
        phrases = list_phrases(seen, last)
        read = await asyncio.gather(*(self.reader.read(one.text) for one in phrases))
        found = choose_phrase(phrases, [select_names(one) for one in read])
        return Completed(put_in_place(found, last)) if found else None

    async def _read_turns(self, pairs: Sequence[tuple[str, str]]) -> list[Turn]:
        texts = [text for asked, answered in pairs for text in (asked, answered[:ANSWER_CHARS])]
        found = map(select_names, await asyncio.gather(*map(self.reader.read, texts)))
        read = [one or ReadText(text) for one, text in zip(found, texts, strict=True)]
        turns: list[Turn] = []
        for asked, answered in zip(read[::2], read[1::2], strict=True):
            # An earlier question may be a follow-up itself, which memory has in the user's words.
            has_period = bool(asked.of(PERIOD))
            whole = (await self._complete(asked, turns)).done if turns else Completed(asked.text)
            if whole.text != asked.text and not whole.unresolved:
                asked = select_names(await self.reader.read(whole.text)) or asked
            turns.append(Turn.of(widen_period(asked, answered, has_period), answered))
        return turns

    async def _ask_model(
        self, seen: ReadText, history: Sequence[Message], model: str, date: str, as_of: Any
    ) -> tuple[ModelReading, ReadText] | None:
        """Return what the model makes of the follow-up, with its reading.

        A reply that is no question, loses something or has figures of its own is returned to the model once. None
        without a language model or in time, or when its second reply is no better.
        """
        name = await find_language_model(self.clients, model)
        if not name:
            return None
        text = ask(REWRITE, {"history": format_history(history), "question": seen.text, "date": date})
        system, then = self.prompt(language_of(seen.text)), list[Message]()
        try:
            async with asyncio.timeout(self.model_s):
                for _ in range(MODEL_ROUNDS):
                    said = await complete(self.clients, name, system, text, MAX_TOKENS, then)
                    made = read_reply(said, seen.text)
                    read = None if made.flaws else select_names(await self.reader.read(made.question, as_of))
                    if not made.flaws and read is None:
                        return None
                    objection = object_to(made, seen, read, [message.content for message in history])
                    if read is not None and not objection:
                        return made, read
                    then = [Message(Role.ASSISTANT, said[:MAX_QUESTION_CHARS]), Message(Role.USER, objection)]
        except (FathomError, TimeoutError):
            return None
        return None


def read_model(made: ModelReading, read: ReadText, asked: ReadText | None, *, may_ask: bool) -> Reading:
    """Return a model's reading of a follow-up; what is unclear is asked back where that may be, else noted."""
    asks_back = may_ask and bool(made.unclear)
    return Reading(
        made.question,
        MODEL,
        made.unclear,
        made.options,
        asks_back=asks_back,
        asked=asked,
        read=None if asks_back else read,
    )


def list_doubts(done: Completed, seen: ReadText, asked: ReadProgram, chinese: bool) -> tuple[str, ...]:
    """Return what a follow-up may ask where that is unlikely: as its slots complete it, and its program in words.

    Where words of the last question are only exchanged, its sense is certain.
    """
    program = asked.program
    is_added = done.text != seen.text and ("（" if chinese else "(") in done.text
    if program is None or not is_added or program.confidence >= DOUBTED:
        return ()
    return tuple(dict.fromkeys(filter(None, (done.text, write_question(program, chinese)))))


def widen_period(asked: ReadText, answered: ReadText, has_period: bool) -> ReadText:
    """Return a question that took its period from earlier ones with that of its answer, which says what it meant."""
    before, said = asked.of(PERIOD), answered.of(PERIOD)
    if has_period or len(before) != 1 or len(said) != 1 or not contains(said[0].value, before[0].value):
        return asked
    found = replace_slots(asked, PERIOD, said[0].text, language_of(asked.text) == "zh")
    at = before[0].start
    made = replace(said[0], start=at, end=at + len(said[0].text))
    return replace(found, slots=tuple(sorted([*found.slots, made], key=lambda slot: slot.start)))


def list_turns(history: Sequence[Message]) -> list[tuple[str, str]]:
    """Return the earlier questions with their answers, oldest first."""
    return [
        (asked.content, answered.content)
        for asked, answered in zip(history[::2], history[1::2], strict=False)
        if asked.role is Role.USER
    ]


def has_asked(history: Sequence[Message]) -> bool:
    """Return whether the assistant has asked back in this conversation; once is enough."""
    return any(
        message.role is Role.ASSISTANT and message.content.startswith(tuple(ASKS.values())) for message in history
    )


def make_clarification(reading: Reading) -> Answer:
    """Return the answer that asks back, with the questions to choose from."""
    chinese = language_of(reading.question) == "zh"
    lead = ASKS["zh" if chinese else "en"]
    why = f"“{reading.reference}”" + ("指代不明。" if chinese else " can mean several things, or none that was named.")
    lines = [f"{lead}{'：' if chinese else ': '}{why}", *(f"- {option}" for option in reading.options)]
    return Answer("\n".join(lines), clarification=Clarification(reading.reference, reading.options))
