"""Which walls stand: built and tried from both sides at start, never taken on trust, never lowered later."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from fathom.errors import DependencyFailed, FathomError
from services.sandbox.canary import PROBE, Canary, canaries
from services.sandbox.cell import Cell
from services.sandbox.config import Config
from services.sandbox.events import Output, Status
from services.sandbox.jail import kernel, landlock
from services.sandbox.jail.plan import WALLS
from services.sandbox.leash import WallFailed
from services.sandbox.process import Jailer, WorkerProcess
from services.sandbox.procfs import Census
from services.sandbox.remedies import look_around, remedy

PROBE_S = 10.0

HIDDEN = (
    f"runtime: {sys.base_prefix} is not readable for the session's user: cells can use only what the fork server has"
    " imported; install Python where every user can read it"
)


class Level(IntEnum):
    """From weakest to strongest; the numbers are those of the API's enumeration."""

    NONE = 1
    LANDLOCK = 2
    NAMESPACE = 3
    GUEST_KERNEL = 4
    VM = 5

    @property
    def word(self) -> str:
        """As settings write it."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> Level:
        """The level of a setting's word, or of walls without anything around them."""
        return cls.NONE if word == "seccomp" else cls[word.upper().replace("-", "_")]


def implied(level: Level) -> list[str]:
    """Health names of a level: its own and those of all weaker ones."""
    return [f"isolation.{one.word}" for one in Level if one <= level]


@dataclass(frozen=True)
class Report:
    """What was achieved: the level, its layers, and what is missing with the reason."""

    level: Level
    walls: str
    layers: tuple[str, ...]
    missing: tuple[str, ...]


class IsolationTooWeak(FathomError):
    """The achieved isolation is below ``min_isolation``; the service does not start."""

    code, reason = "FAILED_PRECONDITION", "INVALID_FIELD"

    def __init__(self, message: str) -> None:
        super().__init__(message, metadata={"field": "sandbox.min_isolation"})


async def achieve(config: Config, jailer: Jailer) -> Report:
    """The strongest walls that can be built and hold here; raises ``IsolationTooWeak`` below ``min_isolation``."""
    wanted = Level.of(config.min_isolation)
    if wanted is Level.NONE and not config.run_hostile_code_without_any_isolation:
        raise IsolationTooWeak(
            "sandbox.min_isolation is none: cells could do whatever this user can. Say so with"
            " sandbox.run_hostile_code_without_any_isolation=true, or ask for landlock or namespace"
        )
    shown = boundary_shown(config.boundary)
    boundary = config.boundary if shown else ""
    failed = [] if shown else [f"boundary: {config.boundary} was promised, but nothing here shows it"]
    for walls in WALLS[WALLS.index(config.walls) :]:
        level = bounded(walls, boundary)
        if level < wanted:
            failed += await offer(config, jailer, walls)
            break
        wrong, notes = await tried(config, replace(jailer, walls=walls))
        if not wrong:
            return Report(level, walls, layers(walls, jailer, boundary), (*failed, *absent(jailer), *notes))
        failed += [f"{walls}: {text}" for text in wrong]
    raise IsolationTooWeak(f"sandbox.min_isolation is {config.min_isolation}, and this is missing: {'; '.join(failed)}")


async def offer(config: Config, jailer: Jailer, walls: str) -> list[str]:
    """Say how to accept walls weaker than asked for, where they keep cells from the host and hold here."""
    if walls != "landlock" or (await tried(config, replace(jailer, walls=walls)))[0]:
        return []
    accept = "FATHOM_SANDBOX_MIN_ISOLATION=landlock"
    return [
        "landlock, the next weaker level, holds here (SECURITY.md says what it does not stop); to accept it set"
        f" sandbox.min_isolation to landlock, e.g. {accept} fathom up, or {accept} make run"
    ]


def boundary_shown(boundary: str) -> bool:
    """Whether there is evidence of what the operator says stands around the pod; of nothing there always is."""
    return not boundary or (is_gvisor() if boundary == "guest-kernel" else is_virtual_machine())


def bounded(walls: str, boundary: str) -> Level:
    """The level of walls with what stands around the pod."""
    inside = Level.of(walls)
    if not boundary or walls == "none":
        return inside
    # gVisor has no Landlock: a filtered process is what it wants inside. A virtual machine is no excuse for less.
    return Level.of(boundary) if boundary == "guest-kernel" or inside > Level.NONE else inside


