"""Backups of what a running Fathom holds: streams and buckets of the bus, objects of the store, memory's database.

A backup lies in an object store of its own. ``backups/ID/manifest.json`` is written last: what has none is no backup.
Contents lie under ``blobs/`` by their SHA-256, so that a backup costs only what is new since the one before.
"""

from __future__ import annotations

from fathom.backup.making import Sources, back_up
from fathom.backup.manifest import Manifest, list_backups, prune, read_manifest
from fathom.backup.restoring import restore, verify

__all__ = ["Manifest", "Sources", "back_up", "list_backups", "prune", "read_manifest", "restore", "verify"]
