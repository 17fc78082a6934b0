"""Durable streams, in memory and on a real nats-server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from fathom.core.call import Lane
from fathom.core.errors import Conflict, InvalidField, Overloaded
from fathom.transport.bus import Bus, streams
from fathom.transport.bus.delivery import DEAD_ATTEMPTS, DEAD_REASON, DEAD_SEQUENCE, DEAD_STREAM, DEAD_SUBJECT
from fathom.transport.bus.streams import (
    ALL_DEAD,
    RUNS,
    events_subject,
    rollout_durable,
    rollout_subject,
    run_durable,
    run_subject,
    weights_subject,
)

if TYPE_CHECKING:
    from tests.integration.bus.conftest import Make

WORK, WORKERS = run_subject(Lane.INTERACTIVE), run_durable(Lane.INTERACTIVE)
# The redelivery time of a test that waits for one.
SHORT_S = 0.3


async def test_publish_drops_duplicates(make: Make) -> None:
    lab = await make()
    first = await lab.bus.publish(WORK, b"1", message_id="run-1")
    again = await lab.bus.publish(WORK, b"1", message_id="run-1")
    second = await lab.bus.publish(WORK, b"2", message_id="run-2")
    # The second publication of the same id is answered with the first one's place.
    assert first == again < second
    assert [(d.payload, d.sequence) for d in await lab.take(2)] == [(b"1", first), (b"2", second)]


async def test_ack_ends_a_message_and_is_final(make: Make) -> None:
    lab = await make(ack_wait_s=SHORT_S)
    await lab.put(b"1", b"witness")
    delivery, _ = await lab.take(2)
    await delivery.ack()
    # Harmless after the end: a heartbeat may be on its way when the work is acknowledged.
    await delivery.in_progress()
    with pytest.raises(Conflict):
        await delivery.nak()
    # What nobody settled comes again, in its order: were the first message open, it would come before the witness.
    assert [(d.payload, d.attempt) for d in await lab.take(1)] == [(b"witness", 2)]


async def test_lanes_are_separate_queues(make: Make) -> None:
    lab = await make()
    # Published first, so that a common queue would give it first.
    await lab.bus.publish(run_subject(Lane.TRAINING), b"slow", message_id="1")
    await lab.put(b"fast")
    assert [d.payload for d in await lab.take(1)] == [b"fast"]
    assert [d.payload for d in await lab.take(1, run_durable(Lane.TRAINING))] == [b"slow"]


async def test_two_workers_share_a_queue(make: Make) -> None:
    lab = await make()
    await lab.put(*(b"%d" % n for n in range(10)))
    done: list[int] = []

    # Both stop at ten; which of them got more is up to the server.
    async def worker(bus: Bus) -> None:
        async with aclosing(bus.consume(WORKERS)) as deliveries:
            async for delivery in deliveries:
                done.append(int(delivery.payload))
                await delivery.ack()
                if len(done) >= 10:
                    return

    first, second = asyncio.create_task(worker(lab.bus)), asyncio.create_task(worker(await lab.open_another()))
    async with asyncio.timeout(10):
        await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert sorted(done) == list(range(10))


async def test_nak_redelivers_after_its_delay(make: Make) -> None:
    lab = await make()
    await lab.put(b"1")
    (first,) = await lab.take(1)
    await first.nak()
    (second,) = await lab.take(1)
    assert (first.attempt, second.attempt, second.sequence) == (1, 2, first.sequence)
    await lab.put(b"2")
    (other,) = await lab.take(1)
    await second.nak(SHORT_S)
    # Given back without a delay after the first was, and yet before it.
    await other.nak()
    assert [(d.payload, d.attempt) for d in await lab.take(2)] == [(b"2", 2), (b"1", 3)], "the delay reverses them"
    with pytest.raises(InvalidField, match=r"^delay_s"):
        await second.nak(-1)


async def test_silence_redelivers_after_ack_wait(make: Make) -> None:
    lab = await make(ack_wait_s=SHORT_S)
    await lab.put(b"1")
    attempts = [(await lab.take(1))[0].attempt for _ in range(2)]
    # Nobody acknowledged, so the same message comes as its second attempt.
    assert attempts == [1, 2]


async def test_in_progress_holds_a_message(make: Make) -> None:
    """Another message, which comes again after each delay, says when more than ``ack_wait`` has passed."""
    # Nine deliveries for the witness's six returns and to spare.
    lab = await make(ack_wait_s=1.0, max_deliver=9)
    await lab.put(b"1", b"witness")
    held, witness = await lab.take(2)
    # Six times a quarter of a second are more than the wait of one second.
    for _ in range(6):
        await witness.nak(0.25)
        (witness,) = await lab.take(1)
        assert witness.payload == b"witness"
        await held.in_progress()
    await witness.ack()
    await held.nak()
    assert [(d.payload, d.attempt) for d in await lab.take(1)] == [(b"1", 2)]


async def test_dead_letter_copies_then_ends(make: Make) -> None:
    lab = await make(ack_wait_s=SHORT_S)
    sequence = await lab.bus.publish(WORK, b"poison", message_id="1", headers={"tenant": "acme"})
    await lab.put(b"witness")
    delivery, _ = await lab.take(2)
    # A line break would end a header, and headers are ASCII.
    await delivery.dead_letter("cannot be\nparsed: 无法解析")
    (letter,) = await lab.read(ALL_DEAD, 1)
    assert (letter.subject, letter.payload) == (f"fathom.dead.{RUNS}.{WORKERS}", b"poison")
    assert letter.headers["tenant"] == "acme"
    # Escaped, so that the reason survives in any script.
    assert letter.headers[DEAD_REASON].startswith("cannot be parsed: \\u65e0")
    assert [letter.headers[name] for name in (DEAD_STREAM, DEAD_SUBJECT, DEAD_SEQUENCE, DEAD_ATTEMPTS)] == [
        RUNS, WORK, str(sequence), "1",
    ]  # fmt: skip
    assert [(d.payload, d.attempt) for d in await lab.take(1)] == [(b"witness", 2)], (
        "were the poison open, it came first"
    )


async def test_what_is_delivered_too_often_becomes_a_dead_letter(make: Make) -> None:
    lab = await make(max_deliver=3)
    await lab.put(b"poison")
    # The third is the last that the durable allows.
    for attempt in (1, 2, 3):
        (delivery,) = await lab.take(1)
        assert delivery.attempt == attempt
        await delivery.nak()
    await lab.put(b"next")
    assert [d.payload for d in await lab.take(1)] == [b"next"]
    (letter,) = await lab.read(ALL_DEAD, 1)
    assert letter.payload == b"poison"
    assert letter.headers[DEAD_REASON] == "not settled after 3 deliveries"


async def test_follow_replays_after_a_sequence_then_tails(make: Make) -> None:
    lab = await make()
    mine, other = events_subject("run-1"), events_subject("run-2")
    sequences = [await lab.bus.publish(mine, b"%d" % n, message_id=f"m{n}") for n in range(3)]
    # Another run's event lies between; a follower of one run must not see it.
    await lab.bus.publish(other, b"not mine", message_id="o1")
    async with asyncio.timeout(10), aclosing(lab.bus.follow(mine, after=sequences[0])) as events:
        assert [(await anext(events)).payload for _ in range(2)] == [b"1", b"2"]
        # From here on the follower waits: the next event is published after it has read everything.
        waiting = asyncio.ensure_future(anext(events))
        await lab.bus.publish(mine, b"3", message_id="m3", headers={"kind": "delta"})
        event = await waiting
    assert (event.payload, event.headers, event.attempt) == (b"3", {"kind": "delta"}, 1)
    # Events are read by many; acknowledging one is allowed and changes nothing.
    await event.ack()
    with pytest.raises(Conflict):
        await event.nak()
    assert [d.payload for d in await lab.read(mine, 4)] == [b"0", b"1", b"2", b"3"]


async def test_the_last_message_of_a_subject_has_a_place(make: Make) -> None:
    lab = await make()
    mine, other = events_subject("run-1"), events_subject("run-2")
    # A subject without a message begins before the first sequence.
    assert await lab.bus.last_sequence(mine) == 0
    last = [await lab.bus.publish(mine, b"%d" % n, message_id=f"m{n}") for n in range(3)][-1]
    assert await lab.bus.publish(other, b"not mine", message_id="o1") > last
    assert await lab.bus.last_sequence(mine) == last
    with pytest.raises(InvalidField, match="no stream"):
        await lab.bus.last_sequence("elsewhere.run-1")


async def test_any_model_name_is_one_subject(make: Make) -> None:
    lab = await make()
    # A slash, a dot and Chinese characters, none of which a subject's token may have.
    for model in ("org/model-1.5", "org/model-1", "模型 一"):
        await lab.bus.publish(weights_subject(model), model.encode(), message_id=weights_subject(model))
    assert [d.payload for d in await lab.read(weights_subject("org/model-1.5"), 1)] == [b"org/model-1.5"]
    assert [d.payload for d in await lab.read(weights_subject("模型 一"), 1)] == ["模型 一".encode()]


async def test_a_full_work_queue_refuses_and_loses_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two in place of the million of production.
    monkeypatch.setattr(streams, "MAX_QUEUED_TASKS", 2)
    lab = await make()
    subject = rollout_subject(Lane.TRAINING)
    for number in (1, 2):
        await lab.bus.publish(subject, b"%d" % number, message_id=f"task-{number}")
    with pytest.raises(Overloaded, match="ROLLOUTS is full"):
        await lab.bus.publish(subject, b"3", message_id="task-3")
    async with asyncio.timeout(10), aclosing(lab.bus.consume(rollout_durable(Lane.TRAINING))) as deliveries:
        delivery = await anext(deliveries)
        assert delivery.payload == b"1"
        await delivery.ack()
        await lab.bus.publish(subject, b"3", message_id="task-3")
        # After room was made the refused one is taken, and nothing was lost in between.
        assert (await anext(deliveries)).payload == b"2"


async def test_events_above_their_bound_of_bytes_drop_the_oldest_and_nothing_else(make: Make) -> None:
    lab = await make(event_bytes=100_000)
    first, second = events_subject("run_1"), events_subject("run_2")
    await lab.put(b"work")
    for number in range(20):
        await lab.bus.publish(first, b"x" * 10_000, message_id=f"event-{number}")
    place = await lab.bus.publish(second, b"latest", message_id="event-20")
    # A server counts subjects and headers too: of ten payloads' room nine are left at least, with the latest.
    (held,) = [state for name, state in (await lab.bus.states()).items() if name == streams.EVENTS]
    assert held.size_bytes <= 100_000
    assert 9 <= held.messages <= 11
    assert (await lab.read(first, 1))[0].sequence == place - held.messages + 1
    assert [found.payload for found in await lab.read(second, 1)] == [b"latest"]
    assert [found.payload for found in await lab.take(1)] == [b"work"]
