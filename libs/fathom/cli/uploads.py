"""Sending own tables and documents to a gateway, for runs that begin with them."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fathom.core.errors import DependencyFailed, FathomError, InvalidField, NotReady
from fathom.core.retry import RetryPolicy, retry_blocking
from fathom.domain.chat.media import MEDIA_TYPES, ROWS_OF_DOCUMENTS

UPLOAD_S = 300.0
# The gateway's own limit may be lower; more would only be read to be refused.
MAX_BYTES = 64_000_000
# Of a folder: what one question can be about; a library is a corpus, which `fathom retrieval ingest` makes.
MAX_FILES = 200
# As many as a run may begin with.
MAX_TABLES = 12
TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
DOCUMENTS = tuple(ending for ending, kind in MEDIA_TYPES.items() if kind not in ROWS_OF_DOCUMENTS)


@dataclass
class Uploaded:
    """Files that a run begins with: ids of their sheets, and the corpus of the documents, "" without any."""

    table_ids: list[str] = field(default_factory=list)
    corpus: str = ""


def upload_tables(gateway: str, files: Sequence[Path]) -> list[str]:
    """Send tables to a gateway and return the ids of their sheets.

    Raises ``InvalidField("table")`` for a file that cannot be read or that the gateway refuses, ``NotReady`` without a
    gateway, ``DependencyFailed`` when it does not answer.
    """
    require_gateway(gateway if files else "none", "--table")
    return [read_sheet_id(send_file(gateway, "tables", file, file.name, "table")) for file in files]


def upload_files(gateway: str, paths: Sequence[Path], report: Callable[[str], None]) -> Uploaded:
    """Send files, and those in folders, to a gateway: tables as sheets, documents into one corpus.

    What cannot be read is reported and left out, by cell or by page as far as it goes, so that one bad file costs no
    other. Raises ``InvalidField("with")`` when nothing is left, and as ``upload_tables``.
    """
    require_gateway(gateway if paths else "none", "--with")
    done = Uploaded()
    for file, name in list_files(paths, report):
        try:
            if file.suffix.lower() in TABLES:
                upload_table(gateway, file, name, done, report)
            elif file.suffix.lower() in DOCUMENTS:
                reply = send_file(gateway, "documents", file, name, "with", corpus=done.corpus)
                done.corpus = str(reply["corpus"])
                for issue in reply.get("issues", ()):
                    report(f"{name}: {issue.get('message', '')}")
            else:
                report(f"{name} is left out: its name ends in none of {', '.join((*TABLES, *DOCUMENTS))}")
        except InvalidField as error:
            report(f"{name} is left out: {error.message}")
    if paths and not (done.table_ids or done.corpus):
        raise InvalidField("with", "none of these files could be read")
    return done


def upload_table(gateway: str, file: Path, name: str, done: Uploaded, report: Callable[[str], None]) -> None:
    if len(done.table_ids) >= MAX_TABLES:
        report(f"{name} is left out: a run begins with {MAX_TABLES} tables at most")
        return
    reply = send_file(gateway, "tables", file, name, "with")
    done.table_ids.append(read_sheet_id(reply))
    for issue in reply.get("issues", ()):
        column = f" column {issue['column']!r}:" if issue.get("column") else ""
        report(f"{name} row {issue.get('row', 0)}:{column} {issue.get('message', '')}")


def list_files(paths: Sequence[Path], report: Callable[[str], None]) -> list[tuple[Path, str]]:
    """Return the files with the names under which they are cited, those of folders from the folder on.

    Raises ``InvalidField("with")`` for a path that is not there. Hidden files and links are left out.
    """
    found: list[tuple[Path, str]] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
            plain = [file for file in inside if not any(part.startswith((".", "~$")) for part in file.parts)]
            found += [(file, file.relative_to(path).as_posix()) for file in plain]
        elif path.is_file():
            found.append((path, path.name))
        else:
            raise InvalidField("with", f"there is no file or folder {path}")
    if len(found) > MAX_FILES:
        report(f"only the first {MAX_FILES} of {len(found):,} files are taken")
    return found[:MAX_FILES]


def require_gateway(gateway: str, option: str) -> None:
    if not gateway:
        raise NotReady(f"{option} needs a gateway: give --gateway http://HOST:PORT, or ask the local stack")


def read_sheet_id(reply: dict[str, Any]) -> str:
    try:
        return str(reply["sheet"]["id"])
    except (KeyError, TypeError) as error:
        raise DependencyFailed("gateway", f"its answer names no sheet ({error})") from error


def send_file(gateway: str, route: str, file: Path, name: str, option: str, **query: str) -> dict[str, Any]:
    """Send one file and return the gateway's answer; raise ``InvalidField(option)``, ``DependencyFailed``."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidField(option, f"{file} has more than {MAX_BYTES:,} bytes")
        content = file.read_bytes()
    except OSError as error:
        raise InvalidField(option, f"{file} cannot be read ({error.strerror})") from error
    url = f"{gateway.rstrip('/')}/v1/{route}?{urllib.parse.urlencode({'name': name, **query})}"
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise InvalidField("gateway", f"{gateway!r} is no http:// or https:// URL")
    return retry_blocking(lambda: send(url, name, content, option), RetryPolicy(), time.monotonic() + UPLOAD_S)


def send(url: str, name: str, content: bytes, option: str) -> dict[str, Any]:
    """Send a file's content once, with the gateway's token from ``FATHOM_GATEWAY_TOKEN`` where that is set."""
    headers = {"content-type": "application/octet-stream"}
    if token := os.environ.get("FATHOM_GATEWAY_TOKEN", ""):
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, content, headers)  # noqa: S310 - the scheme is checked
    try:
        with urllib.request.urlopen(request, timeout=UPLOAD_S) as reply:  # noqa: S310 - the scheme is checked
            found = json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            detail = read_detail(error.read())
        raise to_error(error, name, detail, option) from error
    except (OSError, ValueError) as error:
        raise DependencyFailed("gateway", f"did not take {name} ({error})") from error
    if not isinstance(found, dict):
        raise DependencyFailed("gateway", f"did not take {name} (its answer is no object)")
    return found


def to_error(error: urllib.error.HTTPError, name: str, detail: str, option: str) -> FathomError:
    """Return the error of a refusal: the file's own, or the gateway's."""
    if error.code < 500:
        return InvalidField(option, f"{name}: {detail or error.reason}")
    return DependencyFailed("gateway", f"{name}: {detail or error.reason}")


def read_detail(body: bytes) -> str:
    """Return what a problem document says; "" for another body."""
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    return str(found.get("detail", "")) if isinstance(found, dict) else ""
