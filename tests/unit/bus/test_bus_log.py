"""The memory bus's stream on a clock of our own: windows, ages, leases."""

from __future__ import annotations

from fathom.transport.bus.base import Message
from fathom.transport.bus.log import Log
from fathom.transport.bus.streams import Durable, Retention, Stream

WORKERS = Durable("workers", "work.*", ack_wait_s=10.0, max_ack_pending=2)


def message(payload: bytes, subject: str = "work.a") -> Message:
    return Message(subject, payload, {})


def queue(**settings: float) -> Log:
    return Log(Stream("WORK", ("work.*",), Retention.WORK_QUEUE, (WORKERS,), **settings))  # type: ignore[arg-type]


def test_an_id_is_known_for_the_window_and_then_forgotten() -> None:
    log = queue(duplicate_window_s=5.0)
    # 4.9 s are within the window, 5.0 no longer.
    assert [log.append(message(b"1"), "id", now) for now in (0.0, 4.9, 5.0)] == [1, 1, 2]


def test_the_window_outlives_the_message() -> None:
    log = queue(duplicate_window_s=5.0)
    log.append(message(b"1"), "id", 0.0)
    assert log.lease(WORKERS, 0.0) is not None
    log.settle(WORKERS, 1)
    # Settled and gone, but its id is remembered: a late duplicate must not be played again.
    assert log.append(message(b"1"), "id", 1.0) == 1
    assert log.lease(WORKERS, 1.0) is None


def test_a_lease_runs_out_and_is_prolonged() -> None:
    log = queue()
    log.append(message(b"1"), "1", 0.0)
    assert log.lease(WORKERS, 0.0) is not None
    # The default lease of ten seconds.
    assert log.next_due_s(WORKERS) == 10.0
    log.due_at(WORKERS, 1, 15.0)
    assert log.lease(WORKERS, 14.9) is None
    # The prolonged lease ends at 15.
    again = log.lease(WORKERS, 15.0)
    assert again is not None
    assert again[1] == 2


def test_redeliveries_come_before_new_work_and_pending_is_bounded() -> None:
    log = queue()
    for number in range(3):
        log.append(message(b"%d" % number), str(number), 0.0)
    given = [log.lease(WORKERS, 0.0) for _ in range(3)]
    # Two are the most that may be under way at once.
    assert [pair and pair[0].sequence for pair in given] == [1, 2, None]
    log.due_at(WORKERS, 2, 1.0)
    again = log.lease(WORKERS, 1.0)
    assert again is not None
    assert (again[0].sequence, again[1]) == (2, 2)
    # Room is made by a settlement, not by time.
    log.settle(WORKERS, 1)
    third = log.lease(WORKERS, 1.0)
    assert third is not None
    assert third[0].sequence == 3


def test_old_messages_expire_with_their_leases() -> None:
    log = queue(max_age_s=60.0)
    log.append(message(b"old"), "1", 0.0)
    # Leased at 0, and too old at 60: neither the lease nor a reader finds it.
    assert log.lease(WORKERS, 0.0) is not None
    log.append(message(b"new"), "2", 59.0)
    found = log.lease(WORKERS, 61.0)
    assert found is not None
    assert found[0].message.payload == b"new"
    assert log.after("work.*", 0, 61.0) == found[0]


def test_only_the_last_of_each_subject_are_kept() -> None:
    log = Log(Stream("WEIGHTS", ("weights.*",), Retention.LIMITS, max_per_subject=2))
    for number in range(4):
        log.append(message(b"%d" % number, "weights.a"), f"a{number}", 0.0)
    log.append(message(b"b", "weights.b"), "b", 0.0)
    kept, sequence = [], 0
    while (entry := log.after("weights.*", sequence, 0.0)) is not None:
        sequence = entry.sequence
        kept.append(entry.message.payload)
    # Two of the four of subject a, and the one of b: one subject's messages never displace another's.
    assert kept == [b"2", b"3", b"b"]
