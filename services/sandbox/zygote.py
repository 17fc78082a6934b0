"""The fork server: has imported all that cells use, and forks one walled-in session per request.

Its program, ``BOOT``, takes the arguments FD ROOT PARENT. It has one thread, no secrets, no files but its control
socket, and reads nothing that untrusted code has written. A request is one datagram on the control socket:
a plan, with the session's status channel, its worker's socket and the two output pipes as descriptors.
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

from services.sandbox.jail import init, kernel, rootfs, seccomp, status
from services.sandbox.jail.plan import INSIDE_UID, MAX_BYTES, Plan
from services.sandbox.worker import Worker

BOOT = "import sys; sys.path.insert(0, sys.argv[2]); from services.sandbox.zygote import main; main()"


class Zygote:
    """Holds a warm worker that has never run anything; every session is a copy of it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._paths = rootfs.runtime_paths()
        self._programs = {
            "namespace": seccomp.program(sockets=True),
            "landlock": seccomp.program(sockets=False),
            "seccomp": seccomp.program(sockets=False),
        }
        self._worker = Worker()
        self._wake_end, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        # What is there now is never looked at again by a collection, so that its pages stay shared.
        gc.collect()
        gc.freeze()

    def serve(self) -> None:
        """Until the supervisor closes the control socket, and then until the last session has ended."""
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
        """Collects sessions that have ended; whether any is left."""
        with suppress(BlockingIOError):
            os.read(self._wake_end, 4096)
        return kernel.reap()[1]

    def _request(self) -> bool:
        """One session; False when the supervisor is gone."""
        data, descriptors, _, _ = socket.recv_fds(self._control, MAX_BYTES, 4)
        if not data:
            return False
        channel = socket.socket(fileno=descriptors[0])
        try:
            self._start(Plan.from_bytes(data), channel, *descriptors[1:])
        except Exception as error:
            code = error.errno if isinstance(error, OSError) else 0
            text = f"{type(error).__name__}: {error}"[:400]
            status.tell(channel, {"failed": "namespaces", "errno": code, "error": text})
        finally:
            channel.close()
            for descriptor in descriptors[1:]:
                os.close(descriptor)
        return True

    def _start(self, plan: Plan, channel: socket.socket, session: int, stdout: int, stderr: int) -> None:
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
            status.tell(channel, {"init": pid}, [handle])
            os.close(handle)
            os.write(go, b"1")
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            os.close(go)

    def _open_runtime(self) -> dict[str, int]:
        """Open the runtime as this user: in its namespace the root of a session is nobody to the folders of other
        users, e.g. somebody's home. Return nothing for a root that may not mount, whose sessions open it themselves."""
        try:
            return rootfs.open_runtime(self._paths)
        except PermissionError:
            return {}

    def _become_session(
        self, plan: Plan, runtime: dict[str, int], channel: socket.socket, session: int, stdout: int, stderr: int,
        go_end: int, go: int,
    ) -> None:  # fmt: skip
        """In the child: waits until the parent has mapped its users, then leads the session's life."""
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
        init.live(init.Session(plan, self._paths, runtime, self._programs, channel, session, serve))


def map_users(pid: int, uid: int) -> None:
    """Users of a new namespace. A service that is root gives it a user of the session's own, and root only
    for as long as the first process needs to reach what it binds."""
    if uid >= 0:
        users = groups = f"0 0 1\n{INSIDE_UID} {uid} 1"
    else:
        users, groups = f"{INSIDE_UID} {os.geteuid()} 1", f"{INSIDE_UID} {os.getegid()} 1"
        kernel.write(f"/proc/{pid}/setgroups", "deny")
    kernel.write(f"/proc/{pid}/uid_map", users)
    kernel.write(f"/proc/{pid}/gid_map", groups)


def main() -> None:
    """The process's whole life; called by ``BOOT``, which has made our modules importable."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[3])
    kernel.end_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    Zygote(socket.socket(fileno=descriptor)).serve()
    os._exit(0)
