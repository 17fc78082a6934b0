"""An engine whose one corpus is empty and lies in a temporary folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.engine import Engine
from fathom.transport.store.memory import MemoryStore


@pytest.fixture
async def empty_engine(tmp_path: Path) -> AsyncIterator[Engine]:
    # Character recognition and vectors have tests of their own: they load models of some hundred megabytes.
    config = Config(corpus_dir=None, corpus_name="main", index_dir=tmp_path, ocr_pages=0, own_encoder="")
    engine = Engine(config, MemoryStore(), list_parsers())
    await engine.start()
    yield engine
    await engine.close()
