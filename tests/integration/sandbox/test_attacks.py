"""Named attacks by the code of a cell, each with what must come of it, judged by what the host sees.

Every attack runs at both levels that this machine can build, in a session of its own, next to a witness
session that must not notice anything. After the whole set nothing is left.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Status
from fathom.services.sandbox.supervisor.files import list_files, read_file
from fathom.services.sandbox.supervisor.host.procfs import read_process
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import descendants, groups_of_ours, open_files, run_cell
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Planted wherever an attack may look; its text in any output or file means that a wall has a hole.
SECRET = "canary-7d1f"


@dataclass(frozen=True)
class Attack:
    """Code, how its cell must end, and what its output must hold. ``lost`` is None where either may be."""

    name: str
    code: str
    status: tuple[Status, ...] = (Status.OK,)
    says: str = ""
    lost: bool | None = False
    walls: tuple[str, ...] = ("namespace", "landlock")


# Code of an attack prints what it got away with: "went through" anywhere in the output fails the test.
TRY = """
def attempt(action):
    try:
        print('went through', action())
    except BaseException as error:
        print('refused', type(error).__name__)
import os, socket, ctypes, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""
MANY_FILES = "i = 0\nwhile True:\n    open(f'f{i}', 'w').close(); i += 1"
ATTACKS = [
    Attack(
        # Children count against the session, so the bomb ends with an error of its own and not with the host's.
        "fork bomb",
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)",
        (Status.ERROR,), "", False,
    ),
    Attack("memory bomb", "x = []\nwhile True: x.append(bytearray(b'1') * (32 << 20))", (Status.OOM,), "", True),
    Attack(
        # Eight children of 120 MiB in a session of 400 MiB: each alone is within the limit.
        "memory bomb by children",
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(b'1') * (120 << 20); time.sleep(60)\ntime.sleep(60)",
        (Status.OOM,), "", True,
    ),
    # Scratch is a file system of 32 MiB of its own: "no space left" comes from the kernel.
    Attack(
        "disk fill",
        "import os\nwith open('big', 'wb') as f:\n    while True: f.write(b'x' * (1 << 20))",
        (Status.ERROR,), "", False,
    ),
    Attack(
        # Empty files cost no bytes, but inodes, of which a scratch has 4,096.
        "disk fill by many files",
        MANY_FILES,
        (Status.ERROR,), "", False, ("namespace",),
    ),
    # On a disk of the host's the watch counts them, and ends the session.
    Attack("disk fill by many files, watched", MANY_FILES, (Status.DISK_LIMIT,), "", True, ("landlock",)),
    Attack(
        "disk fill by many folders in folders, watched",
        "import os\nwhile True:\n    os.mkdir('d'); os.chdir('d')",
        (Status.DISK_LIMIT,), "", True, ("landlock",),
    ),
    Attack(
        # No file is over the limit of one, and none has a name.
        "disk fill by removed files, watched",
        "import os, time\nheld = []\nwhile True:\n    held.append(open('big', 'wb')); os.unlink('big')\n"
        "    held[-1].write(bytes(1 << 20)); held[-1].flush(); time.sleep(0.01)",
        (Status.DISK_LIMIT,), "", True, ("landlock",),
    ),
    Attack(
        # The limit is 256, standard streams and the worker's own included.
        "descriptor exhaustion",
        "held = []\ntry:\n    while True: held.append(open('/dev/null'))\nexcept OSError: print('refused', len(held) < 300)\nheld.clear()",
        says="refused True",
    ),
    Attack("endless loop", "while True: pass", (Status.TIMEOUT,)),
    # The interrupt of a cell out of time is one of the ignored signals: only SIGKILL ends it, and the session with it.
    Attack(
        "ignored signals",
        "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass\nwhile True: pass",
        (Status.TIMEOUT,), "", True,
    ),
    Attack(
        # PID 1, the supervisor, another session and the own parent, then everybody at once.
        "kill everything",
        TRY + "for pid in (1, {supervisor}, {witness}, os.getppid()):\n    attempt(lambda: os.kill(pid, signal.SIGKILL))\n"
        # The kernel says yes to this one even when it has signalled nobody.
        "try: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass",
        (Status.OK, Status.KILLED), "", None,
    ),
    Attack(
        "ptrace the parent and the supervisor",
        # 101 is ptrace, 16 is PTRACE_ATTACH.
        TRY + "for pid in (1, {supervisor}, os.getppid()): attempt(lambda: call(101, 16, pid, 0, 0))",
        says="refused",
    ),
    Attack(
        "memory of other processes",
        TRY + "for pid in (1, {supervisor}, os.getppid()): attempt(lambda: open(f'/proc/{{pid}}/mem', 'rb+'))\n"
        # 310 is process_vm_readv, the way to another process's memory without a file.
        "attempt(lambda: call(310, {supervisor}, None, 0, None, 0, 0))",
        says="refused",
    ),
    Attack(
        "host files",
        # A file for everybody, one for root, and the checkout that the sandbox itself runs from.
        TRY + "for path in ('{canary}', '/etc/shadow', '/root/.bashrc', '/var/log/dpkg.log', '{repo}/pyproject.toml'):\n"
        "    attempt(lambda: open(path).read())",
        says="refused",
    ),
    Attack(
        "other processes in /proc",
        TRY + "for path in ('/proc/1/environ', '/proc/1/cmdline', '/proc/{supervisor}/environ', '/proc/kallsyms', '/proc/keys'):\n"
        "    attempt(lambda: open(path).read())",
        says="refused",
    ),
    Attack("environment secrets", "import os\nprint([k for k in os.environ if 'FATHOM' in k or 'KEY' in k])", says="[]"),
    Attack(
        "loopback, metadata address, any address",
        TRY + "def dial(host, port):\n    s = socket.socket(); s.settimeout(1); s.connect((host, port)); return s\n"
        # The listener of the test, the clouds' metadata service, a private and a public address.
        "for host, port in (('127.0.0.1', {port}), ('169.254.169.254', 80), ('10.0.0.1', 443), ('8.8.8.8', 53)):\n"
        "    attempt(lambda: dial(host, port))",
        says="refused",
    ),
    Attack(
        "DNS and datagrams",
        TRY + "attempt(lambda: socket.getaddrinfo('localhost.example', 80))\n"
        "attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port})))\n"
        # 10 is IPv6, 16 netlink, 17 packets.
        "for family in (10, 16, 17): attempt(lambda: socket.socket(family, socket.SOCK_RAW))",
        says="refused",
    ),
    Attack(
        "unix sockets, abstract and named",
        # Abstract names have no file, so no file system wall stops them: a network namespace or the filter must.
        TRY + "for path in ('{unix}', '\\0{abstract}'): attempt(lambda: socket.socket(socket.AF_UNIX).connect(path))",
        says="refused",
    ),
    # Written past Python, straight to the descriptor: the supervisor's reader is what bounds it.
    Attack("output flood", "import os\nwhile True: os.write(1, b'x' * 65536)", (Status.OUTPUT_LIMIT,), "", True),
    Attack("binary output", "import os\nos.write(1, bytes(range(256)) * 10)\nprint('after')", says="after"),
    # Fifty million characters that nobody asked for: cut in the worker, not after sending.
    Attack("huge repr", "'x' * 50_000_000"),
    Attack("evil repr", "class A:\n    def __repr__(self): import os; os.write(2, b'x'); raise SystemExit\nA()", (Status.OK, Status.ERROR)),
    Attack("endless repr", "class A:\n    def __repr__(self):\n        while True: pass\nA()", (Status.TIMEOUT,)),
    Attack("os._exit", "import os; os._exit(0)", (Status.KILLED,), "", True),
    Attack("segmentation fault", "import ctypes; ctypes.string_at(1)", (Status.KILLED,), "", True),
    Attack("abort", "import os; os.abort()", (Status.KILLED,), "", True),
    # The C stack overflows before any Python limit: where it ends depends on the machine, that it ends does not.
    Attack("recursion", "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", (Status.KILLED, Status.ERROR, Status.OOM), "", None),
    Attack(
        # None of the three may print into a later cell or keep the session from being closed.
        "threads and exit hooks that outlive their cell",
        "import threading, time, atexit\natexit.register(print, 'hook')\n"
        "def noise():\n    while True:\n        print('noise', flush=True); time.sleep(0.01)\n"
        "threading.Thread(target=noise, daemon=False).start()",
    ),
    Attack(
        "mount, unshare, new namespaces, chroot",
        # 165 is mount, 272 unshare and 56 clone, both with a new user namespace.
        TRY + "attempt(lambda: call(165, b'none', b'/tmp', b'tmpfs', 0, 0))\nattempt(lambda: call(272, 0x10000000))\n"
        # 155 is pivot_root, 428 open_tree: the newer interface to mounts.
        "attempt(lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0))\nattempt(lambda: os.chroot('.'))\nattempt(lambda: call(155, b'.', b'.'))\n"
        "attempt(lambda: call(428, -100, b'/', 1))",
        says="refused",
    ),
    Attack(
        "setuid, capabilities, setuid programs",
        TRY + "attempt(lambda: os.setuid(0))\nattempt(lambda: os.setgroups([0]))\n"
        # A setuid program gains nothing under no_new_privs.
        "import subprocess\nprint('su', subprocess.run(['/bin/su', '-c', 'id'], capture_output=True).returncode != 0)\n"
        "print([line for line in open('/proc/self/status') if line.startswith('CapEff')])",
        says="0000000000000000",
    ),
    Attack(
        "kernel interfaces",
        # bpf, perf_event_open, userfaultfd, io_uring, key rings, modules, reboot: what kernels were broken by.
        TRY + "for number in (321, 298, 323, 425, 248, 175, 246, 169, 304, 135, 250):\n    attempt(lambda: call(number, 0, 0, 0, 0, 0))",
        says="refused",
    ),
    Attack(
        "shared memory of the host",
        # 29 is shmget, System V's shared memory, which has no file either.
        TRY + "attempt(lambda: open('/dev/shm/{shm}').read())\nattempt(lambda: call(29, 77, 4096, 0o1666))",
        says="refused",
    ),
    Attack(
        "writing into the runtime",
        TRY + "import pandas\nfor path in (pandas.__file__, os.__file__, '/usr/bin/x', '/etc/passwd', '/x'):\n    attempt(lambda: open(path, 'a'))",
        says="refused",
    ),
    Attack(
        # The channel to the supervisor is in the worker's memory, so code can find it; a frame with another nonce than
        # the cell's is an attack and ends the session.
        "forged messages",
        "import gc, os, struct\nchannel = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')\n"
        "frame = struct.pack('>16sBII', b'g' * 16, 1, 16, 0) + bytes(16)\n"
        "for _ in range(5): os.write(channel._sock.fileno(), frame)\nimport time; time.sleep(30)",
        (Status.KILLED,), "", True,
    ),
    Attack(
        "a frame longer than may be",
        "import gc, os, struct\nchannel = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')\n"
        # A length of 2 GiB: a reader that believed it would allocate or wait for ever.
        "os.write(channel._sock.fileno(), struct.pack('>16sBII', bytes.fromhex(channel.nonce), 1, 2**31, 0))\nimport time; time.sleep(30)",
        (Status.KILLED,), "", True,
    ),
    Attack(
        # What lists or reads a session's files for a user runs outside its walls and must not follow these.
        "links out of the scratch folder",
        "import os\nos.symlink('{canary}', 'link')\nos.symlink('/', 'root')\nos.makedirs('d' * 200 + '/e')\nos.symlink('..', 'd' * 200 + '/up')",
    ),
    Attack(
        # 48 MiB of zeros from a file of some KiB, into a scratch of 32.
        "zip bomb",
        "import io, zipfile\nblob = io.BytesIO()\nwith zipfile.ZipFile(blob, 'w', zipfile.ZIP_DEFLATED) as z:\n"
        "    for i in range(6): z.writestr(str(i), b'0' * (8 << 20))\n"
        "zipfile.ZipFile(blob).extractall('out')",
        (Status.ERROR, Status.OOM), "", None, ("namespace",),
    ),
]  # fmt: skip


