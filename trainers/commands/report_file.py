"""``fathom report``: one HTML file of trainings, from the object store or from their output folders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from fathom.core.errors import InvalidField, NotFound
from fathom.domain.replacing import write_whole
from fathom.domain.training_report.about import METRICS, RUNNING, sample_key
from fathom.domain.training_report.page import SAMPLE_BYTES, Training, render_page
from fathom.domain.training_report.reader import TrainingReader
from fathom.domain.training_report.samples import choose_shown
from fathom.trainers.monitor.report import RELOAD_S, read_folder
from fathom.transport.store import ObjectStore, open_store

# More curves in one chart cannot be told apart, and each takes its part of the file.
MAX_TRAININGS = 12


async def write_reports(names: Sequence[str], url: str, target: Path, *, follow: bool) -> list[str]:
    """Write the report of the named trainings, all of the store without names; return the names that it has.

    With ``follow`` it is written anew until none of them runs. Raises ``NotFound`` for an unknown training, and
    ``InvalidField("names")`` for more than ``MAX_TRAININGS``.
    """
    store = open_store(url)
    try:
        reader = TrainingReader(store)
        chosen = list(names) or await list_newest(reader, url)
        if len(chosen) > MAX_TRAININGS:
            raise InvalidField("names", f"are {len(chosen)}; at most {MAX_TRAININGS} can be compared")
        while True:
            budget = SAMPLE_BYTES // max(1, len(chosen))
            found = [await read_one(reader, store, name, budget) for name in chosen]
            page = await asyncio.to_thread(render_page, "Trainings", found, time.time(), RELOAD_S if follow else 0.0)
            await asyncio.to_thread(write_whole, target, page.encode())
            if not follow or all(one.about.state != RUNNING for one in found):
                return [one.about.name for one in found]
            await asyncio.sleep(RELOAD_S)
    finally:
        await store.close()


async def list_newest(reader: TrainingReader, url: str) -> list[str]:
    """Return the names of the trainings begun last; raises ``NotFound`` naming the store at ``url`` without any."""
    found, token = await reader.list_trainings()
    while token:
        more, token = await reader.list_trainings(page_token=token)
        found += more
    if not found:
        # Only the place: keys of a bucket may stand before it, and its options after it.
        parts = urlsplit(url)
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
        raise NotFound("training in the store", place)
    return [one.name for one in sorted(found, key=lambda one: one.started, reverse=True)[:MAX_TRAININGS]]


async def read_one(reader: TrainingReader, store: ObjectStore, name: str, budget: int) -> Training:
    """Read a training from its output folder if ``name`` is one, else from the store; samples of ``budget`` bytes."""
    folder = Path(name)
    if await asyncio.to_thread((folder / METRICS).exists):
        return await asyncio.to_thread(read_folder, folder)
    if "/" in name:
        raise NotFound("training", name)
    about = await reader.describe(name)
    curves = await reader.read_curves(about)
    sizes = {stored.key: stored.size_bytes for stored in await store.list(sample_key(name, 0).rpartition("/")[0] + "/")}
    steps = await reader.sampled_steps(name)
    shown = choose_shown([(step, sizes.get(sample_key(name, step), 0)) for step in steps], budget)
    return Training(about, curves, {step: await store.get(sample_key(name, step)) for step in shown})
