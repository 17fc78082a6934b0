"""HTTP to servers that are not ours: vendors of data, of search, of embeddings.

One place for deadline, bounded attempts, ``Retry-After``, bounded sizes and typed errors. Light to import:
httpx is loaded when a client is made. No such server was ever reached from here: live access was not
tried, the tests serve the answers themselves.
"""

from __future__ import annotations

from fathom.http.blocking import BlockingClient
from fathom.http.client import Answer, HttpClient, HttpPolicy
from fathom.http.errors import AnswerTooLarge, MalformedAnswer, UpstreamRefused
from fathom.http.retry import POLICY, retry_after_s, with_retries

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
