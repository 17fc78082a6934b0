"""Rewriting of a follow-up before any policy sees it, by the configured model, a program, or the slots of its turns."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from fathom.services.planner.model.slots import ReadText, restore_text
from fathom.services.planner.questions.completing import (
    PROGRAM,
    Completed,
    FollowUp,
    complete_names,
    guess,
    has_data,
    is_complete,
    is_confirmed,
    list_candidates,
    stands_alone,
)
from fathom.services.planner.questions.leaning import find_leaning
from fathom.services.planner.questions.measures import UNCOMPUTED, read_measures
from fathom.services.planner.questions.model_routing import find_language_model
from fathom.services.planner.questions.referents import name_referent
from fathom.services.planner.questions.routing import find_chart
from fathom.services.planner.reader import NAMED, Reader, list_mentions, select_names
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
# What is said to the assistant itself needs nothing of earlier questions.
OWN_WORDS, OWN_SURE = frozenset({"chat", "edit", "customer_service"}), 0.95
# An answer that cites something was about data, whatever the words of its question.
CITATION = re.compile(r"\[\d+\]")
ASKS = {"en": "Please say which question you mean", "zh": "请说明您指的是哪个问题"}
MODEL, STAGE = "model", "stage"


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
class Rewriter:
    """Rewriter of follow-ups; without a reader or a model that answers, a question stays as it is."""

    clients: Clients
    reader: Reader
    classifier: Classifier
    measures: Classifier
    """The classifier of the quantities that clauses ask for."""
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
        before = await self._read_turns(pairs[-TURNS:], as_of)
        made = await self._complete(seen, before, as_of)
        # A model that has written the question as it is has seen nothing in it that is left open.
        if (made.is_sure and made.text == question) or (said is not None and not made.is_sure):
            return Reading(question, asked=asked, read=asked)
        if not made.is_sure:
            unclear = made.unclear or seen.text
            return Reading(made.text, made.method, unclear, made.options, asks_back=may_ask, asked=asked)
        texts = (*(text.text for text in before), seen.text) if made.method == PROGRAM else ()
        return Reading(made.text, made.method, asked=asked, program_texts=texts)

    async def _complete(self, seen: ReadText, before: Sequence[ReadText], as_of: Any = None) -> Completed:
        """Return a follow-up behind earlier questions made whole without a model, as a guess where that is unsure."""
        if not before:
            return await self._complete_first(seen)
        if named := name_referent(seen, before):
            read = select_names(await self.reader.read(named, as_of))
            made = complete_names(await self._complete_named(read, before, as_of), read, before[-1]) if read else None
            if made is not None:
                return made
        return await self._complete_named(seen, before, as_of)

    async def _complete_first(self, seen: ReadText) -> Completed:
        """Return a question behind small talk as it stands, as a guess where it leans on a question that was not."""
        if not find_leaning(seen) or any(not slot.is_measure for slot in seen.of(NAMED)):
            return Completed(seen.text)
        kind = await self.classifier.classify_one(ROUTE, seen.text, KIND)
        is_own = not kind.label or (kind.label in OWN_WORDS and kind.probability >= OWN_SURE)
        return Completed(seen.text, is_sure=is_own)

    async def _complete_named(self, seen: ReadText, before: Sequence[ReadText], as_of: Any) -> Completed:
        """Return the same of a follow-up that points to no name by a pronoun."""
        if is_complete(seen):
            return Completed(seen.text)
        last = before[-1]
        # Answers are left out: the reader has learnt from questions, and a figure of an answer draws it to
        # calculations with that.
        program, former, chart, kind, measures = await asyncio.gather(
            self.reader.read_program(seen.text, [text.text for text in before], as_of),
            self.reader.read_program(last.text, (), as_of),
            find_chart(seen.text, self.classifier),
            self.classifier.classify_one(ROUTE, seen.text, KIND),
            read_measures(seen.text, list_mentions(seen), self.measures),
        )
        is_own = kind.label in OWN_WORDS and kind.probability >= OWN_SURE
        quantities = tuple(one.measure for one in measures if one.measure not in UNCOMPUTED)
        read = FollowUp(seen, last, program, former, bool(chart), is_own, quantities)
        if stands_alone(read):
            return Completed(seen.text)
        for candidate in list_candidates(read):
            alone = await self.reader.read_program(candidate.text, (), as_of)
            if is_confirmed(candidate, read, alone):
                return Completed(candidate.text, candidate.method)
        return guess(read)

    async def _read_turns(self, pairs: Sequence[tuple[str, str]], as_of: Any = None) -> list[ReadText]:
        """Return the earlier questions that are about data, each whole."""
        turns: list[ReadText] = []
        found = await asyncio.gather(*(self.reader.read(asked, as_of) for asked, _ in pairs))
        for read, (_, answered) in zip(map(select_names, found), pairs, strict=True):
            if read is None or not (has_data(read) or CITATION.search(answered)):
                continue
            # An earlier question may be a follow-up itself, which memory has in the user's words.
            made = await self._complete(read, turns, as_of)
            whole = read if made.text == read.text else select_names(await self.reader.read(made.text, as_of))
            turns.append(whole or read)
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
