"""Candidate indicators for free text from several sources: names, model suggestions and frameworks.

Each source can be switched off and is recorded in ``Scored.how``; only ids of the catalog are returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fathom.services.datafetch.catalog.frameworks import Frameworks
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.matching import Matcher, Scored
from fathom.services.datafetch.discovery.embeddings import Meaning

Associate = Callable[[str], Awaitable[Sequence[str]]]
"""Returns names of indicators that a model suggests; may raise ``FathomError``."""
# Weights that put suggestions below any good match of the text itself, and frameworks below suggestions.
ASSOCIATED, FRAMED, FRAMED_TOPICS = 0.6, 0.4, 2


@dataclass(frozen=True)
class Parts:
    """The active sources of candidates; ``None`` switches a source off."""

    matcher: Matcher
    frameworks: Frameworks | None = None
    associate: Associate | None = None
    meaning: Meaning | None = None
    wait_seconds: float = 0.0


def framework_names(frameworks: Frameworks, layer: Layer) -> list[tuple[str, str]]:
    """Return the names that analysts' frameworks give to indicators, as pairs of id and name."""
    found = []
    for topic in frameworks.topics:
        for place in frameworks.list_indicators(topic):
            # The name of a node with several indicators is used for the first one only.
            for ident in place.node.ids[:1]:
                if ident in layer.indicators:
                    found += [(ident, place.node.name), (ident, place.node.zh)]
    return list(dict.fromkeys(found))


async def find_candidates(text: str, parts: Parts, layer: Layer, limit: int) -> list[Scored]:
    """Return candidate indicators for free text, best first.

    The sources are names, then model suggestions, then the frameworks of the topic. Raises ``FathomError`` if
    ``associate`` does.
    """
    meaning = parts.meaning
    # Without a loaded encoder the match goes on with n-grams instead of waiting longer.
    near = meaning.near if meaning is not None and await meaning.ready(parts.wait_seconds) else None
    best = {item.id: item for item in await asyncio.to_thread(parts.matcher.match, text, limit, near)}
    if parts.associate is not None:
        for name in await parts.associate(text):
            # The suggested names are looked up in the catalog: the model's own words never reach a query.
            for item in parts.matcher.match(name, 3):
                score = ASSOCIATED * item.score
                if item.id not in best or best[item.id].score < score:
                    best[item.id] = Scored(item.id, score, name, "association")
    if parts.frameworks is not None:
        for topic, share in parts.frameworks.classify(text)[:FRAMED_TOPICS]:
            for place in parts.frameworks.list_indicators(topic):
                for ident in place.node.ids:
                    if ident in layer.indicators and ident not in best:
                        best[ident] = Scored(ident, FRAMED * share * 0.5, place.node.name, "framework")
    return sorted(best.values(), key=lambda item: -item.score)[:limit]
