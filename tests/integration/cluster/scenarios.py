"""Run scenarios on the cluster; each gives its findings as plain data for the tests to judge."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

from fathom.core.call import DEFAULT_TENANT
from fathom.core.identity import ANY_SERVICE, OPERATOR, Tokens, make_keys
from tests.chart.rendering import CHART, render
from tests.integration.cluster.cluster import Cluster, Pod
from tests.integration.cluster.container import Container, tail
from tests.integration.cluster.images import compile_checkout
from tests.integration.cluster.manifests import hook, running
from tests.integration.cluster.network import BRIDGE, NODE, Network
from tests.integration.cluster.usage import measure
from tests.support.waiting import eventually

VALUES = CHART / "ci" / "two-of-each-values.yaml"
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
# Only a document answers it.
DEFINITION = "What is a maximum drawdown?"
BACKUPS = "s3://s3.storage:9000/backups?secure=false"
SECRETS = {
    "fathom-object-store": {"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "test/secret+1"},
    "fathom-identity": dict(zip(("signing.pem", "public.pem"), make_keys(), strict=True)),
    "fathom-gateway": {"token": "a-token-of-the-tests"},
    "fathom-backup": {"url": BACKUPS},
    "nats-login": {"user": "fathom", "password": "7/w0rd+1#"},
}
ONE_OF_EACH = ("defaults.replicas=1", "services.sandbox.replicas=1")
TWO_WHERE_IT_MATTERS = ("defaults.replicas=1", "services.planner.replicas=2")
HOLDERS = ("planner", "sandbox", "memory", "gateway")
ALL_SERVICES = (*HOLDERS, "policy", "retrieval", "datafetch", "reward", "grading", "nats")
PREFIX = "demo-fathom"
ENDING_S = 260.0
WARM_S, QUIET_S, SETTLE_S = 5.0, 10.0, 3.0


@asynccontextmanager
async def cluster(folder: Path, *settings: str, ready_s: float = 120.0) -> AsyncIterator[Cluster]:
    """The release of ``VALUES`` with every pod ready, and the object store that it expects outside."""
    # A folder of the S3 server is a bucket, which it knows by when it starts.
    for bucket in ("fathom", "backups"):
        (folder / "s3" / bucket).mkdir(parents=True)
    compile_checkout()
    found = Cluster(render("helm4", VALUES, "demo", *settings), SECRETS, folder, {"s3.storage": NODE})
    try:
        await found.start()
        store = found.store = await object_store(folder / "s3")
        try:
            await found.until_ready(ready_s)
            yield found
        finally:
            store.terminate()
            await store.wait()
    finally:
        await found.close()


async def object_store(folder: Path) -> asyncio.subprocess.Process:
    rclone = shutil.which("rclone", path=str(Path(sys.executable).parent)) or "rclone"
    secret = SECRETS["fathom-object-store"]
    return await asyncio.create_subprocess_exec(
        rclone, "--config", str(folder.parent / "rclone.conf"), "serve", "s3", "--auth-key",
        f"{secret['AWS_ACCESS_KEY_ID']},{secret['AWS_SECRET_ACCESS_KEY']}", "--addr", f"{NODE}:9000", str(folder),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip


async def smoke(folder: Path) -> dict[str, Any]:
    """The README's question over HTTP and from a terminal in a pod, a definition, and ``helm test``."""
    clock = Laps()
    async with cluster(folder, *ONE_OF_EACH) as found:
        clock("ready")
        running = {pod.name: await observe(pod) for pod in found.pods}
        idle = await measure_pods(found)
        base = f"http://{found.lookup_one(f'{PREFIX}-gateway')}"
        async with open_aliased_session() as session:
            events = [event async for event in ask_over_http(session, base, QUESTION)]
        clock("question")
        (gateway,) = (pod for pod in found.pods if pod.workload.component == "gateway")
        command = ["fathom", "ask", "--planner", f"grpc://{PREFIX}-planner:50051", QUESTION]
        terminal = await gateway.container.execute(command)
        definition = await gateway.container.execute([*command[:-1], DEFINITION])
        clock("terminal")
        (grading,) = (pod for pod in found.pods if pod.workload.component == "grading")
        grades = await wait_for_grades(grading.container.address, runs=3)
        clock("graded")
        helm_test = await found.run(hook(found.documents, "test"))
        clock("helm test")
        pods = {pod.name: {"restarts": pod.restarts, "ready_s": pod.ready_after_s} for pod in found.pods}
        used = await measure_pods(found)
        said = gateway.container.log.read_text()
    clock("ended")
    return {
        "running": running, "events": events, "terminal": [terminal, said], "definition": definition,
        "helm_test": helm_test, "pods": pods, "grades": grades, "seconds": clock.laps,
        "usage": {name: {"idle": idle[name], "used": used[name]} for name in idle},
    }  # fmt: skip


async def measure_pods(found: Cluster) -> dict[str, dict[str, float]]:
    """Return memory and processor time of every pod by its component."""
    return {pod.workload.component: asdict(measure(await pod.container.inner())) for pod in found.pods}


