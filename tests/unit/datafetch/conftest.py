"""Provide what the tests of datafetch share: an engine over the bundled tables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tables_dir: Path) -> AsyncIterator[Engine]:
    """Start an engine that reads questions by words alone, one for each module."""
    made = Engine(Config(data_dir=tables_dir, embedding="off"))
    await made.start()
    yield made
    await made.close()
