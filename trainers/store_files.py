"""Files that learners exchange through the object store, read and written by the process that needs them.

The driver and the ranks of a training share no disk: a rank uploads what it has written into a folder of its own, and
the driver gets keys and checksums, which it lists in a manifest. Everything here can be sent to another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from fathom.core.errors import CorruptData, InvalidField
from fathom.transport.checksums import SHA256, digits_of, hash_file
from fathom.transport.store import OUTAGE, ObjectStore, StoredObject, open_store

R = TypeVar("R")


class StoredFiles(dict[str, StoredObject]):
    """Stored objects by file name, relative to the folder that was uploaded."""

    carrier: str = ""
    """Way of new weights to policy, in words; empty where nothing was to be chosen."""
    is_ahead: bool = False
    """True while the store does not have the files yet: they are being uploaded."""

    def below(self, folder: str) -> StoredFiles:
        """Return the files with ``folder`` in front of their names."""
        return StoredFiles({f"{folder}/{name}": stored for name, stored in self.items()})


@dataclass(frozen=True)
class Sharing:
    """Passing new weights to a policy on the machine of the first rank, in memory of at most ``max_bytes``."""

    folder: Path
    """Folder in which processes of this machine meet (``fathom.transport.sealed_memory``)."""
    max_bytes: int
    is_required: bool = False
    """Fail where memory cannot be shared, instead of leaving it to the store."""
    is_ahead: bool = False
    """Let policy have weights before the store does; the next upload waits for the one before."""


@dataclass(frozen=True)
class StoreFolder:
    """A key prefix in the store at ``url``, into which a process uploads files.

    With ``by_content`` keys begin with a checksum, so that an object never changes once it is written. ``algorithm`` is
    that of the files' checksums (``fathom.transport.checksums``).
    """

    url: str = field(repr=False)
    """Not shown: the URL of a store may hold a password."""
    prefix: str
    by_content: bool = False
    sharing: Sharing | None = None
    """Of what is uploaded; None leaves it to the store."""
    algorithm: str = SHA256

    def part(self, name: str) -> StoreFolder:
        """Return a folder in this folder."""
        return replace(self, prefix=f"{self.prefix}/{name}")

    def key_of(self, name: str, checksum: str) -> str:
        """Return the key of a file with this checksum."""
        start = f"{digits_of(checksum)[:16]}-" if self.by_content else ""
        # A key has no name that begins with a dot, as torch's index of a checkpoint does.
        return f"{self.prefix}/{start}{name.removeprefix('.')}"

    def upload(self, folder: Path, given: Mapping[str, str] = MappingProxyType({})) -> StoredFiles:
        """Upload all files of a local folder; call outside any event loop.

        Files of which ``given`` has the checksums, by name, may be moved into the store.
        """
        paths = sorted(path for path in folder.rglob("*") if path.is_file())

        async def put(store: ObjectStore) -> StoredFiles:
            found = StoredFiles()
            for path in paths:
                name = path.relative_to(folder).as_posix()
                checksum = given[name] if name in given else await asyncio.to_thread(hash_file, path, self.algorithm)
                key = self.key_of(name, checksum)
                found[name] = await store.put_file(key, path, checksum, is_given=name in given)
            return found

        return asyncio.run(with_store(self.url, put))


@dataclass(frozen=True)
class StoredFolder:
    """Uploaded files in the store at ``url``, which a process fetches one by one."""

    url: str = field(repr=False)
    files: StoredFiles

    def part(self, name: str) -> StoredFolder:
        """Return the files of a folder in this folder; raises ``CorruptData`` when there are none."""
        found = {key.removeprefix(f"{name}/"): one for key, one in self.files.items() if key.startswith(f"{name}/")}
        if not found:
            raise CorruptData(name, f"has no files; there are {sorted(self.files)}")
        return StoredFolder(self.url, StoredFiles(found))

    def fetch(self, name: str, folder: Path) -> None:
        """Download one file into a local folder, verified, unless it is there; call outside any event loop.

        Raises ``CorruptData`` for a file that is not listed, or whose checksum differs.
        """
        path = folder / name
        if path.exists():
            return
        if name not in self.files:
            raise CorruptData(name, f"is not among the stored files {sorted(self.files)}")
        stored = self.files[name]

        path.parent.mkdir(parents=True, exist_ok=True)
        # Under its own name only when it is whole and verified: what stands there is not fetched again.
        partial = path.with_name(f".{path.name}.partial")
        try:
            asyncio.run(with_store(self.url, lambda store: store.get_file(stored.key, partial, stored.checksum)))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def fetch_all(self, folder: Path) -> None:
        """Download every file."""
        for name in self.files:
            self.fetch(name, folder)


async def check_uploaded(store: ObjectStore, files: StoredFiles) -> None:
    """Check that this process's store has what the ranks say they have uploaded.

    Raises ``InvalidField("store_url")``: ranks on another node, given a folder as the store, write to their own disk.
    """
    for name, stored in files.items():
        found = await store.head(stored.key)
        if found is None or found.checksum != stored.checksum:
            raise InvalidField(
                "store_url",
                f"the learners wrote {name} to {stored.key}, which is not in the driver's store:"
                " learners on several nodes need a store that all of them reach, such as s3://",
            )


async def with_store(url: str, work: Callable[[ObjectStore], Awaitable[R]]) -> R:
    """Open the store, run ``work`` with it, and close it; an outage of a minute is waited out."""
    store = open_store(url, retries=OUTAGE)
    try:
        return await work(store)
    finally:
        await store.close()
