"""Published weights: a manifest in the object store that lists the files of one version of one model.

Trainers ``publish`` and policy ``fetch``es; the manifest's own checksum travels in the reference to it, so a
version is either whole and as published, or not there. Format 1 of the manifest::

    {"format": 1, "model": "tiny", "policy_version": 3, "created": "2026-01-31T12:00:00+00:00",
     "files": [{"path": "model.safetensors", "key": "weights/tiny/3/…", "size_bytes": 1, "sha256": "…"}, …]}
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fathom.errors import CorruptData, InvalidField
from fathom.ids import checked_id, sha256
from fathom.store.base import ObjectStore, StoredObject

FORMAT = 1
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
SHA256 = re.compile(r"[0-9a-f]{64}")
MANIFEST_NAME = "fathom-manifest.json"


@dataclass(frozen=True)
class WeightFile:
    """One file of a version: a plain name, where its bytes are, their number and their SHA-256."""

    path: str
    key: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class WeightManifest:
    """All files of one version. ``created`` is an ISO time in UTC."""

    model: str
    policy_version: int
    created: str
    files: tuple[WeightFile, ...]

    def to_json(self) -> bytes:
        """UTF-8 JSON of format 1."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, key: str = "manifest") -> WeightManifest:
        """Reads and checks a manifest; raises ``CorruptData(key)`` that says what is wrong."""
        try:
            parsed = json.loads(data)
            if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
                raise CorruptData(key, f"is no weight manifest of format {FORMAT}")
            files = tuple(weight_file(entry) for entry in parsed["files"])
            manifest = cls(str(parsed["model"]), int(parsed["policy_version"]), str(parsed["created"]), files)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptData(key, f"is no weight manifest: {type(error).__name__}: {error}") from error
        if not files or len({file.path for file in files}) != len(files):
            raise CorruptData(key, "lists no files, or one name twice")
        if manifest.policy_version < 1:
            raise CorruptData(key, "policy_version must be at least 1")
        return manifest


def weight_file(entry: dict[str, object]) -> WeightFile:
    """One entry of ``files``; raises ``ValueError``, ``KeyError`` or ``TypeError``."""
    path, key, size, digest = entry["path"], entry["key"], entry["size_bytes"], entry["sha256"]
    # A plain name only: the reader writes files under it.
    if not isinstance(path, str) or not FILE_NAME.fullmatch(path) or path == MANIFEST_NAME:
        raise ValueError(f"{path!r} is no plain file name")
    if not isinstance(digest, str) or not SHA256.fullmatch(digest):
        raise ValueError(f"sha256 of {path} is not 64 hexadecimal digits")
    if not isinstance(size, int) or size < 0 or not isinstance(key, str):
        raise ValueError(f"size_bytes or key of {path} is malformed")
    return WeightFile(path, key, size, digest)


async def publish(store: ObjectStore, folder: Path, model: str, version: int) -> StoredObject:
    """Uploads the files of ``folder`` (a Hugging Face model folder, not nested) and then their manifest.

    Returns the manifest's record: ``to_ref`` of it is what ``LoadWeights`` takes. Keys hold checksums, so
    publishing a version again never changes what an earlier manifest lists.
    Raises ``InvalidField`` for an unusable folder, model name or version.
    """
    checked_id("model", model)
    if version < 1:
        raise InvalidField("policy_version", "must be at least 1")
    paths = await asyncio.to_thread(lambda: sorted(path for path in folder.iterdir() if path.is_file()))
    if not any(path.suffix == ".safetensors" for path in paths):
        raise InvalidField("folder", f"{folder} holds no .safetensors file")
    files = []
    for path in paths:
        if not FILE_NAME.fullmatch(path.name) or path.name == MANIFEST_NAME:
            raise InvalidField("folder", f"{path.name!r} is no name that can be published")
        data = await asyncio.to_thread(path.read_bytes)
        digest = await asyncio.to_thread(sha256, data)
        stored = await store.put(f"weights/{model}/{version}/{digest[:16]}-{path.name}", data)
        files.append(WeightFile(path.name, stored.key, len(data), digest))
    manifest = WeightManifest(model, version, datetime.now(UTC).isoformat(timespec="seconds"), tuple(files)).to_json()
    return await store.put(f"weights/{model}/{version}/manifest-{sha256(manifest)[:16]}.json", manifest)


async def read_manifest(store: ObjectStore, ref: StoredObject) -> WeightManifest:
    """The manifest that ``ref`` points at; raises ``NotFound`` or ``CorruptData``."""
    return WeightManifest.from_json(await store.get(ref.key, ref.sha256 or None), ref.key)


async def fetch(store: ObjectStore, ref: StoredObject, target: Path) -> WeightManifest:
    """Downloads a version into the folder ``target``, which appears whole or not at all.

    A target that already holds this manifest is taken as it is. Raises ``NotFound`` or ``CorruptData``;
    ``target`` is then as before.
    """
    manifest = await read_manifest(store, ref)
    if await asyncio.to_thread(holds, target, manifest):
        return manifest
    await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
    partial = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=f".{target.name}-", dir=target.parent))
    try:
        for file in manifest.files:
            data = await store.get(file.key, file.sha256)
            if len(data) != file.size_bytes:
                raise CorruptData(file.key, f"has {len(data)} bytes, not {file.size_bytes}")
            await asyncio.to_thread((partial / file.path).write_bytes, data)
        await asyncio.to_thread((partial / MANIFEST_NAME).write_bytes, manifest.to_json())
        await asyncio.to_thread(replace_folder, partial, target)
    finally:
        await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
    return manifest


def holds(folder: Path, manifest: WeightManifest) -> bool:
    """True when the folder was fetched by this manifest and its files have the right sizes."""
    try:
        known = (folder / MANIFEST_NAME).read_bytes() == manifest.to_json()
        return known and all((folder / file.path).stat().st_size == file.size_bytes for file in manifest.files)
    except OSError:
        return False


def replace_folder(source: Path, target: Path) -> None:
    """Moves ``source`` to ``target``; what was there goes first, since rename replaces no full folder."""
    if target.exists():
        shutil.rmtree(target)
    source.rename(target)