@dataclass
class Outside:
    """Hold what the attacks aim at."""

    folder: str
    port: int
    abstract: str
    shm: str
    visits: int = 0


def plant(path: str) -> None:
    Path(path).write_text(SECRET)
    os.chmod(path, 0o666)


def content(path: str) -> str:
    return Path(path).read_text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outside() -> AsyncIterator[Outside]:
    """A file, listeners, an environment variable and shared memory that everybody on the host may reach."""
    with tempfile.TemporaryDirectory(prefix="fathom-outside-") as folder:
        os.chmod(folder, 0o755)
        # An abstract name and a segment that other services on the host would have.
        seen = Outside(folder, 0, "fathom-attacks", f"fathom-{os.getpid()}")

        async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.visits += 1
            writer.close()

        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0{seen.abstract}")
        servers = [
            await asyncio.start_server(visit, "127.0.0.1", 0),
            await asyncio.start_unix_server(visit, f"{folder}/socket"),
            await asyncio.start_unix_server(visit, sock=abstract),
        ]
        # Everybody may connect: if nobody comes, it was the walls and not the permissions.
        os.chmod(f"{folder}/socket", 0o777)
        seen.port = servers[0].sockets[0].getsockname()[1]
        for path in (f"{folder}/canary", f"/dev/shm/{seen.shm}"):
            plant(path)
        # The supervisor's own environment holds keys; a fork inherits it unless it is cleared.
        os.environ["FATHOM_CANARY_KEY"] = SECRET
        yield seen
        del os.environ["FATHOM_CANARY_KEY"]
        os.unlink(f"/dev/shm/{seen.shm}")
        for server in servers:
            server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def witness(walled_engine: Engine) -> AsyncIterator[Session]:
    """A session that lives through all attacks."""
    session = await walled_engine.create()
    await run_cell(session, "kept = 'untouched'\nopen('mine', 'w').write('mine')")
    yield session
    await walled_engine.close_session(session.id)


