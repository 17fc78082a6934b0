"""``fathom retrieval ingest`` and ``delete``: files to a running service in chunks, and names of sources to delete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import typer

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import connect
from fathom.clients.local import read_endpoints
from fathom.core.errors import NotFound
from fathom.domain.chat.media import media_type

# Below gRPC's limit of four megabytes a message.
PIECE_BYTES = 1 << 20
# Timeout in seconds; an ingest ends with building the index, which may encode many documents.
LONGEST_S = 6 * 3_600.0


async def send(files: Sequence[Path], corpus: str, *, activate: bool, url: str, home: Path) -> None:
    """Send the files; print counts, the first issues and the snapshot.

    Raises ``NotFound`` for a missing file, ``InvalidField`` for an unknown extension.
    """
    for path in files:
        if not path.is_file():
            raise NotFound("file", str(path))
        # Every file is checked before the first is sent, so that nothing is added by half.
        media_type(path.name)
    await ingest(pieces(files, corpus), corpus, activate=activate, url=url, home=home)


async def delete_sources(sources: Sequence[str], corpus: str, *, activate: bool, url: str, home: Path) -> None:
    """Delete the sources; print counts, what was not there, and the snapshot."""

    async def name_sources() -> AsyncIterator[pb.IngestRequest]:
        for source in sources:
            yield pb.IngestRequest(corpus=corpus, delete_source=source)

    await ingest(name_sources(), corpus, activate=activate, url=url, home=home)


async def ingest(
    messages: AsyncIterator[pb.IngestRequest], corpus: str, *, activate: bool, url: str, home: Path
) -> None:
    clients = connect({"retrieval": url} if url else dict(read_endpoints(home).services))
    try:
        done = await clients.retrieval.ingest(messages, timeout_s=LONGEST_S)
        for issue in done.issues:
            typer.echo(f"{issue.source}:{issue.line} is left out: {issue.message}", err=True)
        deleted = f", {done.deleted:,} deleted" if done.deleted else ""
        typer.echo(f"{done.added:,} added, {done.duplicates:,} there already, {done.rejected:,} left out{deleted}")
        typer.echo(f"snapshot {done.snapshot}")
        if activate and done.snapshot:
            request = pb.ActivateSnapshotRequest(corpus=corpus, snapshot=done.snapshot)
            typer.echo(f"active, before {(await clients.retrieval.activate_snapshot(request)).previous or 'none'}")
    finally:
        await clients.close()


async def pieces(files: Sequence[Path], corpus: str) -> AsyncIterator[pb.IngestRequest]:
    """Yield the files' bytes in chunks, each with the file's name and type."""
    for path in files:
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield pb.IngestRequest(corpus=corpus, data=piece, media_type=media_type(path.name), source=str(path))
