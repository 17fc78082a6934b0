"""One corpus served over ``POST /retrieve``, as in Search-R1's launcher; used by ``fathom retrieval serve``."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fathom.core.config import load
from fathom.hosting.host import Runtime, dependencies
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.http.server import HttpServer
from fathom.services.retrieval.metrics import register

# Model names that mean BM25 alone.
WORDS = ("", "bm25")
CORPUS = "corpus"
# A broken file must not fill the terminal; the rest is counted.
REPORTED = 20


@dataclass(frozen=True)
class ServeOptions:
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

    def to_config(self) -> Config:
        """Return the service's settings.

        As in Search-R1, vectors rank alone and no word index is built unless ``alpha`` is below 1. Raises
        ``ConfigError`` naming the option.
        """
        given = self.index_path.is_file()
        encoder = "" if self.retriever_model in WORDS else self.retriever_model
        recipe = {
            "encoder": encoder, "index": self.index, "alpha": self.alpha, "metadata": False,
            # The word index of many millions of passages takes memory that vectors alone do not need.
            "words": not encoder or self.alpha < 1,
        }  # fmt: skip
        fields = {
            "corpus_dir": None, "corpus_name": CORPUS, "recipe": recipe, "threads": self.threads,
            "index_dir": self.index_path.with_suffix(".fathom") if given else self.index_path,
            "http_host": self.host, "http_port": self.port, "http_top_k": self.topk, "http_shape": self.shape,
            "model_dir": self.model_dir, "cache": self.cache, "query_tokens": self.query_tokens, "half": self.half,
        }  # fmt: skip
        # The environment is that of the service, which may run beside; options alone count here.
        return load(Config, "retrieval", environ={}, overrides=fields)


@asynccontextmanager
async def serve(launch: ServeOptions, say: Callable[[str], None]) -> AsyncIterator[HttpServer]:
    """Build or open the index and serve; raise a typed error that names a path, a line or a port."""
    config = launch.to_config()
    async with dependencies("retrieval", Runtime(log_level="warning")) as deps:
        engine, left_out = Engine(config, deps.store), 0

        def report(line: int, message: str) -> None:
            nonlocal left_out
            left_out += 1
            if left_out <= REPORTED:
                say(f"{launch.corpus_path}:{line} is left out: {message}")

        await engine.start()
        register(deps.telemetry.registry, engine.executor, lambda: engine.failed_rounds)
        http_server = HttpServer(config, engine, deps)
        try:
            index_file = launch.index_path if launch.index_path.is_file() else None
            snapshot = await engine.corpora.serve_file(CORPUS, launch.corpus_path, report, index_file)
            kind = f"{snapshot.encoder}, {snapshot.manifest.index}" if snapshot.encoder else "bm25"
            say(f"{snapshot.manifest.documents:,} documents ({kind}), {left_out:,} lines left out, {snapshot.id[:12]}")
            await http_server.open()
            say(f"POST {http_server.url}/retrieve   (topk {launch.topk}; /health and /openapi.json beside it)")
            yield http_server
        finally:
            # The server first, as its requests need the engine.
            await http_server.close()
            await engine.close()


async def serve_until_signal(launch: ServeOptions, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    async with serve(launch, say):
        await stop.wait()