async def withstood(session: Session, attack: Attack, code: str, outside: Outside) -> None:
    """Runs the attack and looks at what came of it."""
    # An attack on time is over soon; the others get enough of it on a busy machine to show what stops them.
    printed, outcome = await run_cell(session, code, 1_500 if Status.TIMEOUT in attack.status else 30_000)
    # First the end of the cell, then everything outside that it may have touched.
    assert outcome.status in attack.status, f"{printed}\n{outcome}"
    assert attack.says in printed, printed
    assert "went through" not in printed, printed
    assert attack.lost is None or outcome.session_lost is attack.lost, outcome
    assert SECRET not in printed + outcome.result + outcome.traceback
    assert outside.visits == 0
    assert content(f"{outside.folder}/canary") == SECRET
    if not outcome.session_lost:
        for file in list_files(session.worker.scratch):
            assert SECRET.encode() not in read_file(session.worker.scratch, file.path)[:1000]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_attack(walled_engine: Engine, walls: str, outside: Outside, witness: Session, attack: Attack) -> None:
    if walls not in attack.walls:
        pytest.skip(f"not for level {walls}: SECURITY.md says what each of them stops, and how")
    code = attack.code
    for name, value in {
        "canary": f"{outside.folder}/canary", "unix": f"{outside.folder}/socket", "abstract": outside.abstract,
        "port": outside.port, "shm": outside.shm, "supervisor": os.getpid(), "witness": witness.worker.pid,
        "repo": Path(__file__).parents[3],
    }.items():  # fmt: skip
        code = code.replace(f"{{{name}}}", str(value))
    code = code.replace("{{", "{").replace("}}", "}")
    session = await walled_engine.create()
    try:
        await withstood(session, attack, code, outside)
        held = [session.worker.init_pid, *descendants(session.worker.init_pid)]
    finally:
        await walled_engine.close_session(session.id)
    # Whatever the attack started is gone with its session.
    assert [pid for pid in held if read_process(pid) is not None] == []
    # The neighbour has lived through it with its variables and files.
    assert (await run_cell(witness, "kept, open('mine').read()"))[1].result == "('untouched', 'mine')"


