"""Client of the gateway, for the command line: answers as files, and whatever its other commands ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fathom.core.errors import DependencyFailed, FathomError, InvalidField
from fathom.core.extras import name_missing_extra

# Longer than the writing of any file takes; a gateway that is busy with other exports lets one wait.
TIMEOUT_S = 120.0


def fetch_export(gateway: str, token: str, run_id: str, kind: str, language: str) -> bytes:
    """Return a run's answer as a file of ``kind`` from a gateway.

    Raises ``InvalidField`` for what the gateway refuses, ``DependencyFailed`` when it cannot be reached.
    """
    query = {"format": kind, "language": language}
    return call_gateway(gateway, token, "GET", f"v1/runs/{quote(run_id, safe='')}/export", query=query)


def call_gateway(
    gateway: str,
    token: str,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the body of a gateway's answer; ``path`` is below its address, without a slash before it.

    Raises ``InvalidField`` for what the gateway refuses, ``DependencyFailed`` when it cannot be reached.
    """
    with name_missing_extra():
        import httpx
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        url = f"{gateway.rstrip('/')}/{path}"
        answer = httpx.request(method, url, params=query, json=body, headers=headers, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DependencyFailed("gateway", f"{gateway} cannot be reached: {error}") from error
    if not answer.is_success:
        raise read_problem(answer.status_code, answer.headers.get("content-type", ""), answer.content)
    return answer.content


def read_problem(status: int, media_type: str, body: bytes) -> FathomError:
    """Return the error that a response tells of."""
    if media_type.startswith("application/problem+json"):
        problem = json.loads(body)
        detail = str(problem.get("detail", ""))
        if status < 500:
            field = str(problem.get("field", "")) or "run_id"
            # The gateway's own words begin with the field.
            return InvalidField(field, detail.removeprefix(f"{field}: "))
        return DependencyFailed("gateway", detail)
    return DependencyFailed("gateway", f"it answered with status {status}")
