"""Search of documents: the choice of a hit, and quotations of what was read."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.domain.text.terms import is_about, quote_best
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
    """Return the id of the best found document that is not read yet; "" for none."""
    read = [str(step.arguments.get("id", "")) for step in conversation.of("fetch")]
    found = [str(hit["id"]) for step in conversation.of("search") for hit in step.head.get("hits", ()) if hit.get("id")]
    return next((ident for ident in found if ident not in read), "") if len(read) < MAX_READ else ""


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
