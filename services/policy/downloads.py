"""Local cache of published weights: verified downloads, and pruning of versions no longer served."""

from __future__ import annotations

import asyncio
import difflib
import shutil
import time
from collections.abc import Collection
from pathlib import Path

from fathom.errors import CorruptData, FathomError, InvalidField, NotFound
from fathom.protocol import weights
from fathom.protocol.serving import Share
from fathom.store.base import ObjectStore, StoredObject

KEPT_VERSIONS = 2
BASE_POINTER = "fathom-base"
FIRST_DELAY_S, MAX_DELAY_S = 0.1, 2.0


class Downloads:
    """Downloaded versions in folders ``folder/<model>/<version>-<checksum>``."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.store, self._folder = store, folder
        self._fetching: dict[Path, asyncio.Lock] = {}

    async def share(self, model: str, version: int, ref: StoredObject, percent: int = 100) -> Share:
        """Read the manifest of a published version, check it against the request, and return it as a ``Share``.

        Raises ``NotFound``, ``CorruptData``, or ``InvalidField`` when the manifest is of another model or version.
        """
        listed = await weights.read_manifest(self.store, ref)
        if listed.policy_version != version:
            raise InvalidField("policy_version", f"is {version}, but the manifest carries {listed.policy_version}")
        if listed.model != model:
            raise InvalidField("model", f"is {model!r}, but the manifest is of {listed.model!r}")
        if ref.sha256:
            return Share(version, percent, ref)
        # Without a checksum in the reference, the one that the store recorded is the one that replicas compare.
        stored = await self.store.head(ref.key)
        if stored is None:
            raise NotFound("object", ref.key)
        return Share(version, percent, stored)

    async def published(self, model: str, version: int) -> StoredObject:
        """Return the manifest published last under a version number; raise ``NotFound`` with the nearest versions."""
        stored = await self.store.list(f"weights/{model}/{version}/manifest-")
        if not stored:
            raise NotFound("weights version", f"{model}/{version}", await self._nearest(model, version))
        manifests = [(await weights.read_manifest(self.store, ref), ref) for ref in stored]
        return max(manifests, key=lambda pair: pair[0].created)[1]

    async def _nearest(self, model: str, version: int) -> list[str]:
        keys = [stored.key for stored in await self.store.list(f"weights/{model}/")]
        versions = {part for key in keys if "/manifest-" in key and (part := key.split("/")[2]).isdigit()}
        return difflib.get_close_matches(str(version), sorted(versions), 3, 0) or sorted(versions, key=int)[-3:]

    async def fetch(self, model: str, share: Share, budget_s: float = 0.0) -> Path:
        """Download a version completely and return its folder; a version downloaded before is not downloaded again.

        The base weights of an adapter are downloaded too: its file ``BASE_POINTER`` holds the path of their folder, and
        is absent when the base is the model as configured. While the store is unreachable, the download is retried for
        ``budget_s`` seconds. Raises ``InvalidField`` for version 0, ``NotFound``, ``CorruptData`` or the store's error.
        """
        if share.manifest is None:
            raise InvalidField("policy_version", "0 is the model as configured; it is not published")
        folder = self._folder / model / share.ident
        async with self._fetching.setdefault(folder, asyncio.Lock()):
            limit, delay_s = time.monotonic() + budget_s, FIRST_DELAY_S
            while True:
                try:
                    manifest = await weights.fetch(self.store, share.manifest, folder)
                    if manifest.adapter and manifest.base is not None:
                        await self._fetch_base(manifest.base, folder)
                    return folder
                except FathomError as error:
                    if not error.transient or time.monotonic() + delay_s > limit:
                        raise
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, MAX_DELAY_S)

    async def _fetch_base(self, ref: StoredObject, adapter: Path) -> None:
        """Download the base weights of an adapter and write the path of their folder into the adapter's folder."""
        listed = await weights.read_manifest(self.store, ref)
        if listed.adapter:
            raise CorruptData(ref.key, "is an adapter itself")
        base = self._folder / listed.model / Share(listed.policy_version, 100, ref).ident
        await weights.fetch(self.store, ref, base)
        await asyncio.to_thread((adapter / BASE_POINTER).write_text, str(base.resolve()))

    async def fetch_ahead(self, model: str, share: Share) -> None:
        """Download a version before it is needed, unless a download of it is running."""
        lock = self._fetching.get(self._folder / model / share.ident)
        if lock is None or not lock.locked():
            await self.fetch(model, share)

    async def prune(self, model: str, served: Collection[str]) -> None:
        """Delete a model's downloaded versions except the newest ones and those in ``served`` (by ``Share.ident``)."""
        await asyncio.to_thread(prune, self._folder / model, served)
        for folder in [path for path, lock in self._fetching.items() if not (lock.locked() or path.is_dir())]:
            del self._fetching[folder]


def prune(folder: Path, served: Collection[str]) -> None:
    """Delete old version folders below ``folder`` except those in ``served``; blocking."""
    if not folder.is_dir():
        return
    fetched = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for path in sorted(fetched, key=modified, reverse=True)[KEPT_VERSIONS:]:
        if path.name not in served:
            shutil.rmtree(path, ignore_errors=True)


def modified(path: Path) -> float:
    """Return the modification time of a folder in seconds; 0 if a concurrent prune has removed it."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
