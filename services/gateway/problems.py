"""Typed errors as problem details (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from fathom.errors import FathomError

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
}
REASONS = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
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


def problem(status: int, reason: str, detail: str, **more: Any) -> JSONResponse:
    """Return one problem response; members without a value are omitted."""
    title = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Client Closed Request"
    content = {"type": "about:blank", "title": title, "status": status, "reason": reason, "detail": detail}
    content |= {name: value for name, value in more.items() if value}
    return JSONResponse(content, status, media_type=MEDIA_TYPE)


def problem_of(error: FathomError) -> JSONResponse:
    """Convert a typed error to a problem response; ``Retry-After`` carries the requested delay."""
    nearest = [name for name in error.metadata.get("nearest", "").split(",") if name]
    answer = problem(
        STATUS.get(error.reason, 500),
        error.reason,
        error.message,
        field=error.metadata.get("field", ""),
        culprit=error.metadata.get("culprit", ""),
        nearest=nearest,
    )
    if error.retry_after_s is not None:
        answer.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return answer


def install_problems(app: FastAPI) -> None:
    """Register handlers that turn every error of a route into a problem."""

    @app.exception_handler(FathomError)
    async def typed(request: Request, error: FathomError) -> JSONResponse:
        return problem_of(error)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"][1:]]
        if first["type"] == "json_invalid":
            cause = first.get("ctx", {}).get("error", "")
            return problem(400, "INVALID_FIELD", f"body: no JSON at byte {path[-1]}: {cause}", field="body")
        field = ".".join(path) or "body"
        return problem(400, "INVALID_FIELD", f"{field}: {first['msg']}", field=field)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        answer = problem(error.status_code, REASONS.get(error.status_code, "INVALID_FIELD"), error.detail)
        answer.headers.update(error.headers or {})
        return answer