async def wait_for_grades(address: str, runs: int) -> dict[str, float]:
    """Return the counters of the watch over production, once so many runs are graded."""

    async def read_counters() -> dict[str, float]:
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}:9090/metrics") as response:
            lines = [line.rpartition(" ") for line in (await response.text()).splitlines() if line[0] != "#"]
        found = {name: float(value) for name, _, value in lines if name.startswith("fathom_grading_")}
        done = sum(value for name, value in found.items() if name.startswith("fathom_grading_runs_total"))
        return found if done >= runs else {}

    return await eventually(read_counters, every_s=0.2)


class Laps:
    """Seconds between one call and the next, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def __call__(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name], self._last = round(now - self._last, 2), now


async def observe(pod: Pod) -> dict[str, Any]:
    """Return command line, environment and user of the pod's process as the kernel has them."""
    process = Path(f"/proc/{await pod.container.inner()}")
    command = process.joinpath("cmdline").read_bytes().decode().split("\0")[:-1]
    environment = process.joinpath("environ").read_bytes().decode().split("\0")[:-1]
    return {
        "command": command,
        "environment": dict(item.split("=", 1) for item in environment),
        "address": pod.container.address,
    }


@dataclass
class Window:
    """A stretch of time under load, in seconds since the epoch; ``in_time``: the old pods ended within their grace."""

    name: str
    began: float
    ended: float
    in_time: bool = True


async def rolling(folder: Path, stages: str, *settings: str) -> dict[str, Any]:
    """``kubectl rollout restart`` while users of all services are at work.

    Stages are separated by commas and come one after the other; services of a stage, joined by ``+``, restart together.
    """
    async with cluster(folder, *settings, ready_s=300) as found:
        users = running(hook(found.documents, "test"), "load", load_command(found))
        load = await found.launch(users)
        await asyncio.sleep(WARM_S)
        began = time.time()
        await asyncio.sleep(QUIET_S)
        windows = [Window("quiet", began, time.time())]
        for stage in stages.split(","):
            began = time.time()
            in_time = await asyncio.gather(*(found.restart(f"{PREFIX}-{name}") for name in stage.split("+")))
            await asyncio.sleep(SETTLE_S)
            windows.append(Window(stage, began, time.time(), all(in_time)))
        status = await end_load(load)
        crashes = {pod.name: pod.restarts for pod in found.pods if pod.restarts}
        return {
            "windows": [window.__dict__ for window in windows],
            "operations": operations(load.log.read_text()),
            "load": [status, tail(load.log)],
            "crashes": crashes,
        }


def load_command(found: Cluster) -> list[str]:
    sandboxes = sum(pod.workload.component == "sandbox" for pod in found.pods)
    return ["env", *make_environ(), "python3", "-m", "tests.integration.cluster.load", PREFIX, str(sandboxes)]


def make_environ() -> list[str]:
    """Return the variables that let a program in a pod call every service, and the gateway."""
    tokens = Tokens(SECRETS["fathom-identity"]["signing.pem"])
    token = tokens.sign("load", ANY_SERVICE, role=OPERATOR, tenant=DEFAULT_TENANT, lifetime_s=3600)
    return [f"FATHOM_TOKEN={token}", f"FATHOM_GATEWAY_TOKEN={SECRETS['fathom-gateway']['token']}"]


async def end_load(load: Container) -> int:
    """Tell the users to come to their ends; return the exit status of their program."""
    assert load.process is not None
    os.kill(await load.inner(), signal.SIGTERM)
    async with asyncio.timeout(ENDING_S):
        return await load.process.wait()


def operations(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines() if line.startswith('{"what"')]


def open_aliased_session() -> aiohttp.ClientSession:
    """Open a session as through ``kubectl port-forward``: the gateway is asked for as localhost."""
    headers = {"host": "localhost", "authorization": f"Bearer {SECRETS['fathom-gateway']['token']}"}
    return aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=120))


async def ask_over_http(session: aiohttp.ClientSession, base: str, question: str) -> AsyncIterator[dict[str, Any]]:
    """Start a run over HTTP and yield its events to the end."""
    async with session.post(f"{base}/v1/runs", json={"question": question}) as response:
        response.raise_for_status()
        run_id = (await response.json())["run_id"]
    async with session.get(f"{base}/v1/runs/{run_id}/events") as response:
        async for line in response.content:
            # A ping has no content.
            if line.startswith(b"data:") and (event := json.loads(line[5:])):
                yield event


async def neighbours(folder: Path) -> dict[str, Any]:
    """Return the node's hardware address as it is while pods come and go."""
    network = Network()
    await network.start()
    names = ("first", "second", "third")
    seen = []
    for name in names:
        await network.join(name, network.address())
        seen.append(await read_hardware_address())
    for name in names:
        await network.leave(name)
        seen.append(await read_hardware_address())
    return {"addresses": seen}


async def read_hardware_address() -> str:
    """Return the bridge's hardware address, to which pods send what is meant for the node."""
    show = ("ip", "-json", "link", "show", BRIDGE)
    process = await asyncio.create_subprocess_exec(*show, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return str(json.loads(said)[0]["address"])


Scenario = Callable[..., Coroutine[Any, Any, dict[str, Any]]]
SCENARIOS: dict[str, Scenario] = {"smoke": smoke, "rolling": rolling, "neighbours": neighbours}
