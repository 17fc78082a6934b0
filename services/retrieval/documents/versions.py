"""Versions of sources: which one is the newest, until when each of the others was, and which sources were deleted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

UNDATED = np.iinfo(np.int64).min
# Later than every instant, so that no ``as_of`` is behind it.
CURRENT = np.iinfo(np.int64).max
# Replaced now, and at no instant that a request could name.
REPLACED = CURRENT - 1


class Version(NamedTuple):
    """Version of a source: its key, the id of the version, and when it was published in microseconds since 1970.

    A deletion is the row that says that the source was withdrawn then.
    """

    key: str
    ident: str
    published: int
    is_deletion: bool = False


def find_ends(versions: Sequence[Version | None]) -> list[int]:
    """Return, per document in the order of their coming, when a newer version of its source was published.

    ``CURRENT`` for the newest version and for what has no versions. Of dated versions the later date is newer,
    whichever came first. A version without a date is newer than all that came before it, at no known instant: it
    replaces them for who asks now, and for no ``as_of``. A deletion ends all that came before it; what comes after it
    begins anew.
    """
    by_key: dict[str, dict[str, Version]] = {}
    for version in versions:
        if version is not None:
            # In order of coming; the passages of a version share its date.
            by_key.setdefault(version.key, {}).setdefault(version.ident, version)
    ends = {key: find_ends_of_source(list(found.values())) for key, found in by_key.items()}
    return [CURRENT if version is None else ends[version.key][version.ident] for version in versions]


def find_ends_of_source(arrived: Sequence[Version]) -> dict[str, int]:
    """Return the end of each version of one source, in order of coming."""
    ends: dict[str, int] = {}
    limit, era = CURRENT, list[Version]()
    # From the last one back: a version that came after a deletion also ends what was there before it.
    for version in reversed(arrived):
        if not version.is_deletion:
            era.insert(0, version)
            continue
        ends |= limit_ends(era, limit)
        limit = min([limit, version.published, *(later.published for later in era if later.published != UNDATED)])
        ends[version.ident] = limit
        era.clear()
    return ends | limit_ends(era, limit)


def limit_ends(arrived: Sequence[Version], limit: int) -> dict[str, int]:
    """Return the ends of versions with no deletion between them, none later than ``limit``."""
    published = {version.ident: version.published for version in arrived}
    if not published:
        return {}
    # Stable: of two versions of one day the one that came later is newer.
    dated = sorted((ident for ident, when in published.items() if when != UNDATED), key=published.__getitem__)
    ends = dict.fromkeys(published, REPLACED)
    for ident, following in pairwise(dated):
        ends[ident] = published[following]
    last = arrived[-1].ident
    ends[dated[-1] if published[last] != UNDATED else last] = CURRENT
    return {ident: min(end, limit) for ident, end in ends.items()}


def find_deleted(versions: Sequence[Version | None]) -> list[bool]:
    """Return, per document, whether its source is deleted: whether a deletion came last of all its versions."""
    last = {version.key: version.is_deletion for version in versions if version is not None}
    return [version is not None and last[version.key] for version in versions]
