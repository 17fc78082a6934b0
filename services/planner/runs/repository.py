"""Record of a run in the object store: a header, its legs, and the trajectory at the end of each leg.

While a leg runs, its steps are in the run's log (``runs.log``). An index has an entry per run, newest first.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.errors import CorruptData, NotFound
from fathom.core.paging import unknown_token
from fathom.services.planner.runs.index.entry import Entry, make_summary
from fathom.transport.store import ObjectStore, StoredObject

PROTOBUF, JSON = "application/x-protobuf", "application/json"
INDEX = "runs/index/"
# Times count down from here, since stores list keys in ascending order only. Fifteen digits last until the year 33658.
END_OF_TIME_MS = 10**15 - 1


@dataclass(frozen=True)
class Header:
    """Request of a run, written once before it is queued. ``start_time`` is in seconds since the epoch."""

    run_id: str
    question: str
    conversation_id: str
    protocol: str
    model: str
    start_time: float
    request: str
    """Serialized RunRequest in hexadecimal, so that any worker can take the run over."""
    parent_run_id: str = ""
    """The run that delegated this one; empty for a user's."""
    depth: int = 0
    """Number of runs above it."""
    tenant: str = "default"
    """Tenant of the run, the same for all planners and resumptions."""
    traceparent: str = ""
    """Trace context of the original call, continued by all legs and attempts of the run."""
    branch_of: str = ""
    """Run and number of rounds that a branch began with, e.g. ``run_1@2``; empty for a run that is none."""
    form: str = ""
    """Form of the answer that the question asks for (``Form``); "" where the request names it or the protocol has none.
    """
    principal: str = ""
    """Caller who asked for the run; "" where callers are not identified."""
    asked: Mapping[str, Any] | None = None
    """The question as datafetch has read it, in the form of JSON (``restore_text``); None when nobody has read it."""
    is_unrouted: bool = False
    """True while protocol and form are for the worker to choose by the question. ``restore_route`` gives its choice;
    ``protocol`` is what planners of earlier versions play, which do not know of this field.
    """

    @property
    def protocol_value(self) -> pb.Protocol:
        """Return the run's protocol; if the request left it open, the chosen one (``restore_route``)."""
        # The stubs give enum values as plain ints.
        return cast(pb.Protocol, pb.Protocol.Value(self.protocol))

    def run_request(self) -> planner.RunRequest:
        return planner.RunRequest.FromString(bytes.fromhex(self.request))


HEADER_FIELDS = frozenset(known.name for known in fields(Header))


@dataclass(frozen=True)
class Leg:
    """Part of a run: number 0 starts with the question, each further one with a resumption.

    ``start_time`` is in seconds since the epoch; rounds, tokens, milliseconds and cost are limits, 0 for the server's
    own; ``steps`` is the number of steps of earlier legs.
    """

    number: int
    request_id: str
    start_time: float
    max_rounds: int = 0
    max_tokens: int = 0
    max_ms: int = 0
    max_cost: float = 0.0
    steps: int = 0

    @classmethod
    def of(cls, number: int, request_id: str, start_time: float, budget: planner.Budget, steps: int = 0) -> Leg:
        spend = (budget.max_rounds, budget.max_tokens, budget.max_ms, budget.max_cost)
        return cls(number, request_id, start_time, *spend, steps)

    def budget(self) -> planner.Budget:
        return planner.Budget(
            max_rounds=self.max_rounds, max_tokens=self.max_tokens, max_ms=self.max_ms, max_cost=self.max_cost
        )


@dataclass(frozen=True)
class Lease:
    """Ownership of a run by a planner: its ``epoch`` (see ``fence``), the leg, and the number of steps it found."""

    epoch: int
    leg: int
    steps: int


