"""Files in sealed memory, which processes of one machine pass to each other by descriptor.

The owner writes a file into memory (``memfd_create``), hashes it meanwhile, and seals it: from then on nobody can
change or shorten it, the owner included. Descriptors are handed out over a Unix socket in a folder that belongs to this
user alone. The memory is freed with its last descriptor: of a process that is killed only its socket remains, which the
next reader removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fathom.core.errors import FailedPrecondition
from fathom.transport.checksums import CHECKSUM, SHA256
from fathom.transport.hashed_files import HashingWriter

SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
SUFFIX = ".sock"
# An owner answers at once unless its machine is overloaded; a reader that gives up has the object store.
ANSWER_S = 10.0
# Owners of one user on one machine; a folder full of sockets must not keep a reader busy.
MAX_OWNERS = 64
HERE, NOT_HERE = b"1", b"0"


@dataclass(frozen=True)
class SealedFile:
    """A file in sealed memory, open in this process."""

    descriptor: int
    size_bytes: int
    checksum: str

    @property
    def path(self) -> Path:
        """Return a path under which this process can open the file for reading while it holds the descriptor."""
        return Path(f"/proc/self/fd/{self.descriptor}")

    def read(self) -> bytes:
        """Return the bytes as a copy."""
        with open(self.descriptor, "rb", closefd=False) as file:
            file.seek(0)
            return file.read()

    def close(self) -> None:
        """Give this process's descriptor back; other holders keep theirs."""
        os.close(self.descriptor)


class SealedWriter(HashingWriter):
    """Writer of one file in memory, which nobody can change once it is sealed."""

    def __init__(self, name: str, algorithm: str = SHA256) -> None:
        super().__init__(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), algorithm)

    def seal(self) -> SealedFile:
        """End the file, from which point it cannot be changed."""
        checksum = self.finish()
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SEALS)
        return SealedFile(self.descriptor, self.size_bytes, checksum)


class SealedFiles:
    """Owner of sealed files: hands them out, by checksum, to processes of this user until it is closed.

    Raises ``FailedPrecondition`` when the folder is not this user's alone.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        self._offered: Mapping[str, SealedFile] = MappingProxyType({})
        self._taken: set[str] = set()
        self._lock = threading.Lock()
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._socket = listen(self._path)
        self._thread = threading.Thread(target=self._serve, name="handing out sealed files", daemon=True)
        self._thread.start()

    def offer(self, files: Mapping[str, SealedFile]) -> None:
        """Offer these files in place of those before, which are closed here; readers keep what they have taken."""
        with self._lock:
            before, self._offered = self._offered, MappingProxyType({one.checksum: one for one in files.values()})
            self._taken.clear()
            for file in before.values():
                file.close()

    @property
    def size_bytes(self) -> int:
        """Return the bytes that are offered."""
        return sum(file.size_bytes for file in self._offered.values())

    @property
    def is_taken(self) -> bool:
        """Return whether somebody has taken every file that is offered."""
        return self._offered.keys() <= self._taken

    def close(self) -> None:
        """Stop handing out, and close the files."""
        self._path.unlink(missing_ok=True)
        # Wakes the thread, which waits for the next reader.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        self.offer({})

    def _serve(self) -> None:
        while True:
            try:
                reader, _ = self._socket.accept()
            except OSError:  # closed
                return
            # A reader that goes away in the middle is nobody's loss.
            with reader, contextlib.suppress(OSError):
                reader.settimeout(ANSWER_S)
                self._answer(reader, reader.recv(128))

    def _answer(self, reader: socket.socket, asked: bytes) -> None:
        with self._lock:
            wanted = asked.decode("ascii", "replace")
            file = self._offered.get(wanted) if CHECKSUM.fullmatch(wanted) else None
            if file is None:
                reader.sendall(NOT_HERE)
                return
            # Opened anew for reading: with a descriptor that may write, a shared mapping would be refused.
            readable = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                socket.send_fds(reader, [HERE], [readable])
                self._taken.add(file.checksum)
            finally:
                os.close(readable)


def take_file(folder: Path, checksum: str, size_bytes: int) -> SealedFile | None:
    """Return a sealed file from whichever owner offers it; None when nobody on this machine does.

    Raises ``FailedPrecondition`` when the folder is not this user's alone.
    """
    if not folder.exists():
        return None
    check_private(folder)
    for path in sorted(folder.glob(f"*{SUFFIX}"))[:MAX_OWNERS]:
        try:
            descriptor = ask_owner(path, checksum)
        except ConnectionRefusedError:
            # Only of an owner that has died: a living one listens before its socket has its name.
            path.unlink(missing_ok=True)
            continue
        except OSError:  # on its way out, or too slow
            continue
        if descriptor is None:
            continue
        if is_sealed(descriptor) and os.fstat(descriptor).st_size == size_bytes:
            return SealedFile(descriptor, size_bytes, checksum)
        os.close(descriptor)
    return None


def ask_owner(path: Path, checksum: str) -> int | None:
    """Return a descriptor of the file from the owner behind a socket, None if it does not offer it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as owner, short_path(path) as short:
        owner.settimeout(ANSWER_S)
        owner.connect(short)
        owner.sendall(checksum.encode())
        _, found, _, _ = socket.recv_fds(owner, 1, 1)
        return found[0] if found else None


def listen(path: Path) -> socket.socket:
    """Return a socket that listens under a path from the moment at which it is there."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    early = path.with_suffix(".new")
    with short_path(early) as short:
        made.bind(short)
    made.listen(MAX_OWNERS)
    early.rename(path)
    return made


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield another name of the path: addresses of sockets have at most 107 bytes, folders of tests and pods more."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def is_sealed(descriptor: int) -> bool:
    """Return whether nobody can change the file any more."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & SEALS == SEALS
    except OSError:  # no memory file
        return False


def check_private(folder: Path) -> None:
    """Raise ``FailedPrecondition`` unless the folder is this user's, and closed to others."""
    found = folder.lstat()
    # The default lies in a folder where anybody can create names: what is handed out there becomes a model's weights.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise FailedPrecondition(
            f"{folder} is no folder of this user alone (mode 700)", metadata={"field": "shared_memory_dir"}
        )


def default_folder() -> Path:
    """Return where processes of this user on this machine meet unless settings say otherwise."""
    return Path(tempfile.gettempdir()) / f"fathom-{os.geteuid()}"
