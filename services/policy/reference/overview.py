"""Answers to questions about the system itself: which data it has, and what it cannot know of accounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fathom.domain.chat.conversation import Conversation
from fathom.domain.tool_results import Step
from fathom.services.policy.reference.calls import Call, finish
from fathom.services.policy.reference.wording import cite, load_texts, say

MOST_TABLES = 10
# Lists of a kind, and what each has.
NAMED = (("entities", "entity"), ("indicators", "indicator"))


def answer_about_itself(conversation: Conversation, tools: Sequence[str]) -> Call | None:
    """Return the next call for a question about the data or the program; None for any other question."""
    if conversation.is_about_product:
        return finish(say("handed_off", conversation.is_zh))
    overview = next((step for step in conversation.of("catalogue") if "query" not in step.arguments), None)
    if not conversation.is_about_data or (overview is not None and not overview.is_ok):
        return None
    if overview is not None:
        return finish("\n\n".join(write_overview(overview, conversation)))
    return Call("catalogue", {}) if "catalogue" in tools and not conversation.is_last_round else None


def write_overview(overview: Step, conversation: Conversation) -> Iterator[str]:
    """Yield the paragraphs on what the catalogue's overview has, and on the user's own tables and documents."""
    is_zh, cited = conversation.is_zh, cite(overview.material)
    kinds = [write_kind(kind, is_zh) + cited for kind in overview.head.get("kinds", ())]
    if kinds:
        yield say("overview", is_zh)
        yield "\n".join(f"- {kind}" for kind in kinds)
    tables = [str(one.get("title") or one.get("name")) for one in overview.head.get("tables", ())][:MOST_TABLES]
    if tables:
        yield say("own_tables", is_zh, "; ".join(tables)) + cited
    if conversation.corpora:
        yield say("own_corpora", is_zh, ", ".join(conversation.corpora))
    yield say("documents_too", is_zh)


def write_kind(found: Mapping[str, Any], is_zh: bool) -> str:
    """Return what there is of a kind of entities: names or their number, frequencies, and dates."""
    names, words = load_texts()["kinds"], load_texts()["frequencies"]
    often = [words[one][is_zh] if one in words else one for one in found["frequencies"]]
    # When most of its series end is said in English by the catalogue, hence it is not repeated in Chinese.
    until = f", {found['until']}" if found["until"] and not is_zh else ""
    listed = [write_names(found[of], found[f"{one}_count"], is_zh) for of, one in NAMED]
    kind = names.get(found["kind"], [found["kind"]] * 2)[is_zh]
    return say("kind", is_zh, kind, *listed, ", ".join(often), found["first_date"], found["last_date"] + until)


def write_names(names: Sequence[str], count: int, is_zh: bool) -> str:
    """Return names as the catalogue lists them, with their number where that is more than are listed."""
    shown = ", ".join(names)
    return say("more_names", is_zh, shown, f"{count:,}") if count > len(names) else shown
