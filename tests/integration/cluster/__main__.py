"""``python -m tests.integration.cluster SCENARIO FOLDER [ARGUMENTS]``, inside the namespaces of ``node``."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tests.integration.cluster.scenarios import SCENARIOS


def main(scenario: str, folder: str, *arguments: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)  # where `ip netns` keeps its names
    findings = asyncio.run(SCENARIOS[scenario](Path(folder), *arguments))
    (Path(folder) / "findings.json").write_text(json.dumps(findings, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