class RunRepository:
    """Store of run records."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def store(self) -> ObjectStore:
        """Return the underlying object store."""
        return self._store

    async def create(self, header: Header) -> tuple[Header, bool]:
        """Write the header unless the run has one; return the stored header, and whether it was written now."""
        try:
            return await self.get_header(header.run_id), False
        except NotFound:
            if header.parent_run_id:
                await self._put_json(child_key(header.parent_run_id, header.run_id), {"depth": header.depth})
            await self._put_json(header_key(header.run_id), asdict(header))
            # Behind the header: the list names no run that cannot be read. One lost in between is listed once it ends.
            await self.put_entry(header, Entry(0))
            return header, True

    async def discard(self, header: Header) -> None:
        """Remove a run that was refused its place in the queue: nobody will ever play it."""
        await self._store.delete(index_key(header))
        await self._store.delete(header_key(header.run_id))
        if header.parent_run_id:
            await self._store.delete(child_key(header.parent_run_id, header.run_id))

    async def get_header(self, run_id: str) -> Header:
        """Return the header; raise ``NotFound`` for an unknown run."""
        try:
            return header_from_json(await self._get_json(header_key(run_id)))
        except NotFound:
            raise NotFound("run", run_id) from None
        except TypeError as error:
            raise CorruptData(header_key(run_id), str(error)) from error

    async def find_origin(self, header: Header) -> Header:
        """Return the header of the run that a user asked, of which this one is a part or a branch; or this one.

        Raises ``NotFound`` when it is gone.
        """
        while above := header.parent_run_id or header.branch_of.partition("@")[0]:
            header = await self.get_header(above)
        return header

    async def put_entry(self, header: Header, entry: Entry) -> None:
        """Write the run's entry in the index."""
        shown = {
            "question": header.question,
            "parent_run_id": header.parent_run_id,
            "start_time": header.start_time,
            "model": header.model,
        }
        await self._put_json(index_key(header), {**shown, **asdict(entry)})

    async def list_runs(self, size: int, after: str) -> list[str]:
        """Return the places of up to ``size`` runs behind a place, newest first; "" is the beginning.

        Reads names only. Runs that earlier versions began come last: they are not in the index. Raises
        ``InvalidField("page_token")`` for a place that no list has had.
        """
        places: list[str] = []
        if not after or after.startswith(INDEX):
            places = await self._store.keys(INDEX, after=after, limit=size)
        if len(places) < size:
            earlier = [header_key(run_id) for run_id in await self._list_earlier()]
            if after and not after.startswith(INDEX) and after not in earlier:
                raise unknown_token()
            start = earlier.index(after) + 1 if after in earlier else 0
            places += earlier[start : start + size - len(places)]
        return places

    async def _list_earlier(self) -> list[str]:
        """Return the ids of runs without an entry, newest first; those without a recorded start come last, by id."""
        headers, entries = await self._store.keys("runs/headers/"), await self._store.keys(INDEX)
        indexed = {run_of_entry(key) for key in entries}
        known = {name_of(key) for key in headers} - indexed
        begun = [name_of(key).partition("-")[2] for key in reversed(await self._store.keys("runs/begun/"))]
        ordered = list(dict.fromkeys(run_id for run_id in begun if run_id in known))
        return ordered + sorted(known.difference(ordered), reverse=True)

    async def get_summary(self, place: str) -> planner.RunSummary:
        """Return a run of the list by its place; raise ``NotFound`` for one that is gone."""
        if not place.startswith(INDEX):
            return await self.summarise(name_of(place))
        found = await self._get_json(place)
        if not found["stop_reason"]:
            # An older planner that has ended it wrote no entry, and one that died at the end wrote it not yet.
            return await self.summarise(run_of_entry(place))
        return make_summary(
            run_of_entry(place),
            found["question"],
            found["parent_run_id"],
            found["start_time"],
            found.get("model", ""),
            Entry.read(found),
        )

    async def summarise(self, run_id: str) -> planner.RunSummary:
        """Return the summary of a run from its record; raise ``NotFound`` for an unknown one."""
        header = await self.get_header(run_id)
        leg = await self.get_leg(header)
        finished = await self.get_end(run_id, leg.number)
        entry = Entry(leg.number) if finished is None else replace(Entry.of(finished[0]), leg=leg.number)
        return make_summary(run_id, header.question, header.parent_run_id, header.start_time, header.model, entry)

    async def list_children(self, run_id: str) -> list[str]:
        """Return the sorted ids of the runs that this one has delegated."""
        return [name_of(key) for key in await self._store.keys(f"runs/children/{run_id}/")]

    async def put_leg(self, run_id: str, leg: Leg) -> None:
        """Store a resumption."""
        await self._put_json(leg_key(run_id, leg.number), asdict(leg))

    async def discard_leg(self, run_id: str, number: int) -> None:
        """Remove a resumption that was refused its place in the queue."""
        await self._store.delete(leg_key(run_id, number))

    async def get_leg(self, header: Header) -> Leg:
        """Return the current leg."""
        return (await self.get_legs(header))[-1]

    async def get_legs(self, header: Header) -> list[Leg]:
        """Return all legs, the initial one first."""
        keys = await self._store.keys(f"runs/legs/{header.run_id}/")
        resumed = [Leg(**await self._get_json(key)) for key in keys]
        return [first_leg(header), *resumed]

    async def put_lease(self, run_id: str, lease: Lease) -> None:
        """Store a lease; later steps and ends of this leg by previous planners are ignored from now on."""
        await self._put_json(f"runs/taken/{run_id}/{lease.epoch:012d}.json", asdict(lease))

    async def get_leases(self, run_id: str) -> list[Lease]:
        """Return all leases, oldest first."""
        keys = await self._store.keys(f"runs/taken/{run_id}/")
        return [Lease(**await self._get_json(key)) for key in keys]

    async def get_steps(self, run_id: str) -> list[pb.Step]:
        """Return the steps that planners stored as objects before the log had them, each by its owner then."""
        objects = {name_of(item.key): item for item in await self._store.list(f"runs/steps/{run_id}/")}
        leases = await self.get_leases(run_id)
        steps: list[pb.Step] = []
        while True:
            index = len(steps)
            # Of several planners that wrote this step, the one counts that had taken the run over before it.
            epoch = max((lease.epoch for lease in leases if lease.steps <= index), default=0)
            item = objects.get(f"{index:04d}-{epoch:012d}")
            if item is None:
                return steps
            steps.append(pb.Step.FromString(await self._store.get(item.key, item.sha256)))

    async def put_open_step(self, run_id: str, step: pb.Step, epoch: int) -> None:
        """Store the step that the end of a leg has cut short, with its results so far."""
        await self._store.put(open_key(run_id, epoch, step.index), step.SerializeToString(), PROTOBUF)

    async def get_open_step(self, run_id: str, index: int) -> list[pb.Step]:
        """Return a step that was cut short: its completion, then notes with the results of its calls; [] for none."""
        keys = await self._store.keys(f"runs/open/{run_id}/")
        # Of several planners that had it open, the last one's notes are complete: it copied those that it found.
        found = max((key for key in keys if key.endswith(f"/{index:04d}.pb")), default=None)
        if found is None:
            return []
        calls = [key for key in keys if key.startswith(f"{found.removesuffix('.pb')}-")]
        return [pb.Step.FromString(await self._store.get(key)) for key in (found, *calls)]

    async def put_stop(self, run_id: str, leg: int) -> None:
        """Request that the next worker of this leg ends it immediately."""
        await self._put_json(stop_key(run_id, leg), {"leg": leg})

    async def is_stopped(self, run_id: str, leg: int) -> bool:
        return await self._store.head(stop_key(run_id, leg)) is not None

    async def put_reading(self, run_id: str, reading: Mapping[str, Any]) -> None:
        """Store how a follow-up was understood, so that each attempt and resumption plays the same question."""
        await self._put_json(f"runs/readings/{run_id}.json", dict(reading))

    async def get_reading(self, run_id: str) -> Mapping[str, Any] | None:
        """Return how a follow-up was understood; None before its first attempt."""
        try:
            return await self._get_json(f"runs/readings/{run_id}.json")
        except NotFound:
            return None

    async def put_recalled(self, run_id: str, recalled: Mapping[str, Any]) -> None:
        """Store what the run is reminded of, so that each attempt and resumption sees the same."""
        await self._put_json(f"runs/recalled/{run_id}.json", dict(recalled))

    async def get_recalled(self, run_id: str) -> Mapping[str, Any] | None:
        """Return what the run is reminded of; None before its first attempt."""
        try:
            return await self._get_json(f"runs/recalled/{run_id}.json")
        except NotFound:
            return None

    async def put_edit(self, run_id: str, edit: planner.TodoChanged) -> None:
        """Store the user's latest todo list, until a step shows that the model has seen it."""
        await self._store.put(f"runs/edits/{run_id}.pb", edit.SerializeToString(), PROTOBUF)

    async def get_edit(self, run_id: str) -> planner.TodoChanged | None:
        """Return the user's latest todo list; None when there was no edit."""
        try:
            return planner.TodoChanged.FromString(await self._store.get(f"runs/edits/{run_id}.pb"))
        except NotFound:
            return None

    async def put_given(self, run_id: str, given: Sequence[pb.Material]) -> None:
        """Store the tables of earlier turns that the run begins with."""
        await self._store.put(
            given_key(run_id), pb.Trajectory(run_id=run_id, given=given).SerializeToString(), PROTOBUF
        )

    async def get_given(self, run_id: str) -> Sequence[pb.Material] | None:
        """Return the tables of earlier turns that the run begins with; None when none were chosen yet."""
        try:
            return pb.Trajectory.FromString(await self._store.get(given_key(run_id))).given
        except NotFound:
            return None

    async def put_remembered(self, run_id: str, held: pb.Remembered) -> None:
        """Store what of its user's memory the run is given."""
        await self._store.put(remembered_key(run_id), held.SerializeToString(), PROTOBUF)

    async def get_remembered(self, run_id: str) -> pb.Remembered | None:
        """Return what of its user's memory the run is given; None when nothing was chosen yet."""
        try:
            return pb.Remembered.FromString(await self._store.get(remembered_key(run_id)))
        except NotFound:
            return None

    # The store's own coroutine: every episode of a training passes here.
    def put_trajectory(
        self, trajectory: pb.Trajectory, key: str = "", epoch: int = 0
    ) -> Coroutine[Any, Any, StoredObject]:
        """Write the complete trajectory."""
        where = key or trajectory_key(trajectory.run_id, epoch)
        return self._store.put(where, trajectory.SerializeToString(), PROTOBUF)

    async def get_trajectory(self, run_id: str) -> pb.Trajectory | None:
        """Return the trajectory of the latest end; None if the run has never ended."""
        ended = await self.find_end(run_id)
        return None if ended is None else ended[0]

    async def get_end(self, run_id: str, leg: int) -> tuple[pb.Trajectory, StoredObject] | None:
        """Return the trajectory of a run whose leg has ended; None while it runs."""
        ended = await self.find_end(run_id)
        return None if ended is None or ended[0].leg < leg else ended

    async def find_end(self, run_id: str) -> tuple[pb.Trajectory, StoredObject] | None:
        """Return the last valid end, of whichever leg; those of planners that had lost the run before do not count."""
        objects = await self._store.list(f"runs/trajectories/{run_id}/")
        leases = await self.get_leases(run_id) if objects else []
        for item in reversed(objects):
            found = pb.Trajectory.FromString(await self._store.get(item.key, item.sha256))
            if not any(lease.epoch > int(name_of(item.key)) and lease.leg <= found.leg for lease in leases):
                return found, item
        return None

    async def _put_json(self, key: str, value: Mapping[str, Any]) -> None:
        await self._store.put(key, json.dumps(value).encode(), JSON)

    async def _get_json(self, key: str) -> dict[str, Any]:
        try:
            found = json.loads(await self._store.get(key))
        except ValueError as error:
            raise CorruptData(key, str(error)) from error
        if not isinstance(found, dict):
            raise CorruptData(key, "is no JSON object")
        return found


