"""Achieved isolation, found by building and probing a session when the supervisor starts; never lowered later."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fathom.core.errors import DependencyFailed, FathomError
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.inside.jail import kernel, landlock
from fathom.services.sandbox.ipc.levels import Level
from fathom.services.sandbox.ipc.plan import WALLS
from fathom.services.sandbox.supervisor.cell import Cell
from fathom.services.sandbox.supervisor.events import Output, Status
from fathom.services.sandbox.supervisor.host.procfs import UsageReader
from fathom.services.sandbox.supervisor.isolation.canary import PROBE, Canary, open_canary
from fathom.services.sandbox.supervisor.isolation.remedies import find_remedy, read_host_facts
from fathom.services.sandbox.supervisor.worker.init_handle import WallFailed
from fathom.services.sandbox.supervisor.worker.process import JailResources, WorkerProcess

# The probe's connection attempts wait up to a second each when a wall drops them silently.
PROBE_S = 10.0

HIDDEN = (
    f"runtime: {sys.base_prefix} is not readable for the session's user: cells can use only what the fork server has"
    " imported; install Python where every user can read it"
)


@dataclass(frozen=True)
class Report:
    """The achieved isolation: level, layers in place, and missing ones with the reason."""

    level: Level
    walls: str
    layers: tuple[str, ...]
    missing: tuple[str, ...]


class IsolationTooWeak(FathomError):
    """The achieved isolation is below ``min_isolation``; the service does not start."""

    code, reason = "FAILED_PRECONDITION", "INVALID_FIELD"

    def __init__(self, message: str) -> None:
        super().__init__(message, metadata={"field": "sandbox.min_isolation"})


async def achieve(config: Config, jailer: JailResources) -> Report:
    """Return the strongest isolation that holds here; raise ``IsolationTooWeak`` below ``min_isolation``."""
    wanted = Level.of(config.min_isolation)
    if wanted is Level.NONE and not config.run_hostile_code_without_any_isolation:
        raise IsolationTooWeak(
            "sandbox.min_isolation is none: cells could do whatever this user can. Say so with"
            " sandbox.run_hostile_code_without_any_isolation=true, or ask for landlock or namespace"
        )
    shown = is_boundary_evident(config.boundary)
    boundary = config.boundary if shown else ""
    failed = [] if shown else [f"boundary: {config.boundary} was promised, but nothing here shows it"]
    for walls in WALLS[WALLS.index(config.walls) :]:
        level = combine_level(walls, boundary)
        if level < wanted:
            failed += await suggest_weaker_level(config, jailer, walls)
            break
        wrong, notes = await probe_walls(config, replace(jailer, walls=walls))
        if not wrong:
            return Report(
                level,
                walls,
                list_layers(walls, jailer, boundary),
                (*failed, *list_missing_layers(walls, jailer), *notes),
            )
        failed += [f"{walls}: {text}" for text in wrong]
    raise IsolationTooWeak(f"sandbox.min_isolation is {config.min_isolation}, and this is missing: {'; '.join(failed)}")


async def suggest_weaker_level(config: Config, jailer: JailResources, walls: str) -> list[str]:
    """Return how to accept walls weaker than required, if they keep cells from the host and hold here; else nothing."""
    if walls != "landlock" or (await probe_walls(config, replace(jailer, walls=walls)))[0]:
        return []
    accept = "FATHOM_SANDBOX_MIN_ISOLATION=landlock"
    return [
        "landlock, the next weaker level, holds here (SECURITY.md says what it does not stop); to accept it set"
        f" sandbox.min_isolation to landlock, e.g. {accept} fathom up, or {accept} make run"
    ]


def is_boundary_evident(boundary: str) -> bool:
    """Return whether there is evidence of the boundary that the operator declared; always True for none."""
    return not boundary or (is_gvisor() if boundary == "guest-kernel" else is_virtual_machine())


def combine_level(walls: str, boundary: str) -> Level:
    """Return the level of walls together with the boundary around the pod."""
    inside = Level.of(walls)
    if not boundary or walls == "none":
        return inside
    # gVisor has no Landlock, so a process with a seccomp filter suffices there. A virtual machine replaces no wall.
    return Level.of(boundary) if boundary == "guest-kernel" or inside > Level.NONE else inside


def is_gvisor() -> bool:
    """Return whether the kernel's log is one that gVisor's kernel writes."""
    import ctypes

    buffer = ctypes.create_string_buffer(8192)
    try:
        # SYSLOG_ACTION_READ_ALL: gVisor answers with a log of its own, which names it.
        length = kernel.call("syslog", 3, ctypes.addressof(buffer), 8192)
    except OSError:
        return False
    return b"gVisor" in buffer.raw[:length]


def is_virtual_machine() -> bool:
    """Return whether the processor reports a hypervisor."""
    try:
        return " hypervisor" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


async def probe_walls(config: Config, jailer: JailResources) -> tuple[list[str], list[str]]:
    """Build one session, run the probe in it and look at it from outside.

    Return what does not hold, and notes on what limits cells without being a weakness.
    """
    worker = WorkerProcess(config, jailer)
    try:
        await worker.start()
    except WallFailed as error:
        mend = find_remedy(error.stage, error.errno, read_host_facts())
        return [f"{error.stage} cannot be built ({error.error}); remedy: {mend}"], []
    except DependencyFailed as error:
        return [error.message], []
    try:
        async with open_canary() as canary:
            seen = read_kernel_facts(worker, jailer)
            printed, status = await run_probe(worker, config, canary)
            notes = [HIDDEN] if "runtime hidden" in printed else []
            return find_breaches(jailer.walls, seen, printed, status, canary), notes
    finally:
        await worker.end()


async def run_probe(worker: WorkerProcess, config: Config, canary: Canary) -> tuple[str, Status]:
    """Return the probe's output and its end status."""
    printed: list[str] = []
    code = PROBE.format(
        canary=canary.file, port=canary.port, unix=canary.unix, abstract=canary.abstract, supervisor=os.getpid()
    )
    emit: Callable[[object], None] = lambda event: printed.append(event.text if isinstance(event, Output) else "")  # noqa: E731
    outcome = await Cell(worker, config, UsageReader(), 0, emit).run(code, PROBE_S)
    return "".join(printed) + outcome.traceback, outcome.status


