"""Requests to a gateway's REST API that carry a user's files and what is said of them."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from fathom.core.errors import DependencyFailed, FathomError, InvalidField, NotFound
from fathom.core.retry import RetryPolicy, retry_blocking

UPLOAD_S = 300.0


def call_gateway(
    method: str, url: str, what: str, option: str, content: bytes | None = None, kind: str = "application/json"
) -> dict[str, Any]:
    """Call a route and return its answer, again after a passing failure; ``what`` names the subject in errors.

    Raises ``InvalidField(option)``, ``NotFound`` and ``DependencyFailed``.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise InvalidField("gateway", f"{url!r} is no http:// or https:// URL")
    headers = {"content-type": kind} if content is not None else {}
    # S310: the scheme is checked above.
    request = urllib.request.Request(url, content, headers, method=method)  # noqa: S310
    return retry_blocking(lambda: send(request, what, option), RetryPolicy(), time.monotonic() + UPLOAD_S)


def send(request: urllib.request.Request, what: str, option: str) -> dict[str, Any]:
    """Send a request once, with the gateway's token from ``FATHOM_GATEWAY_TOKEN`` where that is set."""
    if token := os.environ.get("FATHOM_GATEWAY_TOKEN", ""):
        request.add_header("authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=UPLOAD_S) as reply:  # noqa: S310 - the scheme is checked
            found = json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            detail = read_detail(error.read())
        raise to_error(error, what, detail, option) from error
    except (OSError, ValueError) as error:
        raise DependencyFailed("gateway", f"did not take {what} ({error})") from error
    if not isinstance(found, dict):
        raise DependencyFailed("gateway", f"did not take {what} (its answer is no object)")
    return found


def to_error(error: urllib.error.HTTPError, what: str, detail: str, option: str) -> FathomError:
    """Return the error of a refusal: the file's own, or the gateway's."""
    if error.code == 404:
        return NotFound(option, what)
    if error.code < 500:
        return InvalidField(option, f"{what}: {detail or error.reason}")
    return DependencyFailed("gateway", f"{what}: {detail or error.reason}")


def read_detail(body: bytes) -> str:
    """Return what a problem document says; "" for another body."""
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    return str(found.get("detail", "")) if isinstance(found, dict) else ""
