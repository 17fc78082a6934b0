"""The web: search engines behind one interface, and a page fetcher. Off until an address or a key is set.

Live access was not tried: the tests serve the vendors' responses and the pages locally.
"""

from __future__ import annotations

from fathom.core.errors import NotFound
from fathom.services.retrieval.web.addresses import BlockedAddress
from fathom.services.retrieval.web.base import NotConfigured, TimeRange, WebResult, WebSearch
from fathom.services.retrieval.web.config import WebConfig
from fathom.services.retrieval.web.corpus import WebCorpus
from fathom.services.retrieval.web.fetcher import Page, PageFetcher
from fathom.services.retrieval.web.records import EngineRecord, EnginesMissing, load_records

__all__ = [
    "BlockedAddress",
    "EngineRecord",
    "EnginesMissing",
    "NotConfigured",
    "Page",
    "PageFetcher",
    "TimeRange",
    "WebConfig",
    "WebCorpus",
    "WebResult",
    "WebSearch",
    "load_records",
    "make_configured_engines",
    "make_engine",
]


def make_engine(name: str, config: WebConfig) -> WebSearch:
    """Return the engine of that name.

    Raises ``NotFound`` with the known names, ``EnginesMissing`` where the engines are not installed, and
    ``NotConfigured`` with the setting.
    """
    records = load_records()
    if name not in records:
        raise NotFound("web search engine", name, sorted(records))
    return records[name].load()(config)


def make_configured_engines(config: WebConfig) -> list[WebSearch]:
    """Return all engines that have their address or key, in the order of the records; often none.

    Raises ``EnginesMissing`` where one has it and the engines are not installed.
    """
    # Being off is the normal state of an engine and no fault.
    return [record.load()(config) for record in load_records().values() if record.is_configured(config)]
