"""The corpora that are served: their snapshots in the object store, local copies of them, and which one is active.

In the store: ``retrieval/blobs/<sha256>`` are files, shared by all snapshots that have them;
``retrieval/<corpus>/snapshots/<id>.json`` are manifests; ``retrieval/<corpus>/state.json`` says which is active.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fathom.bundle.manifest import verify
from fathom.errors import Conflict, CorruptData, FathomError, InvalidField, MissingExtra, NotFound
from fathom.ids import checked_id, content_hash
from fathom.store import ObjectStore
from services.retrieval.config import Config, Recipe
from services.retrieval.corpus import Document, document_of, key64, read_documents
from services.retrieval.snapshot import (
    MANIFEST,
    Manifest,
    Open,
    Part,
    Snapshot,
    build,
    check,
    file_sha256,
    open_snapshot,
)

PREFIX = "retrieval"
KEPT_OPEN = 2
"""Snapshots that are open though they are not active, because somebody asked for them."""
MAX_NAME_CHARS = 200

Report = Callable[[int, str], None]
"""Told the number of a line that is left out, and why."""


@dataclass
class Shelf:
    """A corpus. ``active`` is replaced whole, so a reader that took it goes on with what it took."""

    active: Snapshot | None = None
    previous: str = ""
    head: Manifest | None = None
    """The newest content, active or not: what an ingest adds to."""
    broken: FathomError | None = None
    """Why its snapshot could not be opened."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Library:
    """Ready after ``start``. One process writes a corpus; any number of processes read it."""

    def __init__(self, config: Config, store: ObjectStore, open_encoder: Open) -> None:
        self._config, self._store, self._open_encoder = config, store, open_encoder
        self._shelves: dict[str, Shelf] = {}
        self._others: OrderedDict[str, Snapshot] = OrderedDict()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._folder = Path()

    async def start(self) -> None:
        """Opens the bundle and every corpus of the store; one that is broken says so when it is asked for.

        Raises ``CorruptData`` naming the file of a broken bundle, ``MissingExtra`` without the packages.
        """
        if self._config.index_dir is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="fathom-retrieval-")
            self._folder = Path(self._scratch.name)
        else:
            self._folder = self._config.index_dir.resolve()
            self._folder.mkdir(parents=True, exist_ok=True)
        for stored in await self._store.list(f"{PREFIX}/"):
            name = stored.key.removeprefix(f"{PREFIX}/").removesuffix("/state.json")
            if stored.key.endswith("/state.json"):
                await self._restore(name)
        if self._config.corpus_name not in self._shelves and self._config.corpus_dir is not None:
            snapshot = await asyncio.to_thread(self._bundled, self._config.corpus_dir)
            self._shelves[self._config.corpus_name] = Shelf(snapshot, head=snapshot.manifest)

    async def close(self) -> None:
        """Removes what is temporary."""
        self._shelves.clear()
        self._others.clear()
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.cleanup)

    def names(self) -> list[str]:
        """Names of the corpora, sorted."""
        return sorted(self._shelves)

    def shelf(self, name: str) -> Shelf:
        """The corpus, by default the configured one; raises ``InvalidField("corpus")`` for one that is not there."""
        known = self._shelves.get(name or self._config.corpus_name)
        if known is None:
            raise InvalidField(
                "corpus", f"no corpus {name[:MAX_NAME_CHARS]!r}; known: {', '.join(self.names()) or 'none'}"
            )
        return known

    async def snapshot(self, corpus: str, ident: str = "") -> Snapshot:
        """The active snapshot, or the one with this id; raises ``NotFound`` with the nearest ids, ``CorruptData``."""
        shelf = self.shelf(corpus)
        if shelf.broken is not None:
            raise shelf.broken
        if shelf.active is not None and ident in ("", shelf.active.id):
            return shelf.active
        if not ident:
            raise NotFound("snapshot", "active", [shelf.head.id] if shelf.head else [])
        if ident not in self._others:
            opened = await self._opened(corpus or self._config.corpus_name, ident)
            self._others[ident] = opened
        self._others.move_to_end(ident)
        while len(self._others) > KEPT_OPEN:
            self._others.popitem(last=False)
        return self._others[ident]

    async def snapshots(self, corpus: str) -> list[Manifest]:
        """All of a corpus, newest first."""
        shelf, name = self.shelf(corpus), corpus or self._config.corpus_name
        keys = [stored.key for stored in await self._store.list(f"{PREFIX}/{name}/snapshots/")]
        found = {m.id: m for m in [Manifest.from_json(await self._store.get(key), key) for key in keys]}
        for manifest in (shelf.active.manifest if shelf.active else None, shelf.head):
            if manifest is not None:
                found.setdefault(manifest.id, manifest)
        return sorted(found.values(), key=lambda manifest: manifest.created, reverse=True)

    async def add(self, corpus: str, fresh: Iterable[Document], recipe: Recipe | None = None) -> Manifest:
        """Makes the corpus' newest content a snapshot, with ``fresh`` added; stores it and gives its manifest.

        The first snapshot of a corpus becomes active. The caller holds ``writing`` of the shelf.
        """
        shelf = self._shelves[corpus]
        base = await self._head(corpus)
        recipe = recipe or self._config.recipe_of(corpus)
        snapshot = await asyncio.to_thread(self._built, corpus, fresh, recipe, base)
        await self._save(snapshot)
        shelf.head = snapshot.manifest
        if shelf.active is None:
            shelf.active, shelf.broken = snapshot, None
        await self._note(corpus)
        return snapshot.manifest

    async def freeze(self, corpus: str) -> Manifest:
        """The newest content as a snapshot of the present recipe; the one there is, when it is that already."""
        shelf, name = self.shelf(corpus), corpus or self._config.corpus_name
        async with shelf.writing:
            refused_while_broken(shelf)
            recipe = self._config.recipe_of(name).model_dump()
            head = await self._head(name)
            if head is not None and head.manifest.recipe == recipe:
                await self._save(head)
                await self._note(name)
                return head.manifest
            return await self.add(name, ())

    async def activate(self, corpus: str, ident: str) -> tuple[Manifest, str]:
        """Serves another snapshot from the next request on; gives it, and the id of the one that was served before.

        Raises ``NotFound`` with the nearest ids, ``CorruptData`` for one that cannot be opened: then nothing changes.
        """
        shelf, name = self.shelf(corpus), corpus or self._config.corpus_name
        async with shelf.writing:
            opened = shelf.active
            if opened is None or opened.id != ident:
                opened = self._others.pop(ident, None) or await self._opened(name, ident)
                if shelf.active is not None:
                    await self._save(shelf.active)  # the bundle is in no store yet, and is the way back
                    self._others[shelf.active.id] = shelf.active
                shelf.previous = shelf.active.id if shelf.active else ""
                shelf.active, shelf.broken = opened, None
            await self._note(name)
            return opened.manifest, shelf.previous

    def opened_for_writing(self, corpus: str) -> Shelf:
        """The shelf, a new one when there is none; raises ``InvalidField("corpus")`` for a name that cannot be kept."""
        name = checked_id("corpus", corpus or self._config.corpus_name)
        if name == "blobs":
            raise InvalidField("corpus", "'blobs' is taken")
        return self._shelves.setdefault(name, Shelf())

    def forget_empty(self, corpus: str) -> None:
        """Undoes ``opened_for_writing`` when nothing was written."""
        shelf = self._shelves.get(corpus)
        if shelf is not None and shelf.active is None and shelf.head is None and shelf.broken is None:
            del self._shelves[corpus]

    async def head(self, corpus: str) -> Snapshot | None:
        """The newest content, open; None for a corpus without any."""
        return await self._head(corpus)

    async def _head(self, corpus: str) -> Snapshot | None:
        shelf = self._shelves[corpus]
        if shelf.broken is not None:
            raise shelf.broken
        return await self.snapshot(corpus, shelf.head.id) if shelf.head is not None else None

    async def _restore(self, name: str) -> None:
        key = f"{PREFIX}/{name}/state.json"
        shelf = self._shelves[name] = Shelf()
        try:
            state = json.loads(await self._store.get(key))
            shelf.previous = state["previous"]
            shelf.head = await self._manifest(name, state["head"])
            shelf.active = await self._opened(name, state["active"])
        except MissingExtra:
            raise
        except FathomError as error:
            shelf.broken = error
        except (ValueError, KeyError, TypeError) as error:
            shelf.broken = CorruptData(key, f"{type(error).__name__} {error}")

    async def _manifest(self, corpus: str, ident: str) -> Manifest:
        for known in self._local(corpus):
            if known.id == ident:
                return known
        key = f"{PREFIX}/{corpus}/snapshots/{checked_id('snapshot', ident)}.json"
        try:
            return Manifest.from_json(await self._store.get(key), key)
        except NotFound:
            names = [manifest.id for manifest in await self.snapshots(corpus)]
            nearest = difflib.get_close_matches(ident, names, n=3, cutoff=0.0)
            raise NotFound("snapshot", ident[:MAX_NAME_CHARS], nearest) from None

    def _local(self, corpus: str) -> list[Manifest]:
        shelf = self._shelves.get(corpus, Shelf())
        known = (shelf.active.manifest if shelf.active else None, shelf.head)
        return [manifest for manifest in known if manifest is not None]

    async def _opened(self, corpus: str, ident: str) -> Snapshot:
        """Opens a snapshot from its local copy, fetching what that lacks; every file is checked."""
        manifest = await self._manifest(corpus, ident)
        if manifest.corpus != corpus:
            raise CorruptData(f"snapshot {ident}", f"is of corpus {manifest.corpus!r}")
        folder = self._folder / corpus / manifest.id
        folder.mkdir(parents=True, exist_ok=True)
        for part in manifest.parts:
            await self._fetch(part, folder)
        (folder / MANIFEST).write_bytes(manifest.to_json())
        return await asyncio.to_thread(open_snapshot, folder, self._config.threads)

    async def _fetch(self, part: Part, folder: Path) -> None:
        path = folder / part.path
        try:
            await asyncio.to_thread(check, path, part)
        except CorruptData:
            key = f"{PREFIX}/blobs/{part.sha256}"
            try:
                data = await self._store.get(key, part.sha256)
            except NotFound as error:
                raise CorruptData(key, f"is not there, and snapshot file {part.path} is it") from error
            await asyncio.to_thread(write_whole, path, data)

    async def _save(self, snapshot: Snapshot) -> None:
        """Files first, then the manifest: what is named is there."""
        manifest = snapshot.manifest
        for part in manifest.parts:
            key = f"{PREFIX}/blobs/{part.sha256}"
            if await self._store.head(key) is None:
                await self._store.put(key, await asyncio.to_thread((snapshot.folder / part.path).read_bytes))
        key = manifest_key(manifest)
        if await self._store.head(key) is None:
            await self._store.put(key, manifest.to_json(), "application/json")

    async def _note(self, corpus: str) -> None:
        shelf = self._shelves[corpus]
        state = {
            "active": shelf.active.id if shelf.active else "",
            "previous": shelf.previous,
            "head": shelf.head.id if shelf.head else "",
        }
        await self._store.put(f"{PREFIX}/{corpus}/state.json", json.dumps(state).encode(), "application/json")

    def _bundled(self, source: Path) -> Snapshot:
        manifest, name = verify(source), self._config.corpus_name
        return self._kept(name, manifest.snapshot, self._config.recipe_of(name), lambda: read_documents(source))

    async def serve_file(self, name: str, path: Path, report: Report, index_file: Path | None = None) -> Snapshot:
        """Serves a file of JSON lines that is in no store; its local copy is opened again while nothing changes.

        Lines that cannot be read and ids that come again are reported and left out. With ``index_file``, a FAISS
        index of exactly these lines, they are an error, and nothing is encoded. Raises ``CorruptData``, ``NotFound``.
        """
        recipe = self._config.recipe_of(name)

        def work() -> Snapshot:
            if not path.is_file():
                raise NotFound("corpus file", str(path))
            source = [file_sha256(path), str(index_file and index_file.resolve())]
            rows = lambda: file_rows(path, report, strict=index_file is not None)  # noqa: E731 - read when needed
            return self._kept(name, content_hash(source), recipe, rows, index_file)

        snapshot = await asyncio.to_thread(work)
        self._shelves[name] = Shelf(snapshot, head=snapshot.manifest)
        return snapshot

    def _kept(
        self,
        name: str,
        source: str,
        recipe: Recipe,
        rows: Callable[[], Iterable[Document]],
        index_file: Path | None = None,
    ) -> Snapshot:
        """The snapshot of a source; opened again when neither source nor recipe have changed."""
        mark = self._folder / f"{content_hash([source, recipe.model_dump(), name])}.id"
        if mark.exists():
            try:
                return open_snapshot(self._folder / name / mark.read_text(), self._config.threads)
            except CorruptData:
                mark.unlink()
        snapshot = self._built(name, rows(), recipe, None, index_file)
        mark.write_text(snapshot.id)
        return snapshot

    def _built(
        self,
        corpus: str,
        fresh: Iterable[Document],
        recipe: Recipe,
        base: Snapshot | None,
        index_file: Path | None = None,
    ) -> Snapshot:
        """Builds beside, then renames: a folder with an id is whole."""
        shelf = self._folder / corpus
        shelf.mkdir(parents=True, exist_ok=True)
        beside = shelf / f"building-{secrets.token_hex(8)}"
        beside.mkdir()
        try:
            try:
                manifest = build(corpus, fresh, recipe, beside, self._open_encoder, base, index_file)
            except ImportError as error:
                raise MissingExtra(error.name or "bm25s", "dense" if recipe.encoder else "retrieval") from error
            final = shelf / manifest.id
            if not final.exists():
                beside.rename(final)
            return open_snapshot(final, self._config.threads)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def file_rows(path: Path, report: Report, *, strict: bool) -> Iterator[Document]:
    """Documents of a file of JSON lines; ``strict`` raises ``CorruptData`` where else a line is left out."""
    seen: set[int] = set()
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                document = document_of(json.loads(line))
                if not strict and key64(document.id) in seen:
                    raise ValueError(f"id {document.id!r} comes twice")
            except ValueError as error:
                if strict:
                    raise CorruptData(f"{path}:{number}", str(error)) from error
                report(number, str(error))
                continue
            seen.add(key64(document.id))
            yield document


def manifest_key(manifest: Manifest) -> str:
    """Where a manifest is in the store."""
    return f"{PREFIX}/{manifest.corpus}/snapshots/{manifest.id}.json"


def write_whole(path: Path, data: bytes) -> None:
    """Writes beside and renames, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    beside.write_bytes(data)
    beside.replace(path)


def refused_while_broken(shelf: Shelf) -> None:
    """Raises ``Conflict`` when a corpus cannot be added to because its snapshot cannot be opened."""
    if shelf.broken is not None:
        raise Conflict(f"the corpus cannot be opened: {shelf.broken.message}")
