"""Snapshots in the object store and their local copies, which are opened memory-mapped.

In the store, ``retrieval/blobs/<sha256>`` are files, shared by all snapshots that contain them, and
``retrieval/snapshots/<corpus>/<id>.json`` are manifests. Those of a caller's own corpus are below a prefix of its own.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path

from fathom.core.errors import CorruptData, MissingExtra, NotFound
from fathom.core.ids import content_hash
from fathom.domain.replacing import write_whole
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.building import build_snapshot
from fathom.services.retrieval.corpus.own import make_root
from fathom.services.retrieval.corpus.port import SnapshotDatabase
from fathom.services.retrieval.corpus.snapshot import (
    MANIFEST,
    Manifest,
    Open,
    Part,
    Snapshot,
    check_part,
    is_in_postgres,
    open_snapshot,
    read_manifest,
)
from fathom.services.retrieval.documents.model import Document, hash64, parse_document
from fathom.transport.store import ObjectStore

# Of the folders in which snapshots are built, and of the file that says whether any process does so.
BUILDING, LOCK = "building-", "lock"

Report = Callable[[int, str], None]
"""Receives the number of each line that is left out, and the reason."""


def make_manifest_key(manifest: Manifest) -> str:
    """Return the key of a manifest in the store."""
    return f"{make_root(manifest.corpus)}/snapshots/{manifest.corpus}/{manifest.id}.json"


def make_blob_key(corpus: str, part: Part) -> str:
    """Return the key of a file of a corpus' snapshots in the store."""
    return f"{make_root(corpus)}/blobs/{part.sha256}"


