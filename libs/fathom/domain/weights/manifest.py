"""Published weights: a manifest in the object store that lists the files of one version of one model.

Trainers ``publish`` and policy replicas ``fetch``. References to a manifest carry its checksum, so a version is either
complete and as published, or absent. Format 1 of the manifest::

    {"format": 1, "model": "tiny", "policy_version": 3, "created": "2026-01-31T12:00:00+00:00",
     "files": [{"path": "model.safetensors", "key": "weights/tiny/3/…", "size_bytes": 1, "sha256": "…"}, …]}

Format 2 adds ``"base"``, the manifest of an adapter's base model (null: the model as configured), and per file
``"delta"``, ``{"key", "sha256"}`` of the whole file that the object is a difference to (see
``fathom.domain.weights.delta``); size and checksum are those of the result. Format 3 has ``"blake3"`` in place of
``"sha256"`` where that is the algorithm of a file's checksum, which its object's record in the store has as well.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fathom.core.errors import CorruptData, InvalidField
from fathom.core.ids import checked_id, sha256
from fathom.domain.weights.delta import decode, encode
from fathom.transport.checksums import (
    BLAKE3,
    CHECKSUM,
    SHA256,
    algorithm_of,
    choose_algorithm,
    digits_of,
    format_checksum,
    hash_file,
)
from fathom.transport.store.base import ObjectStore, StoredObject, verify

FORMAT, FORMAT_WITH_BASE, FORMAT_WITH_BLAKE3 = 1, 2, 3
FORMATS = (FORMAT, FORMAT_WITH_BASE, FORMAT_WITH_BLAKE3)
ADAPTER_CONFIG = "adapter_config.json"
WORTH_IT = 0.5  # a difference that is larger than this share of the file is not worth its reconstruction
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
MANIFEST_NAME = "fathom-manifest.json"
# Verified side by side, each by one processor.
FETCHES = 8


@dataclass(frozen=True)
class WeightFile:
    """One file of a version: plain name, storage key, size in bytes and checksum (``fathom.transport.checksums``).

    With ``delta``, (key, checksum) of a whole file, the stored bytes are the difference to that file.
    """

    path: str
    key: str
    size_bytes: int
    checksum: str
    delta: tuple[str, str] | None = None

    def to_json(self) -> dict[str, object]:
        """Return the file's entry in the manifest."""
        entry: dict[str, object] = {"path": self.path, "key": self.key, "size_bytes": self.size_bytes}
        entry |= checksum_to_json(self.checksum)
        if self.delta is not None:
            key, checksum = self.delta
            entry["delta"] = {"key": key} | checksum_to_json(checksum)
        return entry


