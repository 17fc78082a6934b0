"""The served corpora, and the active snapshot of each.

``retrieval/corpora/<name>.json`` in the object store is the shared state; each process polls it.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fathom.bundle.manifest import verify
from fathom.errors import Conflict, CorruptData, FathomError, InvalidField, MissingExtra, NotFound
from fathom.ids import checked_id, content_hash
from fathom.store import ObjectStore
from services.retrieval.config import Config
from services.retrieval.copies import PREFIX, Copies, Report, file_rows
from services.retrieval.corpus import Document, read_documents
from services.retrieval.snapshot import Manifest, Open, Snapshot, file_sha256

WEB = "web"
"""Name of the web corpus, which has no snapshots."""
STATES = f"{PREFIX}/corpora/"
KEPT_OPEN = 2
"""Maximum number of inactive snapshots kept open because they were requested."""
MAX_NAME_CHARS = 200


@dataclass
class Shelf:
    """State of a corpus. ``active`` is replaced as a whole, so a reader keeps the snapshot it started with."""

    active: Snapshot | None = None
    previous: str = ""
    head: Manifest | None = None
    """The newest content, active or not, which an ingest adds to."""
    broken: FathomError | None = None
    """Error that prevents opening its snapshot."""
    noted: bytes = b""
    """The state as last read from or written to the store."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Library:
    """Registry of the corpora, usable after ``start``. One process writes a corpus; any number read it."""

    def __init__(self, config: Config, store: ObjectStore, open_encoder: Open) -> None:
        self._config, self._store = config, store
        self._copies = Copies(store, open_encoder, config.index_dir, config.threads)
        self._shelves: dict[str, Shelf] = {}
        self._others: OrderedDict[str, Snapshot] = OrderedDict()
        self._opening: Counter[str] = Counter()

    async def start(self) -> None:
        """Open every corpus of the store, and the bundle; a broken corpus raises its error when requested.

        Raises ``CorruptData`` naming the file of a broken bundle, ``MissingExtra`` without the packages.
        """
        self._copies.start()
        await self.refresh()
        name, source = self._config.corpus_name, self._config.corpus_dir
        if name not in self._shelves and source is not None:
            snapshot = await asyncio.to_thread(self._bundled, source)
            self._shelves[name] = Shelf(snapshot, head=snapshot.manifest)

    def _bundled(self, source: Path) -> Snapshot:
        manifest, name = verify(source), self._config.corpus_name
        return self._copies.kept(name, manifest.snapshot, self._config.recipe_of(name), lambda: read_documents(source))

    async def refresh(self) -> None:
        """Apply the shared state: snapshots activated by other processes, and new corpora."""
        for stored in await self._store.list(STATES):
            name = stored.key.removeprefix(STATES).removesuffix(".json")
            shelf = self._shelves.setdefault(name, Shelf())
            # Who writes here knows more than the store, and may take long: the others must not wait for it.
            if not shelf.writing.locked():
                async with shelf.writing:
                    await self._restore(name, shelf)

    async def _restore(self, name: str, shelf: Shelf) -> None:
        key = f"{STATES}{name}.json"
        try:
            noted = await self._store.get(key)
            if noted == shelf.noted:
                return
            state = json.loads(noted)
            shelf.head = await self._manifest(name, state["head"])
            if shelf.active is None or shelf.active.id != state["active"]:
                shelf.active = await self._copies.open(await self._manifest(name, state["active"]))
            shelf.previous, shelf.noted, shelf.broken = state["previous"], noted, None
        except MissingExtra:
            raise
        except FathomError as error:
            shelf.broken = None if shelf.active is not None else error
        except (ValueError, KeyError, TypeError) as error:
            shelf.broken = None if shelf.active is not None else CorruptData(key, f"{type(error).__name__} {error}")

    async def close(self) -> None:
        """Close all snapshots and remove temporary files."""
        self._shelves.clear()
        self._others.clear()
        await asyncio.to_thread(self._copies.close)

    def names(self) -> list[str]:
        """Return the names of the corpora, sorted."""
        return sorted(self._shelves)

    def shelf(self, name: str) -> Shelf:
        """Return the corpus, by default the configured one; raise ``InvalidField("corpus")`` for an unknown one."""
        known = self._shelves.get(name or self._config.corpus_name)
        if known is None:
            raise InvalidField(
                "corpus", f"no corpus {name[:MAX_NAME_CHARS]!r}; known: {', '.join(self.names()) or 'none'}"
            )
        return known

    async def snapshot(self, corpus: str, ident: str = "") -> Snapshot:
        """Return the active snapshot, or the one with this id.

        Raises ``NotFound`` with the nearest ids, ``CorruptData``.
        """
        shelf = self.shelf(corpus)
        if shelf.broken is not None:
            raise shelf.broken
        if shelf.active is not None and ident in ("", shelf.active.id):
            return shelf.active
        if not ident:
            raise NotFound("snapshot", "active", [shelf.head.id] if shelf.head else [])
        if ident not in self._others:
            self._opening[ident] += 1
            try:
                manifest = await self._manifest(corpus or self._config.corpus_name, ident)
                self._keep_open(await self._copies.open(manifest))
            finally:
                self._opening[ident] -= 1
        self._others.move_to_end(ident)
        return self._others[ident]

    def _keep_open(self, snapshot: Snapshot) -> None:
        self._others[snapshot.id] = snapshot
        while len(self._others) > KEPT_OPEN:
            self._others.popitem(last=False)

    async def snapshots(self, corpus: str) -> list[Manifest]:
        """Return all snapshots of a corpus, newest first."""
        shelf, name = self.shelf(corpus), corpus or self._config.corpus_name
        found = {manifest.id: manifest for manifest in await self._copies.manifests(name)}
        found |= {manifest.id: manifest for manifest in local(shelf) if manifest.id not in found}
        return sorted(found.values(), key=lambda manifest: manifest.created, reverse=True)

    async def add(self, corpus: str, fresh: Iterable[Document]) -> Manifest:
        """Create a snapshot of the corpus' newest content plus ``fresh``; store it and return its manifest.

        The first snapshot of a corpus becomes active. The caller holds the corpus' ``writing`` lock.
        """
        shelf, base = self._shelves[corpus], await self.head(corpus)
        recipe = self._config.recipe_of(corpus)
        snapshot = await asyncio.to_thread(self._copies.built, corpus, fresh, recipe, base)
        await self._copies.save(snapshot)
        shelf.head = snapshot.manifest
        if shelf.active is None:
            shelf.active = snapshot
        await self._note(corpus)
        return snapshot.manifest

    async def freeze(self, corpus: str) -> Manifest:
        """Return a snapshot of the newest content under the current recipe, an existing one if it matches."""
        shelf, name = self.shelf(corpus), corpus or self._config.corpus_name
        async with shelf.writing:
            refused_while_broken(shelf)
            head = await self.head(name)
            if head is None or head.manifest.recipe != self._config.recipe_of(name).model_dump():
                return await self.add(name, ())
            await self._copies.save(head)
            await self._note(name)
            return head.manifest

    async def activate(self, corpus: str, ident: str) -> tuple[Manifest, str]:
        """Serve another snapshot from the next request on; return its manifest, and the id of the previous one.

        Raises ``NotFound`` with the nearest ids, ``CorruptData`` for one that cannot be opened: then nothing changes.
        """
        shelf, name = self.shelf(corpus), corpus or self._config.corpus_name
        async with shelf.writing:
            before = shelf.active
            if before is not None and before.id == ident:
                return before.manifest, shelf.previous
            opened = self._others.pop(ident, None)
            opened = opened or await self._copies.open(await self._manifest(name, ident))
            if before is not None:
                await self._copies.save(before)  # the bundle is in no store yet, and is the way back
                self._keep_open(before)
            shelf.previous = before.id if before is not None else ""
            shelf.active, shelf.broken = opened, None
            await self._note(name)
            return opened.manifest, shelf.previous

    async def serve_file(self, name: str, path: Path, report: Report, index_file: Path | None = None) -> Snapshot:
        """Serve a JSON lines file that is in no store; its local index is reused while nothing changes.

        Unreadable lines and duplicate ids are reported and left out. With ``index_file``, a FAISS index of exactly
        these lines, they are errors, and nothing is encoded. Raises ``CorruptData``, ``NotFound``.
        """
        recipe = self._config.recipe_of(name)

        def work() -> Snapshot:
            if not path.is_file():
                raise NotFound("corpus file", str(path))
            source = [file_sha256(path), str(index_file and index_file.resolve())]
            return self._copies.kept(
                name,
                content_hash(source),
                recipe,
                lambda: file_rows(path, report, strict=index_file is not None),
                index_file,
            )

        snapshot = await asyncio.to_thread(work)
        self._shelves[name] = Shelf(snapshot, head=snapshot.manifest)
        return snapshot

    def opened_for_writing(self, corpus: str) -> Shelf:
        """Return the corpus, created if necessary; raise ``InvalidField("corpus")`` for an invalid name."""
        name = checked_id("corpus", corpus or self._config.corpus_name)
        if name == WEB:
            raise InvalidField("corpus", f"{WEB!r} is the web: nothing can be added to it")
        return self._shelves.setdefault(name, Shelf())

    def forget_empty(self, corpus: str) -> None:
        """Undo ``opened_for_writing`` when nothing was written."""
        shelf = self._shelves.get(corpus)
        if shelf is not None and shelf.active is None and shelf.head is None and shelf.broken is None:
            del self._shelves[corpus]

    async def head(self, corpus: str) -> Snapshot | None:
        """Return the newest content, opened; None for a corpus without any."""
        shelf = self._shelves[corpus]
        return await self.snapshot(corpus, shelf.head.id) if shelf.head is not None else None

    async def _manifest(self, corpus: str, ident: str) -> Manifest:
        for known in local(self._shelves[corpus]):
            if known.id == ident:
                return known
        try:
            return await self._copies.manifest(corpus, checked_id("snapshot", ident))
        except NotFound:
            names = [manifest.id for manifest in await self.snapshots(corpus)]
            nearest = difflib.get_close_matches(ident, names, n=3, cutoff=0.0)
            raise NotFound("snapshot", ident[:MAX_NAME_CHARS], nearest) from None

    async def _note(self, corpus: str) -> None:
        shelf = self._shelves[corpus]
        state = {
            "active": shelf.active.id if shelf.active else "",
            "previous": shelf.previous,
            "head": shelf.head.id if shelf.head else "",
        }
        shelf.noted = json.dumps(state).encode()
        await self._store.put(f"{STATES}{corpus}.json", shelf.noted, "application/json")
        # What is in the store can be fetched again: here stays what somebody may ask for next.
        await asyncio.to_thread(self._copies.prune, corpus, {*state.values(), *self._others, *+self._opening})


def local(shelf: Shelf) -> list[Manifest]:
    """Return the manifests known without asking the store."""
    known = (shelf.active.manifest if shelf.active else None, shelf.head)
    return [manifest for manifest in known if manifest is not None]


def refused_while_broken(shelf: Shelf) -> None:
    """Raise ``Conflict`` when a corpus cannot be added to because its snapshot cannot be opened."""
    if shelf.broken is not None:
        raise Conflict(f"the corpus cannot be opened: {shelf.broken.message}")
