"""Two Ray nodes of one machine, the learners on the second: its temporary folder is a disk that nobody else sees.

Run as a program, ``python -m tests.integration.two_nodes FOLDER``, so that its Ray is not that of other tests. Writes what
it saw to ``FOLDER/found.json``.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch

from fathom.domain.weights.manifest import WeightFile, fetch, write_manifest
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.learners import tiny
from fathom.trainers.learners.models import load_model
from fathom.trainers.learners.ranks.groups import RayGroup
from fathom.trainers.learners.workers import ActorWorker
from fathom.trainers.store_files import StoreFolder, check_uploaded, with_store
from fathom.transport.checksums import choose_algorithm
from tests.unit.trainers.learners.test_learners import batch, settings

WORDS = tuple("abcdefghijklmnopqrstuvwxyz")
# Each in its folder: the second node's is mounted over by a file system of its own.
DISK, STORE, MARK = "disk", "store", "only-on-the-first-node"


# Processes too, so that a node that is stopped leaves none behind.
NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class LookingWorker(ActorWorker):
    """An actor that says what its node sees."""

    def sees(self, path: Path) -> bool:
        return path.exists()

    def temporary(self) -> list[str]:
        return sorted(path.name for path in Path(tempfile.gettempdir()).iterdir())


def main(folder: Path) -> dict[str, Any]:
    """Train, publish and checkpoint on the second node, then resume there with another number of ranks."""
    import asyncio

    torch.set_num_threads(1)
    url = (folder / STORE).as_uri()
    (folder / DISK / MARK).touch()
    (folder / "model").mkdir()
    tiny.save(tiny.build_model(WORDS, 8, 1, 3, 64), tiny.build_tokenizer(WORDS), folder / "model")
    StoreFolder(url, "models/small").upload(folder / "model")
    config = settings(
        "model.path=store:models/small", "trainer.schedule_timeout_s=120",
        "actor.ppo_mini_batch_size=2", "data.train_batch_size=4",
    )  # fmt: skip
    found: dict[str, Any] = {}
    two = RayGroup(LookingWorker, config, 2, url)
    found["sees the first node's disk"] = two.sees(folder / DISK / MARK)
    known = two.compute_log_prob(batch())
    two.update_policy(batch().union(known.select(["old_log_probs"])))
    files = two.upload("export", StoreFolder(url, "weights/small/1", by_content=True, algorithm=choose_algorithm()))
    learned = two.compute_log_prob(batch()).tensor("old_log_probs")

    async def publish(store: Any) -> None:
        await check_uploaded(store, files)
        listed = [WeightFile(name, one.key, one.size_bytes, one.checksum) for name, one in files.items()]
        await fetch(store, await write_manifest(store, "small", 1, listed), folder / "served")

    asyncio.run(with_store(url, publish))
    served = load_model(settings(f"model.path={folder / 'served'}").model, 0)
    found["published"] = sorted(files)
    start = tiny.build_model(WORDS, 8, 1, 3, 64).state_dict()
    found["weights moved"] = not all(torch.equal(start[name], value) for name, value in served.state_dict().items())
    found["on the second node's disk"] = two.temporary()
    found["on the first node's disk"] = sorted(path.name for path in (folder / DISK).iterdir())

    async def open_checkpoints(store: Any) -> StoreCheckpoints:
        return StoreCheckpoints(store, url, "small", 2)

    kept = asyncio.run(with_store(url, open_checkpoints))
    kept.save(7, partial(two.upload, "save_checkpoint"), {"step": 7})
    two.close()
    checkpoint = kept.load()
    assert checkpoint is not None
    found["checkpoint"] = sorted(checkpoint.folder.files)
    one = RayGroup(LookingWorker, config, 1, url)
    one.restore(checkpoint.folder)
    again = one.compute_log_prob(batch()).tensor("old_log_probs")
    found["resumed on one rank"] = float((again - learned).abs().max())
    one.close()
    return found


def start_second_node(folder: Path, address: str) -> subprocess.Popen[bytes]:
    """Start a node with two processors whose temporary folder is a file system in its own mount namespace."""
    disk, ray_program = folder / DISK, Path(sys.executable).parent / "ray"
    start = [
        sys.executable, str(ray_program), "start", f"--address={address}", "--num-cpus=2", "--block",
        "--disable-usage-stats", "--object-store-memory=80000000",
    ]  # fmt: skip
    script = f"mount -t tmpfs tmpfs {shlex.quote(str(disk))} && exec {shlex.join(start)}"
    with (folder / "second.log").open("wb") as log:
        return subprocess.Popen(
            ["unshare", *NAMESPACES, "sh", "-c", script],
            env={**os.environ, "TMPDIR": str(disk), "RAY_worker_niceness": "0"},
            stdout=log,
            stderr=log,
        )


def run(folder: Path) -> None:
    """Start both nodes, run, and stop them."""
    for name in (DISK, STORE):
        (folder / name).mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / DISK)
    os.environ.setdefault("RAY_worker_niceness", "0")
    paths = {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(Path.cwd() / "libs")]), "OMP_NUM_THREADS": "1"}
    # Ray starts its workers by a line of shell: without quotes no worker starts below a path with a space.
    environment = {"env_vars": paths, "py_executable": shlex.quote(sys.executable)}
    context: Any = ray.init(
        num_cpus=0, include_dashboard=False, object_store_memory=80_000_000, runtime_env=environment
    )
    # Another cluster than this process's own: learners wait for a node that is still starting.
    os.environ["RAY_ADDRESS"] = context.address_info["gcs_address"]
    second = start_second_node(folder, os.environ["RAY_ADDRESS"])
    try:
        found = main(folder)
    finally:
        ray.shutdown()
        # Its processes are a namespace, which ends with the first of them.
        second.kill()
        second.wait()
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    run(Path(sys.argv[1]))
