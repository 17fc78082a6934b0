"""Client of the export route, for the command line."""

from __future__ import annotations

import json
from urllib.parse import quote

from fathom.core.errors import DependencyFailed, FathomError, InvalidField
from fathom.core.extras import name_missing_extra

# Longer than the writing of any file takes; a gateway that is busy with other exports lets one wait.
TIMEOUT_S = 120.0


def fetch_export(gateway: str, token: str, run_id: str, kind: str, language: str) -> bytes:
    """Return a run's answer as a file of ``kind`` from a gateway.

    Raises ``InvalidField`` for what the gateway refuses, ``DependencyFailed`` when it cannot be reached.
    """
    with name_missing_extra():
        import httpx
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    query = {"format": kind, "language": language}
    try:
        url = f"{gateway.rstrip('/')}/v1/runs/{quote(run_id, safe='')}/export"
        answer = httpx.get(url, params=query, headers=headers, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DependencyFailed("gateway", f"{gateway} cannot be reached: {error}") from error
    if answer.status_code != httpx.codes.OK:
        raise read_problem(answer.status_code, answer.headers.get("content-type", ""), answer.content)
    return answer.content


def read_problem(status: int, media_type: str, body: bytes) -> FathomError:
    """Return the error that a response tells of."""
    if media_type.startswith("application/problem+json"):
        problem = json.loads(body)
        detail = str(problem.get("detail", ""))
        if status < 500:
            return InvalidField(str(problem.get("field", "")) or "run_id", detail)
        return DependencyFailed("gateway", detail)
    return DependencyFailed("gateway", f"it answered with status {status}")
