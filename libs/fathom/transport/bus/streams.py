"""Every stream, bucket, durable and subject of Fathom; the only place where subjects are spelled out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from urllib.parse import quote

from fathom.core.call import Lane, bind, unbind
from fathom.core.errors import InvalidField, NotFound
from fathom.core.ids import checked_id

RUNS = "RUNS"
EVENTS = "EVENTS"
ROLLOUTS = "ROLLOUTS"
TRAJECTORIES = "TRAJECTORIES"
LESSONS = "LESSONS"
WEIGHTS = "WEIGHTS"
DEAD_LETTERS = "DEAD_LETTERS"
SERVING = "SERVING"
SEEN = "SEEN"
PROCESS = "PROCESS"
LEGS = "LEGS"
AWAITED = "AWAITED"
GRADED = "GRADED"
PROBES = "PROBES"
QUOTAS = "QUOTAS"
SHARES = "SHARES"
TICKETS = "TICKETS"
SCHEDULES = "SCHEDULES"

ROLLOUT_WORKERS = "rollout-workers"
DEAD_RUNS = "planner-dead-runs"
LEARNERS = "planner-learners"

LESSON_SUBJECT = "fathom.lessons.run"
ALL_EVENTS = "fathom.events.*"
ALL_DEAD = "fathom.dead.>"
ALL_TRAJECTORIES = "fathom.trajectories.*.*"
GIVEN_UP_ADVISORIES = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"
TERMINATED_ADVISORIES = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>"

# Seconds until the work of a worker that died goes to another one: with what is then repeated, a question that has lost
# its planner waits less than ten seconds. Workers send heartbeats well within it, also when one of them is missed while
# a server of the bus restarts.
ACK_WAIT_S = 8.0
# A message that has been begun five times and never finished probably kills its workers, and goes to DEAD_LETTERS.
MAX_DELIVER = 5
# Runs count their attempts themselves, since one that waits for a service that is away is delivered again and again.
# With pauses of half a minute these outlast an outage of some hours.
MAX_RUN_DELIVERIES = 1_000
# Runs that are queued or played, of all lanes. Planners refuse new ones long before; see ``planner.max_queued_runs``.
MAX_QUEUED_RUNS = 20_000
# Longer than a publisher retries (CONFIRM_TIMEOUT_S) with room for a restart of the server; each id in it costs the
# server memory.
DUPLICATE_WINDOW_S = 120.0
DAY_S = 86_400.0
# Events of runs, of which a question of ten rounds has some 200 KB: about 5,000 questions a day.
MAX_EVENT_BYTES = 1 << 30
# Less would drop events of runs that are being played.
LEAST_EVENT_BYTES = 16 << 20
# Tasks of queued rollouts that wait, over all trainings.
MAX_QUEUED_TASKS = 100_000
# Runs from which something is still to be learnt; more are not worth the disk.
MAX_LESSONS = 100_000
# A queued rollout is played so long after its watcher was last seen: a trainer that restarts comes back within it.
ROLLOUT_LEASE_S = 120.0
# Runs delegate runs, and these once more.
MAX_DEPTH = 2
KEPT_REVISIONS = 16
MAX_SEEN_RUNS = 50_000
# A key is a part of a subject on the server, so that its dots separate tokens and wildcards are not allowed.
KEY_PATTERN = re.compile(r"[A-Za-z0-9_=/-]+(?:\.[A-Za-z0-9_=/-]+)*")
WILDCARDS = frozenset("*>")
# Concrete subjects: no wildcards, no spaces, no empty tokens. $ begins NATS' own (such as $KV), % the escapes of
# weights_subject; = ends the tenant of a bound id.
SUBJECT_PATTERN = re.compile(r"[A-Za-z0-9_$%~=-]+(?:\.[A-Za-z0-9_$%~=-]+)*")


class Retention(StrEnum):
    """Retention policy: LIMITS keeps messages until limits of age or number, WORK_QUEUE until they are acknowledged."""

    LIMITS = "limits"
    WORK_QUEUE = "workqueue"


@dataclass(frozen=True)
class Durable:
    """A consumer whose position the server keeps.

    A message that is not settled is redelivered ``ack_wait_s`` seconds after its delivery or its last ``in_progress``;
    after ``max_deliver`` deliveries it goes to DEAD_LETTERS.
    """

    name: str
    filter_subject: str
    ack_wait_s: float = ACK_WAIT_S
    max_deliver: int = MAX_DELIVER
    max_ack_pending: int = 1000


@dataclass(frozen=True)
class Stream:
    """Messages kept in order. Limits of 0 mean none; ages and windows are seconds.

    Above ``max_messages`` or ``max_bytes`` the oldest messages are dropped; a work queue refuses new ones instead,
    since its messages are undone work.
    """

    name: str
    subjects: tuple[str, ...]
    retention: Retention
    durables: tuple[Durable, ...] = ()
    max_age_s: float = 0.0
    max_per_subject: int = 0
    max_messages: int = 0
    max_bytes: int = 0
    duplicate_window_s: float = DUPLICATE_WINDOW_S


@dataclass(frozen=True)
class Bucket:
    """Values by key, the last ``history`` of each; on a server a JetStream key-value bucket.

    With ``max_age_s`` or ``max_values`` (0 means none) values expire by age, or the oldest are dropped above the limit;
    use them only for data that may be forgotten. Watchers are not notified of either.
    """

    name: str
    history: int = KEPT_REVISIONS
    max_age_s: float = 0.0
    max_values: int = 0

    @property
    def stream(self) -> Stream:
        """The stream that stores the bucket."""
        return Stream(
            f"KV_{self.name}",
            (f"$KV.{self.name}.>",),
            Retention.LIMITS,
            max_age_s=self.max_age_s,
            max_per_subject=self.history,
            max_messages=self.max_values,
            # A server wants it no longer than the values' age.
            duplicate_window_s=min(DUPLICATE_WINDOW_S, self.max_age_s or DUPLICATE_WINDOW_S),
        )

    def subject(self, key: str) -> str:
        """Return the subject of a key; raise ``InvalidField("key")``."""
        return f"$KV.{self.name}.{checked_key(key)}"

    def key(self, subject: str) -> str:
        """Return the key of a subject of this bucket."""
        return subject.removeprefix(f"$KV.{self.name}.")


@dataclass(frozen=True)
class Topology:
    """The streams and buckets of one bus."""

    streams: tuple[Stream, ...]
    buckets: tuple[Bucket, ...] = ()

    @cached_property
    def _patterns(self) -> tuple[tuple[str, Stream], ...]:
        return tuple((pattern, stream) for stream in self.streams for pattern in stream.subjects)

    @cached_property
    def _by_kind(self) -> Mapping[str, tuple[tuple[str, Stream], ...]]:
        """Return the patterns by their first two tokens; none where a pattern has a wildcard among these."""
        kinds = {pattern: ".".join(pattern.split(".", 2)[:2]) for pattern, _ in self._patterns}
        if any(WILDCARDS & set(kind.split(".")) for kind in kinds.values()):
            return {}
        found: dict[str, tuple[tuple[str, Stream], ...]] = {}
        for pattern, stream in self._patterns:
            found[kinds[pattern]] = (*found.get(kinds[pattern], ()), (pattern, stream))
        return found

    def stream_of(self, subject: str) -> Stream:
        """Return the stream that stores ``subject`` (concrete, or a wildcard within it).

        Raises ``InvalidField("subject")`` when no stream does.
        """
        # By the first two tokens: every message passes here, and none needs a look at all patterns.
        kind = ".".join(subject.split(".", 2)[:2])
        for pattern, stream in self._by_kind.get(kind, self._patterns):
            if matches(pattern, subject):
                return stream
        raise InvalidField("subject", f"no stream stores {subject!r}")

    def bucket(self, name: str) -> Bucket:
        """Return a declared bucket; raise ``NotFound`` with the known names."""
        found = {bucket.name: bucket for bucket in self.buckets}
        if name not in found:
            raise NotFound("bucket", name, sorted(found))
        return found[name]

    def durable(self, name: str) -> tuple[Stream, Durable]:
        """Return a durable with its stream; raise ``NotFound`` with the known names."""
        found = {durable.name: (stream, durable) for stream in self.streams for durable in stream.durables}
        if name not in found:
            raise NotFound("durable", name, sorted(found))
        return found[name]


def topology(
    *,
    ack_wait_s: float = ACK_WAIT_S,
    max_deliver: int | None = None,
    rollout_lease_s: float = ROLLOUT_LEASE_S,
    event_bytes: int = MAX_EVENT_BYTES,
) -> Topology:
    """Return Fathom's streams and buckets; ``event_bytes`` bounds the events of all runs together.

    Tests shorten ``ack_wait_s`` and ``rollout_lease_s``, and give all durables one ``max_deliver``; production keeps
    the defaults.
    """
    return Topology(make_streams(ack_wait_s, max_deliver, event_bytes), make_buckets(rollout_lease_s))


def make_streams(ack_wait_s: float, max_deliver: int | None, event_bytes: int) -> tuple[Stream, ...]:
    """Return the streams with their durable consumers."""

    def durable(name: str, subject: str, usual: int = MAX_DELIVER) -> Durable:
        return Durable(name, subject, ack_wait_s, max_deliver or usual)

    return (
        Stream(
            RUNS,
            ("fathom.runs.*",),
            Retention.WORK_QUEUE,
            tuple(
                durable(run_durable(lane, depth), run_subject(lane, depth), MAX_RUN_DELIVERIES)
                for lane in Lane
                for depth in range(MAX_DEPTH + 1)
            ),
            max_messages=MAX_QUEUED_RUNS,
        ),
        Stream(EVENTS, (ALL_EVENTS,), Retention.LIMITS, max_age_s=DAY_S, max_bytes=event_bytes),
        Stream(
            ROLLOUTS,
            ("fathom.rollouts.*",),
            Retention.WORK_QUEUE,
            tuple(durable(rollout_durable(lane), rollout_subject(lane)) for lane in Lane),
            max_messages=MAX_QUEUED_TASKS,
        ),
        Stream(TRAJECTORIES, (ALL_TRAJECTORIES,), Retention.LIMITS, max_age_s=30 * DAY_S),
        # What ended runs leave in their users' memory, learnt when there is time.
        Stream(
            LESSONS,
            ("fathom.lessons.*",),
            Retention.WORK_QUEUE,
            (durable(LEARNERS, LESSON_SUBJECT),),
            max_age_s=7 * DAY_S,
            max_messages=MAX_LESSONS,
        ),
        # A replica that starts late needs the latest notices of each model, however old they are.
        Stream(WEIGHTS, ("fathom.weights.*",), Retention.LIMITS, max_per_subject=64),
        Stream(
            DEAD_LETTERS,
            # The server's own notices of messages that it gave up are messages like any other:
            # lost unless a stream keeps them.
            (ALL_DEAD, GIVEN_UP_ADVISORIES, TERMINATED_ADVISORIES),
            Retention.LIMITS,
            # Runs that were given up: a planner writes the end that their readers wait for.
            (durable(DEAD_RUNS, f"fathom.dead.{RUNS}.>", MAX_RUN_DELIVERIES),),
            max_age_s=30 * DAY_S,
        ),
    )


def make_buckets(rollout_lease_s: float) -> tuple[Bucket, ...]:
    """Return the key-value buckets."""
    return (
        # Which version of which model serves which lane; see ``fathom.domain.weights.serving``.
        Bucket(SERVING),
        # Which version the implicit process reward model has, and what its last steps answered.
        Bucket(PROCESS),
        # Who opened the next leg of a run that had ended: the first one does.
        Bucket(LEGS, history=1, max_age_s=7 * DAY_S, max_values=MAX_SEEN_RUNS),
        # Which queued rollouts somebody waits for: a watcher renews its own, and none outlives its watchers.
        Bucket(AWAITED, history=1, max_age_s=rollout_lease_s),
        # What searches have shown to a run, by run: what ``Fetch`` may be told to enforce.
        Bucket(SEEN, history=1, max_age_s=7 * DAY_S, max_values=MAX_SEEN_RUNS),
        # Where in its queue a run began to wait, by run and leg.
        Bucket(TICKETS, history=1, max_age_s=DAY_S, max_values=MAX_SEEN_RUNS),
        # Questions that are asked again and again, by tenant and place, with what is due next; a change is one by
        # compare-and-set, so that of several gateways one asks.
        Bucket(SCHEDULES, history=1),
        # What operators allow upstreams, by name; see ``quotas``.
        Bucket(QUOTAS, history=1),
        # Which replica holds how much of a limit; see ``shares``.
        Bucket(SHARES, history=1, max_age_s=DAY_S),
        # Written by readiness probes: only a write tells whether the server still stores anything.
        Bucket(PROBES, history=1, max_age_s=DAY_S),
        # Who grades the end of which run, and how far the events are read; see
        # ``fathom.operations.monitoring.ledger``.
        Bucket(GRADED, history=1, max_age_s=7 * DAY_S, max_values=MAX_SEEN_RUNS),
    )


def rpc_subject(service: str, method: str) -> str:
    """Return the subject of requests to one method, e.g. ``fathom.retrieval.v1.Search``."""
    return f"fathom.{checked_id('service', service)}.v1.{checked_id('method', method)}"


def run_subject(lane: Lane, depth: int = 0) -> str:
    """Return the subject of queued runs in a lane: user requests, or runs ``depth`` delegations below one."""
    return f"fathom.runs.{Lane(lane)}{below(depth)}"


def run_durable(lane: Lane, depth: int = 0) -> str:
    """Return the planners' durable of a lane, e.g. ``planner-interactive`` or ``planner-training-sub1``."""
    return f"planner-{Lane(lane)}{below(depth)}"


