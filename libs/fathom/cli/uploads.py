"""Sending own tables to a gateway, for runs that begin with them."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from fathom.core.errors import DependencyFailed, InvalidField, NotReady
from fathom.core.retry import RetryPolicy, retry_blocking

UPLOAD_S = 60.0
# The gateway's own limit may be lower; more would only be read to be refused.
MAX_BYTES = 64_000_000


def upload_tables(gateway: str, files: Sequence[Path]) -> list[str]:
    """Send files to a gateway and return the ids of their sheets.

    Raises ``InvalidField("table")`` for a file that cannot be read or that the gateway refuses, ``NotReady`` without a
    gateway, ``DependencyFailed`` when it does not answer.
    """
    if files and not gateway:
        raise NotReady("--table needs a gateway: give --gateway http://HOST:PORT, or ask the local stack")
    return [upload_table(gateway, file) for file in files]


def upload_table(gateway: str, file: Path) -> str:
    """Send one file and return the id of its sheet."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidField("table", f"{file} has more than {MAX_BYTES:,} bytes")
        content = file.read_bytes()
    except OSError as error:
        raise InvalidField("table", f"{file} cannot be read ({error.strerror})") from error
    url = f"{gateway.rstrip('/')}/v1/tables?{urllib.parse.urlencode({'name': file.name})}"
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise InvalidField("gateway", f"{gateway!r} is no http:// or https:// URL")
    return retry_blocking(lambda: send(url, file.name, content), RetryPolicy(), time.monotonic() + UPLOAD_S)


def send(url: str, name: str, content: bytes) -> str:
    """Send a file's content once, with the gateway's token from ``FATHOM_GATEWAY_TOKEN`` where that is set."""
    headers = {"content-type": "application/octet-stream"}
    if token := os.environ.get("FATHOM_GATEWAY_TOKEN", ""):
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, content, headers)  # noqa: S310 - the scheme is checked
    try:
        with urllib.request.urlopen(request, timeout=UPLOAD_S) as reply:  # noqa: S310 - the scheme is checked
            return str(json.load(reply)["sheet"]["id"])
    except urllib.error.HTTPError as error:
        with error:
            detail = read_detail(error.read())
        if error.code < 500:
            raise InvalidField("table", f"{name}: {detail or error.reason}") from error
        raise DependencyFailed("gateway", f"{name}: {detail or error.reason}") from error
    except (OSError, ValueError, KeyError) as error:
        raise DependencyFailed("gateway", f"did not take {name} ({error})") from error


def read_detail(body: bytes) -> str:
    """Return what a problem document says; "" for another body."""
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    return str(found.get("detail", "")) if isinstance(found, dict) else ""
