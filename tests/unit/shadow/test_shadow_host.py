"""The process around the live mirror: it ends with its decision, or stays for whoever reads its metrics."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from fathom.hosting.host import Runtime
from fathom.operations.shadow.config import Config
from fathom.operations.shadow.gate import Decision, Verdict
from fathom.operations.shadow.host import serve
from fathom.transport.store import open_store
from tests.support.waiting import eventually


async def begin(folder: Path, *, stays: bool) -> asyncio.Task[Decision]:
    """Start a process whose experiment an earlier one has decided."""
    config = Config(candidate="tiny@2", baseline="tiny@1", share=1.0, least=8, stays=stays)
    url = f"file://{folder}"
    store = open_store(url)
    content = {"read": 0, "outcomes": ["win"] * 8}
    await store.put(f"{config.experiment.folder.rstrip('/')}.json", json.dumps(content).encode(), "application/json")
    await store.close()
    said = list[Verdict]()
    process = asyncio.create_task(serve(config, Runtime(store_url=url, metrics_port=0, log_level="error"), said.append))
    await eventually(lambda: said)
    assert said[0].decision is Decision.PROMOTE
    return process


async def test_a_command_ends_with_its_decision(tmp_path: Path) -> None:
    assert await (await begin(tmp_path, stays=False)) is Decision.PROMOTE


async def test_a_pod_stays_with_its_decision_until_it_is_stopped(tmp_path: Path) -> None:
    process = await begin(tmp_path, stays=True)
    await eventually(lambda: "live mirror" not in {task.get_name() for task in asyncio.all_tasks()})
    for _ in range(100):
        await asyncio.sleep(0)
    assert not process.done()
    signal.raise_signal(signal.SIGTERM)
    assert await process is Decision.PROMOTE
