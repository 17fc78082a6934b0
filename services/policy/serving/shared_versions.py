"""Versions in memory that a learner on this machine shares: taken by descriptor, without a download or a copy."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.core.errors import FathomError
from fathom.domain.weights.manifest import MANIFEST_NAME, WeightManifest
from fathom.transport.sealed_memory import SealedFile, take_file


@dataclass(frozen=True)
class SharedVersion:
    """A version of which every file is open in this process; ``folder`` has links to them under their names."""

    folder: Path
    files: tuple[SealedFile, ...]

    def close(self) -> None:
        """Remove the folder, and give the memory back as far as it is this process's."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for file in self.files:
            file.close()


class SharedVersions:
    """The versions that this process has taken; blocking, and called for one model by one caller at a time.

    ``meeting`` is the folder where learners offer their files; None takes nothing.
    """

    def __init__(self, meeting: Path | None, log: Any) -> None:
        self._meeting, self._log = meeting, log
        self._taken: dict[tuple[str, str], SharedVersion] = {}
        # Links lead to descriptors of this process, so no other process may find them where versions are kept.
        self._root: Path | None = None

    def take(self, model: str, ident: str, manifest: WeightManifest) -> Path | None:
        """Return a folder with all files of a version, or None when nobody on this machine offers them."""
        known = self._taken.get((model, ident))
        if known is not None:
            return known.folder
        # What the store keeps as a difference was made from files that are elsewhere.
        if self._meeting is None or any(file.delta for file in manifest.files):
            return None
        files: list[SealedFile] = []
        try:
            for file in manifest.files:
                found = take_file(self._meeting, file.checksum, file.size_bytes)
                if found is None:
                    break
                files.append(found)
            else:
                return self._keep(model, ident, manifest, files)
        except FathomError as error:
            self._log.warning("weights cannot be shared", model=model, error=error.message)
        for found in files:
            found.close()
        return None

    def _keep(self, model: str, ident: str, manifest: WeightManifest, files: list[SealedFile]) -> Path:
        self._root = self._root or Path(tempfile.mkdtemp(prefix="fathom-shared-"))
        folder = self._root / model / ident
        folder.mkdir(parents=True)
        for listed, file in zip(manifest.files, files, strict=True):
            # By this process's number: an engine in a child process reads them too.
            (folder / listed.path).symlink_to(f"/proc/{os.getpid()}/fd/{file.descriptor}")
        (folder / MANIFEST_NAME).write_bytes(manifest.to_json())
        self._taken[model, ident] = SharedVersion(folder, tuple(files))
        self._log.info("weights taken from shared memory", model=model, version=manifest.policy_version)
        return folder

    def release(self, model: str, served: Collection[str]) -> None:
        """Give back a model's versions, except those in ``served`` and the one taken last, which may be about to be."""
        ours = [key for key in self._taken if key[0] == model]
        for key in ours[:-1]:
            if key[1] not in served:
                self._taken.pop(key).close()

    def close(self) -> None:
        """Give everything back."""
        while self._taken:
            self._taken.popitem()[1].close()
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
