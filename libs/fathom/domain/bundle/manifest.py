"""The manifest of a bundle: its sources, its files with checksums, its snapshot."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData
from fathom.core.ids import content_hash, sha256

NAME = "MANIFEST.json"
FORMAT = 1


@dataclass(frozen=True)
class SourceEntry:
    """Source of data. ``as_of`` is the last date with data, ISO; ``skipped`` the reason why a source is missing."""

    id: str
    package: str
    version: str
    licence: str
    sha256: str
    description: str
    as_of: str = ""
    skipped: str = ""


@dataclass(frozen=True)
class FileEntry:
    """A file of the bundle."""

    path: str
    sha256: str
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class Manifest:
    """Manifest of a bundle; ``recipe`` is the hash of its inputs, ``snapshot`` that of its files."""

    recipe: str
    sources: tuple[SourceEntry, ...]
    files: tuple[FileEntry, ...]

    @property
    def snapshot(self) -> str:
        return content_hash([asdict(file) for file in self.files])

    def to_json(self) -> str:
        content = {"format": FORMAT, "snapshot": self.snapshot, **asdict(self)}
        return json.dumps(content, indent=2, ensure_ascii=False)


def read(folder: Path) -> Manifest:
    """Read the manifest; raise ``CorruptData`` when it is missing or malformed."""
    path = folder / NAME
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, not {FORMAT}")
        return Manifest(
            content["recipe"],
            tuple(SourceEntry(**entry) for entry in content["sources"]),
            tuple(FileEntry(**entry) for entry in content["files"]),
        )
    except FileNotFoundError as error:
        raise CorruptData(str(path), "is not there; build it with 'fathom data'") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(str(path), f"{error}; rebuild it with 'fathom data'") from error


def verify(folder: Path) -> Manifest:
    """Return the manifest if every file has its checksum; raise ``CorruptData`` naming the file otherwise."""
    manifest = read(folder)
    for entry in manifest.files:
        path = folder / entry.path
        if not path.exists():
            raise CorruptData(str(path), "is not there; rebuild it with 'fathom data'")
        if sha256(path.read_bytes()) != entry.sha256:
            raise CorruptData(str(path), "has another checksum; delete the folder and run 'fathom data'")
    return manifest
