"""Typed errors as problem details (RFC 9457), and the headers that keep the page to itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from fathom.errors import FathomError
from services.gateway.config import Config

STATUS = {
    "INVALID_ARGUMENT": 400,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "FAILED_PRECONDITION": 412,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
OPEN = frozenset({"/healthz/live", "/healthz/ready"})
PROBLEM = "application/problem+json"
Next = Callable[[Request], Awaitable[Response]]


def problem(status: int, reason: str, detail: str, **more: Any) -> JSONResponse:
    """One problem; ``reason`` is the name in ``ErrorReason``."""
    content = {"type": "about:blank", "status": status, "reason": reason, "detail": detail, **more}
    return JSONResponse({key: value for key, value in content.items() if value != ""}, status, media_type=PROBLEM)


def install(app: FastAPI, config: Config) -> None:
    """Adds error handlers, access control, body limit and security headers to ``app``."""

    @app.exception_handler(FathomError)
    async def typed(request: Request, error: FathomError) -> JSONResponse:
        answer = problem(
            STATUS.get(error.code, 500),
            error.reason,
            error.message,
            field=error.metadata.get("field", ""),
            culprit=error.metadata.get("culprit", ""),
        )
        if error.retry_after_s is not None:
            answer.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
        return answer

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
        return problem(400, "INVALID_FIELD", f"{field or 'body'}: {first['msg']}", field=field or "body")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, "NOT_FOUND" if error.status_code == 404 else "INVALID_FIELD", error.detail)

    @app.middleware("http")
    async def guard(request: Request, proceed: Next) -> Response:
        refused = refusal(request, config)
        response = refused if refused is not None else await proceed(request)
        response.headers["Content-Security-Policy"] = policy(config)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response


def refusal(request: Request, config: Config) -> JSONResponse | None:
    """Why a request goes no further, if it does not."""
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > config.max_body_bytes:
        return problem(413, "PAYLOAD_TOO_LARGE", f"the body is over {config.max_body_bytes:,} bytes", field="body")
    if config.token and request.url.path not in OPEN and given_token(request) != config.token:
        return problem(401, "INVALID_FIELD", "a bearer token is needed", field="authorization")
    return None


def given_token(request: Request) -> str:
    """From the header, or from ``?access_token=`` for event streams, which cannot set headers."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else request.query_params.get("access_token", "")


def policy(config: Config) -> str:
    """Nothing from outside; plotly writes its own styles and draws images into data and blob URLs."""
    return (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none';"
        f" base-uri 'none'; form-action 'self'; frame-ancestors {config.frame_ancestors}"
    )
