"""Facts that a user's words state: by the configured language model, else by a classifier and readers of values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.domain.chat.quoting import quote
from fathom.domain.profile.kinds import Kind, check_value
from fathom.domain.text.folding import keep_letters
from fathom.domain.text.scripts import HAN
from fathom.services.planner.classification.classifier import Classifier, Verdict
from fathom.services.planner.classification.examples import FACT, LASTING, NO_FACT, REQUEST
from fathom.services.planner.classification.vectors import MAX_TEXTS
from fathom.services.planner.model.slots import ENTITY, ReadText
from fathom.services.planner.reader import Reader
from fathom.services.planner.remembering.asking import ask_object, is_line_number, number_lines
from fathom.services.planner.remembering.slots import read_value

# Sentences end at marks and lines; a decimal point or a name with a full stop ends none.
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])|(?<=[。！？；;])|\n+")
# Conjunctions join clauses, and names as well: a list of names is looked at as a whole first.
CLAUSE = re.compile(r"[,;:，；：–—]|\s(?:and|but|so)\s|但是?|所以|并且")
HAN_RUN = re.compile(rf"[{HAN}]")
CLAUSE_WORDS, CLAUSE_SIGNS = 3, 4
MAX_SENTENCES, MAX_CHARS, MAX_TOKENS = 24, 400, 800
# A model states no probability of its own.
MODEL_CONFIDENCE = 0.9
# Facts that a message may take back: the newest ones, as more of them would hide the message.
MAX_KNOWN = 40


@dataclass(frozen=True)
class Learnt:
    """A fact that a sentence states. ``subject`` is the id of the one entity that a statement names, else ""."""

    kind: Kind
    value: str
    text: str
    subject: str = ""
    confidence: float = 1.0


@dataclass(frozen=True)
class Extracted:
    """Facts of a message, and the places of those known facts that it takes back."""

    facts: tuple[Learnt, ...] = ()
    withdrawn: tuple[int, ...] = ()


@dataclass(frozen=True)
class Extractor:
    """Extracts facts from the words of users, never from answers or documents."""

    clients: Clients
    reader: Reader
    classifier: Classifier
    prompt: str = ""
    """System prompt for a language model; "" asks none."""
    timeout_s: float = 60.0

    async def extract(self, text: str, model: str = "", known: Sequence[str] = ()) -> Extracted:
        """Return the facts of a message in its order, of each preference the last one, and what it takes back.

        ``known`` are texts of facts that memory holds; only a language model can tell which of them a message ends.
        """
        # A language model reads context that single sentences lack.
        asked = await self._ask(text, model, known[:MAX_KNOWN])
        found = await self._classify(split_sentences(text)) if asked is None else list(asked.facts)
        # What is said last holds.
        last = {(one.kind, one.text if one.kind is Kind.STATEMENT else ""): one for one in found}
        return Extracted(tuple(last.values()), asked.withdrawn if asked else ())

    async def _classify(self, sentences: Sequence[str]) -> list[Learnt]:
        found = []
        # A fact may stand in a clause of a question: "Since I'm a nurse, what is beta?".
        parts = [part for sentence in sentences for part in (sentence, *split_clauses(sentence))]
        verdicts = dict(zip(parts, await self._judge(parts), strict=True))
        for sentence in sentences:
            # A list of names would fall apart at its conjunctions, so the whole sentence comes first.
            of_whole = await self._read(sentence, verdicts[sentence])
            of_clauses = [one for part in split_clauses(sentence) for one in await self._read(part, verdicts[part])]
            # A clause of the same kind repeats its sentence, and a part of a statement is none.
            kinds = {one.kind for one in of_whole} | ({Kind.STATEMENT} if of_whole else set())
            found += of_whole + [one for one in of_clauses if one.kind not in kinds]
        return found

    async def _judge(self, texts: Sequence[str]) -> list[Verdict]:
        """Return a verdict per text, in requests of the size that the source of vectors takes."""
        starts = range(0, len(texts), MAX_TEXTS)
        asked = [self.classifier.classify(FACT, texts[start : start + MAX_TEXTS], LASTING) for start in starts]
        return [verdict for one in asked for verdict in await one]

    async def _read(self, sentence: str, verdict: Verdict) -> list[Learnt]:
        """Return the fact of a text, if its verdict is a sure one."""
        # Unsure is none: a fact that nobody said is worse than one said again.
        if not verdict.is_sure or verdict.label == NO_FACT:
            return []
        kind = kind_of(verdict.label)
        # For names of a watch-list, for the entity of a statement, for a currency in words.
        read = await self.reader.read(sentence)
        learnt = make_known(kind, read_value_of(kind, verdict.label, sentence, read), sentence, read)
        return [] if learnt is None else [replace(learnt, confidence=verdict.probability)]

    async def _ask(self, text: str, model: str, known: Sequence[str]) -> Extracted | None:
        """Return what a language model finds; None where none answers in time or in form."""
        request = ask_about(text, known)
        said = await ask_object(self.clients, model, self.prompt, request, MAX_TOKENS, self.timeout_s)
        # A reply in another form counts as none, and the classifier is asked.
        listed = said.get("facts") if said else None
        if said is None or not isinstance(listed, list):
            return None
        facts = [one for item in listed if (one := await self._check(item, text))]
        return Extracted(tuple(facts), read_places(said.get("withdrawn"), len(known)))

    async def _check(self, item: Any, text: str) -> Learnt | None:
        """Return a fact as a model writes it, if its sentence stands in the message and its value is one."""
        if not isinstance(item, dict) or item.get("kind") not in [*Kind]:
            return None
        kind, value, said = Kind(item["kind"]), str(item.get("value", "")), " ".join(str(item.get("text", "")).split())
        # A sentence of the model's own is nothing that the user said; marks and case may differ.
        if not keep_letters(said) or keep_letters(said) not in keep_letters(text) or kind is Kind.MEMORY:
            return None
        read = await self.reader.read(said) if kind in (Kind.WATCH_LIST, Kind.STATEMENT) else None
        written = read_value_of(kind, "", said, read) if kind is Kind.WATCH_LIST else value
        learnt = make_known(kind, written, said, read)
        return replace(learnt, confidence=MODEL_CONFIDENCE) if learnt else None


def ask_about(text: str, known: Sequence[str]) -> str:
    """Return a message as a language model gets it, below the numbered facts that memory holds."""
    return "\n\n".join(
        [*([f"# Known facts\n{quote(number_lines(known))}"] if known else []), f"# Message\n{quote(text)}"]
    )


def read_places(said: Any, count: int) -> tuple[int, ...]:
    """Return the places from 0 of numbers from 1 to ``count`` that a model names; others are none."""
    listed = said if isinstance(said, list) else []
    return tuple(sorted({one - 1 for one in listed if is_line_number(one, count)}))


def kind_of(label: str) -> Kind:
    """Return the kind of fact of a label of the classifier: what is asked of every answer is a statement, too."""
    if label == REQUEST:
        return Kind.STATEMENT
    return Kind.DEPTH if label.startswith(Kind.DEPTH) else Kind(label)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a message, as many as are looked at."""
    parts = [" ".join(part.split()) for part in SENTENCE.split(text)]
    return [part[:MAX_CHARS] for part in parts if part][:MAX_SENTENCES]


