"""Batched search: all queries of a step in one ``POST /retrieve``, with a deadline and bounded retries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fathom.core.errors import FathomError, InvalidField
from fathom.transport.http import BlockingClient, HttpPolicy, MalformedAnswer

CULPRIT = "retriever"


class SearchClient:
    """Client of one retrieval server.

    The original has neither timeout nor retry: one failed request aborts its step.
    """

    def __init__(self, url: str, topk: int, *, timeout_s: float = 30.0, policy: HttpPolicy | None = None) -> None:
        """Configure the client; raises ``InvalidField`` for a URL that is not http(s).

        ``timeout_s`` bounds a batch of queries including all retries.
        """
        if not url.startswith(("http://", "https://")):
            raise InvalidField("search_url", f"{url!r} is no http(s) URL of POST /retrieve")
        self.url, self.topk = url, topk
        self._client = BlockingClient(CULPRIT, policy, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def results(self, queries: Sequence[str]) -> list[list[dict[str, Any]]]:
        """Return each query's items, best first, each ``{"document": …}``; no request is sent for an empty list.

        Raises what ``fathom.transport.http`` raises, and ``MalformedAnswer`` when the results do not match the queries.
        """
        if not queries:
            return []
        payload = {"queries": list(queries), "topk": self.topk, "return_scores": True}
        answer = self._client.post(self.url, payload)
        found = answer.get("result") if isinstance(answer, Mapping) else None
        # By position again: one result less, and every later question would read another one's passages.
        if not isinstance(found, list) or len(found) != len(queries):
            count = len(found) if isinstance(found, list) else "no"
            raise MalformedAnswer(CULPRIT, f"has {count} results for {len(queries)} queries")
        return [items_of(result) for result in found]


def items_of(result: Any) -> list[dict[str, Any]]:
    """Normalise one query's items, given with scores, as bare documents, or as parallel lists.

    Raises ``MalformedAnswer`` for anything else.
    """
    if isinstance(result, Mapping) and isinstance(result.get("document"), list):
        result = result["document"]
    if not isinstance(result, list):
        raise MalformedAnswer(CULPRIT, "has a result that is no list of documents")
    items = [item if isinstance(item, Mapping) and "document" in item else {"document": item} for item in result]
    for item in items:
        if not isinstance(item["document"], Mapping) or not isinstance(item["document"].get("contents"), str):
            raise MalformedAnswer(CULPRIT, "has a document without contents")
    return [dict(item) for item in items]


def failure_text(error: FathomError) -> str:
    """Return the text shown to the model when a search failed, without addresses or tracebacks."""
    return f"The search failed ({error.reason.lower().replace('_', ' ')}). Try again or answer with what is known."
