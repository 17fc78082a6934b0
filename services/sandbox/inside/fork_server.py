"""Fork server process: imports all that cells use once, and forks one session behind its walls per request.

It is started by ``ipc.programs.FORK_SERVER``. It has one thread, no secrets, no files but its control socket, and reads
nothing that untrusted code has written. A request is one datagram on the control socket: a plan, with the session's
status channel, its worker's socket and the two output pipes as descriptors.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress

from fathom.services.sandbox.inside import standard_library
from fathom.services.sandbox.inside.jail import init, kernel, landlock, rootfs, seccomp
from fathom.services.sandbox.inside.worker import Worker
from fathom.services.sandbox.ipc import status
from fathom.services.sandbox.ipc.plan import INSIDE_UID, MAX_BYTES, SessionPlan

# Walls with a filter of system calls.
FILTERED = ("namespace", "landlock", "seccomp")


class ForkServer:
    """Fork server with a warm worker that has run no session's code; every session is a copy of it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._paths = rootfs.list_runtime_paths()
        self._programs = {
            (walls, has_group): seccomp.compile_filter(
                alone=walls == "namespace",
                memory_files=has_group,
                signals=landlock.keeps_signals(walls),
            )
            for walls in FILTERED
            for has_group in (True, False)
        }
        self._asking = {
            walls: seccomp.compile_filter(
                alone=walls == "namespace", memory_files=False, signals=landlock.keeps_signals(walls), asks=True
            )
            for walls in FILTERED
        }
        self._worker = Worker()
        self._has_library = standard_library.is_readable_for_all()
        self._wake_end, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        freeze_memory()

    def serve(self) -> None:
        """Answer requests until the supervisor closes the control socket, then wait for the last session's end."""
        threads = len(os.listdir("/proc/self/task"))
        self._control.send(json.dumps({"ready": True, "threads": threads}).encode())
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_end, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake_end in ready and not self._reap() and self._control.fileno() < 0:
                return
            if self._control.fileno() in ready and not self._request():
                poll.unregister(self._control)
                self._control.close()
                if not self._reap():
                    return

    def _reap(self) -> bool:
        """Reap sessions that have ended; return whether any is left."""
        with suppress(BlockingIOError):
            os.read(self._wake_end, 4096)
        return kernel.reap()[1]

    def _request(self) -> bool:
        """Start one session; return False when the supervisor is gone."""
        data, descriptors, _, _ = socket.recv_fds(self._control, MAX_BYTES, 4)
        if not data:
            return False
        channel = socket.socket(fileno=descriptors[0])
        try:
            self._start(SessionPlan.from_bytes(data), channel, *descriptors[1:])
        except Exception as error:  # one session fails; the server goes on for the others
            code = error.errno if isinstance(error, OSError) else 0
            text = f"{type(error).__name__}: {error}"[:400]
            status.send_status(channel, {"failed": "namespaces", "errno": code, "error": text})
        finally:
            channel.close()
            for descriptor in descriptors[1:]:
                os.close(descriptor)
        return True

    def _start(self, plan: SessionPlan, channel: socket.socket, session: int, stdout: int, stderr: int) -> None:
        if plan.walls != "namespace" and plan.uid >= 0 and not self._has_library:
            standard_library.import_all()
            freeze_memory()
            self._has_library = True
        # Checked before each fork: a library may have started a thread since the last one.
        if len(os.listdir("/proc/self/task")) != 1:
            raise OSError(0, "the fork server has more than one thread")
        go_end, go = os.pipe2(os.O_CLOEXEC)
        flags = sum(kernel.NAMESPACES.values()) if plan.walls == "namespace" else 0
        runtime = self._open_runtime() if flags and os.geteuid() == 0 else {}
        pid = kernel.clone(flags)
        if pid == 0:
            self._become_session(plan, runtime, channel, session, stdout, stderr, go_end, go)
        for descriptor in (go_end, *runtime.values()):
            os.close(descriptor)
        try:
            if flags:
                map_users(pid, plan.uid)
            for path in plan.cgroups:
                kernel.write(path, str(pid))
            handle = os.pidfd_open(pid)
            status.send_status(channel, {"init": pid}, [handle])
            os.close(handle)
            # Only now may the child go on: its users are mapped and its control group bounds it.
            os.write(go, b"1")
        except BaseException:  # a half-started session must never run
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            os.close(go)

    def _open_runtime(self) -> dict[str, int]:
        """Return the opened runtime by path; nothing for a root that may not mount."""
        try:
            # Opened as this user: in its namespace the root of a session is nobody to the folders of other users,
            # e.g. somebody's home.
            return rootfs.open_runtime(self._paths)
        except PermissionError:  # the sessions of such a root open the runtime themselves
            return {}

    def _become_session(
        self, plan: SessionPlan, runtime: dict[str, int], channel: socket.socket, session: int, stdout: int,
        stderr: int, go_end: int, go: int,
    ) -> None:  # fmt: skip
        """Run the session, in the child, once the parent has mapped its users."""
        os.close(go)
        if os.read(go_end, 1) != b"1":
            os._exit(1)
        os.close(go_end)
        signal.set_wakeup_fd(-1)
        self._control.close()
        for descriptor in (self._wake_end, self._wake):
            os.close(descriptor)
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        for descriptor in (null, stdout, stderr):
            os.close(descriptor)
        serve = functools.partial(self._worker.serve, session)
        init.run_session(
            init.SessionInputs(plan, self._paths, runtime, self._programs, self._asking, channel, session, serve)
        )


def freeze_memory() -> None:
    """Keep later collections from looking at what is there now, so that its pages stay shared."""
    gc.collect()
    gc.freeze()


def map_users(pid: int, uid: int) -> None:
    """Map the users of a new namespace of the process ``pid``."""
    if uid >= 0:
        # A user of the session's own, and root only for as long as the init process needs it to reach what it binds.
        users = groups = f"0 0 1\n{INSIDE_UID} {uid} 1"
    else:
        users, groups = f"{INSIDE_UID} {os.geteuid()} 1", f"{INSIDE_UID} {os.getegid()} 1"
        # Without privileges the kernel takes a map of groups only after this (user_namespaces(7)).
        kernel.write(f"/proc/{pid}/setgroups", "deny")
    kernel.write(f"/proc/{pid}/uid_map", users)
    kernel.write(f"/proc/{pid}/gid_map", groups)


def main() -> None:
    """Run the process; called by ``FORK_SERVER``, which has extended the import path."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[3])
    kernel.end_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    ForkServer(socket.socket(fileno=descriptor)).serve()
    os._exit(0)