def below(depth: int) -> str:
    """Return the name suffix for a delegation depth; raise ``InvalidField("depth")``."""
    if not 0 <= depth <= MAX_DEPTH:
        raise InvalidField("depth", f"must be 0 to {MAX_DEPTH}")
    return f"-sub{depth}" if depth else ""


def events_subject(run_id: str) -> str:
    """Return the subject of the events of one run of the current call's tenant, in order."""
    return f"fathom.events.{bound_token('run_id', run_id)}"


def bound_token(field: str, identifier: str) -> str:
    """Return the token by which subjects name what ``identifier`` names to the current call's tenant."""
    return bind(checked_id(field, identifier))


def owner_of(subject: str) -> str:
    """Return the tenant of a subject whose third token is bound, such as that of a run's events."""
    return unbind(subject.split(".")[2])[0]


def rollout_subject(lane: Lane) -> str:
    """Return the subject of queued rollouts in a lane."""
    return f"fathom.rollouts.{Lane(lane)}"


def rollout_durable(lane: Lane) -> str:
    """Return the workers' durable of a lane; the training lane, the usual one, has the plain name."""
    return ROLLOUT_WORKERS if lane == Lane.TRAINING else f"{ROLLOUT_WORKERS}-{Lane(lane)}"


def trajectory_subject(rollout_id: str, place: str = "*") -> str:
    """Return the subject of trajectory notices of one rollout of the current call's tenant, at one place or at all.

    The trajectories themselves are in the object store.
    """
    token = place if place == "*" else checked_id("place", place)
    return f"fathom.trajectories.{bound_token('rollout_id', rollout_id)}.{token}"