def header_from_json(found: Mapping[str, Any]) -> Header:
    """Return the header of its JSON object; raise ``TypeError`` for an incomplete one."""
    # A newer planner's header may say more: in a rolling upgrade both take up each other's runs.
    return Header(**{name: value for name, value in found.items() if name in HEADER_FIELDS})


def first_leg(header: Header) -> Leg:
    """Return the leg that starts with the question, which is part of the header."""
    return Leg.of(0, header.run_id, header.start_time, header.run_request().budget)


def as_of_run(request: planner.RunRequest) -> Any:
    """Return the point in time of a run's data; None for all of them."""
    return request.as_of if request.HasField("as_of") else None


def name_of(key: str) -> str:
    """Return the last component of a key without its suffix."""
    return key.rpartition("/")[2].rpartition(".")[0]


def index_key(header: Header) -> str:
    """Return a key that sorts by the time left until the end of time: the newest run comes first."""
    return f"{INDEX}{END_OF_TIME_MS - int(header.start_time * 1000):015d}-{header.run_id}.json"


def run_of_entry(key: str) -> str:
    """Return the run of a key of the index."""
    return name_of(key).partition("-")[2]


def given_key(run_id: str) -> str:
    return f"runs/given/{run_id}.pb"


def remembered_key(run_id: str) -> str:
    return f"runs/remembered/{run_id}.pb"


def header_key(run_id: str) -> str:
    return f"runs/headers/{run_id}.json"


def child_key(parent_run_id: str, run_id: str) -> str:
    return f"runs/children/{parent_run_id}/{run_id}.json"


def leg_key(run_id: str, number: int) -> str:
    return f"runs/legs/{run_id}/{number:04d}.json"


def open_key(run_id: str, epoch: int, index: int) -> str:
    return f"runs/open/{run_id}/{epoch:012d}/{index:04d}.pb"


def stop_key(run_id: str, leg: int) -> str:
    return f"runs/stops/{run_id}/{leg:04d}.json"


def trajectory_key(run_id: str, epoch: int) -> str:
    return f"runs/trajectories/{run_id}/{epoch:012d}.pb"