async def test_sessions_share_nothing(walled_engine: Engine, walls: str) -> None:
    first, second = await walled_engine.create(), await walled_engine.create()
    await run_cell(first, "import os, random, numpy\nleft = 1\nopen('left', 'w').write('x')\nos.environ['LEFT'] = '1'")
    drawn = [
        (await run_cell(item, "import random\n(random.random(), np.random.rand())"))[1].result
        for item in (first, second)
    ]
    assert drawn[0] != drawn[1]
    seen = await run_cell(second, "import os\n('left' in globals(), os.path.exists('left'), 'LEFT' in os.environ)")
    assert seen[1].result == "(False, False, False)"
    uids = {content(f"/proc/{item.worker.pid}/status").split("Uid:")[1].split()[0] for item in (first, second)}
    # As root each session has a user of its own; without root they share the one that there is.
    assert len(uids) == (2 if os.geteuid() == 0 else 1)
    for item in (first, second):
        await walled_engine.close_session(item.id)


async def pool_full(walled: Engine) -> None:
    await eventually(lambda: len(walled._spares) >= 2)


async def test_afterwards_nothing_is_left(walled_engine: Engine, walls: str, witness: Session) -> None:
    """Runs last: the service still serves, and holds only what it holds when idle."""
    assert (await run_cell(witness, "kept"))[1].result == "'untouched'"
    await pool_full(walled_engine)
    before = open_files()
    for _ in range(10):
        session = await walled_engine.create()
        assert (await run_cell(session, "1 + 1"))[1].result == "2"
        await walled_engine.close_session(session.id)
    await pool_full(walled_engine)
    # A leak would show ten times; one may just be closing at either look.
    assert open_files() <= before + 1
    living = {witness.worker.init_pid, *(spare.init_pid for spare in walled_engine._spares)}
    assert {pid for pid in descendants(walled_engine._fork_server.pid) if read_process(pid)} >= living
    inits = [pid for pid in living if read_process(pid)]
    workers = [pid for init in inits for pid in descendants(init)]
    assert set(descendants(walled_engine._fork_server.pid)) == {*inits, *workers}
    assert len(groups_of_ours(walled_engine)) <= len(living)