def weights_subject(model: str) -> str:
    """Return the subject of new-weights notices of one model.

    Any model name of 1 to 200 characters is valid, e.g. ``org/model-1.5``; raises ``InvalidField("model")`` otherwise.
    """
    if not 1 <= len(model) <= 200:
        raise InvalidField("model", "must have 1 to 200 characters")
    # A dot would start a new token of the subject.
    return f"fathom.weights.{quote(model, safe='').replace('.', '%2E')}"


def dead_subject(stream: str, durable: str) -> str:
    """Return the subject of dead letters of one durable."""
    return f"fathom.dead.{checked_id('stream', stream)}.{checked_id('durable', durable)}"


def checked_key(key: str) -> str:
    """Return ``key`` if a bucket can hold it; raise ``InvalidField("key")`` otherwise."""
    if len(key) > 256 or not KEY_PATTERN.fullmatch(key):
        raise InvalidField("key", f"{key[:80]!r} is no dotted path of letters, digits and '_=/-'")
    return key


def checked_subject(subject: str) -> str:
    """Return a concrete ``subject`` if it is well formed; raise ``InvalidField("subject")`` otherwise."""
    if len(subject) > 512 or not SUBJECT_PATTERN.fullmatch(subject):
        raise InvalidField("subject", f"{subject[:80]!r} is no dotted path of letters, digits and '_$%~=-'")
    return subject


