"""Answers to questions about the system itself: which data it has, and what it cannot know of accounts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fathom.domain.tool_results import Step
from fathom.services.policy.reference.answer import cite
from fathom.services.policy.reference.conversation import Call, Conversation
from fathom.services.policy.reference.reading import load_table, say

# A kind of entities on a line of the catalogue; names stand in full up to a number, beyond that with their count.
KIND = re.compile(r"([\w ]+): entities (.+?); indicators (.+?); ([a-z, ]+); (\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)(.*)")
MORE = re.compile(r", … \(([\d,]+)\)$")
MOST_TABLES = 10


def answer_about_itself(conversation: Conversation, tools: Sequence[str]) -> Call | None:
    """Return the next call for a question about the data or the program; None for any other question."""
    if conversation.is_about_product:
        return Call("finish", {"answer": say("handed_off", conversation.is_zh)})
    overview = next((step for step in conversation.of("catalogue") if "query" not in step.arguments), None)
    if not conversation.is_about_data or (overview is not None and not overview.is_ok):
        return None
    if overview is not None:
        return Call("finish", {"answer": "\n\n".join(write_overview(overview, conversation))})
    return Call("catalogue", {}) if "catalogue" in tools and not conversation.is_last_round else None


def write_overview(overview: Step, conversation: Conversation) -> Iterator[str]:
    """Yield the paragraphs on what the catalogue's overview has, and on the user's own tables and documents."""
    is_zh, cited = conversation.is_zh, cite(overview.material)
    kinds = [write_kind(found, is_zh) + cited for found in map(KIND.match, overview.body.splitlines()) if found]
    if kinds:
        yield say("overview", is_zh)
        yield "\n".join(f"- {kind}" for kind in kinds)
    tables = [str(one.get("title") or one.get("name")) for one in overview.head.get("tables", ())][:MOST_TABLES]
    if tables:
        yield say("own_tables", is_zh, "; ".join(tables)) + cited
    if conversation.corpora:
        yield say("own_corpora", is_zh, ", ".join(conversation.corpora))
    yield say("documents_too", is_zh)


def write_kind(found: re.Match[str], is_zh: bool) -> str:
    """Return what there is of a kind of entities: names or their number, frequencies, and dates."""
    names, words = load_table("texts")["kinds"], load_table("texts")["frequencies"]
    kind, entities, indicators, frequencies, first, last, more = found.groups()
    often = [words[one][is_zh] if one in words else one for one in frequencies.split(", ")]
    # When most of its series end is said in English by the catalogue, hence it is not repeated in Chinese.
    until = "" if is_zh else more.partition(";")[0]
    listed = [write_names(text, is_zh) for text in (entities, indicators)]
    return say("kind", is_zh, names.get(kind, [kind, kind])[is_zh], *listed, ", ".join(often), first, last + until)


def write_names(text: str, is_zh: bool) -> str:
    """Return names as the catalogue lists them, with their number where that is more than are listed."""
    found = MORE.search(text)
    return say("more_names", is_zh, text[: found.start()], found[1]) if found else text
