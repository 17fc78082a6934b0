"""Transfers of a learner's files: to the object store and back, and of new weights to a policy on the same machine.

New weights stand in sealed memory, from which policy takes them without a download; the store has them as well. Where
only the training itself is served by them, the store gets them while they are in use already.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from fathom.core.errors import DependencyFailed, FailedPrecondition
from fathom.trainers.learners.sealed_tensors import can_write, write_tensors
from fathom.trainers.shards import count_bytes, save_shards
from fathom.trainers.store_files import Sharing, StoredFiles, StoredFolder, StoreFolder, with_store
from fathom.transport.hashed_files import FileWriter
from fathom.transport.sealed_memory import SealedFile, SealedFiles, SealedWriter
from fathom.transport.store import ObjectStore, StoredObject, find_scratch

STORE, MEMORY = "object store", "shared memory"
SETTING = "rollout.weights_transport"


class StoreTransfer:
    """Uploads and restores of one learner in this process; ``worker`` writes and reads local folders."""

    worker: Any
    _shared: SharedWeights | None = None

    def upload(self, method: str, target: StoreFolder) -> StoredFiles:
        """Call ``method`` of the worker with an empty folder, and upload what it has written there.

        With ``target.sharing`` the files also stand in memory for a policy on this machine, until the next ones do.
        """
        self.settle()
        if target.sharing is not None and self._shared is None:
            self._shared = SharedWeights(target.sharing)
        # On the store's own disk, if it has one here: then what is written becomes the store's by a rename.
        scratch = find_scratch(target.url)
        with tempfile.TemporaryDirectory(dir=scratch) as name:
            folder, write = Path(name), getattr(self.worker, method)
            if self._shared is not None and target.sharing is not None:
                return self._shared.upload(write, folder, target)
            if scratch is None:
                return upload_from_memory(write, folder, target)
            return WrittenVersion(folder, target.algorithm).upload(write, target)

    def settle(self) -> None:
        """Wait until the store has all that was uploaded; raises what its upload has raised."""
        if self._shared is not None:
            self._shared.settle()

    def restore(self, source: StoredFolder) -> None:
        """Let the worker load a checkpoint, fetching the files that it asks for."""
        with tempfile.TemporaryDirectory() as name:
            self.worker.load_checkpoint(Path(name), lambda file: source.fetch(file, Path(name)))

    def close(self) -> None:
        """Free the memory that is shared."""
        if self._shared is not None:
            self._shared.close()


class SharedWeights:
    """The newest version of a learner's weights in sealed memory, at most ``sharing.max_bytes`` with the one before."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._owner: SealedFiles | None = None
        self._uploading: Future[None] | None = None
        self._uploader = ThreadPoolExecutor(1, thread_name_prefix="storing weights")
        self._problem = ""

    def upload(self, write: Callable[..., None], folder: Path, target: StoreFolder) -> StoredFiles:
        """Let ``write`` export the weights, share and store them, and return the files with how they travel.

        Raises ``FailedPrecondition("rollout.weights_transport")`` where memory has to be shared and cannot be.
        """
        self._look_who_took()
        version = SealedVersion(
            folder, self._sharing.max_bytes - (self._owner.size_bytes if self._owner else 0), target.algorithm
        )
        if self._problem:
            write(folder)
        else:
            write_version(write, folder, version.save)
            version.add_folder()
            self._meet_readers(version)
            self._problem = version.problem
        if self._owner is None or not version.files:
            self._refuse_if_required()
            # Ranks other than the first write nothing, and have nothing to say of it.
            stored = target.upload(folder)
            stored.carrier = f"{STORE}: {self._problem}" if stored and self._problem else ""
            return stored
        self._owner.offer(version.files)
        return self._store(version.files, target)

    def _meet_readers(self, version: SealedVersion) -> None:
        """Open the place where policy takes files, once there are some; ranks other than the first have none."""
        if self._owner is None and version.files:
            try:
                self._owner = SealedFiles(self._sharing.folder)
            except FailedPrecondition as error:
                version.give_up(error.message)
            except OSError as error:
                version.give_up(f"{self._sharing.folder} cannot be used: {error.strerror}")

    def _store(self, files: Mapping[str, SealedFile], target: StoreFolder) -> StoredFiles:
        listed = list_files(files, target)
        listed.carrier, listed.is_ahead = MEMORY, self._sharing.is_ahead
        self._uploading = self._uploader.submit(put_files, target.url, listed, files)
        if not self._sharing.is_ahead:
            self.settle()
        return listed

    def _look_who_took(self) -> None:
        """Stop sharing when the version before was served and not taken from here: policy is elsewhere."""
        if self._owner is not None and self._owner.size_bytes and not self._owner.is_taken:
            self._problem = (
                f"policy has not taken the last version from {self._sharing.folder}: it is on another machine, or its"
                " shared_memory_dir is another one"
            )
            self._owner.offer({})
            self._refuse_if_required()

    def _refuse_if_required(self) -> None:
        if self._sharing.is_required and self._problem:
            raise FailedPrecondition(f"{SETTING} is shared_memory, but {self._problem}", metadata={"field": SETTING})

    def settle(self) -> None:
        """Wait until the store has the files; raises what their upload has raised."""
        uploading, self._uploading = self._uploading, None
        if uploading is not None:
            uploading.result()

    def close(self) -> None:
        """Free the memory, once an upload that is under way has ended."""
        self._uploader.shutdown()
        if self._owner is not None:
            self._owner.close()


