"""``python -m tests.integration.cluster SCENARIO FOLDER [ARGUMENTS]``, inside the namespaces of ``node``."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.integration.cluster.scenarios import SCENARIOS
from tests.integration.journey.capacity import capacity
from tests.integration.journey.simulated import journey


def main(scenario: str, folder: str, *arguments: str) -> None:
    # Pods of a cluster have requests, so that what else runs on their node cannot starve them and fail their probes.
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -5)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)  # where `ip netns` keeps its names
    known = {**SCENARIOS, "journey": journey, "capacity": capacity}
    findings = asyncio.run(known[scenario](Path(folder), *arguments))
    (Path(folder) / "findings.json").write_text(json.dumps(findings, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
