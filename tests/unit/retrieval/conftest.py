"""A small corpus of our own words, written as a bundle with its manifest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fathom.core.ids import sha256
from fathom.domain.bundle.manifest import NAME, FileEntry, Manifest
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.engine import Engine
from fathom.transport.store.memory import MemoryStore

ROWS: list[dict[str, Any]] = [
    {"id": "old", "title": "Bank profits", "text": "Bank profits rose in 2001. Nothing else happened. More follows.",
     "published": "2001-05-01", "source": "wire", "type": "news", "entities": ["JPM"], "language": "en"},
    {"id": "new", "title": "Bank profits", "text": "Bank profits rose in 2021. Nothing else happened. More follows.",
     "published": "2021-05-01", "source": "wire", "type": "news", "entities": ["BAC"], "language": "en"},
    {"id": "note", "title": "What a bank is", "text": "A bank takes deposits and gives loans. It is regulated.",
     "published": "2010-01-01", "source": "own", "type": "note", "entities": ["JPM", "BAC"], "language": "en"},
    {"id": "undated", "title": "Bank robbery", "text": "A bank was robbed. The police came.",
     "published": "", "source": "wire", "type": "news", "entities": [], "language": "en"},
    {"id": "zh", "title": "银行股", "text": "银行股上涨。投资者关注利率。",
     "published": "2015-01-01", "source": "own", "type": "note", "entities": ["JPM"], "language": "zh"},
    {"id": "long", "title": "A long one", "text": "".join(f"Line {n} of the long text.\n" for n in range(60)),
     "published": "2012-01-01", "source": "own", "type": "note", "entities": [], "language": "en"},
]  # fmt: skip

Write = Callable[[list[dict[str, Any]]], Path]


@pytest.fixture
def write_bundle(tmp_path: Path) -> Write:
    def write(rows: list[dict[str, Any]]) -> Path:
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        (tmp_path / "documents.jsonl").write_bytes(data)
        entry = FileEntry("documents.jsonl", sha256(data), len(rows), len(data))
        (tmp_path / NAME).write_text(Manifest("test", (), (entry,)).to_json())
        return tmp_path

    return write


@pytest.fixture
async def engine(write_bundle: Write) -> AsyncIterator[Engine]:
    engine = Engine(Config(corpus_dir=write_bundle(ROWS), summary_chars=60), MemoryStore())
    await engine.start()
    yield engine
    await engine.close()
