"""Every layer is there when it is looked for, from inside and from outside; and weak walls are refused."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import DependencyFailed, FathomError
from fathom.services.sandbox.doctor import check_isolation
from fathom.services.sandbox.inside.jail import kernel, landlock
from fathom.services.sandbox.ipc.levels import Level
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Status
from fathom.services.sandbox.supervisor.host.cgroups import Cgroups
from fathom.services.sandbox.supervisor.host.procfs import read_process
from fathom.services.sandbox.supervisor.isolation import canary as canary_of
from fathom.services.sandbox.supervisor.isolation import probe
from fathom.services.sandbox.supervisor.isolation.probe import IsolationTooWeak
from fathom.services.sandbox.supervisor.worker.process import WorkerProcess
from tests.integration.sandbox.conftest import make_engine, run_cell

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Run as processes of their own: they change their user or their namespaces, which a test's process cannot undo.
PROGRAMS = Path(__file__).with_name("programs")
# Read from inside; every line is a layer's name and what the kernel says about it.
# From inside: the kernel's own account of this process, which code cannot embellish.
LOOK = """
import os, resource, socket, ctypes
status = dict(line.rstrip('\\n').split(':\\t', 1) for line in open('/proc/self/status') if ':\\t' in line)
for key in ('CapEff', 'CapPrm', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'NSpid', 'Groups'):
    print(key, status[key].replace('\\t', ','))
print('uid', os.getuid(), 'pid', os.getpid(), 'host', socket.gethostname())
for name in ('AS', 'NPROC', 'NOFILE', 'FSIZE', 'CORE', 'MEMLOCK'):
    print('limit', name, resource.getrlimit(getattr(resource, 'RLIMIT_' + name))[0])
print('scratch', os.getcwd(), os.statvfs('.').f_frsize * os.statvfs('.').f_blocks, os.statvfs('.').f_files)
if os.access(os.__file__, os.R_OK):
    print('noexec', bool(os.statvfs('.').f_flag & 8), 'runtime read-only', bool(os.statvfs(os.__file__).f_flag & 1))
for path in ('/', '/proc', '/dev', '/proc/version', '/sys'):
    try: os.listdir(path) if os.path.isdir(path) else open(path)
    except OSError as error: print('landlock', path, error.errno)
try: socket.socket(socket.AF_INET)
except OSError as error: print('inet', error.errno)
thread = f'/proc/self/task/{os.getpid()}'
tables = ('/proc/self/mountinfo', '/proc/self/net/tcp', '/proc/self/net/unix')
for path in (*tables, *(path.replace('/proc/self', thread) for path in tables), '/proc/self/stat'):
    try: print('readable', path, len(open(path).read()) > 0)
    except OSError as error: print('hidden', path, error.errno)