class SnapshotStore:
    """Local folders of snapshots: downloads, builds and opens them."""

    def __init__(
        self, config: Config, store: ObjectStore, open_encoder: Open, make_database: Callable[[], SnapshotDatabase]
    ) -> None:
        self._store, self._open_encoder, self._make_database = store, open_encoder, make_database
        self._given, self._threads = config.index_dir, config.threads
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._folder = Path()

    def start(self) -> None:
        """Create the folder, a temporary one when none was given, and remove what killed builds have left in it."""
        if self._given is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="fathom-retrieval-")
            self._folder = Path(self._scratch.name)
        else:
            self._folder = self._given.resolve()
            self._folder.mkdir(parents=True, exist_ok=True)
        self._sweep()

    def _sweep(self) -> None:
        """Remove the folders of builds that ended with their process; none while any process builds here."""
        with (self._folder / LOCK).open("w") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for folder in self._folder.glob(f"*/{BUILDING}*"):
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _open_building(self, corpus: str) -> Iterator[Path]:
        """Yield an empty folder to build in; it is removed at the end, or at the next start if this process dies."""
        # All who build share the lock, which the kernel gives back for a process that is killed.
        with (self._folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            folder = self._folder / corpus / f"{BUILDING}{secrets.token_hex(8)}"
            folder.mkdir(parents=True)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    @cached_property
    def _database(self) -> SnapshotDatabase:
        # Made when the first corpus needs it: most services have none in a database.
        return self._make_database()

    def close(self) -> None:
        """Remove the temporary folder, and close connections."""
        if "_database" in self.__dict__:
            self._database.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    async def open(self, manifest: Manifest) -> Snapshot:
        """Open a snapshot from its folder, downloading missing files; every file is checked.

        Raises ``CorruptData`` naming the file.
        """
        folder = self._folder / manifest.corpus / manifest.id
        folder.mkdir(parents=True, exist_ok=True)
        is_remote = is_in_postgres(manifest)
        parts = manifest.parts
        if is_remote:
            parts = tuple(parts[at] for at in await asyncio.to_thread(self._database.find_missing, manifest))
        for part in parts:
            await self._fetch(manifest.corpus, part, folder)
        await asyncio.to_thread(write_whole, folder / MANIFEST, manifest.to_json())
        if is_remote:
            await asyncio.to_thread(self._database.fill, manifest, folder)
        # Each file was checked when it was found or fetched.
        return await asyncio.to_thread(self._open_local, folder, manifest, is_checked=True)

    def _open_local(self, folder: Path, manifest: Manifest | None = None, *, is_checked: bool = False) -> Snapshot:
        """Open the snapshot of a folder, which may hold no more than the manifest of one in PostgreSQL."""
        manifest = manifest or read_manifest(folder)
        if is_in_postgres(manifest):
            return self._database.open(manifest, folder)
        return open_snapshot(folder, self._threads, is_checked=is_checked)

    async def _fetch(self, corpus: str, part: Part, folder: Path) -> None:
        path = folder / part.path
        try:
            await asyncio.to_thread(self._find_part, path, part)
        except CorruptData:
            key = make_blob_key(corpus, part)
            try:
                data = await self._store.get(key, part.sha256)
            except NotFound as error:
                raise CorruptData(key, f"is not there, and snapshot file {part.path} is it") from error
            await asyncio.to_thread(write_whole, path, data)

    def _find_part(self, path: Path, part: Part) -> None:
        """Check a file, linked from another snapshot of the corpus if it is not there; raise ``CorruptData``."""
        if not path.exists():
            # A snapshot shares its segments with the one before it: what is here need not come again.
            for other in path.parent.parent.glob(f"*/{part.path}"):
                with suppress(OSError, CorruptData):
                    check_part(other, part)
                    path.hardlink_to(other)
                    return
        check_part(path, part)

    async def save(self, snapshot: Snapshot) -> None:
        """Store a snapshot: its files, then its manifest."""
        manifest = snapshot.manifest
        # Files first, so that everything a manifest names exists.
        for part in manifest.parts:
            key = make_blob_key(manifest.corpus, part)
            if await self._store.head(key) is None:
                # Keys are checksums: a file that another snapshot has stored is not sent again.
                await self._store.put(key, await asyncio.to_thread((snapshot.folder / part.path).read_bytes))
        key = make_manifest_key(manifest)
        if await self._store.head(key) is None:
            await self._store.put(key, manifest.to_json(), "application/json")

    async def load_manifest(self, corpus: str, ident: str) -> Manifest:
        """Return a stored manifest; raise ``NotFound``, or ``CorruptData`` if malformed or of another corpus."""
        key = f"{make_root(corpus)}/snapshots/{corpus}/{ident}.json"
        manifest = Manifest.from_json(await self._store.get(key), key)
        if manifest.corpus != corpus:
            raise CorruptData(key, f"is of corpus {manifest.corpus!r}")
        return manifest

    async def list_manifests(self, corpus: str) -> list[Manifest]:
        """Return all stored manifests of a corpus."""
        stored = await self._store.list(f"{make_root(corpus)}/snapshots/{corpus}/")
        return [Manifest.from_json(await self._store.get(item.key), item.key) for item in stored]

    def prune(self, corpus: str, keep: Collection[str]) -> None:
        """Delete the folders of snapshots not in ``keep``; open ones stay readable."""
        for folder in (self._folder / corpus).glob("*"):
            if (folder / MANIFEST).exists() and folder.name not in keep:
                # Files that are mapped stay readable until they are closed.
                shutil.rmtree(folder, ignore_errors=True)

    def open_or_build(
        self,
        name: str,
        source: str,
        recipe: Recipe,
        rows: Callable[[], Iterable[Document]],
        index_file: Path | None = None,
        open_encoder: Open | None = None,
    ) -> Snapshot:
        """Return the snapshot of a source that is in no store; reopened while neither source nor recipe change.

        ``open_encoder`` takes the place of the service's own when it is built.
        """
        # Named by source and recipe: when either changes, the mark is another and the snapshot is built anew.
        mark = self._folder / f"{content_hash([source, recipe.model_dump(), name])}.id"
        if mark.exists():
            try:
                return self._open_local(self._folder / name / mark.read_text())
            except CorruptData:
                # A damaged local copy is rebuilt from its source instead of being reported.
                mark.unlink()
        snapshot = self.build(name, rows(), recipe, None, index_file, open_encoder)
        mark.write_text(snapshot.id)
        return snapshot

    def build(
        self,
        corpus: str,
        fresh: Iterable[Document],
        recipe: Recipe,
        base: Snapshot | None,
        index_file: Path | None = None,
        open_encoder: Open | None = None,
    ) -> Snapshot:
        """Build a snapshot and open it."""
        # Built beside and then renamed, so that a folder named by an id is complete.
        with self._open_building(corpus) as beside:
            try:
                if recipe.engine == "postgres":
                    manifest = self._database.build(corpus, fresh, recipe, beside, base)
                else:
                    if base is not None and is_in_postgres(base.manifest):
                        # Its files are nowhere here; all of its documents are brought.
                        fresh, base = chain(base.table.documents, fresh), None
                    manifest = build_snapshot(
                        corpus, fresh, recipe, beside, open_encoder or self._open_encoder, base, index_file
                    )
            except ImportError as error:
                raise MissingExtra(error.name or "numpy", "dense" if recipe.encoder else "retrieval") from error
            final = self._folder / corpus / manifest.id
            # Another process may have built the same content meanwhile; both are equal.
            if final.exists():
                try:
                    return self._open_local(final, manifest)
                except CorruptData:
                    # A download that was killed has left a part of it.
                    shutil.rmtree(final)
            beside.rename(final)
            # What was just written was hashed, and what was linked is the base's, which is open.
            return self._open_local(final, manifest, is_checked=True)


def read_file_rows(path: Path, report: Report, *, strict: bool) -> Iterator[Document]:
    """Yield the documents of a JSON lines file; invalid lines are reported and skipped.

    With ``strict`` they raise ``CorruptData``.
    """
    seen: set[int] = set()
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                document = parse_document(json.loads(line))
                # Beside a given FAISS index every line must count, as its vectors are in the order of the lines.
                if not strict and hash64(document.id) in seen:
                    raise ValueError(f"id {document.id!r} comes twice")
            except ValueError as error:
                if strict:
                    raise CorruptData(f"{path}:{number}", str(error)) from error
                report(number, str(error))
                continue
            seen.add(hash64(document.id))
            yield document
