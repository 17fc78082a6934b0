"""Request middleware: access control, limits, tracing, response headers, and the prefix of paths.

Plain ASGI: it neither buffers nor modifies event streams.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from opentelemetry.trace import SpanKind
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fathom.core.call import Call, calling, current_call
from fathom.core.errors import FathomError, PayloadTooLarge, Unauthenticated
from fathom.core.telemetry import SECONDS_BUCKETS, Telemetry
from fathom.services.gateway.config import Config
from fathom.services.gateway.problems import build_problem, to_problem
from fathom.services.gateway.users import SCOPES, Users

# Probes of load balancers carry no token and address the pod by its IP.
OPEN = frozenset({"/healthz/live", "/healthz/ready"})
# The routes whose bodies are files.
UPLOADS = frozenset({"/v1/tables", "/v1/documents"})
COOKIE = "fathom_token"
# Pages that a link with a token of its own opens; their route decides, by the mark in the scope, what to show.
SHARED, ANONYMOUS = "/shared/", "fathom.is_anonymous"
ACTS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# What a cell has displayed was cleaned where it ran; in a browser it may draw and do nothing else, wherever it opens.
FIGURE_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
METHODS = ACTS | {"GET", "HEAD", "OPTIONS"}
# Values of Sec-Fetch-Site of the page itself, of a typed address, and of programs, which do not send it.
OWN_SITE = frozenset({"", "same-origin", "none"})
MAX_AUDITED_CHARS = 200
PORT = re.compile(r":\d+$")


class Guard:
    """Access, limits, trace, metrics and headers; an unexpected error becomes a problem, its cause only a log entry."""

    def __init__(self, app: ASGIApp, config: Config, telemetry: Telemetry, users: Users) -> None:
        self._app, self._config, self._telemetry, self._users = app, config, telemetry, users
        self._handled, self._seconds = register_http_metrics(telemetry.registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, sent = time.perf_counter(), Sent(send, policy=self._policy(scope))
        traceparent = Headers(scope=scope).get("traceparent", "")
        span, traceparent = self._telemetry.span(f"HTTP {scope['method']}", traceparent, SpanKind.SERVER)
        call = replace(Call.new(), traceparent=traceparent)
        try:
            with calling(call):
                await self._answer(scope, receive, sent)
        except Exception as error:  # the outermost layer: a defect becomes a problem, never a stack trace for clients
            self._telemetry.log.error("defect", path=read_route(scope), request_id=call.request_id, exc_info=error)
            if sent.status:
                raise  # the response has begun: its status cannot be changed
            detail = "internal error; the log has the cause under the request id"
            await build_problem(500, "INTERNAL", detail, request_id=call.request_id)(scope, receive, sent)
        finally:
            span.end()
            # Labels come from closed sets only: a client chooses its path and its method freely.
            route = getattr(scope.get("route"), "path", "") or "other"
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._handled.labels(route, method, str(sent.status)).inc()
            self._seconds.labels(route).observe(time.perf_counter() - begun)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refused = self._refusal(scope, headers)
        if refused is None and read_route(scope) not in OPEN:
            try:
                user = await self._users.identify(read_token(headers))
            except FathomError as error:
                if self._config.public_links and scope["method"] == "GET" and read_route(scope).startswith(SHARED):
                    scope[ANONYMOUS] = True
                else:
                    refused = await self._entry(scope) or self._refuse_caller(scope, error)
            else:
                # Whatever is called on the way is called for this tenant, whoever the headers name.
                call = replace(current_call() or Call.new(), tenant=user.tenant, principal=user.name)
                scope[SCOPES] = user.rights
                with calling(call):
                    await self._proceed(scope, receive, send)
                return
        await (refused or self._proceed)(scope, receive, send)

    def _refuse_caller(self, scope: Scope, error: FathomError) -> Response:
        """Return the response to a caller that is not let in, and log the refusal."""
        self._telemetry.log.info(
            "audit",
            tenant="",
            principal="",
            rpc=f"{scope['method']} {read_route(scope)}"[:MAX_AUDITED_CHARS],
            resource="",
            outcome=error.code,
            error=error.message,
        )
        refused = to_problem(error)
        if isinstance(error, Unauthenticated):
            refused = build_problem(401, error.reason, error.message, field="authorization")
            refused.headers["WWW-Authenticate"] = "Bearer"
        return refused

    def _limit(self, scope: Scope) -> int:
        is_upload = read_route(scope) in UPLOADS
        return self._config.max_upload_bytes if is_upload else self._config.max_body_bytes

    async def _proceed(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ACTS:
            try:
                # A client that sends a byte now and then would hold a connection for ever.
                async with asyncio.timeout(self._config.body_timeout_s):
                    body = await read_body(receive, self._limit(scope))
            except PayloadTooLarge as error:
                await to_problem(error)(scope, receive, send)
                return
            except TimeoutError:
                limit = self._config.body_timeout_s
                await build_problem(408, "DEADLINE", f"the body did not arrive within {limit:g} s")(
                    scope, receive, send
                )
                return
            receive = replay_body(body, receive)
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response that refuses the request, None if it may proceed."""
        if read_route(scope) in OPEN:
            return None
        # Only browsers matter here: a page of another site whose name was rebound to this machine still sends its own
        # name.
        host = PORT.sub("", headers.get("host", ""))
        if "*" not in self._config.allowed_hosts and host not in self._config.allowed_hosts:
            detail = f"host {host!r} is not in allowed_hosts (FATHOM_GATEWAY_ALLOWED_HOSTS)"
            return build_problem(421, "INVALID_FIELD", detail, field="host")
        # Cookies are strict about the site, but a gateway without a token has none to withhold.
        if scope["method"] in ACTS and headers.get("sec-fetch-site", "") not in OWN_SITE:
            return build_problem(
                403, "INVALID_FIELD", "requests from other sites' pages are refused", field="sec-fetch-site"
            )
        return None

    async def _entry(self, scope: Scope) -> Response | None:
        """Redirect ``/?access_token=…`` with the token in a cookie; None for other requests, and a wrong token."""
        # A browser cannot send a header when it opens a page, so the link carries the token once.
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        token = query.pop("access_token", "")
        if read_route(scope) != "/" or not token:
            return None
        try:
            await self._users.identify(token)
        except FathomError:
            return None
        # The token leaves the address bar and the history, and no Referer carries it on.
        home = f"{scope['root_path']}/"
        answer = RedirectResponse(f"{home}?{urlencode(query)}" if query else home, 303)
        # Not readable by scripts, never sent with requests of other sites, nor to what else the host serves.
        is_secure = scope["scheme"] == "https"
        answer.set_cookie(COOKIE, token, path=home, httponly=True, samesite="strict", secure=is_secure)
        return answer

    def _policy(self, scope: Scope) -> str:
        embedded = (
            read_route(scope) == "/" and dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("embed") == "1"
        )
        return build_content_policy(self._config.frame_ancestors if embedded else "'none'")