@dataclass(frozen=True)
class WeightManifest:
    """All files of one version. ``created`` is an ISO time in UTC; ``base`` is the base model of an adapter."""

    model: str
    policy_version: int
    created: str
    files: tuple[WeightFile, ...]
    base: StoredObject | None = None

    @property
    def adapter(self) -> bool:
        """True when the files are an adapter, not a whole model."""
        return any(file.path == ADAPTER_CONFIG for file in self.files)

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON, in the lowest format that suffices."""
        entry: dict[str, object] = {"format": FORMAT, "model": self.model, "policy_version": self.policy_version}
        entry |= {"created": self.created, "files": [file.to_json() for file in self.files]}
        if self.base is not None or any(file.delta for file in self.files):
            entry["format"] = FORMAT_WITH_BASE
        checksums = {file.checksum for file in self.files} | {file.delta[1] for file in self.files if file.delta}
        if any(algorithm_of(checksum) == BLAKE3 for checksum in checksums):
            entry["format"] = FORMAT_WITH_BLAKE3
        if self.base is not None:
            entry["base"] = self.base.to_json()
        return json.dumps(entry, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, key: str = "manifest") -> WeightManifest:
        """Parse and check a manifest; raise ``CorruptData(key)`` saying what is wrong."""
        try:
            parsed = json.loads(data)
            if not isinstance(parsed, dict) or parsed.get("format") not in FORMATS:
                raise CorruptData(key, f"is no weight manifest of format {FORMAT} to {FORMAT_WITH_BLAKE3}")
            files = tuple(weight_file(entry) for entry in parsed["files"])
            base = None if parsed.get("base") is None else StoredObject(**parsed["base"])
            manifest = cls(str(parsed["model"]), int(parsed["policy_version"]), str(parsed["created"]), files, base)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptData(key, f"is no weight manifest: {type(error).__name__}: {error}") from error
        if not files or len({file.path for file in files}) != len(files):
            raise CorruptData(key, "lists no files, or one name twice")
        if manifest.policy_version < 1:
            raise CorruptData(key, "policy_version must be at least 1")
        return manifest


def weight_file(entry: dict[str, object]) -> WeightFile:
    """Parse one entry of ``files``; raise ``ValueError``, ``KeyError`` or ``TypeError``."""
    path, key, size = entry["path"], entry["key"], entry["size_bytes"]
    # A plain name only: the reader writes files under it.
    if not isinstance(path, str) or not FILE_NAME.fullmatch(path) or path == MANIFEST_NAME:
        raise ValueError(f"{path!r} is no plain file name")
    if not isinstance(size, int) or size < 0 or not isinstance(key, str):
        raise ValueError(f"size_bytes or key of {path} is malformed")
    delta = entry.get("delta")
    if delta is None:
        return WeightFile(path, key, size, checksum_from_json(path, entry))
    if not isinstance(delta, dict) or not isinstance(delta["key"], str):
        raise ValueError(f"delta of {path} is malformed")
    base = (delta["key"], checksum_from_json(f"delta of {path}", delta))
    return WeightFile(path, key, size, checksum_from_json(path, entry), base)


def checksum_to_json(checksum: str) -> dict[str, str]:
    """Return the field of a checksum, by the name of its algorithm."""
    return {algorithm_of(checksum): digits_of(checksum)}


def checksum_from_json(what: str, entry: Mapping[str, object]) -> str:
    """Return the checksum in an entry; raise ``ValueError`` or ``KeyError``."""
    algorithm = BLAKE3 if BLAKE3 in entry else SHA256
    checksum = format_checksum(algorithm, str(entry[algorithm]))
    if not CHECKSUM.fullmatch(checksum):
        raise ValueError(f"{algorithm} of {what} is not 64 hexadecimal digits")
    return checksum


async def publish(
    store: ObjectStore,
    folder: Path,
    model: str,
    version: int,
    *,
    base: StoredObject | None = None,
    delta_to: StoredObject | None = None,
) -> StoredObject:
    """Upload the files of ``folder`` (a Hugging Face model or PEFT adapter folder, not nested), then their manifest.

    ``base`` is the manifest of an adapter's base model; without one it is the model as configured. With ``delta_to``,
    the manifest of a whole version, weights are stored as their difference to it where that is small enough.

    Returns the manifest's record; ``to_ref`` of it is the argument of ``LoadWeights``. Keys contain checksums, so
    publishing a version again never changes what an earlier manifest lists. Raises ``InvalidField`` for an unusable
    folder, base, model name or version.
    """
    checked_id("model", model)
    if version < 1:
        raise InvalidField("policy_version", "must be at least 1")
    paths = await asyncio.to_thread(lambda: sorted(path for path in folder.iterdir() if path.is_file()))
    if not any(path.suffix == ".safetensors" for path in paths):
        raise InvalidField("folder", f"{folder} holds no .safetensors file")
    if base is not None and (not any(p.name == ADAPTER_CONFIG for p in paths) or await is_adapter(store, base)):
        raise InvalidField("base", "is for an adapter, and is the manifest of a whole model")
    whole = {} if delta_to is None else {file.path: file for file in (await read_manifest(store, delta_to)).files}
    files = []
    for path in paths:
        checked_name(path.name)
        # The manifest comes after all of them: whoever can read it finds every file that it names.
        files.append(await put_file(store, path, f"weights/{model}/{version}", whole.get(path.name)))
    return await write_manifest(store, model, version, files, base)


async def write_manifest(
    store: ObjectStore, model: str, version: int, files: Sequence[WeightFile], base: StoredObject | None = None
) -> StoredObject:
    """Write the manifest of files that are already in the store, and return its record.

    Raises ``InvalidField`` when there are no weights among them, or a name that no reader would accept.
    """
    if not any(file.path.endswith(".safetensors") for file in files):
        raise InvalidField("files", f"version {version} of {model} has no .safetensors file: {[f.path for f in files]}")
    for file in files:
        checked_name(file.path)
    manifest = WeightManifest(model, version, datetime.now(UTC).isoformat(), tuple(files), base).to_json()
    return await store.put(f"weights/{model}/{version}/manifest-{sha256(manifest)[:16]}.json", manifest)


def checked_name(name: str) -> str:
    """Return the name of a file to be published; raises ``InvalidField("folder")`` for one that is no plain name."""
    if not FILE_NAME.fullmatch(name) or name == MANIFEST_NAME:
        raise InvalidField("folder", f"{name!r} is no name that can be published")
    return name


async def is_adapter(store: ObjectStore, ref: StoredObject) -> bool:
    """Return True if a published version is an adapter."""
    return (await read_manifest(store, ref)).adapter


async def put_file(store: ObjectStore, path: Path, prefix: str, like: WeightFile | None) -> WeightFile:
    """Upload one file, as its difference to ``like`` where that is small enough."""
    checksum = await asyncio.to_thread(hash_file, path, choose_algorithm())
    start = f"{prefix}/{digits_of(checksum)[:16]}-{path.name}"
    if like is not None and path.suffix == ".safetensors":
        data = await asyncio.to_thread(path.read_bytes)
        # No chains: what is a difference itself refers to the same whole file.
        base = like.delta or (like.key, like.checksum)
        difference = await asyncio.to_thread(encode, await store.get(*base), data)
        if difference is not None and len(difference) < WORTH_IT * len(data):
            stored = await store.put(f"{start}.delta", difference)
            return WeightFile(path.name, stored.key, len(data), checksum, base)
    stored = await store.put_file(start, path, checksum)
    return WeightFile(path.name, stored.key, stored.size_bytes, checksum)


async def read_manifest(store: ObjectStore, ref: StoredObject) -> WeightManifest:
    """Return the manifest that ``ref`` points to; raise ``NotFound`` or ``CorruptData``."""
    return WeightManifest.from_json(await store.get(ref.key, ref.sha256 or None), ref.key)


async def fetch(store: ObjectStore, ref: StoredObject, target: Path) -> WeightManifest:
    """Download a version into the folder ``target``, which appears complete or not at all.

    A target that already holds this manifest is used as it is. Raises ``NotFound`` or ``CorruptData``; ``target`` is
    then unchanged.
    """
    manifest = await read_manifest(store, ref)
    if await asyncio.to_thread(holds, target, manifest):
        return manifest
    await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
    partial = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=f".{target.name}-", dir=target.parent))
    try:
        await fetch_files(store, manifest, partial, target.parent)
        await asyncio.to_thread((partial / MANIFEST_NAME).write_bytes, manifest.to_json())
        await asyncio.to_thread(replace_folder, partial, target)
    finally:
        await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
    return manifest


async def fetch_files(store: ObjectStore, manifest: WeightManifest, folder: Path, fetched: Path) -> None:
    """Fetch a version's files into ``folder``, some at once; raises what the first of them raised that failed."""
    # A difference is made into its file in memory, one at a time.
    slots = asyncio.Semaphore(1 if any(file.delta for file in manifest.files) else FETCHES)

    async def fetch_checked(file: WeightFile) -> None:
        async with slots:
            size = await fetch_file(store, file, folder / file.path, fetched)
        if size != file.size_bytes:
            raise CorruptData(file.key, f"has {size} bytes, not {file.size_bytes}")

    # All of them end before the folder goes: a thread that still writes would make it anew.
    for ended in await asyncio.gather(*map(fetch_checked, manifest.files), return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended


async def fetch_file(store: ObjectStore, file: WeightFile, path: Path, fetched: Path) -> int:
    """Write a file's verified bytes to ``path`` and return their number.

    The base of a difference is taken from earlier downloads below ``fetched`` if possible.
    """
    if file.delta is None:
        await store.get_file(file.key, path, file.checksum)
        return (await asyncio.to_thread(path.stat)).st_size
    key, checksum = file.delta
    base = await asyncio.to_thread(fetched_file, fetched, checksum)
    if base is None:
        base = await store.get(key, checksum)
    data = await asyncio.to_thread(decode, base, await store.get(file.key), file.key)
    return await asyncio.to_thread(path.write_bytes, await asyncio.to_thread(verify, file.key, data, file.checksum))


def fetched_file(fetched: Path, checksum: str) -> bytes | None:
    """Return a file with this checksum from a version downloaded below ``fetched``, None if there is none."""
    for listed in fetched.glob(f"*/{MANIFEST_NAME}"):
        try:
            manifest = WeightManifest.from_json(listed.read_bytes())
            for file in manifest.files:
                if file.checksum == checksum:
                    return (listed.parent / file.path).read_bytes()
        except (CorruptData, OSError):  # being removed, or the remains of one: the store has it
            continue
    return None


def holds(folder: Path, manifest: WeightManifest) -> bool:
    """Return True if the folder was downloaded from this manifest and its files have the right sizes."""
    try:
        known = (folder / MANIFEST_NAME).read_bytes() == manifest.to_json()
        return known and all((folder / file.path).stat().st_size == file.size_bytes for file in manifest.files)
    except OSError:
        return False


def replace_folder(source: Path, target: Path) -> None:
    """Move ``source`` to ``target``, removing an existing target first."""
    if target.exists():
        # rename does not replace a non-empty folder.
        shutil.rmtree(target)
    source.rename(target)
