"""Lease of a model name: one training at a time publishes versions under it, and others are told by whom it is held.

Generations of the lease are objects ``leases/<model>/<number>``, each created by one training only and rewritten by its
holder alone; the newest one counts. The holder renews it; a holder that has not renewed for ``TTL_S`` seconds, as seen
by the clock of the one who waits, has died.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from fathom.core.errors import Conflict, FathomError, NotFound
from fathom.core.ids import checked_id, new_id
from fathom.transport.store import ObjectStore

# Several renewals fit into one life: a store that is slow or away for seconds must not end a training.
TTL_S, RENEW_S = 20.0, 4.0
DIGITS = 8
# Each attempt lost means that another training has taken the name meanwhile, which the next look reports.
ATTEMPTS = 3
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Holder:
    """Holder of a lease: a training and one process of it."""

    training: str
    process: str
    """Unique for each start."""
    machine: str
    pid: int
    started: str
    """Start of the process, in ticks since the machine did; process ids are used again."""
    renewals: int = 0
    is_released: bool = False

    @classmethod
    def of_this_process(cls, training: str) -> Holder:
        """Describe this process as the holder."""
        return cls(training, new_id("training"), name_machine(), os.getpid(), read_start(os.getpid()) or "")

    @property
    def has_died_here(self) -> bool:
        """Return whether the holder was a process of this machine that is gone."""
        return self.machine == name_machine() and read_start(self.pid) != self.started


@dataclass
class Lease:
    """A held lease; ``check`` before anything that only the holder may do."""

    store: ObjectStore
    model: str
    generation: int
    holder: Holder
    _lost: Conflict | None = None
    _task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        return key_of(self.model, self.generation)

    def check(self) -> None:
        """Raise ``Conflict`` when another training has taken the name."""
        if self._lost is not None:
            raise self._lost

    async def renew(self) -> None:
        """Show that the holder lives; notice when it has been taken for dead."""
        newest, holder = await read_newest(self.store, self.model)
        if newest != self.generation and holder is not None:
            self._lost = make_lease_error(self.model, holder)
            return
        self.holder = replace(self.holder, renewals=self.holder.renewals + 1)
        await self.store.put(self.key, to_json(self.holder))

    def start(self) -> None:
        """Renew in the background of the running event loop until ``release``."""
        self._task = asyncio.create_task(self._renew_forever(), name=f"lease of {self.model}")

    async def release(self) -> None:
        """Stop renewing, and give the name to whoever comes next."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._lost is None:
            await self.store.put(self.key, to_json(replace(self.holder, is_released=True)))

    async def _renew_forever(self) -> None:
        while self._lost is None:
            await asyncio.sleep(RENEW_S)
            # A store that is away now may be back for the next renewal.
            with suppress(FathomError):
                await self.renew()


async def acquire(store: ObjectStore, model: str, holder: Holder, *, sleep: Sleep = asyncio.sleep) -> Lease:
    """Acquire the lease of a model name, waiting ``TTL_S`` seconds for a holder that seems to have died.

    Raises ``Conflict`` naming the training that holds it.
    """
    checked_id("model.name", model)
    for _ in range(ATTEMPTS):
        generation, known = await read_newest(store, model)
        if known is not None and not known.is_released and not known.has_died_here:
            await sleep(TTL_S)
            if await read_newest(store, model) != (generation, known):
                # Renewed, released or taken meanwhile; of these only a release lets this training in.
                generation, known = await read_newest(store, model)
                if known is None or not known.is_released:
                    raise make_lease_error(model, known)
        lease = Lease(store, model, generation + 1, holder)
        try:
            await store.create(lease.key, to_json(holder))
        except Conflict:
            continue
        for key in await store.keys(f"leases/{model}/"):
            if key < lease.key:
                await store.delete(key)
        return lease
    raise make_lease_error(model, (await read_newest(store, model))[1])


async def read_newest(store: ObjectStore, model: str) -> tuple[int, Holder | None]:
    """Return the number of the newest generation and its holder; 0 and None before the first."""
    keys = await store.keys(f"leases/{model}/")
    if not keys:
        return 0, None
    try:
        found = json.loads(await store.get(keys[-1]))
    # The next generation's holder has deleted it since the listing.
    except NotFound:
        return await read_newest(store, model)
    return int(keys[-1].rpartition("/")[2]), Holder(**found)


def make_lease_error(model: str, holder: Holder | None) -> Conflict:
    """Return the error for a name that another training holds."""
    by = f"by training {holder.training!r} (process {holder.pid} on {holder.machine})" if holder else "by another one"
    return Conflict(
        f"model name {model!r} is being trained {by}: stop that training, or choose another model.name",
        metadata={"field": "model.name", "training": holder.training if holder else ""},
    )


def key_of(model: str, generation: int) -> str:
    return f"leases/{model}/{generation:0{DIGITS}d}"


def to_json(holder: Holder) -> bytes:
    return json.dumps(asdict(holder)).encode()


def read_start(pid: int) -> str | None:
    """Return when a process of this machine started; None when it is gone, or dead and only not yet waited for."""
    try:
        # The name, in parentheses, may hold anything; behind it come the state and, as the 20th field, the start.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def name_machine() -> str:
    """Return host name and process namespace: in another container the same process id is another process."""
    space = os.readlink("/proc/self/ns/pid") if Path("/proc/self/ns/pid").exists() else ""
    return f"{platform.node()} {space}".strip()
