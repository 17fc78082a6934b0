"""Search, fetch and ingest over corpora that change by whole snapshots; filters and as_of apply before ranking."""

from __future__ import annotations

import asyncio
import difflib
import math
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from fathom.core.errors import FathomError, InvalidField, MissingExtra, NotFound
from fathom.core.paging import read_token, unknown_token, write_token
from fathom.core.retry import run_round
from fathom.domain.encoders.choose import Encoders
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.ingest import Chunk, Deletion, IngestBuffer, Item
from fathom.services.retrieval.corpus.own import is_own, make_lifetimes
from fathom.services.retrieval.corpus.parse.ocr import OcrLimits
from fathom.services.retrieval.corpus.port import SnapshotDatabase
from fathom.services.retrieval.corpus.registry import WEB, CorpusRegistry, CorpusState, refuse_if_broken
from fathom.services.retrieval.corpus.rows import Issue, Parse
from fathom.services.retrieval.corpus.snapshot import Snapshot
from fathom.services.retrieval.corpus.whole_files import FileReader, add_whole_file
from fathom.services.retrieval.documents.model import EVERYTHING, MAX_ID_CHARS, Document, Filter, hash64, hash_content
from fathom.services.retrieval.index.long_texts import PartFinder
from fathom.services.retrieval.index.text import summarise, tokenise
from fathom.services.retrieval.serving.exposure_log import ExposureLog
from fathom.services.retrieval.serving.query_execution import QueryExecutor
from fathom.services.retrieval.web.online import LazyWebCorpus
from fathom.transport.bus.base import KeyValue
from fathom.transport.store import ObjectStore

# Bounds of one request; a trainer's larger batches are split by the HTTP API.
MAX_QUERY_CHARS, MAX_QUERIES, MAX_TOP_K, MAX_IDS = 2_000, 256, 100, 32
# Some 2,000 tokens by default, which a model's window bears several times.
PAGE_CHARS, MAX_PAGE_CHARS = 8_000, 100_000
# Number of ids that an unknown one is compared with.
NEAREST_AMONG = 5_000
# Idle threads sleep instead of spinning. By default they spin, and PyTorch's and FAISS' pools, which alternate, then
# take each other's processors away (measured on two shared cores: 530 ms per encoding instead of 15).
PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
Keys = Collection[int]
"""Keys of ids, see ``hash64``."""


@dataclass(frozen=True)
class Hit:
    """A search result."""

    document: Document
    score: float
    summary: str


@dataclass(frozen=True)
class Page:
    """A part of a document's text and the token for the next one ("" at the end)."""

    document: Document
    text: str
    next_token: str


@dataclass(frozen=True)
class Found:
    """The snapshot's id ("" for the web) and, per query, documents and scores, best first, or its error."""

    snapshot: str
    results: Sequence[Sequence[tuple[Document, float]] | FathomError]


@dataclass(frozen=True)
class Ingested:
    """Result of an ingest; ``snapshot`` is the id of the corpus' new content."""

    added: int
    duplicates: int
    rejected: int
    issues: Sequence[Issue]
    snapshot: str
    deleted: int = 0


