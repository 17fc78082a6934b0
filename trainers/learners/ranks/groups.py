"""Worker groups of the learners: in this process, or as ranks on Ray, behind one object per role.

A batch is distributed to ranks by whole groups in round-robin order, so that mini-batch k over all ranks equals
mini-batch k of a single rank; results are returned in row order.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch

from fathom.core.errors import DependencyFailed, InvalidField, NotReady
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.learners.stored_models import fetch_models
from fathom.trainers.store_files import StoredFiles, StoredFolder, StoreFolder, StoreTransfer

# What Ray reserves, not what a rank may use: asking for more would keep ranks from being placed on small machines.
RANK_CPUS = 1


class LocalGroup(StoreTransfer):
    """One worker in this process; used for a single rank, and when Ray is not installed."""

    def __init__(
        self, worker: Callable[[TrainConfig], Any], config: TrainConfig, ranks: int = 1, store_url: str = ""
    ) -> None:
        if ranks != 1:
            raise InvalidField("trainer.world_size", f"is {ranks}; without Ray there is one rank")
        self.worker = worker(fetch_models(config, store_url))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.worker, name)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


class RayGroup:
    """``ranks`` Ray actors in one process group; every public method of the worker can be called on the group.

    A ``DataProto`` argument is sharded over the ranks; other arguments go to all of them. Raises ``NotReady``, stating
    requested and available resources, when the ranks cannot be placed within ``trainer.schedule_timeout_s``
    (immediately when a local cluster is too small), and ``DependencyFailed`` naming worker and rank when a rank dies.
    """

    def __init__(
        self, worker: Callable[[TrainConfig], Any], config: TrainConfig, ranks: int, store_url: str = ""
    ) -> None:
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self._ray, self._name = ray, getattr(worker, "__name__", "worker")
        # One bundle per rank in one placement group: all ranks are placed or none. With half of them, the first
        # collective would wait for ever.
        needs = {"CPU": RANK_CPUS} | ({"GPU": 1} if config.trainer.device == "cuda" else {})
        asked = f"{self._name}: {ranks} ranks of {needs} could not be placed"
        if not os.environ.get("RAY_ADDRESS"):  # another cluster may grow
            whole = ray.cluster_resources()  # type: ignore[no-untyped-call]
            if any(whole.get(kind, 0) < ranks * count for kind, count in needs.items()):
                raise NotReady(f"{asked}: the cluster has {count_devices(whole)} in all")
        self._placement = placement_group([needs] * ranks, strategy="PACK")
        try:
            ray.get(self._placement.ready(), timeout=config.trainer.schedule_timeout_s)
        # A group that waits keeps its claim: without removal it would take the resources as soon as others free them,
        # for a training that has ended.
        except ray.exceptions.GetTimeoutError:
            ray.util.remove_placement_group(self._placement)
            free = ray.available_resources()  # type: ignore[no-untyped-call]
            seconds = config.trainer.schedule_timeout_s
            raise NotReady(f"{asked} within {seconds:g} s; the cluster has {count_devices(free)} free") from None
        # PACK above puts ranks on one machine where they fit, since collectives between machines are slower by far.
        strategy = PlacementGroupSchedulingStrategy(self._placement)
        actor: Any = ray.remote(num_cpus=RANK_CPUS, num_gpus=needs.get("GPU", 0), scheduling_strategy=strategy)(Rank)
        # All at once: what takes long is that each imports torch.
        self._actors: list[Any] = [actor.remote(worker, config, store_url) for _ in range(ranks)]
        try:
            address = ray.get(self._actors[0].address.remote(), timeout=config.trainer.schedule_timeout_s)
        except ray.exceptions.GetTimeoutError:
            self.close()
            seconds = config.trainer.schedule_timeout_s
            raise NotReady(f"{self._name}: rank 0 was placed and did not start within {seconds:g} s") from None
        # Rank 0's address goes to all, and all join at once: the rendezvous ends when every rank is there.
        self._sharing = self._call("join", [(address, rank, ranks) for rank in range(ranks)])[0]

    def __getattr__(self, name: str) -> Any:
        # Or copying and unpickling, which look for private names before __init__ has run, would recurse without end.
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self._dispatch(name, arguments)

    def _dispatch(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if len(arguments) != 1 or not isinstance(arguments[0], DataProto):
            return self._call(name, [arguments] * len(self._actors))[0]
        parts = shard_by_group(arguments[0], len(self._actors) // self._sharing)
        # Neighbours that share sequences get the same rows, and give the same.
        dealt = [(arguments[0][rows],) for rows in parts for _ in range(self._sharing)]
        # One result per set of neighbours: the others' are copies.
        results = self._call(name, dealt)[:: self._sharing]
        if not isinstance(results[0], DataProto):
            # Metrics: the ranks have agreed on them already.
            return results[0]
        # The inverse permutation of the distribution: the caller gets its rows in the order in which it sent them.
        return DataProto.concat(results)[torch.cat(parts).argsort()]

    def _call(self, name: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        # All ranks are called before any is waited for: they meet in collectives, and calling one after the other would
        # block at the first.
        pending = [actor.call.remote(name, *given) for actor, given in zip(self._actors, arguments, strict=True)]
        waiting, found = {ref: rank for rank, ref in enumerate(pending)}, {}
        while waiting:
            # One at a time as they end: a rank that dies is seen while the others wait for it.
            (ref, *_), _ = self._ray.wait(list(waiting), num_returns=1)
            rank = waiting.pop(ref)
            try:
                found[rank] = self._ray.get(ref)
            except self._ray.exceptions.RayActorError as error:
                raise DependencyFailed(f"{self._name}, rank {rank}", f"died in {name}: {error}") from error
            except self._ray.exceptions.RayTaskError as error:
                # The worker's own typed error, which names the setting, instead of Ray's wrapper around its traceback.
                raise error.as_instanceof_cause() from error  # type: ignore[no-untyped-call]
        return [found[rank] for rank in range(len(self._actors))]

    def upload(self, method: str, target: StoreFolder) -> StoredFiles:
        """Let every rank write files by ``method`` and upload them from where it runs; return all of them."""
        found = StoredFiles()
        for files in self._call("upload", [(method, target)] * len(self._actors)):
            found |= files
        return found

    def restore(self, source: StoredFolder) -> None:
        """Let every rank fetch and load its part of a checkpoint."""
        self._call("restore", [(source,)] * len(self._actors))

    def close(self) -> None:
        """Kill the ranks and release their resources."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._ray.util.remove_placement_group(self._placement)


