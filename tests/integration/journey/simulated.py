"""The journey on the cluster of namespaces: what needs an API server, an operator or walls is not seen there."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.chart.rendering import render
from tests.integration.cluster.cluster import Cluster, Pod
from tests.integration.cluster.container import tail
from tests.integration.cluster.load import USERS
from tests.integration.cluster.manifests import hook, job, running
from tests.integration.cluster.report import during
from tests.integration.cluster.scenarios import (
    ALL_SERVICES,
    BACKUPS,
    PREFIX,
    QUESTION,
    TWO_WHERE_IT_MATTERS,
    VALUES,
    Window,
    ask_over_http,
    cluster,
    end_load,
    load_command,
    open_aliased_session,
    operations,
)  # fmt: skip
from tests.integration.journey.on_cluster import MEMORY, TURNS
from tests.integration.journey.steps import NOT_SEEN, SEEN, Journal, Record
from tests.support.waiting import eventually

READY_S = 300.0
SCALED = ("planner", "retrieval", "policy")
RESTORING = ("backup.restore=latest", "backup.replace=true", "backup.urlSecret=fathom-backup")
WHY_NOT = {
    "doctor": "no API server; tests/unit/cluster asks one of the tests",
    "training, no workers": "no API server and no operator; tests/chart/test_ray.py holds the jobs against its rules",
    "training, two workers": "likewise",
    "walls": "no engine enforces policies; tests/chart/test_flows.py plays one over the documents",
}


class Lost(Exception):
    """Operations of users that failed, or pods that ended by themselves."""


async def journey(folder: Path) -> dict[str, Any]:
    """Walk the steps that this cluster can show; return the records."""
    journal = Journal(folder / "records.json")
    release = AsyncExitStack()
    # Each step's seconds are its own: the release outlives the step that installs it.
    async with release:
        with journal.step("install") as record:
            found = await release.enter_async_context(cluster(folder, *TWO_WHERE_IT_MATTERS, ready_s=READY_S))
            record.detail = describe_start(found)
        # Everything else would fail for the same reason.
        if journal.records["install"].state == SEEN:
            await walk(journal, found)
            processes = [pod.container for pod in found.pods]
            with journal.step("uninstall") as last:
                await release.aclose()
                left = [item.pod for item in processes if item.process is None or item.process.returncode is None]
                if left:
                    raise Lost(f"still there: {left}")
                last.detail = f"{len(processes)} pods ended; objects of an API server are not simulated"
    for name, reason in WHY_NOT.items():
        journal.records[name] = Record(name, NOT_SEEN, detail=reason)
    return {"records": [asdict(record) for record in journal.finish("the journey ended before it")]}


def describe_start(found: Cluster) -> str:
    """Return how many pods are ready, and which of them took longest from its container's start."""
    last = max(found.pods, key=lambda pod: pod.ready_after_s)
    restarts = sum(pod.restarts for pod in found.pods)
    slowest = f"{last.workload.component} after {last.ready_after_s:.1f} s"
    return f"{len(found.pods)} pods, the last one ready {slowest}, {restarts} restarts"


async def walk(journal: Journal, found: Cluster) -> None:
    with journal.step("helm test"):
        status, said = await found.run(hook(found.documents, "test"))
        if status:
            raise Lost(said)
    with journal.step("smoke") as record:
        record.detail = await ask_smoke_question(found)
    with journal.step("upgrade") as record:
        async with using(found, record, "upgrade"):
            await restart_each(found, ALL_SERVICES)
    with journal.step("rollback") as record:
        async with using(found, record, "rollback"):
            await restart_each(found, ALL_SERVICES)
    with journal.step("kill") as record:
        # A killed service with one pod is away for as long as its start takes: whoever asks it alone notices, and a
        # question must not.
        async with using(found, record, "kill", {"question"}) as users:
            for pod in [pod for pod in found.pods if pod.workload.component in ALL_SERVICES]:
                began = time.time()
                await kill(found, pod)
                await users.settle(Window(pod.workload.component, began, time.time()))
    with journal.step("scale") as record:
        async with using(found, record, "scale"):
            for name in SCALED:
                # Up and down at once, so that the next one has the same load.
                added = await found.add(found.workloads[f"{PREFIX}-{name}"])
                await found.until_ready(READY_S, [added])
                await found.remove(added)
    with journal.step("store away") as record:
        record.detail = await take_the_store_away(found)
    with journal.step("restart of all") as record:
        record.detail = await restart_all_at_once(found)
    with journal.step("backup") as record:
        record.detail = await back_up(found)
    with journal.step("restore") as record:
        record.detail = await restore(found)


