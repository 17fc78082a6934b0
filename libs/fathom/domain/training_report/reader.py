"""Reading of trainings from an object store, while they write as well as afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from fathom.core.cache import BoundedCache
from fathom.core.call import current_tenant
from fathom.core.errors import CorruptData, NotFound
from fathom.core.paging import page_of_list
from fathom.domain.training_report.about import (
    INDEX,
    LINES,
    PREFIX,
    SAMPLES,
    About,
    about_key,
    checked_name,
    piece_key,
    read_about,
    sample_key,
)
from fathom.domain.training_report.curves import Curves, reduce_curves
from fathom.domain.training_report.samples import read_sample
from fathom.transport.store import ObjectStore

MAX_LINES = 400_000
"""Lines that are read of a training: those of the last steps of a longer one."""
AT_ONCE = 8
"""Objects that are read at once."""
CACHED_TRAININGS, CACHED_BYTES, CACHED_S = 64, 128 * 1024 * 1024, 3600.0
MOST_POINTS, LEAST_POINTS = 2_000, 16
POINTS = 400
"""Points per curve by default: a chart of a report is some 400 pixels wide."""


@dataclass(frozen=True)
class Folded:
    """The lines of a training that have been read, as curves."""

    start_id: str
    lines: int
    curves: Curves


class TrainingReader:
    """Trainings of one store. Of a training that is read again only the lines that were added are fetched."""

    def __init__(self, store: ObjectStore) -> None:
        """Create a reader; ``store`` stays its owner's to close. With a tenant's view, each call sees its tenant's."""
        self._store = store
        self._cache: BoundedCache[tuple[str, str], Folded] = BoundedCache(
            max_entries=CACHED_TRAININGS, max_bytes=CACHED_BYTES, ttl_s=CACHED_S
        )

    async def list_trainings(self, page_size: int = 0, page_token: str = "") -> tuple[list[About], str]:
        """Return a page of trainings by name, and the token of the next page."""
        keys = await self._store.keys(f"{INDEX}/")
        names = [key.removeprefix(f"{INDEX}/").removesuffix(".json") for key in keys if key.endswith(".json")]
        chosen, token = page_of_list(names, INDEX, page_size, page_token)
        found: list[About] = []
        for start in range(0, len(chosen), AT_ONCE):
            some = chosen[start : start + AT_ONCE]
            read = await asyncio.gather(*(self.describe(name) for name in some), return_exceptions=True)
            for one in read:
                # Deleted since it was listed, or written by something else: the others are listed all the same.
                if isinstance(one, BaseException) and not isinstance(one, (NotFound, CorruptData)):
                    raise one
                found += [one] if isinstance(one, About) else []
        return found, token

    async def describe(self, name: str) -> About:
        """Return a training's description; raises ``NotFound`` and ``CorruptData``."""
        key = about_key(name)
        try:
            return read_about(key, await self._store.get(key))
        except NotFound:
            raise NotFound("training", name) from None

    async def read_curves(self, about: About) -> Curves:
        """Return the curves of a described training; raises ``NotFound`` and ``CorruptData``."""
        key = (current_tenant(), about.name)
        known = self._cache.get(key)
        if known is not None and known.start_id != about.start_id:
            known = None
        if known is not None and known.lines >= about.lines:
            return known.curves
        first = max(0, about.lines - MAX_LINES) // LINES
        lines = known.lines if known else first * LINES
        # A copy: another call may be reading the curves that were there.
        curves = await asyncio.to_thread(known.curves.copy) if known else Curves()
        for start in range(lines // LINES, -(-about.lines // LINES), AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, -(-about.lines // LINES)))
            pieces = await asyncio.gather(*(self._store.get(piece_key(about.name, one)) for one in numbers))
            for number, piece in zip(numbers, pieces, strict=True):
                skip = max(0, lines - number * LINES)
                # Rather more than the description says than less: it is written after the lines.
                count = await asyncio.to_thread(
                    curves.add_lines, piece_key(about.name, number), piece.decode("utf-8", "replace"), skip
                )
                lines = number * LINES + count
        self._cache.put(key, Folded(about.start_id, lines, curves), curves.size_bytes)
        return curves

    async def sampled_steps(self, name: str) -> list[int]:
        """Return the steps of which there are samples."""
        prefix = f"{PREFIX}/{checked_name(name)}/{SAMPLES}/"
        stems = (key.removeprefix(prefix).removesuffix(".json") for key in await self._store.keys(prefix))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    async def read_samples(self, name: str, step: int) -> dict[str, Any]:
        """Return the sampled rows of a step; raises ``NotFound`` and ``CorruptData``."""
        key = sample_key(name, step)
        try:
            return read_sample(key, await self._store.get(key))
        except NotFound:
            steps = await self.sampled_steps(name)
            near = sorted(steps, key=lambda one: abs(one - step))[:5]
            raise NotFound("sampled step", str(step), [str(one) for one in near]) from None

    async def read_training(self, about: About, points: int = POINTS) -> dict[str, Any]:
        """Return what the page shows of a training, without samples: description, curves, sampled steps."""
        curves = await self.read_curves(about)
        points = max(LEAST_POINTS, min(MOST_POINTS, points))
        return {
            "about": {**about.without_settings(), "notes": list(about.notes), "settings": dict(about.settings)},
            "curves": await asyncio.to_thread(reduce_curves, curves, points),
            "samples": await self.sampled_steps(about.name),
        }
