"""The machines of a rehearsal, each as processes that can be killed and come back: a store, Ray nodes, and drivers."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from fathom.transport.sockets import reserved_port
from tests.integration.s3_server import BUCKET, KEY, RCLONE, SECRET
from tests.integration.two_nodes import NAMESPACES
from tests.support.waiting import until_listening

START_S = 60.0
# What a RayJob does with a driver that ended: status 75 asks for it, a signal is a pod that was lost.
TRANSIENT = 75
BACKOFF_S = 1.0
# Of all nodes and drivers alike: the cluster is on the loopback address and lives for minutes.
OPEN = {"RAY_AUTH_MODE": "disabled"}
AGENT_PORTS = (
    "dashboard-agent-grpc-port",
    "dashboard-agent-listen-port",
    "runtime-env-agent-port",
    "metrics-export-port",
)
NODE_ATTEMPTS, NODE_STARTED = 5, b"Ray runtime started"
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Machine:
    """A process that is started again after it was killed; ``log`` gets what it says."""

    command: Sequence[str]
    log: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, env={**os.environ, **self.environ}, cwd=ROOT, stdout=log, stderr=log,
                stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def stop(self) -> None:
        """Kill it, and wait until it is gone."""
        if self.process is not None:
            if self.process.returncode is None:
                self.process.kill()
            await self.process.wait()


@asynccontextmanager
async def s3_store(folder: Path) -> AsyncIterator[tuple[str, Machine]]:
    """Run an S3 server over a folder; yield the URL of its bucket, and the server."""
    (folder / "s3" / BUCKET).mkdir(parents=True, exist_ok=True)
    with reserved_port() as port:
        command = [
            str(RCLONE), "--config", str(folder / "rclone.conf"), "serve", "s3", "--auth-key", f"{KEY},{SECRET}",
            "--addr", f"127.0.0.1:{port}", str(folder / "s3"),
        ]  # fmt: skip
        server = Machine(command, folder / "s3.log")
        await server.start()
        try:
            await until_listening("127.0.0.1", port, within_s=START_S)
            yield f"s3://{KEY}:{quote(SECRET, safe='')}@127.0.0.1:{port}/{BUCKET}?secure=false", server
        finally:
            await server.stop()


async def start_node(machine: Machine) -> None:
    """Start a Ray node and wait until it says so; raises ``RuntimeError`` when it does not in several attempts.

    Ray gives a node 30 s to start, which a crowded machine does not always keep, and its raylet aborts when its agent
    takes more than 15 s: ``ray start`` then waits for it until the end of its patience, and so would every attempt.
    """
    for _ in range(NODE_ATTEMPTS):
        begun = machine.log.stat().st_size if machine.log.exists() else 0
        await machine.start()
        assert machine.process is not None
        ended = asyncio.create_task(machine.process.wait())
        while not ended.done():
            if NODE_STARTED in machine.log.read_bytes()[begun:]:
                ended.cancel()
                return
            if has_lost_raylet(machine):
                end(machine)
            await asyncio.wait({ended}, timeout=0.5)
    raise RuntimeError(f"no Ray node after {NODE_ATTEMPTS} attempts: {machine.log}")


def has_lost_raylet(machine: Machine) -> bool:
    """Return whether the raylet of a node that is being started has ended."""
    for pid in descendants(machine.pid):
        try:
            name, _, state = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(") ")
        except OSError:
            continue
        if name == "raylet" and state.startswith("Z"):
            return True
    return False


def end(machine: Machine) -> None:
    """Kill a machine's process and all that it has started, children first."""
    for pid in reversed(list(descendants(machine.pid))):
        kill(pid)