async def ask_smoke_question(found: Cluster) -> str:
    """Ask README's question over HTTP; return what the answer has."""
    async with open_aliased_session() as session:
        base = f"http://{found.lookup_one(f'{PREFIX}-gateway')}"
        events = [event async for event in ask_over_http(session, base, QUESTION)]
    answer = events[-1]["finished"]["answer"]
    if not answer["cited"] or "-38.52%" not in answer["markdown"]:
        raise Lost(str(answer)[:500])
    return f"{len(answer['cited'])} citations"


@dataclass
class Users:
    """Users of all services at work, and what was taken from them."""

    log: Path
    losses: list[Window] = field(default_factory=list)

    def read(self) -> list[dict[str, Any]]:
        """Return the operations that have ended."""
        return operations(self.log.read_text())

    async def settle(self, loss: Window) -> None:
        """Record a loss, and wait until everybody has ended an operation that began after it.

        One slow operation would otherwise count for whatever is taken away next, too.
        """
        self.losses.append(loss)
        await eventually(lambda: is_over(loss, self.read()), within_s=READY_S)


@asynccontextmanager
async def using(found: Cluster, record: Record, name: str, kept: Set[str] | None = None) -> AsyncIterator[Users]:
    """Have users of all services at work within the block; raise ``Lost`` when one failed.

    ``kept`` names the users who must not notice; without it, none may. The block may tell the users that it gets what
    it has taken away, and when: the record then says what each of these losses cost.
    """
    pod = running(hook(found.documents, "test"), f"load-{name}", load_command(found))
    load = await found.launch(pod)
    users = Users(load.log)
    try:
        # Everybody once: a first question takes long, and would count for each loss that comes before its end.
        await eventually(lambda: {item["what"] for item in users.read()} == USERS, within_s=READY_S)
        yield users
    finally:
        status = await end_load(load)
    done = users.read()
    lost = [item for item in done if "error" in item]
    record.detail = f"{len(done) - len(lost)} of {len(done)} operations good, {describe_waits(done, users.losses)}"
    if status or any(kept is None or item["what"] in kept for item in lost):
        raise Lost(f"{record.detail}: {lost[:3]} {tail(load.log, 500) if status else ''}")


