"""Errors of the chat completions API: problem details become the body that OpenAI's clients read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fathom.core.errors import FathomError
from fathom.services.gateway.guard import read_route
from fathom.services.gateway.problems import MEDIA_TYPE, STATUS

# "/v1/models" itself is not below: its list is the page's too, and the page reads problem details.
PATHS = ("/v1/chat/", "/v1/models/", "/policy/v1/")
# The further parts of OpenAI's API, which its clients call below the same address and which do not exist here.
# "conversations" and "models" are not among them: these are routes of our own.
FOREIGN = frozenset(
    (
        "agents", "assistants", "audio", "batches", "chat", "chatkit", "completions", "containers",
        "content_provenance_checks", "decisions", "embeddings", "evals", "files", "fine_tuning", "images", "live",
        "moderations", "organization", "projects", "realtime", "responses", "safety", "skills", "threads", "uploads",
        "vaults", "vector_stores", "videos", "webhook_endpoints", "webhook_event_types",
    )
)  # fmt: skip
# A model that does not exist has a code of its own, which clients decide by.
CODES = {("NOT_FOUND", "model"): "model_not_found"}
SCHEMA = {
    "type": "object",
    "description": "An error as OpenAI's clients read it.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"], "description": "The field of the request that is wrong."},
                "code": {"type": "string", "description": "The reason, in lower case, or OpenAI's own code."},
            },
        }
    },
}
TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def describe_error(status: int, reason: str, message: str, field: str = "") -> dict[str, Any]:
    """Return an error as OpenAI's clients read it; ``code`` is OpenAI's where it has one, else our reason."""
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = CODES.get((reason, field), reason.lower())
    return {"error": {"message": message, "type": kind, "param": field or None, "code": code}}


def describe_failure(error: FathomError) -> dict[str, Any]:
    """Return a typed error as OpenAI's clients read it in a stream that has begun."""
    status = STATUS.get(error.reason, 500)
    return describe_error(status, error.reason, error.message, error.metadata.get("field", ""))


def is_rewritten(path: str) -> bool:
    """Return whether errors of a path are written as OpenAI's clients read them."""
    _, version, *rest = f"{path}//".split("/", 3)
    return path.startswith(PATHS) or (version == "v1" and rest[0] in FOREIGN)


class OpenAiErrors:
    """Middleware that rewrites problem details of the paths of OpenAI's API, whichever layer has written them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] == "http" and is_rewritten(read_route(scope))
        await self._app(scope, receive, Rewriting(send) if is_ours else send)


class Rewriting:
    """A ``send`` that rewrites a response of problem details; others pass unchanged."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            if headers.get("content-type", "").startswith(MEDIA_TYPE):
                self._start = message
                return
        if self._start is None:
            await self._send(message)
            return
        # A problem is small: one object of a few names.
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            await self._rewrite(self._start)

    async def _rewrite(self, start: Message) -> None:
        problem: Mapping[str, Any] = json.loads(self._body)
        described = describe_error(start["status"], problem["reason"], problem["detail"], problem.get("field", ""))
        body = json.dumps(described, ensure_ascii=False).encode()
        headers = MutableHeaders(raw=start["headers"])
        # The length was that of the problem's body, and servers cut or wait by it.
        headers["content-type"], headers["content-length"] = "application/json", str(len(body))
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})
