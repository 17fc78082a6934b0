"""The web: search engines behind one interface, and a page fetcher. Off until an address or a key is set.

Live access was not tried: the tests serve the vendors' responses and the pages locally.
"""

from __future__ import annotations

from fathom.core.errors import NotFound
from fathom.services.retrieval.web.addresses import BlockedAddress
from fathom.services.retrieval.web.base import NotConfigured, TimeRange, WebResult, WebSearch
from fathom.services.retrieval.web.config import WebConfig
from fathom.services.retrieval.web.corpus import WebCorpus
from fathom.services.retrieval.web.engines import Brave, SearXNG, Serper, Tavily
from fathom.services.retrieval.web.fetcher import Page, PageFetcher

__all__ = [
    "ENGINES",
    "BlockedAddress",
    "NotConfigured",
    "Page",
    "PageFetcher",
    "TimeRange",
    "WebConfig",
    "WebCorpus",
    "WebResult",
    "WebSearch",
    "make_configured_engines",
    "make_engine",
]

ENGINES: dict[str, type[SearXNG] | type[Tavily] | type[Brave] | type[Serper]] = {
    kind.name: kind for kind in (SearXNG, Tavily, Brave, Serper)
}


def make_engine(name: str, config: WebConfig) -> WebSearch:
    """Return the engine of that name; raise ``NotFound`` with the known names, ``NotConfigured`` with the setting."""
    if name not in ENGINES:
        raise NotFound("web search engine", name, sorted(ENGINES))
    return ENGINES[name](config)


def make_configured_engines(config: WebConfig) -> list[WebSearch]:
    """Return all engines that have their address or key, in the order of ``ENGINES``; often none."""
    found: list[WebSearch] = []
    for kind in ENGINES.values():
        try:
            found.append(kind(config))
        # Being off is the normal state of an engine and no fault.
        except NotConfigured:
            continue
    return found
