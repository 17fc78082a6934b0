"""Versions of sources: which one is the newest, and until when each of the others was."""

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
    """Version of a source: its key, the id of the version, and when it was published in microseconds since 1970."""

    key: str
    ident: str
    published: int


def find_ends(versions: Sequence[Version | None]) -> list[int]:
    """Return, per document in the order of their coming, when a newer version of its source was published.

    ``CURRENT`` for the newest version and for what has no versions. Of dated versions the later date is newer,
    whichever came first. A version without a date is newer than all that came before it, at no known instant: it
    replaces them for who asks now, and for no ``as_of``.
    """
    by_key: dict[str, dict[str, int]] = {}
    for version in versions:
        if version is not None:
            # In order of coming; the passages of a version share its date.
            by_key.setdefault(version.key, {}).setdefault(version.ident, version.published)
    ends = {key: find_ends_of_source(found) for key, found in by_key.items()}
    return [CURRENT if version is None else ends[version.key][version.ident] for version in versions]


def find_ends_of_source(published: dict[str, int]) -> dict[str, int]:
    """Return the end of each version of one source, whose dates are in order of coming."""
    arrived = list(published)
    # Stable: of two versions of one day the one that came later is newer.
    dated = sorted((ident for ident in arrived if published[ident] != UNDATED), key=published.__getitem__)
    ends = dict.fromkeys(arrived, REPLACED)
    for ident, following in pairwise(dated):
        ends[ident] = published[following]
    ends[dated[-1] if published[arrived[-1]] != UNDATED else arrived[-1]] = CURRENT
    return ends
