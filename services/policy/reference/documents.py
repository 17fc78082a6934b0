"""Search of documents: the choice of a hit, and quotations of what was read."""

from __future__ import annotations

from fathom.domain.text.terms import is_about, list_words, quote_best
from fathom.services.policy.reference.conversation import Conversation
from fathom.services.policy.reference.reading import Reading, say

MAX_READ = 2


def choose_hit(conversation: Conversation) -> str:
    """Return the id of the first found document that speaks of the question and is not read yet; "" for none."""
    hits = [hit for step in conversation.of("search") if step.is_ok for hit in step.head.get("hits", ())]
    read = [str(step.arguments.get("id", "")) for step in conversation.of("fetch")]
    wanted = set(list_words(conversation.question))
    # One term of several is chance.
    least = max(1, min(2, len(wanted)))
    found = [(str(hit.get("id", "")), list_words(f"{hit.get('title', '')} {hit.get('summary', '')}")) for hit in hits]
    chosen = [ident for ident, words in found if ident not in ("", *read) and len(wanted & set(words)) >= least]
    return chosen[0] if chosen and len(read) < MAX_READ else ""


def list_quotes(conversation: Conversation, reading: Reading) -> list[str]:
    """Return a paragraph per document that was read, with a quotation about the question and what that names."""
    question = " ".join([conversation.question, *reading.not_understood])
    names = [name.casefold() for name in reading.names]
    found = []
    for step in conversation.of("fetch"):
        title = str(step.head.get("title", ""))
        text = f"{title}\n{step.body}"
        is_named = not names or any(name in text.casefold() for name in names)
        quoted = quote_best(step.body, title, question) if step.is_ok and step.material and is_named else ""
        if quoted and is_about(f"{title}\n{quoted}", text, conversation.question):
            found.append(say("quote", conversation.is_zh, title, quoted, f"[{step.material}]"))
    return found
