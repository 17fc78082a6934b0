"""The served corpora, and the active snapshot of each.

``retrieval/corpora/<name>.json`` in the object store is the shared state; each process polls it.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fathom.core.call import unbind
from fathom.core.errors import Conflict, CorruptData, FathomError, InvalidField, MissingExtra, NotFound
from fathom.core.ids import checked_id, content_hash
from fathom.domain.bundle.manifest import verify
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.bundle_vectors import Bundle
from fathom.services.retrieval.corpus.own import PREFIX, ROOT, is_own, make_state_key
from fathom.services.retrieval.corpus.own_vectors import OwnVectors
from fathom.services.retrieval.corpus.port import SnapshotDatabase
from fathom.services.retrieval.corpus.snapshot import Manifest, Open, Snapshot, hash_file
from fathom.services.retrieval.corpus.store import Report, SnapshotStore, read_file_rows
from fathom.services.retrieval.documents.model import Document, read_documents
from fathom.transport.store import ObjectStore

# Name of the web corpus, which has no snapshots.
WEB = "web"
STATES = f"{ROOT}/corpora/"
# Maximum number of inactive snapshots kept open because they were requested or made. Not bounded in bytes: their tables
# and indexes are mapped from files, so that the system takes the memory back when others need it.
KEPT_OPEN = 2
# Maximum number of callers' own corpora kept open; mapped from files, too, and opened again when somebody asks.
OWN_KEPT_OPEN = 32
# Unknown names are repeated in error messages, whatever a caller sent.
MAX_NAME_CHARS = 200


@dataclass
class CorpusState:
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


class CorpusRegistry:
    """Registry of the corpora, usable after ``start``. One process writes a corpus; any number read it."""

    def __init__(
        self, config: Config, store: ObjectStore, open_encoder: Open, make_database: Callable[[], SnapshotDatabase]
    ) -> None:
        self._config, self._store = config, store
        self._snapshots = SnapshotStore(config, store, open_encoder, make_database)
        self._bundle = Bundle(config, open_encoder)
        self.own_vectors = OwnVectors(config, open_encoder)
        self._states: dict[str, CorpusState] = {}
        # Two at most, mapped from disk and so without a size; pruning must know them all by name.
        self._others: OrderedDict[str, Snapshot] = OrderedDict()
        # Callers' own corpora among the states, the one asked for last at the end.
        self._own: OrderedDict[str, None] = OrderedDict()
        # Ids that are being downloaded: ``prune`` must not delete their folders meanwhile.
        self._opening: Counter[str] = Counter()

    async def start(self) -> None:
        """Open every corpus of the store, and the bundle; a broken corpus raises its error when requested.

        Raises ``CorruptData`` naming the file of a broken bundle, ``MissingExtra`` without the packages.
        """
        self._snapshots.start()
        await self.refresh()
        name, source = self._config.corpus_name, self._config.corpus_dir
        # The store's state wins over the bundle: it may hold what was added to the bundle since.
        if name not in self._states and source is not None:
            snapshot = await asyncio.to_thread(self._open_bundle, source)
            self._states[name] = CorpusState(snapshot, head=snapshot.manifest)

    def _open_bundle(self, source: Path) -> Snapshot:
        manifest, name = verify(source), self._config.corpus_name
        recipe, open_encoder = self._bundle.choose(source)
        return self._snapshots.open_or_build(
            name, manifest.snapshot, recipe, lambda: read_documents(source), open_encoder=open_encoder
        )

    async def _add_vectors(self) -> None:
        """Serve the bundle with vectors, once they have been computed, unless another snapshot was activated."""
        source, state = self._config.corpus_dir, self._states.get(self._config.corpus_name)
        if source is None or state is None or state.noted or not self._bundle.is_due or state.writing.locked():
            return
        async with state.writing:
            snapshot = await asyncio.to_thread(self._open_bundle, source)
            state.active, state.head = snapshot, snapshot.manifest

    async def refresh(self) -> None:
        """Apply the shared state, snapshots activated by other processes and new corpora, and the bundle's vectors."""
        await self._add_vectors()
        for stored in await self._store.list(STATES):
            name = stored.key.removeprefix(STATES).removesuffix(".json")
            state = self._states.setdefault(name, CorpusState())
            # Who writes here knows more than the store, and may take long: the others must not wait for it.
            if not state.writing.locked():
                async with state.writing:
                    await self._restore(name, state)

    async def _restore(self, name: str, state: CorpusState) -> None:
        key = make_state_key(name)
        try:
            noted = await self._store.get(key)
            # Nothing has changed since the last check, which is the usual case.
            if noted == state.noted:
                return
            content = json.loads(noted)
            state.head = await self._find_manifest(name, content["head"])
            if state.active is None or state.active.id != content["active"]:
                state.active = await self._snapshots.open(await self._find_manifest(name, content["active"]))
            state.previous, state.noted, state.broken = content["previous"], noted, None
        except MissingExtra:
            raise
        except FathomError as error:
            # A snapshot that is being served goes on serving when the next one cannot be opened.
            state.broken = None if state.active is not None else error
        except (ValueError, KeyError, TypeError) as error:
            state.broken = None if state.active is not None else CorruptData(key, f"{type(error).__name__} {error}")

    async def close(self) -> None:
        """Close all snapshots and remove temporary files."""
        await self.own_vectors.close()
        self._states.clear()
        self._others.clear()
        await asyncio.to_thread(self._snapshots.close)

    def list_names(self) -> list[str]:
        """Return the names of the corpora that all share, sorted."""
        return sorted(set(self._states) - set(self._own))

    def get_state(self, name: str) -> CorpusState:
        """Return the corpus, by default the configured one; raise ``InvalidField("corpus")`` for an unknown one."""
        known = self._states.get(name or self._config.corpus_name)
        if known is None:
            raise InvalidField(
                "corpus", f"no corpus {name[:MAX_NAME_CHARS]!r}; known: {', '.join(self.list_names()) or 'none'}"
            )
        return known

    async def get_snapshot(self, corpus: str, ident: str = "") -> Snapshot:
        """Return the active snapshot, or the one with this id.

        Raises ``NotFound`` with the nearest ids, ``CorruptData``.
        """
        state = await self._open_own(corpus) if is_own(corpus) else self.get_state(corpus)
        if state.broken is not None:
            raise state.broken
        if state.active is not None and ident in ("", state.active.id):
            return state.active
        if not ident:
            raise NotFound("snapshot", "active", [state.head.id] if state.head else [])
        if ident not in self._others:
            self._opening[ident] += 1
            try:
                manifest = await self._find_manifest(corpus or self._config.corpus_name, ident)
                self._keep_open(await self._snapshots.open(manifest))
            finally:
                self._opening[ident] -= 1
        # The most recently requested ones stay open.
        self._others.move_to_end(ident)
        return self._others[ident]

    async def _open_own(self, name: str) -> CorpusState:
        """Return a caller's own corpus as the store has it now; raise ``InvalidField("corpus")`` for an unknown one."""
        # Asked each time: another replica may have added to it, or deleted it.
        if await self._store.head(make_state_key(name)) is None:
            self._close_own(name)
            raise InvalidField("corpus", f"no corpus {unbind(name)[1]!r} of one's own; it may have been deleted")
        state = self.open_own_for_writing(name)
        if not state.writing.locked():
            async with state.writing:
                await self._restore(name, state)
        self._begin_own_vectors(name, state)
        return state

    def _begin_own_vectors(self, name: str, state: CorpusState) -> None:
        if self.own_vectors.is_due(state.head):
            self.own_vectors.begin(name, self._add_own_vectors)

    async def _add_own_vectors(self, name: str) -> None:
        """Serve the newest content of a caller's own corpus with vectors; what is added meanwhile gets them, too."""
        while (state := self._states.get(name)) is not None and self.own_vectors.is_due(state.head):
            head = await self.open_head(name)
            assert head is not None
            # The long part, during which files come and go; behind it the vectors are at hand.
            await self.own_vectors.encode(name, head.table.documents)
            async with state.writing:
                if await self._store.head(make_state_key(name)) is None:
                    return  # deleted meanwhile; nothing of it may come back
                await self._restore(name, state)
                if state.head is not None and state.head.id == head.id:
                    await self._build_own_vectors(name, state, head)

    async def _build_own_vectors(self, name: str, state: CorpusState, head: Snapshot) -> None:
        recipe, opener = self.own_vectors.recipe, self.own_vectors.get_opener(name)
        assert recipe is not None
        snapshot = await asyncio.to_thread(self._snapshots.build, name, (), recipe, head, None, opener)
        await self._snapshots.save(snapshot)
        state.head, state.active = snapshot.manifest, snapshot
        await self._write_state(name)

    def open_own_for_writing(self, name: str) -> CorpusState:
        """Return a caller's own corpus, created if necessary; those asked for least recently are closed."""
        state = self._states.setdefault(name, CorpusState())
        self._own[name] = None
        self._own.move_to_end(name)
        idle = [other for other in self._own if other != name and not self._states[other].writing.locked()]
        for other in idle[: max(0, len(self._own) - OWN_KEPT_OPEN)]:
            self._close_own(other)
        return state

    def _close_own(self, name: str) -> None:
        if name in self._own:
            del self._own[name], self._states[name]
        # Files that are mapped stay readable; the store has them all.
        self._snapshots.prune(name, ())

    def _keep_open(self, snapshot: Snapshot) -> None:
        self._others[snapshot.id] = snapshot
        self._others.move_to_end(snapshot.id)
        while len(self._others) > KEPT_OPEN:
            self._others.popitem(last=False)

    async def list_snapshots(self, corpus: str) -> list[Manifest]:
        """Return all snapshots of a corpus, newest first."""
        state, name = self.get_state(corpus), corpus or self._config.corpus_name
        found = {manifest.id: manifest for manifest in await self._snapshots.list_manifests(name)}
        # The bundle is in no store until something is added to it.
        found |= {manifest.id: manifest for manifest in list_local_manifests(state) if manifest.id not in found}
        return sorted(found.values(), key=lambda manifest: manifest.created, reverse=True)

    async def add(self, corpus: str, fresh: Iterable[Document]) -> Manifest:
        """Create a snapshot of the corpus' newest content plus ``fresh``; store it and return its manifest.

        The first snapshot of a corpus becomes active. The caller holds the corpus' ``writing`` lock.
        """
        state, base = self._states[corpus], await self.open_head(corpus)
        recipe = self._bundle.get_recipe(corpus, state.head)
        if is_own(corpus):
            # Small, many and short-lived: files that are deleted with the corpus.
            recipe = recipe.model_copy(update={"engine": "embedded"})
            if base is not None:
                await asyncio.to_thread(self.own_vectors.hold, corpus, base)
        snapshot = await asyncio.to_thread(self._snapshots.build, corpus, fresh, recipe, base)
        await self._snapshots.save(snapshot)
        state.head = snapshot.manifest
        # Whoever brings documents of one's own asks about them next.
        if state.active is None or is_own(corpus):
            state.active = snapshot
        else:
            # The next ingest adds to it: opening it again would read and check the whole corpus.
            self._keep_open(snapshot)
        await self._write_state(corpus)
        if is_own(corpus):
            self._begin_own_vectors(corpus, state)
        return snapshot.manifest

    async def freeze(self, corpus: str) -> Manifest:
        """Return a snapshot of the newest content under the current recipe, an existing one if it matches."""
        state, name = self.get_state(corpus), corpus or self._config.corpus_name
        async with state.writing:
            refuse_if_broken(state)
            head = await self.open_head(name)
            if head is None or head.manifest.recipe != self._bundle.get_recipe(name, head.manifest).model_dump():
                return await self.add(name, ())
            await self._snapshots.save(head)
            await self._write_state(name)
            return head.manifest

    async def activate(self, corpus: str, ident: str) -> tuple[Manifest, str]:
        """Serve another snapshot from the next request on; return its manifest, and the id of the previous one.

        Raises ``NotFound`` with the nearest ids, ``CorruptData`` for one that cannot be opened: then nothing changes.
        """
        state, name = self.get_state(corpus), corpus or self._config.corpus_name
        async with state.writing:
            before = state.active
            if before is not None and before.id == ident:
                return before.manifest, state.previous
            opened = self._others.pop(ident, None)
            opened = opened or await self._snapshots.open(await self._find_manifest(name, ident))
            if before is not None:
                await self._snapshots.save(before)  # the bundle is in no store yet, and is the way back
                self._keep_open(before)
            state.previous = before.id if before is not None else ""
            state.active, state.broken = opened, None
            await self._write_state(name)
            return opened.manifest, state.previous

    async def serve_file(self, name: str, path: Path, report: Report, index_file: Path | None = None) -> Snapshot:
        """Serve a JSON lines file that is in no store; its local index is reused while nothing changes.

        Unreadable lines and duplicate ids are reported and left out. With ``index_file``, a FAISS index of exactly
        these lines, they are errors, and nothing is encoded. Raises ``CorruptData``, ``NotFound``.
        """
        recipe = self._config.get_recipe(name)

        def work() -> Snapshot:
            if not path.is_file():
                raise NotFound("corpus file", str(path))
            source = [hash_file(path), str(index_file and index_file.resolve())]
            return self._snapshots.open_or_build(
                name,
                content_hash(source),
                recipe,
                lambda: read_file_rows(path, report, strict=index_file is not None),
                index_file,
            )

        snapshot = await asyncio.to_thread(work)
        self._states[name] = CorpusState(snapshot, head=snapshot.manifest)
        return snapshot

    def open_for_writing(self, corpus: str) -> CorpusState:
        """Return the corpus, created if necessary; raise ``InvalidField("corpus")`` for an invalid name."""
        name = checked_id("corpus", corpus or self._config.corpus_name)
        if name == WEB:
            raise InvalidField("corpus", f"{WEB!r} is the web: nothing can be added to it")
        if is_own(name):
            raise InvalidField("corpus", f"names that begin with {PREFIX!r} are those of callers' own documents")
        return self._states.setdefault(name, CorpusState())

    def forget_empty(self, corpus: str) -> None:
        """Undo ``open_for_writing`` when nothing was written."""
        state = self._states.get(corpus)
        if state is not None and state.active is None and state.head is None and state.broken is None:
            del self._states[corpus]
            self._own.pop(corpus, None)

    async def open_head(self, corpus: str) -> Snapshot | None:
        """Return the newest content, opened; None for a corpus without any."""
        state = self._states[corpus]
        return await self.get_snapshot(corpus, state.head.id) if state.head is not None else None

    async def _find_manifest(self, corpus: str, ident: str) -> Manifest:
        for known in list_local_manifests(self._states[corpus]):
            if known.id == ident:
                return known
        try:
            return await self._snapshots.load_manifest(corpus, checked_id("snapshot", ident))
        except NotFound:
            names = [manifest.id for manifest in await self.list_snapshots(corpus)]
            # Ids are hashes, so no two are alike: the nearest of any are better than none.
            nearest = difflib.get_close_matches(ident, names, n=3, cutoff=0.0)
            raise NotFound("snapshot", ident[:MAX_NAME_CHARS], nearest) from None

    async def _write_state(self, corpus: str) -> None:
        state = self._states[corpus]
        content = {
            "active": state.active.id if state.active else "",
            "previous": state.previous,
            "head": state.head.id if state.head else "",
        }
        state.noted = json.dumps(content).encode()
        await self._store.put(make_state_key(corpus), state.noted, "application/json")
        # What is in the store can be fetched again: here stays what somebody may ask for next.
        await asyncio.to_thread(self._snapshots.prune, corpus, {*content.values(), *self._others, *+self._opening})


def list_local_manifests(state: CorpusState) -> list[Manifest]:
    """Return the manifests known without asking the store."""
    known = (state.active.manifest if state.active else None, state.head)
    return [manifest for manifest in known if manifest is not None]


def refuse_if_broken(state: CorpusState) -> None:
    """Raise ``Conflict`` when a corpus cannot be added to because its snapshot cannot be opened."""
    if state.broken is not None:
        raise Conflict(f"the corpus cannot be opened: {state.broken.message}")
