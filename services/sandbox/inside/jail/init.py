"""Init process of a session: builds the walls, starts the worker inside them, reaps, and ends with it.

It is trusted, tiny, and the ancestor of everything that the worker starts. With a process namespace its end
is the end of them all; without one it kills them itself.
"""

from __future__ import annotations

import mimetypes
import os
import resource
import select
import signal
import socket
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from fathom.services.sandbox.inside.jail import kernel, landlock, rootfs, seccomp
from fathom.services.sandbox.inside.jail.fork_gate import ForkGate, list_tasks
from fathom.services.sandbox.ipc import status
from fathom.services.sandbox.ipc.plan import HOME, INSIDE_UID, SessionPlan, build_home_variables

READABLE_PROC = ("/proc/cpuinfo", "/proc/meminfo")
# What Python, its libraries and tools that measure a process read about it.
OWN_PROC = ("cmdline", "comm", "fd", "io", "limits", "maps", "smaps_rollup", "stat", "statm", "status")
WRITABLE_DEVICES = tuple(f"/dev/{name}" for name in rootfs.DEVICES)
# A fork bomb may outrun single rounds; a second of them is enough for any number of processes allowed.
MAX_KILL_ROUNDS = 1_000
# Where one call cannot reach all, processes that have forked meanwhile are looked for again.
SIGNAL_ROUNDS = 3
# What a worker tells its init process with the descriptors, of which there are far fewer than this.
WITH_LISTENER, WITHOUT_LISTENER, MAX_DESCRIPTORS = b"1", b"0", 64
ORDERED_SIGNALS = {order: number for number, order in status.SIGNALS.items()}


@dataclass(frozen=True)
class SessionInputs:
    """Inputs of one session's init process.

    ``runtime`` holds the mounts at ``paths`` where the fork server had to open them, ``programs`` the seccomp filters
    by walls and by whether the session has a control group, ``asking`` by walls those for sessions without one;
    ``channel`` is the status channel, ``socket`` the worker's own, over which ``serve`` does its work.
    """

    plan: SessionPlan
    paths: tuple[str, ...]
    runtime: Mapping[str, int]
    programs: Mapping[tuple[str, bool], bytes]
    asking: Mapping[str, bytes]
    channel: socket.socket
    socket: int
    serve: Callable[[], None]


def run_session(session: SessionInputs) -> NoReturn:
    """Run the init process from start to end; never return."""
    plan, channel = session.plan, session.channel
    try:
        # Names the wall that is being built: a failure reports it, and remedies are found by it.
        stage = "session"
        os.setsid()
        # Without a process namespace orphans would go to the host's init, where nothing here could end them.
        kernel.adopt_orphans()
        # Interrupts are for the worker alone, which gets them from here.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stage = "root file system"
        if plan.walls == "namespace":
            socket.sethostname("session")
            rootfs.build(session.paths, session.runtime or rootfs.open_runtime(session.paths), plan)
        stage = "user"
        become_user(plan)
        stage = "scratch folder"
        home = HOME if plan.walls == "namespace" else plan.scratch
        os.chdir(home)
        scratch = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stage = "privileges"
        if plan.walls != "none":
            kernel.drop_capabilities()
            kernel.no_new_privileges()
        stage = "worker"
        # A signal's arrival becomes something to poll for, beside the orders of the supervisor.
        wake_end, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        gate_end, gate_of_worker = socket.socketpair()
        worker = os.fork()
        if worker == 0:
            # Signals of the worker would be written into the pipe that its parent polls.
            signal.set_wakeup_fd(-1)
            move_home(home)
            start_worker(session, gate_of_worker)
        gate_of_worker.close()
        for descriptor in (session.socket, 0, 1, 2):
            with suppress(OSError):
                os.close(descriptor)
        status.send_status(channel, {"scratch": home}, [scratch])
        os.close(scratch)
        # Entries that the worker's rules name stay open here, out of reach of its cells.
        gate, _ = receive_walls(gate_end, plan.processes)
        watch_worker(worker, channel, wake_end, gate, dedicated=plan.uid >= 0)
    except BaseException as error:  # nothing may unwind into the fork server's code, of which this is a copy
        report_failure(channel, stage, error)
    os._exit(0)


