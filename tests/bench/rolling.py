"""Rolling restarts under load, in the simulated cluster: what was lost, and the longest wait against no restart.

The services that hold something restart all at once; with ``FATHOM_ROLLING=all`` every one, one after the other.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from tests.integration.cluster.node import inside, why_not
from tests.integration.cluster.report import HEAD, rows
from tests.integration.cluster.scenarios import ALL_SERVICES, HOLDERS, TWO_WHERE_IT_MATTERS


async def run() -> None:
    reason = why_not()
    if reason:
        print(f"left out: {reason}")
        return
    every = os.environ.get("FATHOM_ROLLING") == "all"
    arguments = [",".join(ALL_SERVICES)] if every else ["+".join(HOLDERS), *TWO_WHERE_IT_MATTERS]
    with tempfile.TemporaryDirectory() as folder:
        node = Path(folder) / "node"
        findings = await asyncio.to_thread(inside, "rolling", node, *arguments, timeout_s=3600.0)
    print(HEAD, *rows(findings), sep="\n")
    lost = sum(len(row.failed) for row in rows(findings))
    print(f"{len(findings['operations'])} operations in all, {lost} lost")
