"""A service of corpora that rank by words starts and answers without the packages of vectors, which take seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
from pathlib import Path
import fathom.services.retrieval.__main__
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.documents.model import parse_document
from fathom.services.retrieval.engine import Engine
from fathom.transport.store.memory import MemoryStore

async def bring():
    yield parse_document({"id": "a", "text": "gold rose"})

async def answer():
    engine = Engine(Config(corpus_dir=None, corpus_name="main", index_dir=Path(sys.argv[1])), MemoryStore())
    await engine.start()
    await engine.ingest("main", bring())
    found = await engine.rank(["gold"], 1)
    await engine.close()
    return [document.id for document, _ in found.results[0]]

print(asyncio.run(answer()))
heavy = "bm25s faiss scipy sklearn numba torch transformers tokenizers pandas duckdb pyarrow pypdf trafilatura".split()
print(sorted(set(heavy) & set(sys.modules)))
"""


def test_words_are_ranked_without_the_packages_of_vectors(tmp_path: Path) -> None:
    # A process of its own: here other tests have imported all of them.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines() == ["['a']", "[]"], done.stderr