def become_user(plan: SessionPlan) -> None:
    """Become the session's own user, which is no user of the host's file system and not the first namespace's root.

    In a namespace, enter a second user namespace that owns nothing, so that no capability in it reaches the mounts.
    """
    if plan.walls == "namespace":
        if plan.uid >= 0:
            os.setgroups([])
            # The group first: without root nobody may change it any more.
            os.setresgid(INSIDE_UID, INSIDE_UID, INSIDE_UID)
            os.setresuid(INSIDE_UID, INSIDE_UID, INSIDE_UID)
            kernel.make_dumpable()
        kernel.unshare(kernel.CLONE_NEWUSER)
        # Without privileges the kernel takes a map of groups only from who has given up changing them.
        kernel.write("/proc/self/setgroups", "deny")
        kernel.write("/proc/self/uid_map", f"{INSIDE_UID} {INSIDE_UID} 1")
        kernel.write("/proc/self/gid_map", f"{INSIDE_UID} {INSIDE_UID} 1")
    elif plan.uid >= 0:
        if plan.walls != "none":
            kernel.empty_bounding_set()
        os.setgroups([])
        os.setresgid(plan.uid, plan.uid, plan.uid)
        os.setresuid(plan.uid, plan.uid, plan.uid)
        kernel.make_dumpable()


def move_home(home: str) -> None:
    """Name the scratch folder wherever Python looks for a home or for temporary files, also where it has looked."""
    os.environ |= build_home_variables(home)
    tempfile.tempdir = None


