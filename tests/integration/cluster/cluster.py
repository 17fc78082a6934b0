"""Keeps what the manifests ask for: pods that are probed, names of those that are ready, rollouts."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.integration.cluster.container import Container, resolv, tail
from tests.integration.cluster.images import image
from tests.integration.cluster.manifests import Document, Secrets, Surroundings, Workload, workloads
from tests.integration.cluster.network import DOMAIN, NODE, Network, serve_names, serve_virtual
from tests.integration.cluster.probes import Probe, probe
from tests.support.waiting import eventually

BACKOFF_S = (0.0, 10.0, 20.0, 40.0)
"""Between a container's end and its next start, as the kubelet does."""


class NotReady(Exception):
    """Pods that did not get ready in time; the text has their last words."""


@dataclass(eq=False)
class Pod:
    """A pod and what the kubelet knows of it."""

    container: Container
    ready: bool = False
    ending: bool = False
    restarts: int = 0
    ready_after_s: float = 0.0
    kept: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return self.container.pod

    @property
    def workload(self) -> Workload:
        return self.container.workload


class Cluster:
    """``await start()`` in the node's namespaces, see ``node``; ``close`` ends every pod."""

    def __init__(
        self, documents: tuple[Document, ...], secrets: Secrets, folder: Path, outside: Mapping[str, str] | None = None
    ) -> None:
        self.documents, self.folder = documents, folder
        self.outside = dict(outside or {})
        """Addresses of hosts that are no part of the release."""
        self.store: asyncio.subprocess.Process | None = None
        """The object store outside, where a scenario runs one."""
        self.surroundings = Surroundings.of(documents, secrets)
        self.workloads = {item.name: item for item in workloads(documents)}
        self.services = {item["metadata"]["name"]: item["spec"] for item in documents if item["kind"] == "Service"}
        self.pods: list[Pod] = []
        self._network = Network()
        self._serials = itertools.count(1)
        self._virtual: dict[str, str] = {}
        self._open: list[asyncio.AbstractServer | asyncio.BaseTransport] = []
        self._resolv = resolv(NODE, self.surroundings.namespace, DOMAIN)

    async def start(self) -> None:
        """Names, virtual addresses, and every pod at once: nobody waits for anybody, as on a cluster."""
        await self._network.start()
        self._open.append(await serve_names(self.lookup))
        for name, spec in self.services.items():
            if spec.get("clusterIP") != "None":
                await self._serve(name, spec)
        for workload in self.workloads.values():
            for ordinal in range(workload.replicas):
                await self.add(workload, ordinal)

    async def _serve(self, name: str, spec: Document) -> None:
        address = self._virtual[name] = self._network.address()
        await self._network.own(address)
        for port in spec["ports"]:
            targets = partial(self._targets, spec, port["targetPort"])
            self._open.append(await serve_virtual(address, port["port"], targets))

    def _targets(self, spec: Document, target: str) -> list[tuple[str, int]]:
        found = []
        for pod in self._endpoints(spec):
            ports = {port["name"]: port["containerPort"] for port in pod.workload.container["ports"]}
            found.append((pod.container.address, ports[target]))
        return found

    def _endpoints(self, spec: Document) -> list[Pod]:
        """Pods behind a Service: selected, ready (or all, where it says so), and not on their way out."""
        early = spec.get("publishNotReadyAddresses", False)
        return [
            pod
            for pod in self.pods
            if spec["selector"].items() <= pod.workload.labels.items() and (early or (pod.ready and not pod.ending))
        ]

    def lookup(self, name: str) -> Sequence[str] | None:
        """Addresses of a name as the cluster's DNS gives them; None when there is no such name."""
        if name in self.outside:
            return [self.outside[name]]
        short = name.removesuffix(f".{self.surroundings.namespace}.{DOMAIN}")
        if short == name:
            return None
        pod, _, service = short.rpartition(".")
        if service not in self.services:
            return None
        if service in self._virtual:
            return None if pod else [self._virtual[service]]
        there = self._endpoints(self.services[service])
        if pod:
            return [item.container.address for item in there if item.name == pod] or None
        return [item.container.address for item in there]

    def lookup_one(self, name: str) -> str:
        """The only address of a Service or pod of the release."""
        (address,) = self.lookup(f"{name}.{self.surroundings.namespace}.{DOMAIN}") or ()
        return address

    async def add(self, workload: Workload, ordinal: int = 0) -> Pod:
        """Starts a pod of a workload; it is probed from then on."""
        name = f"{workload.name}-{ordinal}" if workload.kind == "StatefulSet" else f"{workload.name}-{self._serial()}"
        address = self._network.address()
        container = Container(
            workload,
            name,
            address,
            image(workload.container["image"]),
            self.surroundings,
            self.folder / "pods" / f"{name}-{address}",
            self.folder / "claims",
            await self._network.join(f"{name}-{address}", address),
            self._resolv,
        )
        pod = Pod(container)
        self.pods.append(pod)
        await container.start()
        pod.kept = asyncio.create_task(self._keep(pod), name=f"kubelet of {name}")
        return pod

    def _serial(self) -> str:
        return f"{next(self._serials):05d}"

    async def _keep(self, pod: Pod) -> None:
        """Probes the pod, and starts its container again when it ends or is not alive."""
        while True:
            probing = asyncio.create_task(self._probe(pod))
            assert pod.container.process is not None
            ended = asyncio.create_task(pod.container.process.wait())
            try:
                await asyncio.wait({probing, ended}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                probing.cancel()
                ended.cancel()
                await asyncio.gather(probing, ended, return_exceptions=True)
            pod.ready = False
            await pod.container.stop(pod.workload.spec["terminationGracePeriodSeconds"])
            await asyncio.sleep(BACKOFF_S[min(pod.restarts, len(BACKOFF_S) - 1)])
            pod.restarts += 1
            await pod.container.start()

    async def _probe(self, pod: Pod) -> None:
        """Returns when the container is to be restarted."""
        started = time.monotonic()
        said, address = pod.workload.container, pod.container.address
        startup, ready, live = (probe(said, f"{name}Probe", address) for name in ("startup", "readiness", "liveness"))
        if not await wait_for_start(startup):
            return
        readiness = asyncio.create_task(self._follow(pod, ready, started))
        try:
            await wait_for_failure(live)
        finally:
            readiness.cancel()

    async def _follow(self, pod: Pod, ready: Probe, started: float) -> None:
        misses = 0
        while True:
            well = await ready()
            misses = 0 if well else misses + 1
            if well and not pod.ready:
                pod.ready_after_s = time.monotonic() - started
                pod.ready = True
            elif misses >= ready.failures:
                pod.ready = False
            pod.changed.set()
            await asyncio.sleep(ready.period_s)

    async def remove(self, pod: Pod) -> bool:
        """Ends a pod as the API server does: out of the names at once, then preStop and SIGTERM.

        True when it ended within its grace period.
        """
        pod.ending = True
        in_time = await pod.container.stop(pod.workload.spec["terminationGracePeriodSeconds"])
        if pod.kept is not None:
            pod.kept.cancel()
            await asyncio.gather(pod.kept, return_exceptions=True)
        self.pods.remove(pod)
        pod.container.remove()
        await self._network.leave(f"{pod.name}-{pod.container.address}")
        return in_time

    async def until_ready(self, timeout_s: float, pods: Sequence[Pod] | None = None) -> None:
        """Returns when all (or these) pods are ready; raises ``NotReady`` with the last words of those that are not."""
        waited = self.pods if pods is None else pods
        try:
            await eventually(lambda: all(pod.ready for pod in waited), within_s=timeout_s)
        except AssertionError:
            late = [pod for pod in waited if not pod.ready]
            words = [f"{pod.name}, {pod.restarts} restarts:\n{tail(pod.container.log)}" for pod in late]
            raise NotReady("\n".join(words)) from None

    async def restart(self, name: str, timeout_s: float = 240.0) -> bool:
        """``kubectl rollout restart``: surge first for a Deployment, highest ordinal first for a StatefulSet.

        True when every old pod ended within its grace period.
        """
        workload = self.workloads[name]
        old = [pod for pod in self.pods if pod.workload.name == name]
        in_time = True
        for pod in reversed(old):
            if workload.kind == "Deployment":
                await self.until_ready(timeout_s, [await self.add(workload)])
                in_time &= await self.remove(pod)
            else:
                in_time &= await self.remove(pod)
                await self.until_ready(timeout_s, [await self.add(workload, int(pod.name.rpartition("-")[2]))])
        return in_time

    async def launch(self, workload: Workload) -> Container:
        """Starts a bare pod that nobody probes or restarts."""
        address = self._network.address()
        container = Container(
            workload,
            workload.name,
            address,
            image(workload.container["image"]),
            self.surroundings,
            self.folder / "pods" / workload.name,
            self.folder / "claims",
            await self._network.join(workload.name, address),
            self._resolv,
        )
        await container.start()
        return container

    async def run(self, workload: Workload) -> tuple[int, str]:
        """Runs a bare pod to its end; gives its exit status and what it wrote."""
        container = await self.launch(workload)
        assert container.process is not None
        status = await container.process.wait()
        return status, container.log.read_text()

    async def close(self) -> None:
        """Ends every pod at once, without grace."""
        for pod in self.pods:
            if pod.kept is not None:
                pod.kept.cancel()
            process = pod.container.process
            if process is not None and process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        for server in self._open:
            server.close()


async def wait_for_start(startup: Probe) -> bool:
    """Wait for the startup probe; return False when it has failed as often as it may."""
    await asyncio.sleep(startup.delay_s)
    for _ in range(startup.failures):
        if await startup():
            return True
        await asyncio.sleep(startup.period_s)
    return False


async def wait_for_failure(live: Probe) -> None:
    """Return when the liveness probe has failed as often as it may in a row."""
    misses = 0
    while misses < live.failures:
        misses = 0 if await live() else misses + 1
        await asyncio.sleep(live.period_s)