class RayNodes:
    """A head without places for learners, and nodes that have some, each with a disk and processes of its own."""

    def __init__(self, folder: Path, places: Sequence[int]) -> None:
        self._folder, self._places, self._stack = folder, places, ExitStack()
        self.address = ""
        self.nodes: list[Machine] = []
        self._head: Machine | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RayNodes]:
        disk, port = self._folder / "disk", self._stack.enter_context(reserved_port())
        # Of an earlier rehearsal that is taken up: a pod that comes again has an empty disk.
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir()
        # Without priority of background work, and without a worker for each place that may never get work; a head
        # alone would ask for the token that an earlier Ray of this user has left in the home folder; and nobody is
        # killed because other programs of this machine use its memory.
        environ = {
            **OPEN, "RAY_memory_monitor_refresh_ms": "0", "RAY_agent_register_timeout_ms": "300000",
            "RAY_raylet_start_wait_time_s": "300",
            "TMPDIR": str(disk), "RAY_worker_niceness": "0", "RAY_prestart_worker_first_driver": "0",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self.address = f"127.0.0.1:{port}"
        common = ["--block", "--disable-usage-stats", "--object-store-memory=80000000"]

        def reserve_ports() -> list[str]:
            # Named, since a node does not wait long for its agents to say which ones they have taken.
            return [f"--{name}={self._stack.enter_context(reserved_port())}" for name in AGENT_PORTS]

        ray = [sys.executable, str(Path(sys.executable).parent / "ray"), "start"]
        head = [*ray, "--head", f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=0", *common,
                *reserve_ports()]  # fmt: skip
        self._head = Machine([*head, "--include-dashboard=false"], self._folder / "head.log", environ)
        mount = f"mount -t tmpfs tmpfs {shlex.quote(str(disk))} && exec "
        for number, count in enumerate(self._places, 1):
            node = [*ray, f"--address={self.address}", f"--node-ip-address=127.0.0.{number + 1}", f"--num-cpus={count}"]
            script = mount + shlex.join([*node, *common, *reserve_ports()])
            machine = Machine(["unshare", *NAMESPACES, "sh", "-c", script], self._folder / f"node{number}.log", environ)
            self.nodes.append(machine)
        try:
            await start_node(self._head)
            # One after the other: beside each other their agents take more than the raylets wait for.
            for node in self.nodes:
                await start_node(node)  # type: ignore[arg-type]
            yield self
        finally:
            for node in [*self.nodes, self._head]:
                if node.process:  # type: ignore[attr-defined]
                    end(node)  # type: ignore[arg-type]
                await node.stop()  # type: ignore[attr-defined]
            self._stack.close()


class Driver:
    """The driver of a training, started again as a RayJob would; reads each step from what it prints."""

    def __init__(self, name: str, folder: Path, arguments: Callable[[int], Sequence[str]], environ: Mapping[str, str]):
        self.name, self._folder, self._arguments, self._environ = name, folder, arguments, environ
        self.attempts = 0
        self.status: int | None = None
        self.machine: Machine | None = None
        self._lines: list[dict[str, float]] = []
        self._read = 0

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    async def train(self, attempts: int) -> None:
        """Run it to its end; raises ``RuntimeError`` with its last words when that is not the training's."""
        while True:
            self.attempts += 1
            command = [sys.executable, "-m", "fathom.trainers.jobs.ray_job", *self._arguments(self.attempts)]
            self.machine = Machine(command, self.log, self._environ)
            await self.machine.start()
            assert self.machine.process is not None
            try:
                self.status = await self.machine.process.wait()
            finally:
                await self.machine.stop()
            if self.status == 0:
                return
            if self.status not in (TRANSIENT, -signal.SIGKILL) or self.attempts >= attempts:
                said = self.log.read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{self.name} ended with status {self.status} in attempt {self.attempts}: {said}")
            await asyncio.sleep(BACKOFF_S)

    def read_lines(self) -> list[dict[str, float]]:
        """Return the metrics of every step that was finished, in order; steps that were done again come again."""
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(self._read)
                # What it is writing now is read the next time.
                whole = log.read().rpartition(b"\n")[0]
            for line in whole.splitlines():
                if line.startswith(b'{"step": '):
                    self._lines.append(json.loads(line))
            self._read += len(whole)
        return self._lines

    def count_rebuilds(self) -> int:
        """Return how often learners were built anew within an attempt."""
        return self.log.read_text(errors="replace").count("The learners are built anew") if self.log.exists() else 0


def kill(pid: int) -> None:
    """Kill a process with SIGKILL, if it is there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def descendants(pid: int) -> Iterator[int]:
    """Yield a process and all that it has started, parents first."""
    yield pid
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = listed.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from descendants(int(child))


def find_below(machine: Machine, word: str) -> list[int]:
    """Return the processes of a machine whose command line contains a word."""
    found = []
    for pid in descendants(machine.pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if word in command.partition("\0")[0]:
            found.append(pid)
    return found
