"""Ingests of which each is killed at another change of the disk: ``python -m … FOLDER`` prints how many there were.

``FOLDER/base`` holds a store and a retrieval index with one document. It is copied for each stage, and a process that
adds a second version and activates it is killed by SIGKILL before its n-th change below its copy. The last one survives.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

from fathom.core.ids import content_hash
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.ingest import Item
from fathom.services.retrieval.corpus.rows import list_parsers
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.engine import Engine, Ingested
from fathom.transport.store.folder import FolderStore

CORPUS, BASE = "filings", "base"
OLD, NEW = "The target is 3.25 percent.", "The target is 3.75 percent."
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.link", "os.mkdir", "os.rmdir", "os.remove", "shutil.rmtree")


def make_engine(folder: Path, index: str = "index") -> Engine:
    """Return an engine over the store of a folder, with an index on the same disk or on another."""
    config = Config(corpus_dir=None, index_dir=folder / index, refresh_s=0)
    return Engine(config, FolderStore(folder / "store"), list_parsers())


async def add(engine: Engine, text: str) -> Ingested:
    """Ingest a version of the one document, and activate what that gives."""

    async def items() -> AsyncIterator[Item]:
        # Two versions of one source: the later one takes the place of the earlier.
        yield Document(content_hash([text]), "Memo", text, None, "memo.txt", "note", (), key="memo.txt")

    done = await engine.ingest(CORPUS, items())  # type: ignore[arg-type]
    await engine.corpora.activate(CORPUS, done.snapshot)
    return done


async def ingest(folder: Path, text: str) -> None:
    """Start an engine over a folder, add a version and end."""
    engine = make_engine(folder)
    await engine.start()
    await add(engine, text)
    await engine.close()


def die_at(stage: int, folder: Path) -> None:
    """Have this process killed before its n-th change below the folder."""
    changes = count()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        is_change = event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING)
        if is_change and str(arguments[0]).startswith(str(folder)) and next(changes) == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def survives(stage: int, folder: Path) -> bool:
    """Play one stage in a process of its own; return whether it came to its end."""
    child = os.fork()
    if not child:
        die_at(stage, folder)
        asyncio.run(ingest(folder, NEW))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and status:
        raise RuntimeError(f"the ingest of stage {stage} failed by itself")
    return not os.WIFSIGNALED(status)


def main(root: Path) -> None:
    """Play every stage and print their number."""
    # In a process of its own as well: threads of an engine must not be forked.
    base = os.fork()
    if not base:
        asyncio.run(ingest(root / BASE, OLD))
        os._exit(0)
    os.waitpid(base, 0)
    for stage in count():
        folder = root / str(stage)
        shutil.copytree(root / BASE, folder)
        if survives(stage, folder):
            print(stage)
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
