"""Backups of a running Fathom: streams and buckets of the bus, objects of the store, the memory service's database.

A backup is kept in a separate object store. ``backups/ID/manifest.json`` is written last; without it there is no
backup. Contents are stored under ``blobs/`` by SHA-256, so that a backup costs only what changed since the last one.
"""

from __future__ import annotations

from fathom.operations.backup.making import Sources, back_up
from fathom.operations.backup.manifest import Manifest, list_backups, prune, read_manifest
from fathom.operations.backup.restoring import restore, verify

__all__ = ["Manifest", "Sources", "back_up", "list_backups", "prune", "read_manifest", "restore", "verify"]
