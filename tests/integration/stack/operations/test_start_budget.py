"""Modules that datafetch and retrieval import until they answer: most of the processor time of a start is theirs.

Counted and not timed, so that a busy machine changes nothing: a package that a start comes to import by the way adds
hundreds of modules. ``python -m tests.bench data_restarts`` prints the processor time itself.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.retrieval.v1 import retrieval_pb2 as documents
from fathom.clients import Clients, connect
from fathom.core.retry import RetryPolicy
from fathom.transport.sockets import reserved_port
from tests.conftest import ROOT

# A sixth above what was counted (1,430 and 842), which differs a little between versions of packages.
BUDGETS = {"datafetch": 1_670, "retrieval": 980}
# Packages that take a quarter of a second of a processor or more, and that nothing before the first answer needs.
HEAVY = frozenset(
    {"torch", "transformers", "sklearn", "scipy", "matplotlib", "plotly", "ray", "pypdf", "openpyxl", "sqlglot"}
)
READY_S = 120.0
IMPORTED = re.compile(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)


async def ask(name: str, clients: Clients) -> int:
    """Return how much a service finds of a question."""
    if name == "datafetch":
        request = data.QueryRequest(question="What was the unemployment rate in 2020?")
        return len((await clients.datafetch.query(request, timeout_s=READY_S)).sheets)
    search = documents.SearchRequest(queries=["maximum drawdown"], top_k=3)
    return len((await clients.retrieval.search(search, timeout_s=READY_S)).results[0].hits)


async def list_imports(name: str, log: Path) -> set[str]:
    """Return the modules that a service in a process of its own has imported when it has answered once."""
    with reserved_port() as port, log.open("wb") as errors:
        environ = {**os.environ, "FATHOM_RUNTIME_PORT": str(port), "FATHOM_RUNTIME_LOG_LEVEL": "error"}
        command = (sys.executable, "-X", "importtime", "-m", f"fathom.services.{name}")
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environ, stderr=errors)
        # Again and again until the deadline of the call: the process is on its way up.
        clients = connect({name: f"grpc://127.0.0.1:{port}"}, policy=RetryPolicy(attempts=None))
        try:
            assert await ask(name, clients)
        finally:
            await clients.close()
            process.kill()
            await process.wait()
    return set(IMPORTED.findall(await asyncio.to_thread(log.read_text, errors="replace")))


@pytest.mark.parametrize("name", BUDGETS)
async def test_a_start_imports_no_more_than_its_budget(
    name: str, tmp_path: Path, tables_dir: Path, corpus_dir: Path
) -> None:
    found = await list_imports(name, tmp_path / "imports")
    assert f"fathom.services.{name}.engine" in found, "the list is that of the service"
    packages = sorted({module.partition(".")[0] for module in found} & HEAVY)
    assert packages == []
    assert len(found) <= BUDGETS[name]