class SealedVersion:
    """Files of one version in sealed memory, by name; ``problem`` says why they are in ``folder`` instead."""

    def __init__(self, folder: Path, room_bytes: int, algorithm: str) -> None:
        self.files: dict[str, SealedFile] = {}
        self.problem = ""
        self._folder, self._room_bytes, self._algorithm = folder, room_bytes, algorithm
        self._writers: dict[str, SealedWriter] = {}

    def save(self, tensors: dict[str, Tensor], path: Path) -> None:
        """Write weights into memory under the path's name, or to the path where memory cannot take them."""
        save_shards(tensors, path, self._save_shard)

    def _save_shard(self, tensors: dict[str, Tensor], path: Path) -> None:
        if not can_write(tensors):
            self.give_up("a tensor has a type that only files on disk are written with")
        elif self._has_room(count_bytes(tensors)):
            writer = self._writers[path.name] = SealedWriter(path.name, self._algorithm)
            try:
                write_tensors(tensors, writer)
                self._room_bytes -= writer.size_bytes
            except OSError as error:
                self._writers.pop(path.name).discard()
                self.give_up(f"memory is short: {error.strerror}")
        if self.problem:
            save_file(tensors, path, metadata={"format": "pt"})

    def seal(self) -> None:
        """End what is being written; only now, so that files are hashed side by side."""
        while self._writers:
            name = next(iter(self._writers))
            self._add(name, self._writers[name].seal())
            del self._writers[name]

    def add_folder(self) -> None:
        """Add what else the export has written; all or nothing, since policy takes whole versions."""
        self.seal()
        for path in sorted(self._folder.iterdir()):
            if self.problem or not self._has_room(path.stat().st_size):
                return
            writer = SealedWriter(path.name, self._algorithm)
            try:
                writer.write(path.read_bytes())
                self._room_bytes -= writer.size_bytes
                self._add(path.name, writer.seal())
            except OSError as error:
                writer.discard()
                self.give_up(f"memory is short: {error.strerror}")

    def _has_room(self, size: int) -> bool:
        """Return whether there is room for so many bytes; gives up where there is none."""
        if size > self._room_bytes:
            self.give_up(
                f"two versions are more than rollout.shared_memory_gb: {size:,} bytes do not fit into the"
                f" {self._room_bytes:,} that are left"
            )
        return not self.problem

    def _add(self, name: str, file: SealedFile) -> None:
        for known in self.files.values():
            if known.checksum == file.checksum:
                file.close()
                file = known
                break
        self.files[name] = file

    def give_up(self, problem: str) -> None:
        """Put what is in memory into the folder, from where the store gets it."""
        self.problem = problem
        self.seal()
        for name, file in self.files.items():
            (self._folder / name).write_bytes(file.read())
        self.close()

    def close(self) -> None:
        """Give the memory back, also of what is half written."""
        for writer in self._writers.values():
            writer.discard()
        self._writers.clear()
        for file in set(self.files.values()):
            file.close()
        self.files.clear()


