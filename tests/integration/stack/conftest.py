"""The whole local stack, in one process and with a process per service."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.clients import Clients, connect
from fathom.services.bundles import build_encoder
from fathom.services.local import Endpoints, LocalSettings, LocalStack
from tests.integration.stack.scripted_model import ScriptedModel, entry

MODELS = {"rules": {"engine": "rules"}}


def prepare(home: Path, tables_dir: Path, corpus_dir: Path) -> Path:
    """Make a home with the bundled data and the sentence encoder, without which questions are no calculations."""
    (home / "data").mkdir(parents=True)
    shutil.copytree(tables_dir, home / "data" / "tables")
    shutil.copytree(corpus_dir, home / "data" / "corpus")
    link_encoder(home, tables_dir.parents[1])
    return home


def link_encoder(home: Path, source: Path) -> None:
    """Link the encoder and the vectors of the library of another home, as ``make data`` builds them."""
    build_encoder(source)
    (home / "models").mkdir()
    for name in ("encoders", "vectors"):
        (home / "models" / name).symlink_to(source / "models" / name)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def scripted_door() -> AsyncIterator[tuple[ScriptedModel, str]]:
    """A model without scripts, and its address: a module's tests tell it theirs (``telling``)."""
    model = ScriptedModel()
    async with model.running() as address:
        yield model, address


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def stack(
    tmp_path_factory: pytest.TempPathFactory,
    tables_dir: Path,
    corpus_dir: Path,
    scripted_door: tuple[ScriptedModel, str],
) -> AsyncIterator[tuple[Endpoints, Clients]]:
    """One shared stack for all tests that do not break it; its model ``scripted`` is behind ``scripted_door``."""
    home = prepare(tmp_path_factory.mktemp("stack") / "home", tables_dir, corpus_dir)
    settings = LocalSettings(home=home, gateway_port=0, models={**MODELS, "scripted": entry(scripted_door[1])})
    async with LocalStack(settings).running() as endpoints:
        clients = connect(endpoints.services)
        yield endpoints, clients
        await clients.close()
