"""A learner in a process of its own: publishes the versions that it reads from its input, a number and a folder a line.

``python -m tests.integration.policy.weights.learner STORE MEETING whole|ahead`` prints the reference of each manifest.
Where it is ``ahead`` of the store, the store gets nothing while the process lives.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from fathom.domain.weights.manifest import WeightFile, write_manifest
from fathom.trainers import transfers
from fathom.trainers.store_files import Sharing, StoreFolder
from fathom.trainers.transfers import StoreTransfer
from fathom.transport.checksums import choose_algorithm
from fathom.transport.store import open_store


class Worker:
    """A learner whose weights are those of a folder."""

    def __init__(self) -> None:
        self.source = Path()

    def export(self, folder: Path, save: Callable[[dict[str, Any], Path], None] = save_file) -> None:
        for path in self.source.iterdir():
            if path.suffix == ".safetensors":
                save(load_file(path), folder / path.name)
            else:
                shutil.copy(path, folder)


class Learner(StoreTransfer):
    def __init__(self) -> None:
        self.worker = Worker()


def wait_for_ever(*arguments: object) -> None:
    """Upload nothing."""
    threading.Event().wait()


async def main(url: str, meeting: str, kind: str) -> None:
    if kind == "ahead":
        transfers.put_files = wait_for_ever
    learner, store = Learner(), open_store(url)
    sharing = Sharing(Path(meeting), 1 << 28, is_ahead=kind == "ahead")
    for line in sys.stdin:
        version, _, source = line.strip().partition(" ")
        learner.worker.source = Path(source)
        target = StoreFolder(
            url, f"weights/small/{version}", by_content=True, sharing=sharing, algorithm=choose_algorithm()
        )
        files = await asyncio.to_thread(learner.upload, "export", target)
        listed = [WeightFile(name, one.key, one.size_bytes, one.checksum) for name, one in files.items()]
        manifest = await write_manifest(store, "small", int(version), listed)
        print(json.dumps({"manifest": asdict(manifest), "carrier": files.carrier}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
