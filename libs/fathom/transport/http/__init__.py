"""HTTP client for third-party servers: vendors of data, search and embeddings.

One place for deadlines, bounded retries, ``Retry-After``, size limits and typed errors. Cheap to import: httpx is
loaded when a client is created. Live access to such servers was never tried; the tests serve the responses themselves.
"""

from __future__ import annotations

from fathom.transport.http.blocking import BlockingClient
from fathom.transport.http.client import Answer, HttpClient, HttpPolicy
from fathom.transport.http.errors import AnswerTooLarge, MalformedAnswer, UpstreamRefused
from fathom.transport.http.retry import POLICY, retry_after_s, with_retries

__all__ = [
    "POLICY",
    "Answer",
    "AnswerTooLarge",
    "BlockingClient",
    "HttpClient",
    "HttpPolicy",
    "MalformedAnswer",
    "UpstreamRefused",
    "retry_after_s",
    "with_retries",
]