class Engine:
    """Retrieval engine; usable after ``start``."""

    def __init__(
        self,
        config: Config,
        store: ObjectStore,
        parsers: Mapping[str, Parse] | None = None,
        seen: KeyValue | None = None,
        report: Callable[[FathomError], None] | None = None,
    ) -> None:
        """Create the engine; ``seen`` is the bucket of documents shown to runs.

        Without it a process knows only its own searches. ``report`` is called with errors of the background work, which
        goes on; ``failed_rounds`` counts them.
        """
        # Before anything imports faiss or torch, which read the variables only once.
        make_idle_threads_sleep()
        self._config, self._parsers = config, dict(parsers or {})
        self.encoders = Encoders(
            config.model_dir, config.threads, config.remote_encoders, config.query_tokens, half=config.half
        )
        self.corpora = CorpusRegistry(config, store, self.encoders, self._make_database)
        self._files = FileReader(OcrLimits(config.ocr_pages, config.ocr_pixels, config.ocr_seconds))
        self.executor = QueryExecutor(config, self.encoders)
        self._parts = PartFinder()
        self._web = LazyWebCorpus(config.web)
        self._seen = ExposureLog(seen)
        self._lifetimes = make_lifetimes(store, config.max_own_mb << 20)
        self._duties: list[asyncio.Task[None]] = []
        self._report = report
        self.failed_rounds = 0

    def _make_database(self) -> SnapshotDatabase:
        # Imported here: its client is an extra that corpora in files do without.
        from fathom.services.retrieval.postgres.snapshots import PostgresSnapshots

        return PostgresSnapshots(self._config, self.encoders)

    async def start(self) -> None:
        """Open the corpora; raise ``CorruptData`` naming the file of a broken bundle, or ``MissingExtra``."""
        # A failed start must leave no open files and no temporary folder.
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            try:
                await self.corpora.start()
            except ImportError as error:
                raise MissingExtra(error.name or "numpy", "retrieval") from error
            undo.pop_all()
        # In the background: the service answers while the encoders load.
        self._duties = [asyncio.create_task(duty) for duty in (self._load_encoders(), self._poll_snapshots())]

    async def _load_encoders(self) -> None:
        """Load the encoders before they are needed."""
        for name in self.corpora.list_names():
            active = self.corpora.get_state(name).active
            if active is not None and active.encoder:
                with suppress(FathomError):
                    await asyncio.to_thread(getattr, self.encoders(active.encoder), "dim")

    async def _poll_snapshots(self) -> None:
        while self._config.refresh_s:
            await asyncio.sleep(self._config.refresh_s)
            # A store that is away now may be there the next time, and neither keeps the other from its work.
            await run_round(self.corpora.refresh, self._note_failure)
            await run_round(self._lifetimes.sweep, self._note_failure)

    def _note_failure(self, error: FathomError) -> None:
        self.failed_rounds += 1
        if self._report is not None:
            self._report(error)

    async def close(self) -> None:
        """Cancel background tasks and remove temporary files."""
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        await self.executor.close()
        await self._web.close()
        self._files.close()
        await self.corpora.close()
        await asyncio.to_thread(self.encoders.close)

    async def rank(
        self,
        queries: Sequence[str],
        top_k: int = 0,
        allowed: Filter = EVERYTHING,
        half_life_days: float = 0.0,
        *,
        corpus: str = "",
        snapshot: str = "",
        ranking: str = "",
        run: str = "",
    ) -> Found:
        """Rank documents per query.

        Raises ``InvalidField`` for faults that concern all queries (their number, ``top_k``, ``half_life_days``,
        corpus, ranking), ``NotFound`` for a snapshot, and the encoder's errors.
        """
        # Every API ranks here, so that all return the same ids in the same order.
        check_count(queries, MAX_QUERIES, "queries")
        if not 0 <= top_k <= MAX_TOP_K:
            raise InvalidField("top_k", f"must be 0 to {MAX_TOP_K}")
        if not (math.isfinite(half_life_days) and half_life_days >= 0):
            raise InvalidField("recency_half_life_days", "must be a number of days, 0 or more")
        if corpus == WEB:
            pages = await self._web.rank(queries, top_k or self._config.top_k, allowed, MAX_QUERY_CHARS)
            return await self._record_exposure(run, Found("", pages))
        opened = await self.corpora.get_snapshot(corpus, snapshot)
        if not snapshot and await self.corpora.own_vectors.wait(corpus):
            opened = await self.corpora.get_snapshot(corpus)
        # Imported here: numpy is an extra that a service of the web alone does without.
        from fathom.services.retrieval.index.ranking import Ranking, RankOptions

        chosen = Ranking(ranking) if ranking else opened.index.ranking
        if lacking := opened.index.find_missing_side(chosen):
            raise InvalidField("ranking", f"the corpus has no {lacking}, so it cannot rank {chosen}")
        options = RankOptions(top_k or self._config.top_k, allowed, half_life_days, chosen)
        ranked = await asyncio.gather(
            *(self._rank_one(opened, query, options, f"queries[{number}]") for number, query in enumerate(queries))
        )
        return await self._record_exposure(run, Found(opened.id, ranked))

    async def _record_exposure(self, run: str, found: Found) -> Found:
        if run:
            hits = [hits for hits in found.results if not isinstance(hits, FathomError)]
            # Before the answer, so that no run is refused a document that it was shown.
            await self._seen.record(run, [document.id for some in hits for document, _ in some])
        return found

    async def _rank_one(
        self, snapshot: Snapshot, query: str, options: object, field: str
    ) -> list[tuple[Document, float]] | FathomError:
        wanted = query.strip()
        if not wanted or len(query) > MAX_QUERY_CHARS:
            # Returned, not raised: one bad query must not cost the others of its batch.
            return InvalidField(field, f"must have 1 to {MAX_QUERY_CHARS:,} characters")
        ranked = await self.executor.rank(snapshot, wanted, options)  # type: ignore[arg-type]
        positions, table = [position for position, _ in ranked], snapshot.table
        if table.is_remote:
            documents = await asyncio.to_thread(table.read_documents, positions)
        else:
            # From a map of this machine's memory a text is there at once.
            documents = table.read_documents(positions)
        return list(zip(documents, (score for _, score in ranked), strict=True))

    async def search(
        self,
        queries: Sequence[str],
        top_k: int = 0,
        allowed: Filter = EVERYTHING,
        half_life_days: float = 0.0,
        **where: str,
    ) -> tuple[str, list[list[Hit] | FathomError]]:
        """Rank with summaries; return the snapshot's id and, per query, hits or the query's error."""
        found = await self.rank(queries, top_k, allowed, half_life_days, **where)
        # Tokenising texts takes milliseconds each, during which the loop would answer nobody.
        return found.snapshot, await asyncio.to_thread(self._summarise, queries, found)

    def _summarise(self, queries: Sequence[str], found: Found) -> list[list[Hit] | FathomError]:
        results: list[list[Hit] | FathomError] = []
        for query, result in zip(queries, found.results, strict=True):
            if isinstance(result, FathomError):
                results.append(result)
                continue
            wanted, limit = set(tokenise(query)), self._config.summary_chars
            summaries = [summarise(item.text, wanted, limit, self._parts.find) for item, _ in result]
            results.append([Hit(item, score, text) for (item, score), text in zip(result, summaries, strict=True)])
        return results

    async def fetch(
        self,
        ids: Sequence[str],
        page_size: int = 0,
        page_token: str = "",
        as_of: datetime | None = None,
        *,
        corpus: str = "",
        snapshot: str = "",
        seen_by: str = "",
    ) -> tuple[str, list[Page | FathomError]]:
        """Return the snapshot's id and, per id, a page of the text, or ``NotFound`` with the nearest ids.

        With ``seen_by`` only documents that a search has shown to that run exist. Raises ``InvalidField`` for the
        number of ids, a page size out of range, and a bad page token.
        """
        check_count(ids, MAX_IDS, "ids")
        if not 0 <= page_size <= MAX_PAGE_CHARS:
            raise InvalidField("page_size", f"must be 0 to {MAX_PAGE_CHARS:,}")
        if page_token and len(ids) != 1:
            raise InvalidField("page_token", "goes with a single id")
        # None allows all documents; an empty collection allows none.
        shown = await self._seen.list_seen(seen_by, ids) if seen_by else None
        size, allowed = page_size or PAGE_CHARS, Filter(as_of=as_of)
        if corpus == WEB:
            return "", [await self._read_web_page(ident, size, page_token, as_of, shown) for ident in ids]
        opened = await self.corpora.get_snapshot(corpus, snapshot)
        return opened.id, await asyncio.to_thread(
            lambda: [find_page(opened, ident, size, page_token, allowed, shown) for ident in ids]
        )

    async def _read_web_page(
        self, ident: str, size: int, token: str, as_of: datetime | None, shown: Keys | None
    ) -> Page | FathomError:
        if shown is not None and hash64(ident) not in shown:
            return NotFound("document", ident[:MAX_ID_CHARS])
        document = await self._web.fetch_document(ident, as_of)
        return document if isinstance(document, FathomError) else cut_page(document, size, token)

    async def ingest(self, corpus: str, items: AsyncGenerator[Item, None]) -> Ingested:
        """Add documents and files to a corpus, creating it if necessary.

        Raises ``InvalidField`` for an invalid name, an unknown media type, too many bytes (nothing is added then), and
        when nothing could be read at all, and ``Conflict`` when the corpus cannot be opened.
        """
        name = corpus or self._config.corpus_name
        return await self._ingest(name, self.corpora.open_for_writing(corpus), items, do_nothing)

    async def import_document(self, name: str, file: Chunk, lifetime_s: int) -> Ingested:
        """Add a file to a caller's own corpus, by its bound name, and keep that for ``lifetime_s`` seconds from now.

        Raises ``InvalidField`` as ``ingest``, and ``FailedPrecondition`` when there is no room.
        """

        async def bring() -> AsyncGenerator[Item, None]:
            yield file

        async def note() -> None:
            await self._lifetimes.note(name, len(file.data), lifetime_s)

        await self._lifetimes.admit(len(file.data))
        return await self._ingest(name, self.corpora.open_own_for_writing(name), bring(), note)

    async def delete_document(self, name: str, source: str, when: datetime | None) -> str:
        """Delete a source from a caller's own corpus, by its bound name; return the id of the snapshot without it.

        Raises ``InvalidField("corpus")``, ``NotFound`` for a source that is not there, and ``InvalidField`` for a time
        before its newest version.
        """
        table = (await self.corpora.get_snapshot(name)).table
        newest = await asyncio.to_thread(table.find_newest, source)
        if newest is None:
            raise NotFound("source", source[:MAX_ID_CHARS], find_close_sources(table.documents, source))
        if when is not None and when < newest:
            raise InvalidField("publish_time", f"the source has a version of {newest.isoformat()}, after that")

        async def bring() -> AsyncGenerator[Item, None]:
            yield Deletion(source, when)

        return (await self._ingest(name, self.corpora.open_own_for_writing(name), bring(), do_nothing)).snapshot

    async def _ingest(
        self,
        name: str,
        state: CorpusState,
        items: AsyncGenerator[Item, None],
        prepare: Callable[[], Awaitable[None]],
    ) -> Ingested:
        """Add what ``items`` bring; ``prepare`` is called before anything of it is stored."""
        try:
            # One ingest per corpus at a time: two would build on the same base, and the second would lose the first's
            # documents.
            async with state.writing, aclosing(items):
                refuse_if_broken(state)
                base = await self.corpora.open_head(name)
                with tempfile.TemporaryDirectory() as folder:
                    limit = self._config.max_ingest_mb << 20
                    intake = IngestBuffer(Path(folder) / "spool.jsonl", base, self._parsers, limit)
                    try:
                        return await self._ingest_items(name, intake, items, base, prepare)
                    finally:
                        intake.close()
        finally:
            # Also after an error: a mistyped name must not stay as an empty corpus.
            self.corpora.forget_empty(name)

    async def _ingest_items(
        self,
        corpus: str,
        intake: IngestBuffer,
        items: AsyncGenerator[Item, None],
        base: Snapshot | None,
        prepare: Callable[[], Awaitable[None]],
    ) -> Ingested:
        async for item in items:
            if isinstance(item, Chunk):
                if intake.begins_file(item):
                    await self._end_file(intake)
                await asyncio.to_thread(intake.add_chunk, item)
            elif isinstance(item, Issue):
                intake.refuse(item.message)
            elif isinstance(item, Deletion):
                # A file that is still open would otherwise come after its own deletion.
                await self._end_file(intake)
                await asyncio.to_thread(intake.delete_source, item)
            else:
                # It is compared with what the corpus has, which may be on another machine.
                await asyncio.to_thread(intake.add_document, item)
        await self._end_file(intake)
        intake.require_anything()
        # What is stored and never noted would stay for ever.
        await prepare()
        ident = base.id if base is not None else ""
        # Without anything new the snapshot stays, so that repeating an ingest is free.
        if intake.added or intake.deleted:
            manifest = await self.corpora.add(corpus, intake.read_documents())
            ident, before = manifest.id, 0 if base is None else base.manifest.documents
            if is_own(corpus) and (note := self.corpora.own_vectors.describe_passing(before, manifest.documents)):
                intake.issues.append(Issue(0, note, lost=False))
        return Ingested(intake.added, intake.duplicates, intake.rejected, intake.issues, ident, intake.deleted)

    async def _end_file(self, intake: IngestBuffer) -> None:
        whole = await asyncio.to_thread(intake.end_file)
        if whole is not None:
            await add_whole_file(self._files, intake, self._parsers[whole.media_type], whole)


