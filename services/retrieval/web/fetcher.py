"""Fetcher of one web page, within limits of address, size and time. Live access was not tried."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from fathom.core.errors import DependencyFailed, InvalidField, UnreadableContent, UpstreamRefused
from fathom.core.retry import RetryPolicy
from fathom.domain.decoding import Decoder, DecodingLimits
from fathom.services.retrieval.corpus.parse import Limits, ParsedDocument, ParseIssue, parse
from fathom.services.retrieval.web.addresses import Resolver, Target, resolve, resolve_target
from fathom.services.retrieval.web.config import WebConfig
from fathom.transport.http.body import ENCODINGS, read_body
from fathom.transport.http.client import failure, httpx
from fathom.transport.http.retry import POLICY, with_retries

READABLE = ("text/html", "application/xhtml+xml", "text/plain", "text/markdown", "application/pdf")
PAGE_TAGS = 60_000  # takes some seconds to read at worst
# A page of 8 MiB, its tree or its content streams, and its text; seconds of processor time.
PAGE_LIMITS = DecodingLimits(memory_bytes=768 << 20, processor_s=30)
REDIRECTS = frozenset({301, 302, 303, 307, 308})


def make_unsupported_error(host: str, media_type: str) -> UnreadableContent:
    """Return the error for content that cannot be read as text; ``media_type`` is the declared one."""
    said = f"{host} sent {media_type or 'no content type'}, which is none of {', '.join(READABLE)}"
    return UnreadableContent(host, said, media_type)


@dataclass(frozen=True)
class Page:
    """A page that was read. ``url`` is the final one after redirects, ``issues`` the unreadable parts."""

    url: str
    media_type: str
    document: ParsedDocument
    issues: tuple[ParseIssue, ...]
    size_bytes: int


@dataclass(frozen=True)
class Reply:
    """One response of a host; ``location`` is its redirect target, "" without one."""

    media_type: str
    body: bytes
    location: str = ""


class PageFetcher:
    """Fetches pages; one instance serves many concurrent callers on one event loop."""

    def __init__(self, config: WebConfig, resolver: Resolver = resolve, trusted: ssl.SSLContext | None = None) -> None:
        """Create the fetcher; ``trusted`` holds the certificates to trust, the public ones by default.

        Raises ``MissingExtra`` without httpx and ``ValueError`` for a malformed network.
        """
        self._config, self._resolver, self._httpx = config, resolver, httpx()
        # Created once: reading the certificates takes longer than many a page. trust_env=False ignores variables that
        # would replace them.
        self._trusted = trusted or self._httpx.create_ssl_context(trust_env=False)
        self._networks = [ipaddress.ip_network(text) for text in config.fetch_networks]
        self._retry = replace(POLICY, attempts=config.fetch_attempts)
        self._lanes = HostLanes(config.fetch_per_host)
        self._decoder = Decoder(PAGE_LIMITS)

    def close(self) -> None:
        """End the processes that read pages."""
        self._decoder.close()

    async def fetch(self, url: str, deadline: float | None = None) -> Page:
        """Return the readable text behind ``url``; ``deadline`` is on the monotonic clock, in seconds.

        Raises ``InvalidField("url")``, ``BlockedAddress``, ``UnreadableContent``, ``AnswerTooLarge``,
        ``MalformedAnswer``, ``UpstreamRefused`` (404 and its like), ``Overloaded``, ``DependencyFailed`` and
        ``DeadlineExceeded``.
        """
        end = time.monotonic() + self._config.fetch_seconds
        end = end if deadline is None else min(end, deadline)
        final, reply = await self._follow(url, end)
        limits = Limits(
            file_bytes=self._config.fetch_bytes, html_tags=PAGE_TAGS, seconds=max(0.1, end - time.monotonic())
        )
        host = urlsplit(final).hostname or final
        try:
            # In another process, which cannot be stopped: what it may take is bounded by both limits.
            found = await with_retries(
                lambda: self._decoder.run("page", read_page, reply, final, limits),
                RetryPolicy(attempts=1),
                end,
                final,
            )
        except InvalidField as error:
            raise UnreadableContent(host, f"{final}: {error.message}", reply.media_type) from error
        documents = [item for item in found if isinstance(item, ParsedDocument)]
        issues = tuple(item for item in found if isinstance(item, ParseIssue))
        if not documents:
            why = issues[0].reason if issues else "holds no readable text"
            raise UnreadableContent(host, f"{final}: {why}", reply.media_type)
        return Page(final, reply.media_type, documents[0], issues, len(reply.body))

    async def _follow(self, url: str, deadline: float) -> tuple[str, Reply]:
        """Follow redirects to the first response that is none; each target is checked like the first."""
        url = url.partition("#")[0]
        for _ in range(self._config.fetch_redirects + 1):
            # httpx's own redirects would connect to addresses that nobody has checked.
            reply = await self._fetch_with_retries(url, deadline)
            if not reply.location:
                return url, reply
            url = urljoin(url, reply.location).partition("#")[0]
        raise UpstreamRefused(url, 310, f"more than {self._config.fetch_redirects} redirects")

    async def _fetch_with_retries(self, url: str, deadline: float) -> Reply:
        async def once() -> Reply:
            # Within the retry: another attempt may need another address, which is checked again.
            place = await resolve_target(url, self._config.fetch_ports, self._networks, self._resolver)
            async with self._lanes.acquire(place.host):
                return await self._get(place)

        return await with_retries(once, self._retry, deadline, url[:200])

    async def _get(self, place: Target) -> Reply:
        headers = {
            "host": place.authority,
            "user-agent": self._config.fetch_agent,
            "accept": ", ".join(READABLE),
            "accept-encoding": ENCODINGS,
        }
        limits = self._httpx.Limits(max_keepalive_connections=0)
        # A client per page: a connection kept for an address could be used for another name on it.
        # No proxy, or the address that was checked would not be the one connected to.
        try:
            async with (
                self._httpx.AsyncClient(
                    trust_env=False, limits=limits, timeout=self._config.fetch_seconds, verify=self._trusted
                ) as client,
                client.stream("GET", place.url, headers=headers, extensions={"sni_hostname": place.host}) as response,
            ):
                return await self._read(place, response)
        except (self._httpx.HTTPError, self._httpx.InvalidURL, self._httpx.StreamError) as error:
            raise DependencyFailed(place.host, f"cannot be reached ({type(error).__name__})") from error

    async def _read(self, place: Target, response: Any) -> Reply:
        status, headers = response.status_code, response.headers
        if status in REDIRECTS and headers.get("location"):
            return Reply("", b"", headers["location"])
        if not 200 <= status < 300:
            raise failure(place.host, status, headers.get("retry-after"), "the page was not given")
        media_type = headers.get("content-type", "")
        kind = media_type.partition(";")[0].strip().lower()
        # Before the body: an archive of gigabytes is not read to be refused.
        if kind and kind not in READABLE:
            raise make_unsupported_error(place.host, kind)
        # Raw, as a compressed page is unpacked by ``read_body`` within the limit.
        chunks = response.aiter_raw()
        body = await read_body(chunks, headers.get("content-encoding", ""), self._config.fetch_bytes, place.host)
        return Reply(media_type if kind else guess_media_type(place.host, body), body)


def read_page(reply: Reply, url: str, limits: Limits) -> list[ParsedDocument | ParseIssue]:
    """Return what a reply holds, in a form that travels between processes."""
    found = parse(reply.body, reply.media_type, url, limits)
    return [replace(item, metadata=dict(item.metadata)) if isinstance(item, ParsedDocument) else item for item in found]


def guess_media_type(host: str, body: bytes) -> str:
    """Guess the media type from the first bytes, for hosts that send none; raise ``UnreadableContent``."""
    start = body[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"%pdf-"):
        return "application/pdf"
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "text/html"
    raise make_unsupported_error(host, "")


class HostLanes:
    """Limits concurrent fetches per host; forgets idle hosts."""

    def __init__(self, per_host: int) -> None:
        self._per_host = per_host
        self._lanes: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @property
    def hosts(self) -> Mapping[str, int]:
        """Return the number of running and waiting fetches per host."""
        return {host: users for host, (_, users) in self._lanes.items()}

    @asynccontextmanager
    async def acquire(self, host: str) -> AsyncIterator[None]:
        """Wait for a free slot of ``host``."""
        lane, users = self._lanes.get(host, (asyncio.Semaphore(self._per_host), 0))
        self._lanes[host] = lane, users + 1
        try:
            async with lane:
                yield
        finally:
            lane, users = self._lanes[host]
            # The last user forgets the host, or every host ever fetched would be remembered.
            if users == 1:
                del self._lanes[host]
            else:
                self._lanes[host] = lane, users - 1
