"""One in-memory stream: its messages and its durables' leases. Plain state without tasks; callers pass the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fathom.transport.bus.base import Backlog, Message, StreamState
from fathom.transport.bus.keys import full, written_meanwhile
from fathom.transport.bus.streams import Durable, Retention, Stream, matches


@dataclass(frozen=True)
class Entry:
    """A stored message; ``time_s`` is on the caller's clock."""

    sequence: int
    message: Message
    time_s: float


@dataclass
class Lease:
    """A delivered, unsettled message; it is redelivered at ``due_s``."""

    attempt: int
    due_s: float


@dataclass
class Position:
    """Read position of one durable: everything below ``cursor`` was delivered, of which ``leases`` are unsettled."""

    cursor: int = 1
    leases: dict[int, Lease] = field(default_factory=dict)
    delivered: int = 0


class Log:
    """A stream with JetStream's semantics. All times are seconds on one monotonic clock."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._entries: dict[int, Entry] = {}
        self._last = 0
        self._size_bytes = 0
        # In the order of their times, so that the oldest ids are forgotten from the front.
        self._seen: dict[str, tuple[int, float]] = {}
        self._positions = {durable.name: Position() for durable in stream.durables}

    def append(self, message: Message, message_id: str, now_s: float, expected: int | None = None) -> int:
        """Store a message, or find it by its id within the duplicate window; return its sequence.

        Raises ``Conflict`` when ``expected`` is not the sequence of the subject's last message (0 for none), and
        ``Overloaded`` when a work queue is full.
        """
        self._expire(now_s)
        # Before the check of expected: a repeated message is its own last one, and must find itself rather than a
        # conflict.
        if message_id in self._seen:
            return self._seen[message_id][0]
        if expected is not None and self.last(message.subject, now_s) != expected:
            raise written_meanwhile(message.subject, expected)
        limit = self.stream.max_messages
        # Work is refused and not dropped, because nobody would miss a task that never ran.
        if self.stream.retention == Retention.WORK_QUEUE and limit and len(self._entries) >= limit:
            raise full(self.stream.name)
        self._last += 1
        self._entries[self._last] = Entry(self._last, message, now_s)
        self._size_bytes += len(message.payload)
        self._seen[message_id] = (self._last, now_s)
        self._limit(message.subject)
        return self._last

    def state(self, now_s: float) -> StreamState:
        """Return message count, size in bytes and age of the oldest message in seconds."""
        self._expire(now_s)
        entries = self._entries.values()
        return StreamState(
            len(entries), self._size_bytes, max((now_s - entry.time_s for entry in entries), default=0.0)
        )

    def last(self, subject: str, now_s: float) -> int:
        """Return the sequence of the subject's last message, 0 for none."""
        self._expire(now_s)
        # From the end, since the last message of a subject is mostly among the newest.
        return next((n for n in reversed(self._entries) if self._entries[n].message.subject == subject), 0)

    def after(self, pattern: str, sequence: int, now_s: float) -> Entry | None:
        """Return the first message above ``sequence`` whose subject matches, or None."""
        self._expire(now_s)
        # Entries are in order; only the oldest ones and settled work are missing.
        first = next(iter(self._entries), self._last + 1)
        for number in range(max(sequence + 1, first), self._last + 1):
            entry = self._entries.get(number)
            if entry is not None and matches(pattern, entry.message.subject):
                return entry
        return None

    def lease(self, durable: Durable, now_s: float) -> tuple[Entry, int] | None:
        """Lease the next message to a worker; return it with its attempt, or None when nothing is due."""
        self._expire(now_s)
        position = self._positions[durable.name]
        entry = self._due(position, now_s)
        # What is due again goes first, and whatever the limit: its lease is one of those that count already.
        if entry is None and len(position.leases) < durable.max_ack_pending:
            entry = self.after(durable.filter_subject, position.cursor - 1, now_s)
            if entry is not None:
                position.cursor = entry.sequence + 1
                position.leases[entry.sequence] = Lease(0, now_s)
        if entry is None:
            return None
        lease = position.leases[entry.sequence]
        # Counted at the delivery, as the server does: a worker that dies without a word has used its attempt.
        lease.attempt += 1
        position.delivered += 1
        lease.due_s = now_s + durable.ack_wait_s
        return entry, lease.attempt

    def next_due_s(self, durable: Durable) -> float | None:
        """Return the time when the next unsettled message is due again, or None."""
        return min((lease.due_s for lease in self._positions[durable.name].leases.values()), default=None)

    def backlog(self, durable: Durable, now_s: float) -> Backlog:
        """Return the work of a durable."""
        self._expire(now_s)
        position = self._positions[durable.name]
        waiting = sum(
            number >= position.cursor and matches(durable.filter_subject, entry.message.subject)
            for number, entry in self._entries.items()
        )
        return Backlog(waiting, len(position.leases), position.delivered)

    def settle(self, durable: Durable, sequence: int) -> None:
        """Settle a message for a durable; in a work queue it is removed."""
        self._positions[durable.name].leases.pop(sequence, None)
        if self.stream.retention == Retention.WORK_QUEUE:
            self._drop(sequence)

    def due_at(self, durable: Durable, sequence: int, due_s: float) -> None:
        """Set the time when an unsettled message is redelivered."""
        lease = self._positions[durable.name].leases.get(sequence)
        # Without a lease the message was settled meanwhile, and a late heartbeat of its worker changes nothing.
        if lease is not None:
            lease.due_s = due_s

    def _due(self, position: Position, now_s: float) -> Entry | None:
        for sequence in sorted(number for number, lease in position.leases.items() if lease.due_s <= now_s):
            if sequence in self._entries:
                return self._entries[sequence]
            del position.leases[sequence]  # it has expired in the meantime
        return None

    def _expire(self, now_s: float) -> None:
        horizon_s = now_s - self.stream.duplicate_window_s
        # By time alone, also of messages that are gone: a publisher may still repeat one of them.
        while self._seen and self._oldest(self._seen) <= horizon_s:
            del self._seen[next(iter(self._seen))]
        if self.stream.max_age_s:
            while self._entries and next(iter(self._entries.values())).time_s <= now_s - self.stream.max_age_s:
                self._drop(next(iter(self._entries)))

    @staticmethod
    def _oldest(seen: Mapping[str, tuple[int, float]]) -> float:
        return next(iter(seen.values()))[1]

    def _limit(self, subject: str) -> None:
        if self.stream.max_per_subject:
            same = [number for number, entry in self._entries.items() if entry.message.subject == subject]
            for number in same[: -self.stream.max_per_subject]:
                self._drop(number)
        if self.stream.retention == Retention.WORK_QUEUE:
            return
        most, size = self.stream.max_messages, self.stream.max_bytes
        while (most and len(self._entries) > most) or (size and self._size_bytes > size):
            self._drop(next(iter(self._entries)))

    def _drop(self, sequence: int) -> None:
        entry = self._entries.pop(sequence, None)
        if entry is not None:
            self._size_bytes -= len(entry.message.payload)
