"""The overview of a catalogue in words: which data there are, and what else a conversation has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fathom.domain.conversation import Conversation
from fathom.domain.tool_results import Step
from fathom.domain.writing.wording import cite, load_texts, say

MOST_TABLES = 10


def write_overview(overview: Step, conversation: Conversation) -> Iterator[str]:
    """Yield the paragraphs on what the catalogue's overview has, and on the user's own tables and documents."""
    is_zh, cited = conversation.is_zh, cite(overview.material)
    if kinds := [write_kind(kind, is_zh) + cited for kind in overview.head.get("kinds", ())]:
        yield say("overview", is_zh)
        yield "\n".join(f"- {kind}" for kind in kinds)
    if tables := [str(one.get("title") or one.get("name")) for one in overview.head.get("tables", ())]:
        yield say("own_tables", is_zh, "; ".join(tables[:MOST_TABLES])) + cited
    if conversation.corpora:
        yield say("own_corpora", is_zh, ", ".join(conversation.corpora))
    yield say("documents_too", is_zh)


def write_kind(found: Mapping[str, Any], is_zh: bool) -> str:
    """Return what there is of a kind of entities: names or their number, frequencies, and dates."""
    names, words = load_texts()["kinds"], load_texts()["frequencies"]
    often = ", ".join(words[one][is_zh] if one in words else one for one in found["frequencies"])
    # When most of its series end is said in English by the catalogue, hence it is not repeated in Chinese.
    until = f", {found['until']}" if found["until"] and not is_zh else ""
    entities = write_names(found["entities"], found["entity_count"], is_zh)
    indicators = write_names(found["indicators"], found["indicator_count"], is_zh)
    kind = names.get(found["kind"], [found["kind"]] * 2)[is_zh]
    return say("kind", is_zh, kind, entities, indicators, often, found["first_date"], found["last_date"] + until)


def write_names(names: Sequence[str], count: int, is_zh: bool) -> str:
    """Return names as the catalogue lists them, with their number where that is more than are listed."""
    shown = ", ".join(names)
    return say("more_names", is_zh, shown, f"{count:,}") if count > len(names) else shown
