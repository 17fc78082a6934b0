"""Results of foreign reading tools that the episodes of a planner share: asked for once, held for a while."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from fathom.core.cache import LoadingCache
from fathom.core.call import current_call
from fathom.core.ids import content_hash

# Some thousand results of the usual size; a result is cut to 6,000 characters before it comes here.
MAX_RESULTS, MAX_BYTES = 8_192, 32 * 1024 * 1024


@dataclass(frozen=True)
class ForeignResult:
    """Result of a server's tool, as text; ``is_error`` says that the tool failed."""

    text: str
    is_error: bool

    @property
    def size_bytes(self) -> int:
        return len(self.text.encode()) + 256


class SharedResults:
    """Results by tenant, tool, version of the tool and arguments; the siblings of a training group ask alike.

    Concurrent equal calls go upstream once. A result, that nothing was found included, is held for the server's
    ``cache_s``; a failure is not. In bytes and entries bounded; one per planner.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Create an empty cache; with None the counts are not exported."""
        self._results = LoadingCache[str, ForeignResult](
            max_entries=MAX_RESULTS, max_bytes=MAX_BYTES, size_of=lambda result: result.size_bytes
        )
        self._answered = Counter(
            "fathom_planner_foreign_calls",
            "Calls of foreign reading tools by what answered: their server, or the result of an equal call",
            ("server", "answered"),
            registry=registry,
        )

    def make_key(self, server: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return the key of a call; ``tool`` names the tool with its version."""
        call = current_call()
        # The tenant is part of the key: a server may see it, and nobody reads what another one has asked for.
        return content_hash([call.tenant if call else "", server, tool, json.dumps(arguments, sort_keys=True)])

    def find(self, server: str, tool: str, arguments: Mapping[str, Any]) -> ForeignResult | None:
        """Return the result that is held of an equal call; None without one."""
        found = self._results.find(self.make_key(server, tool, arguments))
        if found is not None:
            self._answered.labels(server, "shared").inc()
        return found

    async def get(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        ask: Callable[[], Awaitable[ForeignResult]],
        lifetime_s: float,
    ) -> ForeignResult:
        """Return the result of an equal call, or of ``ask``; raise what ``ask`` raises.

        ``tool`` names the tool with its version.
        """
        key = self.make_key(server, tool, arguments)
        is_asked = False

        async def ask_upstream() -> ForeignResult:
            nonlocal is_asked
            is_asked = True
            return await ask()

        try:
            return await self._results.get(key, ask_upstream, lambda found: 0.0 if found.is_error else lifetime_s)
        finally:
            self._answered.labels(server, "upstream" if is_asked else "shared").inc()