def start_worker(session: SessionInputs, gate: socket.socket) -> NoReturn:
    """Build the last walls, in the worker itself, then run it; never return.

    ``gate`` leads to the init process, which gets the listener of the filter, if there is one, and the entries of
    ``/proc`` that it has to leave open.
    """
    plan, channel = session.plan, session.channel
    stage, entries = "limits", list[int]()
    try:
        parent = os.getppid()
        kernel.end_with_parent()
        # The parent may have died before the line above took effect.
        if os.getppid() != parent:
            os._exit(0)
        # A group of its own: a cell that signals its whole group must not reach the process that watches over it.
        os.setpgid(0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        set_limits(plan.limits)
        stage = "landlock"
        if plan.walls in ("namespace", "landlock"):
            entries = confine(plan, session.paths)
        stage = "descriptors"
        # The status channel stays until the last wall stands, to tell of a failure, and goes then.
        for first, last in find_gaps((session.socket, channel.fileno(), gate.fileno(), *entries)):
            with suppress(OSError):
                kernel.call("close_range", first, last, 0)
        stage = "seccomp"
        if plan.walls != "none":
            install_filter(session, gate, entries)
        gate.close()
        channel.close()
    except BaseException as error:  # without this wall the worker must not run
        report_failure(channel, stage, error)
        os._exit(1)
    try:
        session.serve()
    except BaseException:  # as above; the supervisor logs the traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def install_filter(session: SessionInputs, gate: socket.socket, entries: list[int]) -> None:
    """Install the filter of system calls and give the init process what it looks after.

    Without a control group that is the listener by which it decides about forks; the entries follow it.
    """
    plan = session.plan
    listener = -1 if plan.cgroups else seccomp.install_asking(session.asking[plan.walls])
    if listener < 0:
        seccomp.install(session.programs[plan.walls, bool(plan.cgroups)])
    descriptors = entries if listener < 0 else [listener, *entries]
    socket.send_fds(gate, [WITHOUT_LISTENER if listener < 0 else WITH_LISTENER], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def receive_walls(gate_end: socket.socket, processes: int) -> tuple[ForkGate | None, list[int]]:
    """Return the gate of the worker's forks, None where it has none, and the entries to leave open.

    Wait until the last wall of the worker stands, or it has ended.
    """
    with gate_end:
        kind, descriptors, _, _ = socket.recv_fds(gate_end, 1, MAX_DESCRIPTORS)
    if kind != WITH_LISTENER:
        return None, descriptors
    return ForkGate(descriptors[0], processes), descriptors[1:]


def confine(plan: SessionPlan, paths: tuple[str, ...]) -> list[int]:
    """Restrict the reachable files: the runtime to read, the scratch folder to write; return what must stay open."""
    domain = landlock.Domain()
    domain.read((*paths, *READABLE_PROC))
    if plan.walls == "namespace":
        domain.read((f"/proc/{os.getpid()}",))
        # The session's own, with what rootfs has put there.
        domain.read(("/etc",))
        domain.write((HOME, rootfs.TEMPORARY, "/dev/shm"))
    else:
        # Not all of it: without namespaces its network tables and mounts are the host's.
        domain.read(f"/proc/{os.getpid()}/{name}" for name in OWN_PROC)
        # A cell's end looks at the threads that are left. By name alone: each has those tables once more below it.
        domain.list_names((f"/proc/{os.getpid()}/task",))
        domain.read(("/etc/localtime", "/etc/fonts", *(str(path) for path in mimetypes.knownfiles)))
        domain.write((plan.scratch,))
    domain.write(WRITABLE_DEVICES)
    domain.restrict()
    return domain.entries


def find_gaps(kept: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the ranges of descriptors from 3 on that leave out those to keep."""
    ranges, start = [], 3
    for descriptor in sorted(kept):
        if start < descriptor:
            ranges.append((start, descriptor - 1))
        start = descriptor + 1
    return [*ranges, (start, 2**31 - 1)]


def set_limits(limits: Mapping[str, int]) -> None:
    """Set resource limits by name, never above the hard ones that are there."""
    for name, wanted in limits.items():
        # Linux has it, the module has no name for it.
        kind = 12 if name == "MSGQUEUE" else getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # One second between SIGXCPU, which the exit status shows, and SIGKILL, which it would not explain.
        top = value + 1 if name == "CPU" and hard == resource.RLIM_INFINITY else value
        resource.setrlimit(kind, (value, top))


def watch_worker(worker: int, channel: socket.socket, wake_end: int, gate: ForkGate | None, *, dedicated: bool) -> None:
    """Reap children, answer for forks and pass interrupts on until the worker has ended; then report how it ended."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(wake_end, select.POLLIN)
    while True:
        ready = wait_for_events(poll, gate)
        if wake_end in ready:
            with suppress(BlockingIOError):
                os.read(wake_end, 4096)
            for pid, code in kernel.reap()[0]:
                if pid == worker:
                    end_all(dedicated=dedicated)
                    status.send_status(channel, {"exit": os.waitstatus_to_exitcode(code)})
                    return
        if channel.fileno() in ready:
            order = channel.recv(64)
            if order == status.INTERRUPT:
                os.kill(worker, signal.SIGINT)
            elif order in ORDERED_SIGNALS:
                for _ in range(SIGNAL_ROUNDS):
                    signal_all(ORDERED_SIGNALS[order], dedicated=dedicated)
            else:  # the end is wanted, or the supervisor is gone
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                end_all(dedicated=dedicated)
                return


def wait_for_events(poll: select.poll, gate: ForkGate | None) -> set[int]:
    """Return the descriptors that have something to read, after the gate has done what it has to do by now."""
    if gate is None:
        return {descriptor for descriptor, _ in poll.poll()}
    # While one question waits for its answer the others wait in the kernel.
    if gate.wait_s is None:
        poll.register(gate.listener, select.POLLIN)
        ready = dict(poll.poll())
        poll.unregister(gate.listener)
        # Nothing else: when the worker has ended there is an event too, and a question would be waited for in vain.
        if ready.get(gate.listener, 0) & select.POLLIN:
            gate.take()
        return set(ready)
    ready = dict(poll.poll(gate.wait_s * 1000))
    gate.answer()
    return set(ready)


def signal_all(number: signal.Signals, *, dedicated: bool) -> None:
    """Signal every descendant, whatever group or session it has gone to."""
    # All of the user's processes at once, where the user is the session's own or alone in a process namespace; else one
    # by one, so that a process that forks just before its turn leaves another one.
    if os.getpid() == 1 or dedicated:
        with suppress(ProcessLookupError):
            os.kill(-1, number)
        return
    for pid in list_tasks(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all(*, dedicated: bool) -> None:
    """Kill every descendant and reap it."""
    for _ in range(MAX_KILL_ROUNDS):
        signal_all(signal.SIGKILL, dedicated=dedicated)
        # Only when no child is left has the end been seen; a killed process still counts until it is reaped.
        if not kernel.reap()[1]:
            return
        select.select([], [], [], 0.001)


def report_failure(channel: socket.socket, stage: str, error: BaseException) -> None:
    code = error.errno if isinstance(error, OSError) else 0
    status.send_status(channel, {"failed": stage, "errno": code, "error": f"{type(error).__name__}: {error}"[:400]})