class WrittenVersion:
    """Weights of one version in ``folder`` on the store's own disk, hashed and flushed while they are written."""

    def __init__(self, folder: Path, algorithm: str) -> None:
        self._folder, self._algorithm = folder, algorithm
        self._writers: dict[str, FileWriter] = {}

    def upload(self, write: Callable[..., None], target: StoreFolder) -> StoredFiles:
        """Let ``write`` export into the folder, and give the store what it has written."""
        try:
            write_version(write, self._folder, self.save)
            given = {name: writer.finish() for name, writer in self._writers.items()}
        # Also when it is cancelled: threads and descriptors of the writers would stay.
        except BaseException:
            self._discard()
            raise
        self._wait_flushed()
        return target.upload(self._folder, given)

    def save(self, tensors: dict[str, Tensor], path: Path) -> None:
        """Write weights to the path."""
        save_shards(tensors, path, self._save_shard)

    def _save_shard(self, tensors: dict[str, Tensor], path: Path) -> None:
        if not can_write(tensors):
            save_file(tensors, path, metadata={"format": "pt"})
            return
        writer = self._writers[path.name] = FileWriter(path, self._algorithm)
        write_tensors(tensors, writer)
        writer.flush()

    def _wait_flushed(self) -> None:
        """Wait until the disk has all files; raises ``DependencyFailed`` when it fails."""
        with contextlib.ExitStack() as waiting:
            for writer in self._writers.values():
                waiting.callback(writer.wait_flushed)
            self._writers.clear()
            try:
                waiting.close()
            except OSError as error:
                raise DependencyFailed("object store", error.strerror or type(error).__name__) from error

    def _discard(self) -> None:
        for writer in self._writers.values():
            writer.discard()
        self._writers.clear()


def write_version(write: Callable[..., None], folder: Path, save: Callable[[dict[str, Tensor], Path], None]) -> None:
    """Let ``write`` export into ``folder``, whole weights by ``save``."""
    # What exports whole weights can be given a way to save them; an adapter is small, and copied.
    saves = {"save": save} if "save" in inspect.signature(write).parameters else {}
    write(folder, **saves)


def upload_from_memory(write: Callable[..., None], folder: Path, target: StoreFolder) -> StoredFiles:
    """Let ``write`` export, and upload what it has written, to a store that is elsewhere.

    Whole weights stand in memory meanwhile, hashed as they are written: on a disk they would be written, read and
    hashed once more before the store has them.
    """
    version = SealedVersion(folder, sys.maxsize, target.algorithm)
    try:
        write_version(write, folder, version.save)
        version.seal()
        listed = list_files(version.files, target)
        put_files(target.url, listed, version.files)
    finally:
        version.close()
    return StoredFiles(listed | target.upload(folder))


def list_files(files: Mapping[str, SealedFile], target: StoreFolder) -> StoredFiles:
    """Return the records that sealed files will have in the store."""
    return StoredFiles(
        {
            name: StoredObject.of(target.key_of(name, file.checksum), file.size_bytes, file.checksum)
            for name, file in files.items()
        }
    )


def put_files(url: str, listed: StoredFiles, files: Mapping[str, SealedFile]) -> None:
    """Upload sealed files under their keys; call outside any event loop."""

    async def put(store: ObjectStore) -> None:
        for name, stored in listed.items():
            await store.put_file(stored.key, files[name].path, stored.checksum)

    asyncio.run(with_store(url, put))