"""


async def look_around(engine: Engine) -> list[str]:
    session = await engine.create()
    printed, outcome = await run_cell(session, LOOK)
    await engine.close_session(session.id)
    assert outcome.status is Status.OK, outcome.traceback
    return printed.splitlines()


async def test_every_layer_is_active_from_inside(walled_engine: Engine, walls: str) -> None:
    lines = await look_around(walled_engine)
    for key in ("CapEff", "CapPrm", "CapAmb"):
        assert f"{key} 0000000000000000" in lines
    # Without new privileges no setuid program helps; 2 means a filter of system calls.
    assert "NoNewPrivs 1" in lines
    assert "Seccomp 2" in lines
    # A limit of 256 descriptors, and no core dump that could hold other sessions' data.
    assert "limit NOFILE 256" in lines
    assert "limit CORE 0" in lines
    # 1 is EPERM, the filter's answer to a socket; 13 is EACCES, Landlock's to a path.
    assert "inet 1" in lines
    assert "landlock / 13" in lines
    assert "landlock /proc/version 13" in lines
    assert "readable /proc/self/stat True" in lines
    if walls == "landlock":
        # Here they are the host's; in namespaces the session's own, which say nothing.
        hidden = [line for line in lines if line.startswith("hidden")]
        assert len(hidden) == 6, "three of the process, and again of its thread"
        assert all(line.endswith(" 13") for line in hidden)
    if walls == "namespace":
        assert "CapBnd 0000000000000000" in lines
        assert "limit NPROC 24" in lines
        assert any(line.startswith("uid 1000 pid ") and line.endswith("host session") for line in lines)
        # 32 MiB and 4,096 files, as the engine was made.
        assert f"scratch /home/session {32 << 20} 4096" in lines
        assert "noexec True runtime read-only True" in lines


async def test_every_layer_is_active_from_outside(walled_engine: Engine, walls: str) -> None:
    session = await walled_engine.create()
    pid = session.worker.pid
    status = read(f"/proc/{pid}/status")
    assert "Seccomp:\t2" in status
    assert "CapEff:\t0000000000000000" in status
    assert ("Uid:\t0" in status) is False
    # From outside: each namespace of the worker compared with this process's.
    own = {name: os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}
    assert set(own.values()) == {walls == "namespace"}
    # cgroups are read only where this machine has them; memory and processes, or CPU time too.
    groups = Cgroups()
    if not groups.why_not:
        assert read(f"/proc/{pid}/cgroup").count("fathom-jail-") == (3 if groups.bounds_cpu else 2)
    fds = {os.readlink(f"/proc/{pid}/fd/{number}").split(":")[0] for number in os.listdir(f"/proc/{pid}/fd")}
    # In a file system of its own the host's /dev is mounted nowhere any more.
    assert fds == {"/null" if walls == "namespace" else "/dev/null", "pipe", "socket"}
    # Null, two pipes and a socket: a fifth would be something inherited.
    assert len(os.listdir(f"/proc/{pid}/fd")) == 4
    assert "FATHOM" not in read(f"/proc/{pid}/environ")
    await walled_engine.close_session(session.id)


NAMESPACES = tuple(kernel.NAMESPACES)


def read(path: str) -> str:
    return Path(path).read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize(("level", "uid"), [("namespace", "1000"), ("landlock", "65534")])
async def test_a_user_without_privileges_gets_the_same_walls(level: str, uid: str) -> None:
    # In a process of its own, for a process that has become nobody cannot become root again.
    program = PROGRAMS / "as_nobody.py"
    command = [sys.executable, str(program), level]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert seen["level"] == level
    assert seen["state"] == ["OK", "42"]
    assert seen["uid"] == ["OK", uid]
    assert seen["forks"] == ["ERROR", "BlockingIOError"]
    assert seen["host file"] == ["ERROR", "PermissionError"]
    assert seen["memory"][0] == "OOM"
    # A file system of its own refuses them; on a disk of the host's the watch ends the session.
    files = ["ERROR", "OSError"] if level == "namespace" else ["DISK_LIMIT", ""]
    assert seen["many files"] == files


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to show Python in other folders")
@pytest.mark.parametrize(
    ("folder", "walls", "owner", "uid"),
    [
        # Blanks and other scripts, below /tmp, in the session's own home, on shared memory: mounts over these once
        # failed.
        ("/tmp/first contact ü 中/fathom", "namespace", 0, 0),
        ("/tmp/first contact ü 中/fathom", "landlock", 0, 0),
        # 65534 is nobody, who also owns the checkout here.
        ("/tmp/fathom", "namespace", 65_534, 65_534),
        ("/tmp/fathom", "landlock", 65_534, 65_534),
        ("/home/session/fathom", "namespace", 0, 0),
        ("/home/somebody/fathom", "namespace", 1_001, 0),
        ("/dev/shm/fathom", "namespace", 0, 0),
    ],
)
async def test_python_and_the_checkout_may_be_in_any_folder(folder: str, walls: str, owner: int, uid: int) -> None:
    program = PROGRAMS / "elsewhere.py"
    command = [sys.executable, str(program), folder, walls, str(owner), str(uid)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert seen["prefix"] == ["OK", f"{folder}/.venv"]
    assert seen["runtime"][0] == "OK"
    assert seen["runtime"][1].startswith(f"{folder}/.venv/lib/")
    # A figure needs files of packages at run time, so it shows that all of the runtime is readable.
    assert seen["figure"] == ["OK", "application/vnd.plotly.v1+json", ""]
    assert seen["temporary"] == ["OK", ""]
    # Only a session with a file system of its own has a /tmp.
    assert seen["tmp"] == (["OK", "1"] if walls == "namespace" else ["ERROR", "PermissionError"])
    assert seen["read-only"][0] == "ERROR"
    assert not [text for text in seen["missing"] if text.startswith("runtime")]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to give up a capability")
async def test_a_root_that_may_not_mount_gets_the_same_walls() -> None:
    """As in a pod with users of its own, where only a session's first process may mount, in its own namespace."""
    program = PROGRAMS / "elsewhere.py"
    # Root without CAP_SYS_ADMIN, as in a pod with user namespaces.
    command = ["setpriv", "--bounding-set=-sys_admin", sys.executable, str(program), sys.prefix, "namespace", "0", "0"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert (seen["runtime"][0], seen["tmp"], seen["missing"]) == ("OK", ["OK", "1"], [])


@pytest.mark.parametrize(
    ("level", "says"),
    [
        (
            "namespace",
            # The refusal must name the kernel's switch and what can be had without it.
            ("user.max_user_namespaces", "landlock, the next", "FATHOM_SANDBOX_MIN_ISOLATION=landlock make run"),
        ),
        ("landlock", ("landlock\n",)),
    ],
)
async def test_without_namespaces_the_refusal_names_the_switch_and_what_is_left(
    level: str, says: tuple[str, ...]
) -> None:
    command = [sys.executable, str(PROGRAMS / "without_namespaces.py"), level]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert all(text in done.stdout for text in says), done.stdout
    # A pod's setting would mislead on a laptop.
    assert "procMount" not in done.stdout


async def test_the_doctor_builds_the_walls_before_there_are_data(monkeypatch: pytest.MonkeyPatch) -> None:
    (good,) = await check_isolation()
    assert (good.subject, good.good) == ("sandbox", True)
    assert good.detail.startswith("isolation namespace")
    # A promise that no laptop keeps.
    monkeypatch.setenv("FATHOM_SANDBOX_MIN_ISOLATION", "guest-kernel")
    (bad,) = await check_isolation()
    assert not bad.good
    assert "sandbox.min_isolation is guest-kernel" in bad.detail


async def test_a_wall_that_cannot_be_built_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A promise that the machine does not keep: here a control file that does not exist stops every fork."""
    engine = make_engine(min_isolation="namespace", spares=0)
    build = WorkerProcess._build_plan

    def break_plan(self: Any) -> Any:
        plan = build(self)
        # A control group that does not exist stops the first process of every session.
        return type(plan)(**{**plan.__dict__, "cgroups": ("/nonexistent/cgroup.procs",)})

    monkeypatch.setattr(WorkerProcess, "_build_plan", break_plan)
    with pytest.raises(IsolationTooWeak, match=r"/nonexistent/cgroup.procs.*remedy: the error names the path"):
        await engine.start()
    # What had started before the refusal is gone: the fork server takes nothing any more.
    with pytest.raises(DependencyFailed):
        await engine._fork_server.fork(None, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("verdict", ["CapEff", "Seccomp", "a listener", "namespace is shared", "tcp was not refused"])
async def test_the_probe_tells_what_does_not_hold(verdict: str, tmp_path: Path) -> None:
    canary = canary_of.Canary(str(tmp_path), "secret", 1, "abstract")
    canary_of.write_canary_file(canary)
    # The state of a worker within whole walls; each case breaks one line of it.
    seen = {
        "CapPrm": "0",
        "CapEff": "0",
        "CapBnd": "0",
        "CapAmb": "0",
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "Uid": "5 5 5 5",
    }
    seen |= {f"ns {name}": "own" for name in NAMESPACES}
    names = ("read", "write", "tcp", "unix", "abstract", "signal", "root", "ptrace", "outside", "parent", "limits")
    printed = "\n".join([*(f"{name} refused OSError" for name in names), "scratch written"])
    wrong = {
        "CapEff": ({"CapEff": "1"}, printed, 0),
        "Seccomp": ({"Seccomp": "0"}, printed, 0),
        "a listener": ({}, printed, 1),
        "namespace is shared": ({"ns net": "shared"}, printed, 0),
        "tcp was not refused": ({}, printed.replace("tcp refused OSError", "tcp went through"), 0),
    }[verdict]
    # Whole walls first: otherwise the probe might name anything.
    assert probe.find_breaches("namespace", seen, printed, Status.OK, canary) == []
    # A visit to the listener means that a connection got out, whatever the code printed.
    canary.visits = wrong[2]
    found = probe.find_breaches("namespace", seen | wrong[0], wrong[1], Status.OK, canary)
    assert any(verdict in text for text in found), found


async def test_none_has_to_be_asked_for_by_its_full_name() -> None:
    # An operator who wants no walls must type what that means.
    with pytest.raises(IsolationTooWeak, match="run_hostile_code_without_any_isolation"):
        await make_engine(min_isolation="none", walls="none").start()
    engine = make_engine(min_isolation="none", walls="none", run_hostile_code_without_any_isolation=True, spares=0)
    await engine.start()
    assert engine.report.level is Level.NONE
    session = await engine.create()
    assert (await run_cell(session, "1 + 1"))[1].result == "2"
    await engine.close()


async def test_a_promised_boundary_needs_evidence() -> None:
    with pytest.raises(IsolationTooWeak, match="guest-kernel was promised, but nothing here shows it"):
        await make_engine(min_isolation="guest-kernel", boundary="guest-kernel").start()
    # Whatever this machine is, promise and evidence must agree on it.
    assert probe.is_boundary_evident("vm") is probe.is_virtual_machine()
    assert probe.combine_level("namespace", "vm") is Level.VM
    assert probe.combine_level("namespace", "") is Level.NAMESPACE
    # A VM does not make up for an inside without namespaces and Landlock.
    assert probe.combine_level("seccomp", "vm") is Level.NONE


async def test_inside_a_kernel_of_its_own_a_filtered_process_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer what gVisor offers, without gVisor: only its evidence is made up here."""
    monkeypatch.setattr(probe, "is_gvisor", lambda: True)
    engine = make_engine(min_isolation="guest-kernel", boundary="guest-kernel", walls="seccomp", spares=0)
    await engine.start()
    assert engine.report.level is Level.GUEST_KERNEL
    assert "seccomp allow-list" in engine.report.layers
    session = await engine.create()
    printed, _ = await run_cell(session, "import socket\ntry: socket.socket()\nexcept OSError as e: print(e.errno)")
    assert printed == "1\n"
    await engine.close()
    # In a kernel of its own, but with no filter inside.
    bare = make_engine(walls="none", min_isolation="guest-kernel", boundary="guest-kernel")
    with pytest.raises(IsolationTooWeak):
        await bare.start()


async def test_a_dead_fork_server_is_replaced_and_its_sessions_live(walled_engine: Engine) -> None:
    session = await walled_engine.create()
    await run_cell(session, "kept = 5")
    old = walled_engine._fork_server.pid
    # The fork server and not a session: spares and sessions are its children, and must outlive it.
    os.kill(old, 9)
    assert (await run_cell(session, "kept"))[1].result == "5"
    # More than there were spares, so that new ones are needed.
    others = [await walled_engine.create() for _ in range(3)]
    for other in others:
        assert (await run_cell(other, "1"))[1].result == "1"
    assert walled_engine._fork_server.pid != old
    for item in (session, *others):
        await walled_engine.close_session(item.id)


async def test_imports_may_take_longer_than_a_worker() -> None:
    """A service that gave up while all of a node started was started again, and took longer still."""
    engine = make_engine(start_timeout_s=1e-6)
    with pytest.raises(FathomError) as refused:
        await engine.start()
    # Nothing is ready within a microsecond: it must be the probe's worker that was given up, behind the imports.
    assert "fork server" not in refused.value.message


async def test_a_session_gets_no_more_than_its_share_of_the_cores() -> None:
    """Two busy processes for a second of wall time, at half a core: judged by the kernel's own account."""
    if Cgroups().why_not or not Cgroups().bounds_cpu:
        pytest.skip("no control group bounds CPU time here")
    engine = make_engine(spares=0, cores=0.5)
    await engine.start()
    assert "cgroup: memory, processes and CPU time" in engine.report.layers
    session = await engine.create()
    code = "import os, time\npid = os.fork()\nend = time.time() + 1\nwhile time.time() < end: pass\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)"
    before = time.monotonic()
    _, outcome = await run_cell(session, code)
    wall_s = time.monotonic() - before
    first = read_process(session.worker.pid)
    assert outcome.status is Status.OK
    assert first is not None
    # Half a core of the wall time, and 0.4 s for the period of the scheduler and the start of the cell.
    assert first.cpu_s < 0.5 * wall_s + 0.4
    await engine.close()


async def test_landlock_is_there() -> None:
    assert landlock.find_abi() >= 1