def is_over(loss: Window, done: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether everybody has ended an operation that began after the loss."""
    return {item["what"] for item in done} == {item["what"] for item in done if item["began"] >= loss.ended}


def describe_waits(done: Sequence[Mapping[str, Any]], losses: Sequence[Window]) -> str:
    """Return the longest operation with its name, and of those beside each loss what it took, and usually takes."""
    said = [f"the longest {describe_longest(done)}"]
    spans = [vars(window) for window in losses]
    calm = [item for item in done if not any(during([item], span) for span in spans)]
    for component in dict.fromkeys(window.name for window in losses):
        # Several pods of a component are one kind of loss.
        own = [span for span in spans if span["name"] == component]
        beside = [item for span in own for items in during(done, span).values() for item in items]
        said.append(f"{component} {describe_longest(beside, calm)}" if beside else f"{component} nobody")
    return "; ".join([", by what was lost: ".join(said[:2]), *said[2:]])


def describe_longest(done: Sequence[Mapping[str, Any]], calm: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the operation that took longest beyond its kind's median among those where nothing was lost."""
    kinds = {item["what"] for item in done}
    usual = {kind: [float(item["seconds"]) for item in calm if item["what"] == kind] for kind in kinds}
    medians = {kind: statistics.median(seconds) for kind, seconds in usual.items() if seconds}
    worst = max(done, key=lambda item: float(item["seconds"]) - medians.get(item["what"], 0.0))
    what, seconds = worst["what"], float(worst["seconds"])
    return f"{seconds:.1f} s ({what}" + (f", usually {medians[what]:.1f})" if what in medians else ")")


async def restart_each(found: Cluster, names: Sequence[str]) -> None:
    """Replace every pod as a changed ConfigMap does: all workloads at once, each by its own rule."""
    in_time = await asyncio.gather(*(found.restart(f"{PREFIX}-{name}", READY_S) for name in names if name != "nats"))
    if not all(in_time):
        raise Lost("a pod did not end within its grace period")


async def kill(found: Cluster, pod: Pod) -> None:
    """Kill the main process and wait until the kubelet has brought the pod back."""
    before = pod.restarts
    os.kill(await pod.container.inner(), signal.SIGKILL)
    await eventually(lambda: pod.restarts > before, within_s=READY_S)
    await found.until_ready(READY_S, [pod])


async def take_the_store_away(found: Cluster) -> str:
    """Answer no name of the store for a while, with every open connection to it broken."""
    (planner, *_) = (pod for pod in found.pods if pod.workload.component == "planner")
    store = found.store
    assert store is not None
    # Stopped and not ended: connections stay open and nothing answers, as behind a wall that drops packets.
    os.kill(store.pid, signal.SIGSTOP)
    try:
        await eventually(lambda: not planner.ready, within_s=READY_S)
    finally:
        os.kill(store.pid, signal.SIGCONT)
    await found.until_ready(READY_S)
    return "not ready while the store hung, ready again without a restart"


async def restart_all_at_once(found: Cluster) -> str:
    """End every pod and start all again in the same moment; raise ``Lost`` when one ended by itself afterwards."""
    # Names of a StatefulSet's pods are kept, and with them their volumes.
    workloads = [(pod.workload, pod.name.rpartition("-")[2]) for pod in found.pods]
    await asyncio.gather(*(found.remove(pod) for pod in list(found.pods)))
    for workload, ordinal in workloads:
        await found.add(workload, int(ordinal) if workload.kind == "StatefulSet" else 0)
    await found.until_ready(READY_S)
    if ended := {pod.name: tail(pod.container.log, 300) for pod in found.pods if pod.restarts}:
        raise Lost(str(ended))
    return f"{len(found.pods)} pods, no restart"


async def back_up(found: Cluster) -> str:
    """Back up and verify in memory's pod, as docs/operations.md says."""
    for command in (["create"], ["verify", "latest"]):
        said = await execute(found, ["backup", *command, "--at", BACKUPS])
    return said.strip().splitlines()[-1]


async def restore(found: Cluster) -> str:
    """Erase everybody, restore with every service stopped, and ask again, as docs/operations.md says."""
    held = await count_turns(found)
    await execute(found, ["memory", "erase", "--everybody", "--yes", "--memory", MEMORY])
    left = await count_turns(found)
    if left or not held:
        raise Lost(f"{held} turns before the erasure, {left} after it")
    stopped = [pod for pod in found.pods if pod.workload.component != "nats"]
    workloads = [(pod.workload, pod.name.rpartition("-")[2]) for pod in stopped]
    await asyncio.gather(*(found.remove(pod) for pod in stopped))
    settings = (*TWO_WHERE_IT_MATTERS, *RESTORING)
    status, said = await found.run(job(render("helm4", VALUES, "demo", *settings), "backup"))
    if status:
        raise Lost(said)
    for workload, ordinal in workloads:
        await found.add(workload, int(ordinal) if workload.kind == "StatefulSet" else 0)
    await found.until_ready(READY_S)
    if (there := await count_turns(found)) != held:
        raise Lost(f"{there} turns of {held} are there again: {said}")
    return f"{held} turns are there again; asked once more: {await ask_smoke_question(found)}"


async def count_turns(found: Cluster) -> int:
    """Return the number of turns that memory holds of everybody."""
    command = ["memory", "export", "/tmp/rows.jsonl", "--everybody", "--memory", MEMORY]
    counted = TURNS.search(await execute(found, command))
    return int(counted[1]) if counted else 0


async def execute(found: Cluster, words: Sequence[str]) -> str:
    """Run ``fathom`` in memory's pod, where bus, store and database are at hand; return what it said."""
    (memory,) = (pod for pod in found.pods if pod.workload.component == "memory")
    # What runs in a pod writes into its log, behind what the service has written.
    before = memory.container.log.stat().st_size
    status = await memory.container.execute(["fathom", *words])
    said = memory.container.log.read_bytes()[before:].decode(errors="replace")
    if status:
        raise Lost(said)
    return said
