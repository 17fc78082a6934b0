"""Statements on whether runs may become training data, in the object store of a tenant.

Of a run counts, in this order: the latest statement about it, the latest about the run that a user asked and of which
it is a part or a branch, its own request, and what the one who asked has said of all runs. Nothing stated is a refusal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.errors import CorruptData, NotFound
from fathom.core.ids import sha256
from fathom.transport.store import ObjectStore

SHADOW_PREFIX = "shadow-"
"""Beginning of the ids of rollouts that replay users' questions for a comparison: nobody has consented to learning from
them."""


class Consent(StrEnum):
    """Statement of a user on whether runs may become training data."""

    GIVEN = "given"
    REFUSED = "refused"


FROM_PROTO = {pb.CONSENT_GIVEN: Consent.GIVEN, pb.CONSENT_REFUSED: Consent.REFUSED}


@dataclass(frozen=True)
class Asker:
    """Principal that asked a run, and its statement; ``origin`` is the run that a user asked, itself or another one."""

    run_id: str
    principal: str
    stated: Consent | None = None
    origin: str = ""


class ConsentRecords:
    """Statements of one tenant: ``store`` is that tenant's view."""

    def __init__(self, store: ObjectStore, clock: Callable[[], float] = time.time) -> None:
        """``clock`` returns seconds since the epoch."""
        self._store, self._clock = store, clock

    async def put_run(self, run_id: str, consent: Consent, principal: str) -> None:
        """Record a statement about one run, by ``principal``."""
        await self._put(run_key(run_id), consent, principal)

    async def put_standing(self, principal: str, consent: Consent) -> None:
        """Record what ``principal`` says of all runs that it asks."""
        await self._put(standing_key(principal), consent, principal)

    async def get_run(self, run_id: str) -> Consent | None:
        """Return the latest statement about one run; None for none."""
        return await self._get(run_key(run_id))

    async def get_standing(self, principal: str) -> Consent | None:
        """Return what ``principal`` says of all runs; None for nothing."""
        return await self._get(standing_key(principal))

    async def find(self, asker: Asker) -> tuple[Consent | None, bool]:
        """Return what holds for a run, and whether that was stated of runs at all, not of who asked them."""
        for run_id in dict.fromkeys(name for name in (asker.run_id, asker.origin) if name):
            if (stated := await self.get_run(run_id)) is not None:
                return stated, True
        if asker.stated is not None:
            return asker.stated, True
        return await self.get_standing(asker.principal), False

    async def _put(self, key: str, consent: Consent, principal: str) -> None:
        record = {"consent": consent.value, "principal": principal, "time": self._clock()}
        await self._store.put(key, json.dumps(record).encode(), "application/json")

    async def _get(self, key: str) -> Consent | None:
        try:
            return Consent(json.loads(await self._store.get(key))["consent"])
        except NotFound:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(key, str(error)) from error


def asker_of(trajectory: pb.Trajectory) -> Asker:
    """Return who asked a recorded run."""
    stated = FROM_PROTO.get(trajectory.consent)
    return Asker(trajectory.run_id, trajectory.principal, stated, trajectory.origin_run_id)


def run_key(run_id: str) -> str:
    return f"consents/runs/{run_id}.json"


def standing_key(principal: str) -> str:
    # By its hash: a principal may hold any character, and a key may not.
    return f"consents/principals/{sha256(principal.encode())}.json"
