"""Document search: queries, choice of hits, and quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.services.policy.backends.rules.question import Kind, Question
from fathom.services.policy.backends.rules.reading import Reading, Step
from fathom.services.policy.backends.rules.terms import is_chinese, keywords, sentences, words

# Three or four sentences: enough for a statement with its conditions, short enough to be a quotation.
MAX_QUOTE_CHARS, MAX_PROSE_CHARS = 600, 2_000


@dataclass(frozen=True)
class Quote:
    """Verbatim text of a document, with the material to cite."""

    text: str
    title: str
    material: int


def query_of(question: Question) -> str:
    """Return the question without question words, or the question itself when nothing else is left."""
    return keywords(question.text) or question.text


def method_query(question: Question, labels: Sequence[str]) -> str:
    """Return a query for the first requested measure, or else for the series."""
    for aspect in question.aspects:
        return aspect.chinese if question.chinese else aspect.english
    # Labels are as the data name them, in English; a Chinese question finds Chinese documents by its own words.
    return query_of(question) if question.chinese else " ".join(labels[:3]) or query_of(question)


def context_query(question: Question, labels: Sequence[str], years: Sequence[str]) -> str:
    """Return a query about the subjects' events in the notable years."""
    subjects = " ".join(labels[:3])
    cause = (
        ("下跌 原因" if question.chinese else "fall causes")
        if years
        else ("背景" if question.chinese else "background")
    )
    return " ".join([subjects, *dict.fromkeys(years), cause]).strip()


def best_hit(
    hits: Sequence[Mapping[str, Any]], query: str, read: Sequence[str], required: str = ""
) -> Mapping[str, Any] | None:
    """Return the hit that shares most terms with the query, titles counting double; None when none is relevant.

    A hit must share two terms (one with a query of one term) and, if ``required`` is given, one of its terms. Documents
    read before are excluded; ties are resolved by the search's order.
    """
    wanted, needed = set(words(query)), set(words(required))

    def shared(hit: Mapping[str, Any]) -> int:
        title, summary = set(words(str(hit.get("title", "")))), set(words(str(hit.get("summary", ""))))
        # One shared term is chance: "rate" stands in half of the documents.
        fits = len(wanted & (title | summary)) >= min(2, len(wanted)) and (not needed or needed & (title | summary))
        return 2 * len(wanted & title) + len(wanted & summary) if fits else 0

    candidates = [hit for hit in hits if hit.get("id") and hit["id"] not in read]
    best = max(candidates, key=shared, default=None)
    return best if best is not None and shared(best) else None


def read_ids(reading: Reading) -> list[str]:
    """Return the ids of documents that were requested, successfully or not."""
    return [str(step.arguments.get("id", "")) for step in reading.of("fetch")]


def quotes_of(reading: Reading, question: Question) -> list[Quote]:
    """Return one quote per relevant document that was read."""
    found = []
    for step in reading.of("fetch"):
        query = next((q for q in reversed(queries_before(reading, step))), question.text)
        quote = quote_of(step, f"{query} {question.text}") if step.ok and step.material else None
        if quote is not None and (question.kind is not Kind.DOCUMENT or speaks_of(step, question.text)):
            found.append(quote)
    return found


def speaks_of(step: Step, text: str) -> bool:
    """Return whether a document has at least half of the question's terms and all of its years."""
    wanted, there = set(words(text)), set(words(f"{step.head.get('title', '')}\n{step.body}"))
    years = {word for word in wanted if re.fullmatch(r"(?:19|20)\d\d", word)}
    # A document of another year answers another question, however many words it shares.
    return years <= there and 2 * len(wanted & there) >= len(wanted)


def queries_before(reading: Reading, fetch: Step) -> list[str]:
    """Return the search queries that preceded a fetch."""
    earlier = reading.steps[: next(i for i, step in enumerate(reading.steps) if step is fetch)]
    return [str(step.arguments.get("query", "")) for step in earlier if step.tool == "search"]


def quote_of(step: Step, query: str) -> Quote | None:
    """Return the sentence of a document that shares most terms with ``query``, with what follows it directly.

    What follows often limits what is said ("it leaves out dividends; with adjusted prices, however, …"), so the next
    sentence always belongs to the quote, and others as long as there is room.
    """
    wanted = set(words(query))
    title = str(step.head.get("title", ""))
    parts = sentences(step.body)
    scores = [len(wanted & set(words(part))) for part in parts]
    # A text about the very thing names it in the title and need not repeat it in its sentences.
    if not parts or (max(scores) == 0 and not wanted & set(words(title))):
        return None
    best = max(range(len(parts)), key=lambda index: (scores[index], -index))
    text = parts[best]
    for place, following in enumerate(parts[best + 1 :]):
        joined = f"{text}{'' if is_chinese(text) else ' '}{following}"
        # Only what follows directly may be joined: the words between are part of the document, too.
        if joined not in step.body or (place and len(joined) > MAX_QUOTE_CHARS):
            break
        text = joined
    return Quote(shortened(re.sub(r"\s+", " ", text)), title, step.material)


def shortened(text: str) -> str:
    """Return at most ``MAX_PROSE_CHARS`` characters, cut at a word; only text without full stops is as long."""
    if len(text) <= MAX_PROSE_CHARS:
        return text
    cut = text[:MAX_PROSE_CHARS]
    return (cut.rsplit(" ", 1)[0] if " " in cut[-40:] else cut) + "…"