def is_gvisor() -> bool:
    """Whether the kernel's log is the one that gVisor's kernel writes."""
    import ctypes

    buffer = ctypes.create_string_buffer(8192)
    try:
        length = kernel.call("syslog", 3, ctypes.addressof(buffer), 8192)
    except OSError:
        return False
    return b"gVisor" in buffer.raw[:length]


def is_virtual_machine() -> bool:
    """Whether the processor says that a hypervisor runs it."""
    try:
        return " hypervisor" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


async def tried(config: Config, jailer: Jailer) -> tuple[list[str], list[str]]:
    """Builds one session, runs the probe in it and looks at it from outside.

    Gives what does not hold, and what is no weakness but will be missed.
    """
    worker = WorkerProcess(config, jailer)
    try:
        await worker.start()
    except WallFailed as error:
        mend = remedy(error.stage, error.errno, look_around())
        return [f"{error.stage} cannot be built ({error.error}); remedy: {mend}"], []
    except DependencyFailed as error:
        return [error.message], []
    try:
        async with canaries() as canary:
            seen = outside_facts(worker, jailer)
            printed, status = await run_probe(worker, config, canary)
            notes = [HIDDEN] if "runtime hidden" in printed else []
            return verdicts(jailer.walls, seen, printed, status, canary), notes
    finally:
        await worker.end()


async def run_probe(worker: WorkerProcess, config: Config, canary: Canary) -> tuple[str, Status]:
    """The probe's output and how it ended."""
    printed: list[str] = []
    code = PROBE.format(
        canary=canary.file, port=canary.port, unix=canary.unix, abstract=canary.abstract, supervisor=os.getpid()
    )
    emit: Callable[[object], None] = lambda event: printed.append(event.text if isinstance(event, Output) else "")  # noqa: E731
    outcome = await Cell(worker, config, Census(), 0, emit).run(code, PROBE_S)
    return "".join(printed) + outcome.traceback, outcome.status


def outside_facts(worker: WorkerProcess, jailer: Jailer) -> dict[str, str]:
    """What the kernel says about the worker: its capabilities, filters, users, and foreign namespaces."""
    lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    facts = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    for name in kernel.NAMESPACES:
        try:
            foreign = os.readlink(f"/proc/{worker.pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
        except OSError:  # a process of another user's that we may not look into
            foreign = True
        facts[f"ns {name}"] = "own" if foreign else "shared"
    return facts


def verdicts(walls: str, seen: dict[str, str], printed: str, status: Status, canary: Canary) -> list[str]:
    """What does not hold, in words; empty when everything does."""
    if status is not Status.OK or "scratch written" not in printed:
        return [f"the probe ended as {status.name}: {printed[-400:]}"]
    if walls == "none":
        return []
    wrong = []
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
    wrong += [f"{name} was not refused" for name in sorted(must_refuse(walls) - refused)]
    return wrong


def must_refuse(walls: str) -> set[str]:
    """Names of the probe's attempts that these walls must have stopped."""
    expected = {"tcp", "unix", "abstract", "ptrace"}
    if walls in ("namespace", "landlock"):
        expected |= {"read", "write", "root", "outside"}
    if walls == "namespace" or (walls == "landlock" and landlock.abi() >= 6):
        expected.add("signal")
    if walls in ("namespace", "landlock") and landlock.abi() >= 6:
        expected.add("parent")
    return expected


def layers(walls: str, jailer: Jailer, boundary: str) -> tuple[str, ...]:
    """The layers in place, in the order in which they are applied."""
    found = ["process", "clean environment", "rlimits", "watch on memory, CPU time and processes"]
    if jailer.cgroups is not None:
        shares = ", processes and CPU time" if jailer.cgroups.bounds_cpu else " and processes"
        found.append(f"cgroup: memory{shares}")
    if os.geteuid() == 0:
        found.append("user of its own")
    if walls != "none":
        found += ["no new privileges", "no capabilities"]
        found += [f"landlock ABI {landlock.abi()}"] if walls != "seccomp" else []
        found.append("seccomp allow-list")
    if walls == "namespace":
        found += [f"{name} namespace" for name in kernel.NAMESPACES]
        found += ["file system of its own", "no network", "scratch quota"]
    return (*found, *((f"boundary: {boundary}",) if boundary else ()))


def absent(jailer: Jailer) -> tuple[str, ...]:
    """Layers that could be there and are not, with the reason."""
    return () if jailer.cgroups is not None else ("cgroup: not available or switched off; the watch stands in for it",)