async def do_nothing() -> None:
    """Prepare nothing: a corpus that all share has no lifetime."""


def make_idle_threads_sleep() -> None:
    """Set the variables, keeping values already in the environment; call it before faiss and torch are imported.

    OpenMP reads them once, when its library is loaded.
    """
    for name, value in PASSIVE.items():
        # An operator's own values win.
        os.environ.setdefault(name, value)


def find_page(
    snapshot: Snapshot, ident: str, size: int, token: str, allowed: Filter, shown: Keys | None
) -> Page | FathomError:
    """Return one page, or ``NotFound`` with the nearest ids; tokens stay valid across snapshots."""
    table = snapshot.table
    position = table.find_position(ident) if shown is None or hash64(ident) in shown else None
    document = None if position is None or not table.is_readable(position, allowed.as_of) else table.documents[position]
    if document is None or not allowed.allows(document):
        return NotFound("document", ident[:MAX_ID_CHARS], suggest_ids(snapshot, ident[:MAX_ID_CHARS], allowed, shown))
    return cut_page(document, size, token)


def cut_page(document: Document, size: int, token: str) -> Page:
    """Return the page that a token refers to; raise ``InvalidField("page_token")`` for a token of another text."""
    text_key, length = hash_content(document.title, document.text), len(document.text)
    # Bound to the text, not to the snapshot: a token survives a new snapshot as long as the document stays the same.
    text = f"{text_key[:16]} {document.id}"
    start = int(read_token(token, text, (int,))[0]) if token else 0
    if token and not 0 < start < length:
        raise unknown_token()
    end = start + size
    following = write_token(text, end) if end < length else ""
    return Page(document, document.text[start:end], following)


def suggest_ids(snapshot: Snapshot, ident: str, allowed: Filter, shown: Keys | None) -> list[str]:
    """Return similar ids among visible documents: ids published after ``as_of`` stay unknown even as hints."""
    known = snapshot.table.documents if shown is None else snapshot.table.iter_by_keys(list(shown))
    candidates = [item.id for item in islice(known, NEAREST_AMONG) if allowed.allows(item) and not item.is_deletion]
    return difflib.get_close_matches(ident, candidates, n=3, cutoff=0.4)


def find_close_sources(documents: Iterable[Document], source: str) -> list[str]:
    """Return similar names of sources, among those that can be deleted."""
    known = {item.key for item in islice(documents, NEAREST_AMONG) if item.key and not item.is_deletion}
    return difflib.get_close_matches(source[:MAX_ID_CHARS], sorted(known), n=3, cutoff=0.4)


def check_count(values: Sequence[str], limit: int, field: str) -> None:
    """Raise ``InvalidField`` unless there are 1 to ``limit`` values."""
    if not 1 <= len(values) <= limit:
        raise InvalidField(field, f"must be 1 to {limit}")