def count_devices(resources: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU and GPU counts, without node names and memory sizes."""
    return {kind: resources.get(kind, 0.0) for kind in ("CPU", "GPU")}


class Rank(StoreTransfer):
    """One process of a group; on its node there is nothing of the driver's disk."""

    def __init__(self, worker: Callable[[TrainConfig], Any], config: TrainConfig, store_url: str) -> None:
        self._make, self._config, self._store_url = worker, config, store_url
        self.worker: Any = None

    def address(self) -> str:
        """Return a free host:port for the process group's rendezvous."""
        with socket.socket() as probe:
            # Port 0 lets the system choose a free one, which torch binds again shortly after.
            probe.bind(("", 0))
            return f"{socket.gethostbyname(socket.gethostname())}:{probe.getsockname()[1]}"

    def call(self, name: str, *arguments: Any) -> Any:
        if name == "join":
            return self._join(*arguments)
        # Transfers are the rank's, everything else is its worker's.
        return getattr(self if name in ("upload", "restore") else self.worker, name)(*arguments)

    def _join(self, address: str, rank: int, ranks: int) -> int:
        # Ranks on one machine would each start as many threads as it has cores, and spend their time waiting for one
        # another.
        torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
        backend = "nccl" if self._config.trainer.device == "cuda" else "gloo"
        torch.distributed.init_process_group(
            backend,
            init_method=f"tcp://{address}",
            rank=rank,
            world_size=ranks,
            timeout=timedelta(seconds=self._config.trainer.collective_timeout_s),
        )
        # After the process group: building the worker shards its parameters, which needs all ranks.
        self.worker = self._make(fetch_models(self._config, self._store_url))
        return int(getattr(self.worker, "sharing", 1))


def shard_by_group(data: DataProto, ranks: int) -> list[torch.Tensor]:
    """Return the row indices of each rank: group g goes to rank g modulo ``ranks``.

    Raises ``InvalidField("uid")`` when the groups do not divide evenly among ranks.
    """
    uids = data.array("uid").tolist()
    # By group, since losses and filters of a rank compare the rows of a whole group.
    number = {uid: place for place, uid in enumerate(dict.fromkeys(uids))}
    # Ranks step together, so each needs the same number of groups.
    if len(number) % ranks:
        raise InvalidField("uid", f"{len(number)} groups cannot be dealt to {ranks} ranks")
    owner = torch.tensor([number[uid] % ranks for uid in uids])
    return [(owner == rank).nonzero().squeeze(-1) for rank in range(ranks)]