def split_clauses(sentence: str) -> list[str]:
    """Return the clauses of a sentence that are long enough to say something; [] where it is one."""
    parts = [part.strip() for part in CLAUSE.split(sentence)]
    long = [part for part in parts if len(part.split()) >= CLAUSE_WORDS or len(HAN_RUN.findall(part)) >= CLAUSE_SIGNS]
    return list(dict.fromkeys(long)) if len(parts) > 1 else []


def read_value_of(kind: Kind, label: str, text: str, read: ReadText | None) -> str:
    """Return the value of a fact of a kind; "" for a statement, which has none."""
    return "" if kind is Kind.STATEMENT else read_value(kind, label, text, read)


def make_known(kind: Kind, value: str, text: str, read: ReadText | None) -> Learnt | None:
    """Return a fact; a preference that no setting expresses, such as another language, is known by its words."""
    return make_fact(kind, value, text, read) or make_fact(Kind.STATEMENT, "", text, read)


def make_fact(kind: Kind, value: str, text: str, read: ReadText | None) -> Learnt | None:
    """Return a fact; None where the value is none of its kind."""
    try:
        checked = check_value(kind, value)
    except InvalidField:
        return None
    # A statement about one thing can be shown with questions about that thing.
    entities = [slot.value for slot in read.of(ENTITY) if slot.value] if read and kind is Kind.STATEMENT else []
    return Learnt(kind, checked, text, entities[0] if len(entities) == 1 else "")
