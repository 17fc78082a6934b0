"""Forks of a session without a control group: who passes at once, who waits, who is refused, and who stays behind."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from fathom.services.sandbox.inside.jail import fork_gate
from fathom.services.sandbox.inside.jail.fork_gate import (
    ANSWER,
    FREE_TASKS,
    GO_ON,
    PAUSE_COSTS,
    PAUSE_S,
    RECEIVE,
    REFUSAL_PAUSES,
    REQUEST,
    ForkGate,
    list_tasks,
)

MOST = FREE_TASKS + 4
# Nobody's: what is asked of them is refused.
NOBODYS = 2**22 + 1


class Kernel:
    """Kernel with a fork in each question, which notes the answers; a clock that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.questions, self.answers = 0, list[tuple[int, int, int]]()
        self.tasks, self.cost_s, self.now = 1, 0.0, 100.0
        monkeypatch.setattr(fcntl, "ioctl", self.ioctl)
        monkeypatch.setattr(fork_gate, "list_tasks", self.list_tasks)
        clock = SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: self.now)
        monkeypatch.setattr(fork_gate, "time", clock)

    def ioctl(self, listener: int, request: int, body: bytearray) -> None:
        if request == RECEIVE:
            self.questions += 1
            body[: REQUEST.size] = REQUEST.pack(self.questions, 7, 0)
            return
        number, _, code, flags = ANSWER.unpack(body)
        self.answers.append((number, code, flags))

    def list_tasks(self, pid: int) -> dict[int, list[int]]:
        self.now += self.cost_s
        return {NOBODYS + number: [NOBODYS + number] for number in range(self.tasks)}


def test_a_few_pass_at_once_and_a_crowd_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, gate = Kernel(monkeypatch), ForkGate(3, MOST)
    kernel.tasks = FREE_TASKS
    gate.take()
    assert (kernel.answers, gate.wait_s) == ([(1, 0, GO_ON)], None)
    kernel.tasks += 1
    gate.take()
    assert gate.wait_s == pytest.approx(PAUSE_S)
    gate.answer()
    assert len(kernel.answers) == 1
    kernel.now += 1.1 * PAUSE_S
    gate.answer()
    assert (kernel.answers[1:], gate.wait_s) == ([(2, 0, GO_ON)], None)


def test_a_full_session_is_refused_after_a_longer_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, gate = Kernel(monkeypatch), ForkGate(3, MOST)
    kernel.tasks = MOST
    gate.take()
    assert gate.wait_s == pytest.approx(REFUSAL_PAUSES * PAUSE_S)
    kernel.now += 1.1 * REFUSAL_PAUSES * PAUSE_S
    gate.answer()
    assert kernel.answers == [(1, -errno.EAGAIN, 0)]


def test_looking_takes_a_share_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, gate = Kernel(monkeypatch), ForkGate(3, MOST)
    kernel.tasks, kernel.cost_s = FREE_TASKS + 1, 2 * PAUSE_S / PAUSE_COSTS
    gate.take()
    assert gate.wait_s == pytest.approx(2 * PAUSE_S)


def test_a_question_that_is_withdrawn_needs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    gate = ForkGate(3, MOST)
    gate.take()
    assert gate.wait_s is None


def test_threads_and_processes_of_threads_are_listed() -> None:
    code = """
import subprocess, sys, threading
def start():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    print(child.pid, flush=True)
    sys.stdin.read()
    child.communicate(b"\\n")
threading.Thread(target=start).start()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        found = list_tasks(os.getpid())
        assert len(found[parent.pid]) >= 2
        assert found[child] == [child]
        parent.communicate()
    assert parent.pid not in list_tasks(os.getpid())


# The init process and the worker of a session, with no other walls than the filter that asks.
SESSION = """
import json, os, signal, socket, sys
from fathom.services.sandbox.inside.jail import init, kernel, seccomp
kernel.adopt_orphans()
channel, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
wake_end, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
gate_end, gate = socket.socketpair()
worker = os.fork()
if worker == 0:
    signal.set_wakeup_fd(-1)
    kernel.no_new_privileges()
    listener = seccomp.install_asking(seccomp.compile_filter(alone=True, memory_files=False, asks=True))
    if listener >= 0:
        socket.send_fds(gate, [init.WITH_LISTENER], [listener])
        os.close(listener)
    gate.close()
    started, error = [], ""
    try:
        while len(started) < 2 * int(sys.argv[1]):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            started.append(pid)
    except OSError as failed:
        error = type(failed).__name__
    policies = [os.sched_getscheduler(pid) for pid in started]
    print(json.dumps([listener >= 0, len(started), error, policies, os.sched_getscheduler(0)]), flush=True)
    os._exit(0)
gate.close()
fork_gate, _ = init.receive_walls(gate_end, int(sys.argv[1]))
init.watch_worker(worker, channel, wake_end, fork_gate, dedicated=False)
"""


def test_a_fork_bomb_is_refused_at_the_limit_and_all_of_it_stays_behind() -> None:
    done = subprocess.run([sys.executable, "-c", SESSION, str(MOST)], capture_output=True, text=True, check=True)
    is_asking, started, error, policies, own = json.loads(done.stdout)
    if not is_asking:
        pytest.skip("this kernel does not ask about system calls")
    # With the worker as many as there may be.
    assert (started, error) == (MOST - 1, "BlockingIOError")
    assert set(policies) == {os.SCHED_IDLE}
    assert own == os.SCHED_OTHER
