"""One corpus served over ``POST /retrieve``, as in Search-R1's launcher; used by ``fathom retrieval serve``."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fathom.config import load
from fathom.rpc.host import Runtime, dependencies
from services.retrieval.config import Config
from services.retrieval.doorway import Doorway
from services.retrieval.engine import Engine
from services.retrieval.metrics import register

WORDS = ("", "bm25")
"""Model names that mean BM25 alone."""
CORPUS = "corpus"
REPORTED = 20


@dataclass(frozen=True)
class Launch:
    """Options of the server; ``index_path`` is a folder for the built index, or a FAISS file of the same lines."""

    corpus_path: Path
    index_path: Path
    topk: int = 3
    retriever_model: str = "bm25"
    index: str = "auto"
    alpha: float = 1.0
    host: str = "127.0.0.1"
    port: int = 8000
    threads: int = 0
    shape: str = "lists"
    model_dir: Path = Path(".fathom/models")
    cache: int = 20_000
    query_tokens: int = 0
    half: bool = True

    def config(self) -> Config:
        """Return the service's settings.

        As in Search-R1, vectors rank alone and no word index is built unless ``alpha`` is below 1. Raises
        ``ConfigError`` naming the option.
        """
        given = self.index_path.is_file()
        encoder = "" if self.retriever_model in WORDS else self.retriever_model
        recipe = {
            "encoder": encoder, "index": self.index, "alpha": self.alpha, "metadata": False,
            "words": not encoder or self.alpha < 1,
        }  # fmt: skip
        fields = {
            "corpus_dir": None, "corpus_name": CORPUS, "recipe": recipe, "threads": self.threads,
            "index_dir": self.index_path.with_suffix(".fathom") if given else self.index_path,
            "http_host": self.host, "http_port": self.port, "http_top_k": self.topk, "http_shape": self.shape,
            "model_dir": self.model_dir, "cache": self.cache, "query_tokens": self.query_tokens, "half": self.half,
        }  # fmt: skip
        return load(Config, "retrieval", environ={}, overrides=fields)


@asynccontextmanager
async def serving(launch: Launch, say: Callable[[str], None]) -> AsyncIterator[Doorway]:
    """Build or open the index and serve; raise a typed error that names a path, a line or a port."""
    config = launch.config()
    async with dependencies("retrieval", Runtime(log_level="warning")) as deps:
        engine, left_out = Engine(config, deps.store), 0

        def report(line: int, message: str) -> None:
            nonlocal left_out
            left_out += 1
            if left_out <= REPORTED:
                say(f"{launch.corpus_path}:{line} is left out: {message}")

        await engine.start()
        register(deps.telemetry.registry, engine.searching)
        doorway = Doorway(config, engine, deps)
        try:
            index_file = launch.index_path if launch.index_path.is_file() else None
            snapshot = await engine.library.serve_file(CORPUS, launch.corpus_path, report, index_file)
            kind = f"{snapshot.encoder}, {snapshot.manifest.index}" if snapshot.encoder else "bm25"
            say(f"{snapshot.manifest.documents:,} documents ({kind}), {left_out:,} lines left out, {snapshot.id[:12]}")
            await doorway.open()
            say(f"POST {doorway.url}/retrieve   (topk {launch.topk}; /health and /openapi.json beside it)")
            yield doorway
        finally:
            await doorway.close()
            await engine.close()


async def until_signalled(launch: Launch, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    async with serving(launch, say):
        await stop.wait()
