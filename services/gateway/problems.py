"""Typed errors as problem details (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from fathom.core.errors import FathomError

# One per reason of fathom.api.common.v1.ErrorReason.
STATUS = {
    "UNSPECIFIED": 500,
    "INVALID_FIELD": 400,
    "NOT_FOUND": 404,
    "NOT_IMPLEMENTED": 501,
    "NOT_READY": 503,
    "DEADLINE": 504,
    "OVERLOADED": 429,
    "PAYLOAD_TOO_LARGE": 413,
    "DEPENDENCY_FAILED": 503,
    "SESSION_LOST": 409,
    "CORRUPT_DATA": 500,
    "VERSION_MISMATCH": 409,
    "CONFLICT": 409,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "MISSING_EXTRA": 501,
    "FAILED_PRECONDITION": 409,
    "UPSTREAM_REFUSED": 502,
    "UNREADABLE_CONTENT": 422,
    "CONTEXT_TOO_LONG": 413,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
}
# HTTP's own errors, raised by the framework before a route runs, have no ``ErrorReason``.
REASONS = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
CONTENT_TYPE = "content-type"
MAX_HEADER_CHARS = 100
MEDIA_TYPE = "application/problem+json"
SCHEMA = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "reason", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "reason": {"type": "string", "description": "A name of ErrorReason, or one of HTTP's own cases."},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "The field of the request that is wrong."},
        "culprit": {"type": "string", "description": "The service that failed."},
        "nearest": {"type": "array", "items": {"type": "string"}, "description": "Names that do exist."},
        "request_id": {"type": "string"},
    },
}


def build_problem(status: int, reason: str, detail: str, **more: Any) -> JSONResponse:
    """Return one problem response; members without a value are omitted."""
    # 499 is nginx's code for a client that left; HTTP does not know it.
    title = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Client Closed Request"
    content = {"type": "about:blank", "title": title, "status": status, "reason": reason, "detail": detail}
    content |= {name: value for name, value in more.items() if value}
    return JSONResponse(content, status, media_type=MEDIA_TYPE)


def to_problem(error: FathomError) -> JSONResponse:
    """Convert a typed error to a problem response; ``Retry-After`` carries the requested delay."""
    nearest = [name for name in error.metadata.get("nearest", "").split(",") if name]
    answer = build_problem(
        STATUS.get(error.reason, 500),
        error.reason,
        error.message,
        field=error.metadata.get("field", ""),
        culprit=error.metadata.get("culprit", ""),
        nearest=nearest,
    )
    if error.retry_after_s is not None:
        # The header takes whole seconds, and 0 would invite a busy loop.
        answer.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return answer


def list_methods(request: Request) -> list[str]:
    """List the methods that the address of a request takes, sorted, over all routes that it matches."""
    matching = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in matching for method in getattr(route, "methods", None) or ()})


def install_problems(app: FastAPI) -> None:
    """Register handlers that turn every error of a route into a problem."""

    @app.exception_handler(FathomError)
    async def handle_fathom_error(request: Request, error: FathomError) -> JSONResponse:
        return to_problem(error)

    @app.exception_handler(RequestValidationError)
    async def handle_invalid_body(request: Request, error: RequestValidationError) -> JSONResponse:
        if isinstance(error.body, bytes):
            # The framework has left the body unread, since no header says that it is JSON.
            given = request.headers.get("content-type", "")
            cause = f"not {given[:MAX_HEADER_CHARS]!r}" if given else "and is missing"
            detail = f"{CONTENT_TYPE}: must be application/json for this body, {cause}"
            return build_problem(415, "INVALID_FIELD", detail, field=CONTENT_TYPE)
        first = error.errors()[0]
        # The first part says where the value stood (body, query); the field's own path follows.
        path = [str(part) for part in first["loc"][1:]]
        if first["type"] == "json_invalid":
            cause = first.get("ctx", {}).get("error", "")
            return build_problem(400, "INVALID_FIELD", f"body: no JSON at byte {path[-1]}: {cause}", field="body")
        field = ".".join(path) or "body"
        return build_problem(400, "INVALID_FIELD", f"{field}: {first['msg']}", field=field)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        answer = build_problem(error.status_code, REASONS.get(error.status_code, "INVALID_FIELD"), error.detail)
        answer.headers.update(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            # The framework names the methods of the first route at this address alone.
            answer.headers["Allow"] = ", ".join(list_methods(request))
        return answer
