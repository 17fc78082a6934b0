"""Sending own tables and documents to a gateway, for runs that begin with them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fathom.cli.uploads.meanings import Columns, apply_columns, describe_columns, propose_columns, write_meanings
from fathom.cli.uploads.requests import call_gateway
from fathom.clients.local import read_endpoints
from fathom.core.errors import DependencyFailed, InvalidField, NotFound, NotReady
from fathom.domain.chat.media import MEDIA_TYPES, ROWS_OF_DOCUMENTS

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
    """Send tables to a gateway, of workbooks all sheets, and return the ids of what they became.

    Raises ``InvalidField("table")`` for a file that cannot be read or that the gateway refuses, ``NotReady`` without a
    gateway, ``DependencyFailed`` when it does not answer.
    """
    require_gateway(gateway if files else "none", "--table")
    found: list[str] = []
    for file in files:
        most = MAX_TABLES - len(found)
        found += [read_sheet_id(reply) for reply, _ in send_table(gateway, file, file.name, "table", print, most)]
    return found


def upload_files(
    gateway: str,
    paths: Sequence[Path],
    report: Callable[[str], None],
    meanings: Mapping[str, Columns] | None = None,
) -> Uploaded:
    """Send files, and those in folders, to a gateway: tables as sheets, documents into one corpus.

    ``meanings`` say by a table's name what its columns mean; for others the gateway's proposal is taken, and reported.
    What cannot be read is reported and left out, by cell or by page as far as it goes, so that one bad file costs no
    other. Raises ``InvalidField("with")`` when nothing is left, and as ``upload_tables``.
    """
    require_gateway(gateway if paths else "none", "--with")
    done, files = Uploaded(), list_files(paths, report)
    for name in sorted({*(meanings or {})} - {name for _, name in files}):
        report(f"{name} has columns that were said, and is none of these files")
    for file, name in files:
        try:
            if file.suffix.lower() in TABLES:
                upload_table(gateway, file, name, done, report, meanings or {})
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


def propose_meanings(paths: Sequence[Path], to: Path | None, home: Path, gateway: str) -> None:
    """Print what a gateway proposes for the columns of some tables, or write it to a new file.

    Raises as ``upload_files``, and ``InvalidField("to")`` for a file that is there or cannot be written.
    """
    gateway = gateway or read_endpoints(home).gateway
    require_gateway(gateway, "columns")
    found: dict[str, Columns] = {}
    for file, name in list_files(paths, print):
        if file.suffix.lower() in TABLES:
            for reply, called in send_table(gateway, file, name, "own", print, MAX_TABLES):
                found[called] = propose_columns(gateway, read_sheet_id(reply), called, always=True)
    if not found:
        raise InvalidField("own", f"there is no table: their names end in {', '.join(TABLES)}")
    text = write_meanings(found)
    if to is None:
        print(text, end="")
        return
    try:
        # What somebody has edited is not lost by asking again.
        with to.open("x", encoding="utf-8") as sink:
            sink.write(text)
    except OSError as error:
        raise InvalidField("to", f"{to} cannot be written ({error.strerror})") from error
    print(f"{to}: the columns of {', '.join(found)}")


def send_table(
    gateway: str, file: Path, name: str, option: str, report: Callable[[str], None], most: int
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Send a file once; yield the answer for each of its sheets, with the file's name or the sheet's own title.

    Sheets beyond ``most`` and further ones that are no table are reported. Raises ``InvalidField(option)`` where the
    first one is none.
    """
    # Only the service unpacks a workbook, and says what else is in it.
    reply = send_file(gateway, "tables", file, name, option, further=str(max(most - 1, 0)))
    sheets, further = reply.get("worksheets", ()), reply.get("further", ())
    yield reply, str(reply["sheet"]["title"]) if len(sheets) > 1 else name
    for more in further:
        if more.get("reason"):
            report(f"{name} {more.get('worksheet', '')} is left out: {more['reason']}")
        else:
            yield more, str(more["sheet"]["title"])
    if rest := sheets[len(further) + 1 :]:
        # Or the gateway is of an earlier version, which reads the first sheet alone.
        report(f"{name} {', '.join(map(str, rest))} is left out: not read by the gateway, which takes {most} at most")


def upload_table(
    gateway: str,
    file: Path,
    name: str,
    done: Uploaded,
    report: Callable[[str], None],
    meanings: Mapping[str, Columns],
) -> None:
    """Send a table, or all of a workbook, and make series where columns mean more than their names say."""
    for reply, called in send_table(gateway, file, name, "with", report, MAX_TABLES - len(done.table_ids)):
        if len(done.table_ids) >= MAX_TABLES:
            report(f"{called} is left out: a run begins with {MAX_TABLES} tables at most")
            continue
        report_issues(reply, called, report)
        take_sheet(gateway, read_sheet_id(reply), called, done, report, meanings.get(called) or meanings.get(name))
        add_passages(gateway, read_sheet_id(reply), called, done, report)


def add_passages(gateway: str, sheet_id: str, name: str, done: Uploaded, report: Callable[[str], None]) -> None:
    """Add the rows of a table to the corpus, where those are quoted that no calculation is made of."""
    query = urllib.parse.urlencode({"corpus": done.corpus})
    url = f"{gateway.rstrip('/')}/v1/tables/{sheet_id}/passages?{query}"
    try:
        reply = call_gateway("POST", url, name, "with", b"", "application/octet-stream")
    except InvalidField as error:
        report(f"{name} cannot be quoted: {error.message}")
        return
    except NotFound:
        report(f"{name} cannot be quoted: the gateway is of an earlier version")
        return
    done.corpus = str(reply["corpus"])
    for issue in reply.get("issues", ()):
        report(str(issue.get("message", "")))


def take_sheet(
    gateway: str, sheet_id: str, name: str, done: Uploaded, report: Callable[[str], None], meant: Columns | None
) -> None:
    """Add a sheet to what a run begins with, as series where its columns mean more than their names say."""
    columns = meant or propose_columns(gateway, sheet_id, name)
    if columns:
        made = apply_columns(gateway, sheet_id, name, columns)
        report(f"{name} is read as {describe_columns(columns)}")
        report_issues(made, name, report)
        done.table_ids.append(read_sheet_id(made))
    # The table as it is has what series leave out: names of columns and of rows, and texts.
    roles = {column.get("role") for column in columns or ()}
    if "date" not in roles or roles & {"label", "ignored"}:
        done.table_ids.append(sheet_id)


def report_issues(reply: Mapping[str, Any], name: str, report: Callable[[str], None]) -> None:
    """Report the rows and cells of a table that could not be read."""
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


def read_sheet_id(reply: Mapping[str, Any]) -> str:
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
    return call_gateway("POST", url, name, option, content, "application/octet-stream")
