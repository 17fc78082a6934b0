"""Building a bundle: fetch each package, convert it, write the files and their manifest, all or nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from fathom.core.errors import DependencyFailed, FathomError
from fathom.core.ids import content_hash, sha256
from fathom.domain.bundle.manifest import NAME, FileEntry, Manifest, SourceEntry, verify
from fathom.domain.bundle.packages import Package, Reader, fetch, reader

T = TypeVar("T")


@dataclass(frozen=True)
class Converted(Generic[T]):
    """Result of converting one package; ``as_of`` is its last date, ISO."""

    content: T
    as_of: str


Convert = Callable[[Reader], Converted[T]]
Write = Callable[[Mapping[str, T], Path], Mapping[str, int]]
"""Writes the contents by source id into a folder; returns the number of rows by file name."""


def build(
    target: Path,
    sources: Sequence[tuple[Package, Convert[T]]],
    write: Write[T],
    recipe: str,
    progress: Callable[[str], None] = lambda line: None,
) -> Manifest:
    """Build ``target``; do nothing when it exists, is intact, and has the same recipe.

    ``recipe`` identifies all of our own input (code version, own notes). A source that is unavailable on this machine
    is skipped and recorded; a source with another checksum stops the build.
    """
    # With the pins of the sources: another version of a package makes another bundle.
    recipe = content_hash([recipe, *[[package.name, package.version, package.sha256] for package, _ in sources]])
    if (target / NAME).exists():
        try:
            manifest = verify(target)
            # A source that was out of reach is tried again by the next build.
            if manifest.recipe == recipe and not any(source.skipped for source in manifest.sources):
                progress(f"{target} is up to date")
                return manifest
        except FathomError as error:
            progress(f"rebuilding: {error.message}")
    target.parent.mkdir(parents=True, exist_ok=True)
    contents: dict[str, T] = {}
    entries = []
    for package, convert in sources:
        entry, converted = convert_one(package, convert, target.parent / "packages", progress)
        entries.append(entry)
        if converted is not None:
            contents[package.name] = converted.content
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        fresh = Path(folder) / "bundle"
        fresh.mkdir()
        rows = write(contents, fresh)
        files = tuple(entry_of(fresh / name, count) for name, count in sorted(rows.items()))
        manifest = Manifest(recipe, tuple(entries), files)
        (fresh / NAME).write_text(manifest.to_json(), encoding="utf-8")
        if target.exists():
            # The only moment without a bundle: what could fail has been done before.
            shutil.rmtree(target)
        fresh.replace(target)
    progress(f"{target}: {sum(file.rows for file in files):,} rows, snapshot {manifest.snapshot[:12]}")
    return manifest


def convert_one(
    package: Package, convert: Convert[T], cache: Path, progress: Callable[[str], None]
) -> tuple[SourceEntry, Converted[T] | None]:
    """Convert one source; return its entry and content, or an entry with the reason and None if it is unavailable."""
    label = f"{package.name} {package.version}"
    progress(f"{label}: {package.description}")
    facts = (package.name, package.name, package.version, package.licence, package.sha256, package.description)
    try:
        converted = convert(reader(package, fetch(package, cache)))
    except DependencyFailed as error:
        progress(f"{label} is skipped: {error.message}")
        return SourceEntry(*facts, skipped=error.message), None
    return SourceEntry(*facts, as_of=converted.as_of), converted


def entry_of(path: Path, rows: int) -> FileEntry:
    data = path.read_bytes()
    return FileEntry(path.name, sha256(data), rows, len(data))
