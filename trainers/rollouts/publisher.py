"""Publication of new weights: upload to the object store, then load in the policy service and wait until served."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from fathom.api.common.v1 import common_pb2
from fathom.api.policy.v1.policy_pb2 import MODEL_STATE_FAILED, GetModelRequest, LoadWeightsRequest, Model
from fathom.clients import Clients
from fathom.core.errors import Conflict, DeadlineExceeded, DependencyFailed, FathomError, NotFound, is_retryable
from fathom.core.ids import new_id
from fathom.core.retry import RetryPolicy, retry
from fathom.domain.weights.manifest import WeightFile, write_manifest
from fathom.trainers.rollouts.lease import Lease
from fathom.trainers.store_files import Sharing, StoredFiles, StoreFolder, check_uploaded
from fathom.transport.checksums import choose_algorithm
from fathom.transport.store import ObjectStore, StoredObject
from fathom.transport.store.refs import to_ref

LANES = {
    "interactive": common_pb2.LANE_INTERACTIVE,
    "evaluation": common_pb2.LANE_EVALUATION,
    "training": common_pb2.LANE_TRAINING,
}
# Loading takes seconds; a tenth costs the step nothing and the service ten small calls a second.
ASK_AGAIN_S = 0.1
# Until the deadline: loading goes on, the answer was late, or the service or its store is away; the same call again
# joins the same loading, or begins it anew.
ASK_AGAIN = RetryPolicy(attempts=None, first_delay_s=ASK_AGAIN_S, max_delay_s=ASK_AGAIN_S)
# A call returns well before its own limit, however slow the machine: by then loading is known to be under way.
WAIT_S, CALL_S = 5.0, 60.0
CLAIM = "claim.json"
LOG = logging.getLogger(__name__)
Write = Callable[[StoreFolder], StoredFiles]
"""Uploads the files of a version into a folder of the store."""


@dataclass
class Publisher:
    """Publishes versions of one model's weights.

    ``lanes`` are the lanes that new versions serve; empty means all.
    """

    clients: Clients
    store: ObjectStore
    url: str
    """Of ``store``; ranks open it by themselves."""
    model: str
    lanes: tuple[str, ...] = ()
    timeout_s: float = 600.0
    version: int = 0
    """Last published version; 0 before the first."""
    lease: Lease | None = None
    """Of the model's name; None where nobody else can publish."""
    process: str = field(default_factory=lambda: new_id("publisher"))
    base: StoredObject | None = None
    """Manifest of the weights to which adapters are added; None before the first adapter."""
    sharing: Sharing | None = None
    """Transfer of versions to a policy on the learners' machine; None leaves them to the store."""
    warn: Callable[[str], None] = LOG.warning
    """Says how weights travel, when that changes."""
    _base_version: int = 0
    _carrier: str = ""
    _uploading: StoredFiles = field(default_factory=StoredFiles)
    """Files of the last version that the store did not have yet when policy got it."""

    async def publish(self, write: Write, write_base: Write | None = None) -> int:
        """Publish the files that ``write`` uploads as the next version, and wait until it is served.

        With ``write_base`` they are an adapter, and what ``write_base`` uploads once, under a number of its own that is
        never served, are the weights that it is added to.

        Raises ``DependencyFailed("policy")`` when the model has failed and ``DeadlineExceeded`` when the version is not
        served in time, for want of the service or of its store too; in both cases the previous version stays in
        service.
        """
        # A resumed training goes on counting: a version names one set of weights for ever, by which episodes say who
        # sampled them.
        if not self.version:
            self.version = await self.newest()
        if write_base is not None and self.base is None:
            self._base_version = self.version + 1
            self.base = await self.upload(self._base_version, write_base)
        version = max(self.version, self._base_version) + 1
        manifest = await self.upload(version, write, None if write_base is None else self.base, self.sharing)
        request = LoadWeightsRequest(
            # Derived from the content: a repeated request for the same weights is the same request to the service.
            request_id=f"weights-{manifest.sha256[:32]}",
            model=self.model,
            manifest=to_ref(manifest),
            policy_version=version,
            lanes=[LANES[lane] for lane in self.lanes],
            wait_ms=round(WAIT_S * 1000),
        )
        await self.load(request)
        await self.wait_until_served(version)
        # Only once it is served: after a failure the next attempt uses the same number again.
        self.version = version
        return version

    async def upload(
        self, version: int, write: Write, base: StoredObject | None = None, sharing: Sharing | None = None
    ) -> StoredObject:
        """Claim a version's number, let ``write`` upload its files, and return its manifest in the store."""
        await self.claim(version)
        # Keys begin with checksums: another attempt at this number never changes what an earlier manifest lists.
        target = StoreFolder(
            self.url,
            f"weights/{self.model}/{version}",
            by_content=True,
            sharing=sharing,
            algorithm=choose_algorithm(),
        )
        # Gathering and writing take seconds; episodes in flight are read on this event loop meanwhile.
        files = await asyncio.to_thread(write, target)
        # Those of the version before are there now: ``write`` has waited for them.
        await check_uploaded(self.store, self._uploading)
        self._uploading = files if files.is_ahead else StoredFiles()
        if not files.is_ahead:
            await check_uploaded(self.store, files)
        if files.carrier != self._carrier:
            self._carrier = files.carrier
            self.warn(f"weights of {self.model} travel by {files.carrier}")
        listed = [WeightFile(name, one.key, one.size_bytes, one.checksum) for name, one in files.items()]
        # The manifest is written after its files: who sees it can read all of them.
        return await write_manifest(self.store, self.model, version, listed, base)

    async def claim(self, version: int) -> None:
        """Claim a version's number; raises ``Conflict`` naming the training that has it."""
        if self.lease is not None:
            self.lease.check()
        holder = self.lease.holder if self.lease is not None else None
        # Equal for every attempt of this process, so that a number claimed before a failure is still its own.
        mine = {"training": holder.training, "process": holder.process} if holder else {"process": self.process}
        key = f"weights/{self.model}/{version}/{CLAIM}"
        try:
            await self.store.create(key, json.dumps(mine).encode(), "application/json")
        except Conflict as error:
            other = json.loads(await self.store.get(key))
            named = other.get("training", other["process"])
            raise Conflict(
                f"version {version} of model {self.model!r} was published by training {named!r} meanwhile: two"
                " trainings cannot publish under one name, choose another model.name for one of them",
                metadata={"field": "model.name", "training": named},
            ) from error

    async def load(self, request: LoadWeightsRequest) -> None:
        """Let policy load a version, asking again while it does; raises ``DeadlineExceeded`` after ``timeout_s``.

        One long call would be lost, with the loading, on a machine that is slower than its time limit.
        """
        failed: list[FathomError] = []

        def may_succeed(error: FathomError) -> bool:
            failed[:] = [error]
            # A policy on another machine takes the files from the store, which may be getting them still.
            return is_retryable(error) or (bool(self._uploading) and isinstance(error, NotFound))

        async def ask() -> None:
            await self.clients.policy.load_weights(request, timeout_s=CALL_S)

        try:
            async with asyncio.timeout(self.timeout_s):
                await retry(ask, ASK_AGAIN, is_retryable=may_succeed)
        except TimeoutError as error:
            why = f": {failed[0].message}" if failed else ""
            raise DeadlineExceeded(
                f"policy has not loaded version {request.policy_version} of {self.model} in {self.timeout_s:g} s{why}",
                metadata={"culprit": "policy"},
            ) from error

    async def newest(self) -> int:
        """Return the highest version known for the model, in the store or in service.

        Resumed runs continue counting from it.
        """
        stored = await self.store.keys(f"weights/{self.model}/")
        # Both places count: a version may be claimed or uploaded and not served when a training is killed, or served
        # from another store.
        published = [int(part) for key in stored if (part := key.split("/")[2]).isdigit()]
        try:
            async with asyncio.timeout(self.timeout_s):
                model = await self._model()
        except NotFound:
            return max(published, default=0)
        except TimeoutError as error:
            message = f"policy has not said in {self.timeout_s:g} s which versions of {self.model} it serves"
            raise DeadlineExceeded(message, metadata={"culprit": "policy"}) from error
        return max([*published, model.policy_version, *(share.policy_version for share in model.lanes)])

    async def wait_until_served(self, version: int) -> None:
        """Wait until the training lane is served by this version alone.

        Raises ``DependencyFailed("policy")`` when the model has failed, ``DeadlineExceeded`` after ``timeout_s``.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                while not serves(model := await self._model(), version):
                    if model.state == MODEL_STATE_FAILED:
                        raise DependencyFailed("policy", f"{self.model} version {version}: {model.detail}")
                    await asyncio.sleep(ASK_AGAIN_S)
        except TimeoutError as error:
            message = f"policy does not serve version {version} of {self.model} after {self.timeout_s:g} s"
            raise DeadlineExceeded(message, metadata={"culprit": "policy"}) from error

    async def _model(self) -> Model:
        """Return what policy says of the model, asking again while it is away; call within a time limit."""
        asked = GetModelRequest(model=self.model)
        return (await retry(lambda: self.clients.policy.get_model(asked), ASK_AGAIN, is_retryable=is_retryable)).model


def serves(model: Model, version: int) -> bool:
    """Return whether the training lane is served by this version alone."""
    shares = [share for share in model.lanes if share.lane == common_pb2.LANE_TRAINING]
    # A model without shares by lane serves one version to all.
    if not shares:
        return model.policy_version == version
    return [(share.policy_version, share.percent) for share in shares if share.percent] == [(version, 100)]
