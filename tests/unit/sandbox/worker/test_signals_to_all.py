"""Signals of a session's init process to all that its worker has started, without a user or a namespace to go by."""

from __future__ import annotations

import json
import subprocess
import sys

# A child, its child in a session of its own, and an orphan that has left both.
PROGRAM = """
import json, os, signal, time
from fathom.services.sandbox.inside.jail import init, kernel
from fathom.services.sandbox.supervisor.host.resting import read_state
kernel.adopt_orphans()
read_end, write_end = os.pipe()

def report():
    os.write(write_end, os.getpid().to_bytes(4, "big"))
    while True: time.sleep(600)

if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                report()
            os._exit(0)
        os.wait()
        report()
    report()
pids = [int.from_bytes(os.read(read_end, 4), "big") for _ in range(3)]

def wait_for(is_stopped):
    while {read_state(pid) == b"T" for pid in pids} != {is_stopped}: time.sleep(0.001)

init.signal_all(signal.SIGSTOP, dedicated=False)
wait_for(True)
init.signal_all(signal.SIGCONT, dedicated=False)
wait_for(False)
init.end_all(dedicated=False)
print(json.dumps([os.path.exists(f"/proc/{pid}") for pid in pids]))
"""


def test_signals_reach_what_has_left_group_and_session_and_not_the_sender() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == [False] * 3
