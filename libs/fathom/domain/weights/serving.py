"""Desired serving state: which version of a model serves which lane, one entry per model in the bucket ``SERVING``.

Policy replicas follow the entry; writers use compare-and-set. Format 1::

    {"format": 1, "model": "tiny", "lanes": {"interactive": [
      {"version": 4, "percent": 10, "manifest": {"key": "weights/tiny/4/…", "size_bytes": 1, "sha256": "…"}},
      {"version": 3, "percent": 90, "manifest": {…}}], "evaluation": […], "training": […]}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fathom.core.call import Lane
from fathom.core.errors import CorruptData, InvalidField
from fathom.core.ids import checked_id, sha256
from fathom.transport.checksums import DIGITS
from fathom.transport.store.base import StoredObject

FORMAT = 1
PREFIX = "model."
# Each share is a version in memory of every replica of the lane.
MAX_SHARES = 8


@dataclass(frozen=True)
class Share:
    """A version's share of a lane in percent. Version 0, the model as configured, has no manifest."""

    version: int
    percent: int
    manifest: StoredObject | None

    @property
    def ident(self) -> str:
        """Identity of the served content; a restarted trainer may reuse a version number for other content."""
        return f"{self.version}-{self.manifest.sha256[:12]}" if self.manifest else "0"


@dataclass(frozen=True)
class Serving:
    """The entry of one model. An absent lane is served by nothing."""

    model: str
    lanes: Mapping[Lane, tuple[Share, ...]]

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON of format 1."""
        lanes = {lane.value: [share_to_json(share) for share in shares] for lane, shares in self.lanes.items()}
        return json.dumps({"format": FORMAT, "model": self.model, "lanes": lanes}).encode()

    @classmethod
    def from_json(cls, data: bytes, key: str) -> Serving:
        """Parse and check an entry; raise ``CorruptData(key)`` saying what is wrong."""
        try:
            parsed = json.loads(data)
            if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
                raise CorruptData(key, f"is no serving entry of format {FORMAT}")
            model = checked_id("model", parsed["model"])
            lanes = {Lane(lane): tuple(map(share_from_json, shares)) for lane, shares in parsed["lanes"].items()}
        except (KeyError, TypeError, ValueError, AttributeError, InvalidField) as error:
            raise CorruptData(key, f"is no serving entry: {type(error).__name__}: {error}") from error
        if key_of(model) != key:
            raise CorruptData(key, f"is of model {model!r}")
        for lane, shares in lanes.items():
            if not 1 <= len(shares) <= MAX_SHARES or sum(share.percent for share in shares) != 100:
                raise CorruptData(key, f"lane {lane}: 1 to {MAX_SHARES} shares that make 100 percent are needed")
        return cls(model, MappingProxyType(lanes))

    def shares(self) -> dict[str, Share]:
        """Return everything served in any lane, by ``Share.ident``."""
        return {share.ident: share for shares in self.lanes.values() for share in shares}

    def choose(self, lane: Lane, affinity: str) -> Share | None:
        """Return the version for a conversation; the same ``affinity`` gets the same one while the shares stay."""
        shares = self.lanes.get(lane)
        if not shares:
            return None
        # A hash in place of a random number: every replica decides alike without talking, and a conversation stays
        # with its version.
        point = int(sha256(f"{self.model}/{affinity}".encode())[:8], 16) % 100
        for share in shares:
            if point < share.percent:
                return share
            point -= share.percent
        return shares[-1]

    def with_version(self, version: int, manifest: StoredObject | None, lanes: Iterable[Lane], percent: int) -> Serving:
        """Return the entry with ``percent`` of these lanes (none: all) on a version, the rest on the previous main one.

        Raises ``InvalidField("percent")`` when no other version serves the lane to keep the rest.
        """
        if not 1 <= percent <= 100:
            raise InvalidField("percent", "must be 1 to 100")
        changed = dict(self.lanes)
        new = Share(version, percent, manifest)
        for lane in tuple(lanes) or tuple(Lane):
            others = [share for share in self.lanes.get(lane, ()) if share.ident != new.ident]
            if percent == 100:
                changed[lane] = (new,)
            elif not others:
                raise InvalidField("percent", f"must be 100: nothing else serves lane {lane}")
            else:
                main = max(others, key=lambda share: share.percent)
                changed[lane] = (new, Share(main.version, 100 - percent, main.manifest))
        return Serving(self.model, MappingProxyType(changed))


def share_to_json(share: Share) -> dict[str, object]:
    entry: dict[str, object] = {"version": share.version, "percent": share.percent}
    if share.manifest is not None:
        entry["manifest"] = {
            "key": share.manifest.key,
            "size_bytes": share.manifest.size_bytes,
            "sha256": share.manifest.sha256,
        }
    return entry


def share_from_json(entry: dict[str, object]) -> Share:
    """Parse a share; raise ``ValueError``, ``KeyError`` or ``TypeError``."""
    version, percent, manifest = entry["version"], entry["percent"], entry.get("manifest")
    if type(version) is not int or type(percent) is not int or version < 0 or not 1 <= percent <= 100:
        raise ValueError("version must be 0 or more, percent 1 to 100")
    if (manifest is None) != (version == 0):
        raise ValueError("a version has a manifest, and 0 has none")
    return Share(version, percent, None if manifest is None else manifest_from_json(manifest))


def manifest_from_json(entry: object) -> StoredObject:
    """Parse a reference to a manifest; raise ``ValueError`` or ``KeyError``."""
    if not isinstance(entry, dict):
        raise ValueError("the manifest is no object")
    key, size, digest = entry["key"], entry["size_bytes"], entry["sha256"]
    if not isinstance(key, str) or type(size) is not int or not isinstance(digest, str) or not DIGITS.fullmatch(digest):
        raise ValueError("the manifest has a malformed key, size_bytes or sha256")
    return StoredObject(key, size, digest, "application/json")


def key_of(model: str) -> str:
    """Return the key of a model's entry."""
    return f"{PREFIX}{checked_id('model', model)}"


@dataclass(frozen=True)
class Notice:
    """Announcement on the bus that a version was published; replicas that serve the model prefetch it."""

    model: str
    version: int
    manifest: StoredObject

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON."""
        share = share_to_json(Share(self.version, 100, self.manifest))
        return json.dumps({"model": self.model, "version": self.version, "manifest": share["manifest"]}).encode()

    @classmethod
    def from_json(cls, data: bytes, subject: str) -> Notice:
        """Parse and check a notice; raise ``CorruptData(subject)``."""
        try:
            parsed = json.loads(data)
            version = parsed["version"]
            if type(version) is not int or version < 1:
                raise ValueError("version must be 1 or more")
            return cls(checked_id("model", parsed["model"]), version, manifest_from_json(parsed["manifest"]))
        except (KeyError, TypeError, ValueError, InvalidField) as error:
            raise CorruptData(subject, f"is no notice of weights: {type(error).__name__}: {error}") from error

    @property
    def message_id(self) -> str:
        """Deduplication id: announcing the same content again is not a second notice."""
        return f"{self.model}:{self.version}:{self.manifest.sha256[:16]}"
