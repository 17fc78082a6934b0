"""Search of documents: the choice of a hit, and quotations of what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fathom.domain.text.terms import is_about, list_words, quote_best
from fathom.services.policy.reference.conversation import Conversation
from fathom.services.policy.reference.reading import Reading

MAX_READ = 2


@dataclass(frozen=True)
class Quote:
    """Words of a document, with the number to cite."""

    text: str
    title: str
    material: int


def choose_hit(conversation: Conversation) -> str:
    """Return the id of the found document that shares most terms with the question and is not read yet; "" for none."""
    hits = [hit for step in conversation.of("search") if step.is_ok for hit in step.head.get("hits", ())]
    read = [str(step.arguments.get("id", "")) for step in conversation.of("fetch")]
    left = [hit for hit in hits if hit.get("id") and str(hit["id"]) not in read]
    if len(read) >= MAX_READ:
        return ""
    best = max(left, key=lambda hit: count_shared(hit, conversation.question), default=None)
    return str(best["id"]) if best is not None and count_shared(best, conversation.question) else ""


def count_shared(hit: Mapping[str, Any], question: str) -> int:
    """Return how many terms a hit shares with a question, those of its title twice; one of several is chance."""
    wanted, title = set(list_words(question)), set(list_words(str(hit.get("title", ""))))
    summary = set(list_words(str(hit.get("summary", ""))))
    fits = len(wanted & (title | summary)) >= min(2, len(wanted))
    return 2 * len(wanted & title) + len(wanted & summary) if fits else 0


def list_quotes(conversation: Conversation, reading: Reading) -> list[Quote]:
    """Return a quotation of each document that was read, is about the question and names what it is about."""
    question = " ".join([conversation.question, *reading.texts("unknown")])
    names = [name.casefold() for name in (*reading.entities, *map(reading.names.get, reading.entities)) if name]
    found = []
    for step in conversation.of("fetch"):
        title = str(step.head.get("title", ""))
        text = f"{title}\n{step.body}"
        is_named = not names or any(name in text.casefold() for name in names)
        quoted = quote_best(step.body, title, question) if step.is_ok and step.material and is_named else ""
        if quoted and is_about(f"{title}\n{quoted}", text, conversation.question):
            found.append(Quote(quoted, title, step.material))
    return found
