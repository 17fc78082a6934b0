"""A thousand sessions at each level, as root and as nobody: processes, descriptors and bytes that they leave; goal 0."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1] / "integration" / "sandbox" / "programs" / "leftovers.py"
SESSIONS, USERS, LEVELS = 1_000, {"root": 0, "nobody": 65_534}, ("namespace", "landlock")


async def run() -> None:
    for level in LEVELS:
        for name, uid in USERS.items():
            begun = time.perf_counter()
            command = (sys.executable, str(PROGRAM), level, str(uid), str(SESSIONS))
            program = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            said, _ = await program.communicate()
            seen = json.loads(said)
            print(
                f"{level:10} as {name:7} {seen['ok']:5,} of {SESSIONS:,} ended well in {time.perf_counter() - begun:5.0f}"
                f" s; left: {seen['processes']} processes, {seen['descriptors']} descriptors, {seen['bytes']} bytes,"
                f" {seen['groups']} control groups",
                flush=True,
            )
