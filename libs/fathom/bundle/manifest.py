"""The manifest of a bundle: its sources, its files with checksums, its snapshot."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fathom.errors import CorruptData
from fathom.ids import content_hash, sha256

NAME = "MANIFEST.json"
FORMAT = 1


@dataclass(frozen=True)
class SourceEntry:
    """Where data are from. ``as_of`` is the last date with data, ISO; ``skipped`` says why a source is not in."""

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
    """``recipe`` is the hash of what the bundle was built from, ``snapshot`` that of what came out."""

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
    """Raises ``CorruptData`` when there is none or it cannot be read."""
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
    """The manifest, when every file has its checksum; else ``CorruptData`` naming the file."""
    manifest = read(folder)
    for entry in manifest.files:
        path = folder / entry.path
        if not path.exists():
            raise CorruptData(str(path), "is not there; rebuild it with 'fathom data'")
        if sha256(path.read_bytes()) != entry.sha256:
            raise CorruptData(str(path), "has another checksum; delete the folder and run 'fathom data'")
    return manifest