class Prefixed:
    """Middleware for a gateway below a path of a host: every path has the prefix, which ``root_path`` tells routes."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._prefix:
            await self._app(scope, receive, send)
        elif scope["path"] == self._prefix:
            # The page's addresses are relative to its folder, which the slash makes it.
            query = scope["query_string"].decode("latin-1")
            home = f"{self._prefix}/{f'?{query}' if query else ''}"
            await RedirectResponse(home, 308)(scope, receive, send)
        else:
            # A proxy that strips the prefix, and whoever addresses the gateway itself, send the rest alone.
            is_whole = scope["path"].startswith(f"{self._prefix}/")
            path = scope["path"] if is_whole else self._prefix + scope["path"]
            await self._app({**scope, "path": path, "root_path": self._prefix}, receive, send)


def read_route(scope: Scope) -> str:
    """Return the path of a request as the routes name it, below the prefix."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


class Sent:
    """A ``send`` that adds security headers and remembers the status (0 before it is sent)."""

    def __init__(self, send: Send, policy: str) -> None:
        self._send, self._policy = send, policy
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=message["headers"])
            # A figure's own is stricter, and lets the page show it in a frame.
            headers.setdefault("Content-Security-Policy", self._policy)
            headers["X-Content-Type-Options"] = "nosniff"
            headers["Referrer-Policy"] = "no-referrer"
            headers["Cross-Origin-Resource-Policy"] = "same-origin"
            # Answers hold private questions; the page's own files set their own rule.
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)


def register_http_metrics(registry: CollectorRegistry) -> tuple[Counter, Histogram]:
    """Create the metrics: requests by route template, method and status, and their seconds by route."""
    return (
        Counter("fathom_http_requests", "Requests that ended", ("route", "method", "status"), registry=registry),
        Histogram("fathom_http_seconds", "Time to end", ("route",), buckets=SECONDS_BUCKETS, registry=registry),
    )


async def read_body(receive: Receive, limit: int) -> bytes:
    """Read the whole body; raise ``PayloadTooLarge`` as soon as it exceeds ``limit`` bytes, whatever was announced."""
    body = bytearray()
    while True:
        message = await receive()
        # Counted while it arrives: Content-Length may be missing or wrong.
        body += message.get("body", b"")
        if len(body) > limit:
            raise PayloadTooLarge(len(body), limit)
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that yields ``body`` once and then the messages of ``receive``."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return parts.pop() if parts else await receive()

    return next_message


def read_token(headers: Headers) -> str:
    """Return the token from the ``Authorization`` header or the page's cookie, "" without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def build_content_policy(frame_ancestors: str) -> str:
    """Return the Content-Security-Policy: nothing from other origins."""
    return (
        # plotly writes its own styles and draws images into data and blob URLs.
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none';"
        f" base-uri 'none'; form-action 'self'; frame-ancestors {frame_ancestors}"
    )
