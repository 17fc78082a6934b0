"""Worker groups of the learners: in this process, or on ranks of Ray that roles share, behind one object per role.

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

from fathom.core.errors import DependencyFailed, FathomError, InvalidField, NotReady
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.learners.stored_models import fetch_models
from fathom.trainers.store_files import StoredFiles, StoredFolder, StoreFolder
from fathom.trainers.transfers import StoreTransfer

# What Ray reserves, not what a rank may use: asking for more would keep ranks from being placed on small machines.
RANK_CPUS = 1


# Ray notices a dead process at once; this is for a machine that is slow.
DEATH_SEEN_S = 30.0


class RankDied(DependencyFailed):
    """A rank of the learners has died: its group is lost, and can be built anew from the last checkpoint."""


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


class RayRanks:
    """``ranks`` Ray actors in one process group, in which workers of one or several roles live and take turns.

    Raises ``NotReady``, stating requested and available resources, when the ranks cannot be placed within
    ``trainer.schedule_timeout_s`` (immediately when a local cluster is too small), and ``RankDied`` naming worker and
    rank when a rank dies. ``name`` is that of the first worker, for these errors.
    """

    def __init__(self, name: str, config: TrainConfig, ranks: int, store_url: str = "") -> None:
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self._ray, self.size, self._users, self._built = ray, ranks, 0, 0
        # One bundle per rank in one placement group: all ranks are placed or none. With half of them, the first
        # collective would wait for ever.
        needs = {"CPU": RANK_CPUS} | ({"GPU": 1} if config.trainer.device == "cuda" else {})
        asked = f"{name}: {ranks} ranks of {needs} could not be placed"
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
        self._actors: list[Any] = [actor.remote(config, store_url) for _ in range(ranks)]
        try:
            address = ray.get(self._actors[0].address.remote(), timeout=config.trainer.schedule_timeout_s)
        except ray.exceptions.GetTimeoutError:
            self._kill()
            seconds = config.trainer.schedule_timeout_s
            raise NotReady(f"{name}: rank 0 was placed and did not start within {seconds:g} s") from None
        except ray.exceptions.RayError as error:
            self._kill()
            raise RankDied(f"{name}, rank 0", f"died at its start: {error}") from error
        # Rank 0's address goes to all, and all join at once: the rendezvous ends when every rank is there.
        try:
            self.call(name, "join", [(address, rank, ranks) for rank in range(ranks)])
        # Also when interrupted: the caller has no group yet that it could close.
        except BaseException:
            self._kill()
            raise

    def add(self, name: str, worker: Callable[[TrainConfig], Any], config: TrainConfig) -> tuple[int, int]:
        """Build a worker on every rank; return its number, and how many neighbouring ranks share its rows."""
        number = self._built
        sharing = self.call(name, "build", [(number, worker, config)] * self.size)[0]
        self._built, self._users = number + 1, self._users + 1
        return number, int(sharing)

    def call(self, name: str, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Call ``method`` on all ranks, each with its own arguments; ``name`` is the worker's, for errors."""
        # All ranks are called before any is waited for: they meet in collectives, and calling one after the other would
        # block at the first.
        pending = [getattr(actor, method).remote(*given) for actor, given in zip(self._actors, arguments, strict=True)]
        waiting, found = {ref: rank for rank, ref in enumerate(pending)}, {}
        culprit = arguments[0][1] if method == "call" else method
        while waiting:
            # One at a time as they end: a rank that dies is seen while the others wait for it.
            (ref, *_), _ = self._ray.wait(list(waiting), num_returns=1)
            rank = waiting.pop(ref)
            try:
                found[rank] = self._ray.get(ref)
            except self._ray.exceptions.RayTaskError as error:
                # The worker's own typed error, which names the setting, instead of Ray's wrapper around its traceback.
                cause = error.as_instanceof_cause()  # type: ignore[no-untyped-call]
                # A collective that another rank's death has broken fails with an error of the network.
                if not isinstance(cause, FathomError) and (dead := self._find_dead(waiting)) is not None:
                    raise RankDied(f"{name}, rank {dead}", f"died in {culprit}") from error
                raise cause from error
            # Whatever else Ray says of a call: the process has died, its node has, what it returned was lost with the
            # node, or Ray has killed it because the node was short of memory.
            except self._ray.exceptions.RayError as error:
                raise RankDied(f"{name}, rank {rank}", f"died in {culprit}: {error}") from error
        return [found[rank] for rank in range(self.size)]

    def _find_dead(self, waiting: Mapping[Any, int]) -> int | None:
        """Return a rank that has died, of those whose results are awaited; None when there is none in time."""
        left: dict[Any, int] = dict(waiting)
        while left:
            ended, _ = self._ray.wait(list(left), num_returns=1, timeout=DEATH_SEEN_S)
            if not ended:
                return None
            rank = left.pop(ended[0])
            try:
                self._ray.get(ended[0])
            except self._ray.exceptions.RayTaskError:
                continue
            except self._ray.exceptions.RayError:
                return rank
        return None

    def release(self) -> None:
        """End one worker's use; the last one kills the ranks and releases their resources."""
        self._users -= 1
        if self._users <= 0:
            self._kill()

    @property
    def is_released(self) -> bool:
        """Return whether the last user has gone, and the ranks with it."""
        return self._built > 0 and self._users <= 0

    def _kill(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._ray.util.remove_placement_group(self._placement)


class RayGroup:
    """One role's workers on Ray ranks; every public method of the worker can be called on the group.

    A ``DataProto`` argument is sharded over the ranks; other arguments go to all of them. The ranks are ``shared`` with
    other roles, or this group's own; errors are those of ``RayRanks``.
    """

    def __init__(
        self,
        worker: Callable[[TrainConfig], Any],
        config: TrainConfig,
        ranks: int,
        store_url: str = "",
        shared: RayRanks | None = None,
    ) -> None:
        self._name = getattr(worker, "__name__", "worker")
        self._ranks = shared or RayRanks(self._name, config, ranks, store_url)
        try:
            self._number, self._sharing = self._ranks.add(self._name, worker, config)
        # Also when interrupted: nobody else would, ranks of its own have no other user.
        except BaseException:
            if shared is None:
                self._ranks.release()
            raise

    def __getattr__(self, name: str) -> Any:
        # Or copying and unpickling, which look for private names before __init__ has run, would recurse without end.
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self._dispatch(name, arguments)

    def _dispatch(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if len(arguments) != 1 or not isinstance(arguments[0], DataProto):
            return self._call(name, [arguments] * self._ranks.size)[0]
        parts = shard_by_group(arguments[0], self._ranks.size // self._sharing)
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
        return self._ranks.call(self._name, "call", [(self._number, name, *given) for given in arguments])

    def upload(self, method: str, target: StoreFolder) -> StoredFiles:
        """Let every rank write files by ``method`` and upload them from where it runs; return all of them."""
        found = StoredFiles()
        for files in self._call("upload", [(method, target)] * self._ranks.size):
            found |= files
            # Of the rank that has written the weights; the others have nothing to say.
            found.carrier, found.is_ahead = found.carrier or files.carrier, found.is_ahead or files.is_ahead
        return found

    def settle(self) -> None:
        """Wait until the store has all that the ranks have uploaded."""
        self._call("settle", [()] * self._ranks.size)

    def restore(self, source: StoredFolder) -> None:
        """Let every rank fetch and load its part of a checkpoint."""
        self._call("restore", [(source,)] * self._ranks.size)

    def close(self) -> None:
        """Release the ranks; those that no other role uses are killed."""
        self._ranks.release()


class SharedRanks:
    """Factory of the worker groups of one training's roles, which live on one set of Ray ranks and take turns there.

    A learner waits for the batch of the one before it, so ranks of its own would be idle most of the time.
    """

    def __init__(self, store_url: str = "") -> None:
        self._store_url = store_url
        self._ranks: RayRanks | None = None

    def __call__(self, worker: Callable[[TrainConfig], Any], config: TrainConfig, ranks: int) -> RayGroup:
        if self._ranks is None or self._ranks.is_released:
            self._ranks = RayRanks(getattr(worker, "__name__", "worker"), config, ranks, self._store_url)
        return RayGroup(worker, config, ranks, self._store_url, self._ranks)


def count_devices(resources: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU and GPU counts, without node names and memory sizes."""
    return {kind: resources.get(kind, 0.0) for kind in ("CPU", "GPU")}


class Hosted(StoreTransfer):
    """A worker in a rank, with its transfers."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker


class Rank:
    """One process of a process group with the workers of its roles; its node has nothing of the driver's disk."""

    def __init__(self, config: TrainConfig, store_url: str) -> None:
        self._config, self._store_url = config, store_url
        self._hosted: dict[int, Hosted] = {}

    def address(self) -> str:
        """Return a free host:port for the process group's rendezvous."""
        with socket.socket() as probe:
            # Port 0 lets the system choose a free one, which torch binds again shortly after.
            probe.bind(("", 0))
            return f"{socket.gethostbyname(socket.gethostname())}:{probe.getsockname()[1]}"

    def join(self, address: str, rank: int, ranks: int) -> None:
        """Join the process group."""
        # Ranks on one machine would each start as many threads as it has cores, and spend their time waiting for one
        # another.
        torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
        # Both on ranks with devices: what is offloaded is reduced where it is, in the memory of the CPU.
        backend = "cpu:gloo,cuda:nccl" if self._config.trainer.device == "cuda" else "gloo"
        torch.distributed.init_process_group(
            backend,
            init_method=f"tcp://{address}",
            rank=rank,
            world_size=ranks,
            timeout=timedelta(seconds=self._config.trainer.collective_timeout_s),
        )

    def build(self, number: int, worker: Callable[[TrainConfig], Any], config: TrainConfig) -> int:
        """Build a role's worker under a number; return how many neighbouring ranks share its rows."""
        # After the process group: building the worker shards its parameters, which needs all ranks.
        self._hosted[number] = Hosted(worker(fetch_models(config, self._store_url)))
        return int(getattr(self._hosted[number].worker, "sharing", 1))

    def call(self, number: int, name: str, *arguments: Any) -> Any:
        """Call a method of a worker, or a transfer of its files."""
        hosted = self._hosted[number]
        return getattr(hosted if name in ("upload", "settle", "restore") else hosted.worker, name)(*arguments)


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