def read_kernel_facts(worker: WorkerProcess, jailer: JailResources) -> dict[str, str]:
    """Return what the kernel reports about the worker: capabilities, filters, users, and own or shared namespaces."""
    lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    facts = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    for name in kernel.NAMESPACES:
        try:
            foreign = os.readlink(f"/proc/{worker.pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
        except OSError:  # a process of another user's that we may not look into
            foreign = True
        facts[f"ns {name}"] = "own" if foreign else "shared"
    return facts


def find_breaches(walls: str, seen: dict[str, str], printed: str, status: Status, canary: Canary) -> list[str]:
    """Return in words what does not hold; nothing when everything does."""
    if status is not Status.OK or "scratch written" not in printed:
        return [f"the probe ended as {status.name}: {printed[-400:]}"]
    if walls == "none":
        return []
    wrong = []
    # Without Landlock or namespaces every file with a permissive mode is within reach; that is what the level says.
    if walls != "seccomp" and (canary.secret in printed or Path(canary.file).read_text() != canary.secret):
        wrong.append("a file outside was reached; remedy: landlock")
    if canary.visits:
        wrong.append("a listener outside was reached")
    # Without namespaces only root can empty its bounding set; for others no_new_privs makes it mean nothing.
    bounding = ("CapBnd",) if walls == "namespace" or os.geteuid() == 0 else ()
    wrong += [f"{key} is {seen[key]}" for key in ("CapPrm", "CapEff", "CapAmb", *bounding) if int(seen[key], 16)]
    wrong += [f"{key} is not {value}" for key, value in (("NoNewPrivs", "1"), ("Seccomp", "2")) if seen[key] != value]
    if os.geteuid() == 0 and set(seen["Uid"].split()) & {"0"}:
        wrong.append("the worker is root")
    if walls == "namespace":
        wrong += [f"the {name} namespace is shared" for name in kernel.NAMESPACES if seen[f"ns {name}"] != "own"]
    refused = {line.split()[0] for line in printed.splitlines() if " refused " in line}
    wrong += [f"{name} was not refused" for name in sorted(list_forbidden_attempts(walls) - refused)]
    return wrong


def list_forbidden_attempts(walls: str) -> set[str]:
    """Return the names of the probe's attempts that these walls must have stopped."""
    # Signals by Landlock, or by the filter where Landlock cannot keep them inside; "parent" at namespace by the former
    # alone, since the init process is there.
    expected = {"tcp", "unix", "abstract", "ptrace", "signal", "limits"}
    if walls != "namespace" or landlock.find_abi() >= landlock.SCOPES:
        expected.add("parent")
    if walls in ("namespace", "landlock"):
        expected |= {"read", "write", "root", "outside"}
    if walls == "landlock":
        expected.add("tables")
    return expected


def list_layers(walls: str, jailer: JailResources, boundary: str) -> tuple[str, ...]:
    """Return the layers in place, in the order in which they are applied."""
    found = ["process", "clean environment", "rlimits", "watch on memory, CPU time and processes"]
    if jailer.cgroups is not None:
        shares = ", processes and CPU time" if jailer.cgroups.bounds_cpu else " and processes"
        found.append(f"cgroup: memory{shares}")
    if os.geteuid() == 0:
        found.append("user of its own")
    if walls != "none":
        found += ["no new privileges", "no capabilities"]
        found += [f"landlock ABI {landlock.find_abi()}"] if walls != "seccomp" else []
        found.append("seccomp allow-list")
    if walls == "namespace":
        found += [f"{name} namespace" for name in kernel.NAMESPACES]
        found += ["file system of its own", "no network", "scratch quota"]
    return (*found, *((f"boundary: {boundary}",) if boundary else ()))


def list_missing_layers(walls: str, jailer: JailResources) -> tuple[str, ...]:
    """Return the layers that could be in place but are not, with the reason and what stands in for them."""
    found = []
    if jailer.cgroups is None:
        found.append("cgroup: not available or switched off; the watch stands in for it")
    if walls in ("landlock", "seccomp") and not landlock.keeps_signals(walls):
        why = f"Landlock ABI {landlock.find_abi()} does not" if walls == "landlock" else "nothing else would"
        found.append(f"signals: {why} keep them inside, so that cells can send none, not even to what they started")
    return tuple(found)
