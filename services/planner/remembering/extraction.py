"""Facts that a user's words state: by the configured language model, else by a classifier and readers of values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fathom.clients import Clients
from fathom.core.errors import FathomError, InvalidField
from fathom.domain.chat.quoting import quote
from fathom.domain.chat.tolerant import read_object
from fathom.domain.profile.kinds import Kind, check_value
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.classification.examples import FACT, LASTING, NO_FACT, REQUEST
from fathom.services.planner.episode.llm import complete
from fathom.services.planner.model.slots import ENTITY, ReadText
from fathom.services.planner.questions.model_routing import find_language_model
from fathom.services.planner.reader import Reader
from fathom.services.planner.remembering.slots import read_value

# Sentences end at marks and lines; a decimal point or a name with a full stop ends none.
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])|(?<=[。！？；;])|\n+")
MAX_SENTENCES, MAX_CHARS, MAX_TOKENS = 24, 400, 800
# A model states no probability of its own.
MODEL_CONFIDENCE = 0.9


@dataclass(frozen=True)
class Learnt:
    """A fact that a sentence states. ``subject`` is the id of the one entity that a statement names, else ""."""

    kind: Kind
    value: str
    text: str
    subject: str = ""
    confidence: float = 1.0


@dataclass(frozen=True)
class Extractor:
    """Extracts facts from the words of users, never from answers or documents."""

    clients: Clients
    reader: Reader
    classifier: Classifier
    prompt: str = ""
    """System prompt for a language model; "" asks none."""
    timeout_s: float = 60.0

    async def extract(self, text: str, model: str = "") -> list[Learnt]:
        """Return the facts of a message in its order; of each preference the last one."""
        found = await self._ask(text, model)
        if found is None:
            found = await self._classify(split_sentences(text))
        # What is said last holds.
        last = {(one.kind, one.text if one.kind is Kind.STATEMENT else ""): one for one in found}
        return list(last.values())

    async def _classify(self, sentences: Sequence[str]) -> list[Learnt]:
        verdicts = await self.classifier.classify(FACT, sentences, LASTING)
        found = []
        for sentence, verdict in zip(sentences, verdicts, strict=True):
            if not verdict.is_sure or verdict.label == NO_FACT:
                continue
            kind = kind_of(verdict.label)
            read = await self.reader.read(sentence)
            learnt = make_fact(kind, read_value_of(kind, verdict.label, sentence, read), sentence, read)
            if learnt is not None:
                found.append(Learnt(learnt.kind, learnt.value, learnt.text, learnt.subject, verdict.probability))
        return found

    async def _ask(self, text: str, model: str) -> list[Learnt] | None:
        """Return what a language model finds; None where none answers in time or in form."""
        name = await find_language_model(self.clients, model) if self.prompt and model else ""
        if not name:
            return None
        try:
            async with asyncio.timeout(self.timeout_s):
                said = read_object(await complete(self.clients, name, self.prompt, quote(text), MAX_TOKENS))
        except (FathomError, TimeoutError):
            return None
        listed = said.get("facts") if said else None
        return (
            None if not isinstance(listed, list) else [one for item in listed if (one := await self._check(item, text))]
        )

    async def _check(self, item: Any, text: str) -> Learnt | None:
        """Return a fact as a model writes it, if its sentence stands in the message and its value is one."""
        if not isinstance(item, dict) or item.get("kind") not in [*Kind]:
            return None
        kind, value, said = Kind(item["kind"]), str(item.get("value", "")), " ".join(str(item.get("text", "")).split())
        # A sentence of the model's own is nothing that the user said.
        if not said or said.casefold() not in " ".join(text.split()).casefold() or kind is Kind.MEMORY:
            return None
        read = await self.reader.read(said) if kind in (Kind.WATCH_LIST, Kind.STATEMENT) else None
        learnt = make_fact(kind, read_value_of(kind, "", said, read) if kind is Kind.WATCH_LIST else value, said, read)
        if learnt is None:
            return None
        return Learnt(learnt.kind, learnt.value, learnt.text, learnt.subject, MODEL_CONFIDENCE)


def kind_of(label: str) -> Kind:
    """Return the kind of fact of a label of the classifier: what is asked of every answer is a statement, too."""
    if label == REQUEST:
        return Kind.STATEMENT
    return Kind.DEPTH if label.startswith(Kind.DEPTH) else Kind(label)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a message, as many as are looked at."""
    parts = [" ".join(part.split()) for part in SENTENCE.split(text)]
    return [part[:MAX_CHARS] for part in parts if part][:MAX_SENTENCES]


def read_value_of(kind: Kind, label: str, text: str, read: ReadText | None) -> str:
    """Return the value of a fact of a kind; "" for a statement, which has none."""
    return "" if kind is Kind.STATEMENT else read_value(kind, label, text, read)


def make_fact(kind: Kind, value: str, text: str, read: ReadText | None) -> Learnt | None:
    """Return a fact; None where the value is none of its kind."""
    try:
        checked = check_value(kind, value)
    except InvalidField:
        return None
    entities = [slot.value for slot in read.of(ENTITY) if slot.value] if read and kind is Kind.STATEMENT else []
    return Learnt(kind, checked, text, entities[0] if len(entities) == 1 else "")
