"""Causal claims: a table or a calculation shows what happened, a document may say why.

A cause is found by its conjunction, and by the classifier of clauses, which knows events and motives in any grammar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from fathom.domain.text.scripts import HAN
from fathom.services.planner.answering.verification.claims import Sentence, parse_sentences
from fathom.services.planner.answering.verification.clauses import BATCH, ClauseLabels, label_clauses, list_clauses
from fathom.services.planner.answering.verification.events import STEM, extract_words
from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.classification.examples import CLAUSE, EXPLAINED
from fathom.services.planner.model.episode import MaterialKind

# The conjunctions and prepositions that introduce a cause, a closed class of both languages. 受 alone
# is also "to receive": it counts only before a word of influence.
CAUSE_FOLLOWS = re.compile(
    r"\b(?:because(?:\s+of)?|due\s+to|owing\s+to|thanks\s+to|as\s+a\s+(?:result|consequence)\s+of|on\s+account\s+of|"
    r"driven\s+by|caused\s+by|attribut(?:ed|able)\s+to)\b|因为|由于|得益于|受益于|归因于|归功于|源于|缘于|受(?=[^，。；]{1,30}(?:影响|拖累|提振|推动|带动))",
    re.IGNORECASE,
)
# Verbs whose subject is the cause of their object.
CAUSE_PRECEDES = re.compile(r"\b(?:led\s+to|caused|triggered|prompted)\b(?!\s+by\b)|导致|引发|促使", re.IGNORECASE)
# Where a cause ends: at punctuation, a citation, or a conjunction that turns to something else.
CLAUSE_END = re.compile(r"[,;:，；。：]|\[\d|\.(?:\s|$)|\b(?:while|whereas|although|but)\b|而|但", re.IGNORECASE)
# Sentences of the documents that a sentence cites, which are encoded for it: two requests of vectors.
MOST_LINES = 2 * BATCH
LATIN_WORD = re.compile(r"[A-Za-z]+")
# A dateline or a heading such as "NEW YORK" or 快讯 is too short to tell an event.
FEWEST_WORDS = 2.5
# A document rarely uses the very words of the answer; one that has fewer than half of them is about something else.
SHARE_OF_WORDS = 0.5
# Words of a clause of which one may be a verb beside names: entity and measure have one each at least.
FEWEST_NAMED = 4
# Similarity from which a document says the same in other words. Of the causes in examples/support.yaml that a document
# gives, 85 % are above the first one, and 80 % of those that it does not give below it (100 and 40 % of the second).
# An event without a conjunction is found by a classifier, which may be wrong as well: it has to be far from all.
SIMILAR, NOT_FAR = 0.3, 0.1
# Probability from which a clause tells an event that a table cannot show. Of 302 sentences by two authors whom the
# classifier did not know, with tables only, it marks 32 of 55 with a planted cause and 1 of 247 without one; from the
# probability at which it counts as sure in general, 0.78, 39 and 8.
LIKELY = 0.95
# Words that neither the question nor any data have, from which half of the probability is enough: a table that does not
# know what a clause is about cannot show it. Chinese, of which pairs of characters are compared, gives no such words.
FEWEST_FOREIGN, POSSIBLE = 4, 0.5


def find_causes(
    sentence: Sentence, labels: ClauseLabels, may_tell_events: bool, names: str = ""
) -> list[tuple[int, int]]:
    """Return the offsets of what a sentence gives as causes, by its conjunctions or by the classifier.

    With ``may_tell_events``, events by themselves are no causes, since the sentence cites a document. ``names`` are
    those of the question and of the data, if a sentence cites only data.
    """
    found: list[tuple[int, int]] = []
    clauses = list_clauses(sentence)
    if stated := find_cause(sentence.text):
        inside = [
            labels.find(sentence.text[start:end])
            for clause in clauses
            for start, end in clause.parts
            if start < stated[1] and stated[0] < end
        ]
        # "because no data were found", "because dividends are included": reasons that need no document.
        if not inside or not all(label.is_sure and label.label != EXPLAINED for label in inside):
            found.append(stated)
    if may_tell_events:
        return found
    for clause in clauses:
        # A part such as "employers" says too little by itself, and a long clause too much: both have to tell an event.
        if count_words(clause.text) >= FEWEST_WORDS and tells_event(clause.text, labels, names):
            told = [part for part in clause.parts if tells_event(sentence.text[slice(*part)], labels, names)]
            found += [part for part in told if not any(part[0] < end and start < part[1] for start, end in found)]
    return found


def tells_event(words: str, labels: ClauseLabels, names: str = "") -> bool:
    """Return whether words very likely tell an event or a motive, or maybe do and are foreign to the data."""
    verdict = labels.find(words)
    if verdict.label != EXPLAINED or verdict.probability < POSSIBLE:
        return False
    if labels.has_label(words, EXPLAINED) and verdict.probability >= LIKELY:
        return True
    foreign = [word for word in extract_words(words) if word.isascii() and word.isalpha() and not has_word(word, names)]
    return bool(names) and len(foreign) >= FEWEST_FOREIGN


def count_words(text: str) -> float:
    """Return the number of words of a text; a Chinese one has about two characters."""
    return len(LATIN_WORD.findall(text)) + len(re.findall(f"[{HAN}]", text)) / 2


def find_cause(text: str) -> tuple[int, int] | None:
    """Return the offsets of the words that a sentence gives as a cause, its conjunction included; None for none."""
    if found := CAUSE_FOLLOWS.search(text):
        end = CLAUSE_END.search(text, found.end())
        return found.start(), end.start() if end else len(text.rstrip())
    if found := CAUSE_PRECEDES.search(text):
        before = [match.end() for match in CLAUSE_END.finditer(text, 0, found.start())]
        return max(before, default=0), found.end()
    return None


def explain_missing_cause(text: str, sources: Sequence[Source], similarity: float | None = None) -> str:
    """Return why no source gives this cause; "" when one does, or when it has no content words.

    A document gives a cause when it has at least half of its content words, or a sentence of that ``similarity``.
    A table or a calculation gives none, but may hold all words of a cause that is a matter of the numbers themselves
    ("because dividends are included").
    """
    words = {word for word in extract_words(strip_conjunction(text)) if not word[0].isdigit()}
    if not words:
        return ""
    passages = [source for source in sources if source.kind is MaterialKind.PASSAGE]
    if any(share_words(words, source.text) >= SHARE_OF_WORDS for source in passages):
        return ""
    if any(share_words(words, source.text) == 1.0 for source in sources):
        return ""
    if passages and similarity is not None and similarity >= (SIMILAR if find_cause(text) else NOT_FAR):
        return ""
    if passages:
        return "the cited document does not give this cause"
    return "a table or a calculation cannot show a cause: cite a document that gives it, or leave it out"


def is_named_in(text: str, names: str) -> bool:
    """Return whether a text without a conjunction of cause consists of words of the question and of names of data.

    One other word may be the verb of what the data say ("Acme made a profit of"): an event has another one for what
    happened.
    """
    words = {word for word in extract_words(text) if not word[0].isdigit()}
    if find_cause(text) is not None or not words:
        return False
    others = len(words) - round(share_words(words, names) * len(words))
    return others == 0 or (others == 1 and len(words) >= FEWEST_NAMED)


def strip_conjunction(text: str) -> str:
    """Return the words of a cause without those that introduce it."""
    return CAUSE_PRECEDES.sub(" ", CAUSE_FOLLOWS.sub(" ", text))


def share_words(words: set[str], text: str) -> float:
    """Return the share of words that a text has, inflected or not."""
    low = text.lower()
    held = [word for word in words if has_word(word, low)]
    return len(held) / len(words)


def has_word(word: str, low: str) -> bool:
    """Return whether a text in lower case has a word, or one of the same stem."""
    if re.match(rf"[{HAN}]", word):
        return word in low
    return re.search(rf"(?<![a-z]){re.escape(word[:STEM])}", low) is not None


async def label_answer(markdown: str, sources: Sequence[Source], classifier: Classifier | None) -> ClauseLabels:
    """Return what could support each clause of an answer, and how near its causes are to the documents they cite."""
    labels = await label_clauses(markdown, classifier)
    if classifier is None or not labels.is_complete:
        return labels
    return replace(labels, told=await measure_support(markdown, labels, sources, classifier))


async def measure_support(
    markdown: str, labels: ClauseLabels, sources: Sequence[Source], classifier: Classifier
) -> Mapping[str, float]:
    """Return the similarity of each cause that cites documents to their most similar sentence."""
    documents = {source.number: source for source in sources if source.kind is MaterialKind.PASSAGE}
    told: dict[str, float] = {}
    for sentence in parse_sentences(markdown):
        cited = [documents[number] for number in sentence.cited if number in documents]
        if not cited or sentence.heading or sentence.row:
            continue
        causes = [sentence.text[slice(*span)] for span in find_causes(sentence, labels, may_tell_events=False)]
        lines = list(islice((line.text for source in cited for line in source.lines), MOST_LINES))
        best: dict[str, float] = {}
        for start in range(0, len(lines) if causes else 0, BATCH):
            found = await classifier.compare(CLAUSE, causes[:BATCH], lines[start : start + BATCH])
            for cause, value in zip(causes, found, strict=False):
                best[cause] = max(best.get(cause, -1.0), value)
        told |= best
    return told
