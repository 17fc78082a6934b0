"""One browser for all tests, and the page of a whole stack in processes of its own, as ``fathom up`` runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.e2e.pages import ARGUMENTS, CHROMIUM
from tests.integration.stack.conftest import prepare
from tests.support.waiting import wait_until

READY_S = 90.0


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Start the browser once: its start costs as much processor time as a test."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser) -> AsyncIterator[Browser]:
    """Return a browser without pages; what the test opened and stored in it is gone afterwards."""
    assert not chromium.contexts
    yield chromium
    for context in chromium.contexts:
        await context.close()


@pytest.fixture(scope="session")
def page_url(tmp_path_factory: pytest.TempPathFactory, tables_dir: Path, corpus_dir: Path) -> Iterator[str]:
    """Started by the command, stopped by Ctrl-C's signal; nothing is left behind."""
    home = prepare(tmp_path_factory.mktemp("page") / "home", tables_dir, corpus_dir)
    environ = {**os.environ, "FATHOM_POLICY_MODELS": json.dumps({"rules": {"engine": "rules"}})}
    command = [sys.executable, "-m", "fathom.cli.main", "up", "--home", str(home), "--port", "0"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    endpoints = home / "endpoints.json"
    try:
        wait_until(lambda: endpoints.exists() or process.poll() is not None, within_s=READY_S, every_s=0.1)
        assert process.poll() is None, f"the stack ended with status {process.returncode}"
        yield json.loads(endpoints.read_text())["gateway"]
        pids = json.loads(endpoints.read_text())["pids"]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    assert not endpoints.exists()
    assert not [name for name, pid in pids.items() if Path(f"/proc/{pid}").exists()]
