"""An ingest of a shared corpus, killed at every change of the disk: segments, manifest, state and activation."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from fathom.core.errors import FathomError
from fathom.services.retrieval.documents.model import Filter
from fathom.services.retrieval.engine import Engine
from tests.integration.retrieval.killed_ingests import CORPUS, NEW, OLD, add, make_engine

ROOT = Path(__file__).parents[3]


async def read(engine: Engine) -> str:
    _, (hits,) = await engine.search(["target percent"], 10, Filter(), corpus=CORPUS)
    assert not isinstance(hits, FathomError)
    (hit,) = hits
    return hit.document.text


async def test_an_ingest_killed_at_every_stage_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.integration.retrieval.killed_ingests", str(tmp_path)]
    played = await asyncio.to_thread(subprocess.run, program, cwd=ROOT, capture_output=True, text=True)
    assert played.returncode == 0, played.stderr
    stages, served = int(played.stdout), []
    for stage in range(stages + 1):
        folder = tmp_path / str(stage)
        for index in ("index", "another-disk"):
            engine = make_engine(folder, index)
            await engine.start()
            text = await read(engine)
            assert text in (OLD, NEW)
            # Whoever asked repeats what was killed, and gets the new content once.
            await add(engine, NEW)
            assert await read(engine) == NEW
            await engine.close()
            if index == "index":
                served.append(text)
        assert not list(folder.glob("index/*/building-*")), f"stage {stage} leaves files that nobody removes"
    # Old until the one write that activates the new content, new from then on.
    assert served == sorted(served)
    assert (served[0], served[-1]) == (OLD, NEW)
    assert stages >= 20, "texts, words, columns, manifest, state and activation are written one by one"


async def test_a_killed_download_does_not_stand_in_the_way_of_the_same_content(tmp_path: Path) -> None:
    first, second = make_engine(tmp_path / "first"), make_engine(tmp_path / "second")
    await first.start()
    await second.start()
    ident = (await add(first, NEW)).snapshot
    # What a process leaves that was killed before its first file of this snapshot was there.
    (tmp_path / "second/index" / CORPUS / ident).mkdir(parents=True)
    assert (await add(second, NEW)).snapshot == ident
    assert await read(second) == NEW
    await first.close()
    await second.close()