def checked_message_id(message_id: str) -> str:
    """Return ``message_id`` if any transport can carry it; raise ``InvalidField("message_id")`` otherwise."""
    if not (
        1 <= len(message_id) <= 256 and message_id.isascii() and message_id.isprintable() and " " not in message_id
    ):
        raise InvalidField("message_id", "must be 1 to 256 printable ASCII characters without spaces")
    return message_id


def followed_stream(streams: Topology, subject: str, after: int) -> Stream:
    """Return the stream that ``follow`` reads; raise ``InvalidField`` when it cannot be followed from there."""
    if after < 0:
        raise InvalidField("after", "must be a sequence, 0 or more")
    stream = streams.stream_of(subject)
    if stream.retention != Retention.LIMITS:
        raise InvalidField(
            "subject", f"{subject!r} is in the work queue {stream.name}, which is consumed, not followed"
        )
    return stream


def matches(pattern: str, subject: str) -> bool:
    """Return True if ``pattern``, with ``*`` for one token and a final ``>`` for one or more, covers ``subject``."""
    wanted, given = pattern.split("."), subject.split(".")
    for position, token in enumerate(wanted):
        if token == ">":  # noqa: S105 - a part of a subject
            return len(given) > position
        if position >= len(given) or (token not in ("*", given[position])):
            return False
        if token == "*" and given[position] == ">":  # noqa: S105 - a part of a subject
            return False
    return len(wanted) == len(given)


def control_subject(run_id: str) -> str:
    """Return the subject of control requests, e.g. to stop, to the planner that works on a run."""
    return f"fathom.control.{bound_token('run_id', run_id)}"
