"""HTTP client for third-party APIs: deadline, bounded retries, size and concurrency limits, typed errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from fathom.core.errors import DependencyFailed, FathomError, MissingExtra, Overloaded
from fathom.core.retry import RetryPolicy
from fathom.transport.bounded_json import load_json
from fathom.transport.http.body import ENCODINGS, read_body
from fathom.transport.http.errors import MalformedAnswer, UpstreamRefused
from fathom.transport.http.retry import POLICY, retry_after_s, with_retries

# Parts of names of headers and parameters whose values are masked where a vendor's answer repeats them.
SECRET_WORDS = ("key", "token", "authorization", "secret", "password")
AGENT = "fathom/0.1"


def httpx() -> Any:
    """Import and return the httpx module; raise ``MissingExtra`` when it is not installed."""
    try:
        import httpx as module
    except ImportError as error:
        raise MissingExtra("httpx", "retrieval") from error
    # At INFO it logs whole URLs, and some vendors take the key in the query.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return module


@dataclass(frozen=True)
class HttpPolicy:
    """Limits of a client; times in seconds, sizes in bytes. ``proxy`` is a URL, "" for none."""

    retry: RetryPolicy = POLICY
    connect_s: float = 5.0
    read_s: float = 20.0
    # After decompression; times the concurrency it bounds the memory that one vendor's answers take.
    body_bytes: int = 32 << 20
    # That a body's objects may take when it is JSON: some times its bytes, and far from what the worst of them could.
    json_bytes: int = 256 << 20
    # Requests of this process to one vendor at a time; vendors throttle by address and key.
    concurrency: int = 4
    proxy: str = ""


@dataclass(frozen=True)
class Answer:
    """A successful response; header names are in lower case."""

    culprit: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    json_bytes: int = HttpPolicy.json_bytes

    def json(self) -> Any:
        """Return the body as JSON; raise ``MalformedAnswer``, also when it would take more than ``json_bytes``."""
        try:
            return load_json(self.body, self.json_bytes)
        except ValueError as error:
            raise MalformedAnswer(self.culprit, f"is not JSON: {str(error)[:120]}") from error

    def text(self) -> str:
        """Return the body as UTF-8 text; raise ``MalformedAnswer``."""
        try:
            # With or without the byte order mark that some vendors put before their CSV.
            return self.body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise MalformedAnswer(self.culprit, "is not UTF-8") from error


class HttpClient:
    """Client of one vendor's API.

    ``name`` is the vendor's, used as culprit in every error. Keys never appear in a message or a log. Redirects are
    refused, because they would send keys to other hosts.
    """

    def __init__(self, name: str, policy: HttpPolicy | None = None, headers: Mapping[str, str] | None = None) -> None:
        """Create the client without connecting; raise ``MissingExtra`` without httpx."""
        self.name, self.policy = name, policy or HttpPolicy()
        library = httpx()
        self._failures: tuple[type[Exception], ...] = (library.HTTPError, library.InvalidURL, library.StreamError)
        self._headers = {"user-agent": AGENT, "accept-encoding": ENCODINGS, **(headers or {})}
        self._client = library.AsyncClient(
            headers=self._headers,
            timeout=library.Timeout(self.policy.read_s, connect=self.policy.connect_s),
            # As in BlockingClient: no proxy and no password from the environment.
            trust_env=False,
            proxy=self.policy.proxy or None,
            follow_redirects=False,
        )
        self._lane = asyncio.Semaphore(self.policy.concurrency)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, url: str, params: Mapping[str, Any] | None = None, *, deadline: float | None = None) -> Answer:
        """Send a GET request; raises as ``request``."""
        return await self.request("GET", url, params=params, deadline=deadline)

    async def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        deadline: float | None = None,
    ) -> Answer:
        """Send a request and return its 2xx response. ``deadline`` is on the monotonic clock, in seconds.

        Retries 429, 5xx and connection failures, honouring ``Retry-After``. Raises ``Overloaded``,
        ``DependencyFailed``, ``DeadlineExceeded``, ``UpstreamRefused``, ``AnswerTooLarge``, ``MalformedAnswer``.
        """
        sent = dict(headers or {})
        hidden = secrets_of(self._headers, sent, params or {})

        async def once() -> Answer:
            async with AsyncExitStack() as stack:
                # Inside an attempt: a request that waits for its next attempt holds no place.
                await stack.enter_async_context(self._lane)
                try:
                    response = await stack.enter_async_context(
                        self._client.stream(method, url, params=params, headers=sent, json=json)
                    )
                    encoding = response.headers.get("content-encoding", "")
                    body = await read_body(response.aiter_raw(), encoding, self.policy.body_bytes, self.name)
                except self._failures as error:
                    raise DependencyFailed(self.name, f"cannot be reached ({type(error).__name__})") from error
                check_response(self.name, response.status_code, response.headers, body, hidden)
                return Answer(self.name, response.status_code, dict(response.headers), body, self.policy.json_bytes)

        return await with_retries(once, self.policy.retry, deadline, self.name)


def check_response(culprit: str, status: int, headers: Mapping[str, str], body: bytes, hidden: frozenset[str]) -> None:
    """Raise the error for an HTTP status that is not 2xx; ``hidden`` texts are masked in its message."""
    if 200 <= status < 300:
        return
    # Masked before it is cut to 200 characters, or the cut could leave the beginning of a key.
    said = body[:2000].decode("utf-8", "replace")
    for secret in hidden:
        said = said.replace(secret, "***")
    raise failure(culprit, status, headers.get("retry-after"), " ".join(said.split())[:200])


def failure(culprit: str, status: int, retry_after: str | None, said: str) -> FathomError:
    """Return the typed error for an HTTP status.

    429 is ``Overloaded``; 408, 425 and 5xx are ``DependencyFailed``; all others ``UpstreamRefused``.
    """
    if status == 429:
        return Overloaded(f"{culprit} asks for fewer requests: {said}", retry_after_s(retry_after))
    # 408 Request Timeout and 425 Too Early ask for the same request again.
    if status >= 500 or status in {408, 425}:
        error = DependencyFailed(culprit, f"answered {status}: {said}")
        if retry_after:
            error.retry_after_s = retry_after_s(retry_after)
        return error
    if 300 <= status < 400:
        said = "it sends elsewhere, which is not followed"
    return UpstreamRefused(culprit, status, said)


def secrets_of(*mappings: Mapping[str, Any]) -> frozenset[str]:
    """Return the values whose names suggest a secret, without an authorization scheme."""
    values = (
        str(value).removeprefix("Bearer ").strip()
        for mapping in mappings
        for name, value in mapping.items()
        if any(word in name.lower() for word in SECRET_WORDS)
    )
    # Masking shorter values would hide words of the message by chance.
    return frozenset(value for value in values if len(value) >= 4)
