"""Models are loaded one at a time and beside the event loop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import CorruptData, NotFound
from fathom.domain.encoders.loading import LOADING
from fathom.domain.encoders.transformer import load_folder
from fathom.hosting.host import Runtime, dependencies
from fathom.services.policy.backends.transformers import loading as policy_loading
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.http import server
from fathom.services.retrieval.index.rerank import CrossEncoder
from fathom.transport.store.memory import MemoryStore

transformers = pytest.importorskip("transformers")


def test_whoever_loads_a_model_holds_the_one_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vars(policy_loading)["LOADING"] is LOADING, "policy has none of its own"
    # The smallest files by which transformers takes a folder for a model.
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "tokenizer.json").write_text(
        '{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}}'
    )
    held: list[bool] = []

    def loads(*args: Any, **options: Any) -> Any:
        # Noted in the middle of a load: transformers' loading is not safe in several threads.
        held.append(LOADING.locked())
        raise OSError("no weights here")

    for name in ("AutoModel", "AutoModelForSequenceClassification"):
        monkeypatch.setattr(getattr(transformers, name), "from_pretrained", loads)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *args, **options: object())
    with ThreadPoolExecutor(4) as pool:
        # Eight loads in four threads, of both kinds.
        tried = [pool.submit(load, tmp_path) for load in (load_folder, CrossEncoder) for _ in range(4)]
    assert all(isinstance(one.exception(), CorruptData) for one in tried)
    assert held == [True] * 8
    assert not LOADING.locked()


async def test_the_reranker_is_loaded_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def loads(config: Config) -> None:
        threads.append(threading.current_thread())
        raise NotFound("reranker model", config.reranker)

    monkeypatch.setattr(server, "load_reranker", loads)
    config = Config(corpus_dir=None, reranker=str(tmp_path / "none"), http_port=0)
    async with dependencies("retrieval", Runtime(log_level="error")) as deps:
        opening = server.HttpServer(config, Engine(config, MemoryStore()), deps)
        with pytest.raises(NotFound, match="reranker model"):
            await opening.open()
    # A model takes seconds to load; the event loop must answer probes meanwhile.
    assert threads != [threading.main_thread()]
