"""Orders to a session's init process, which may be kept from a processor for a while."""

from __future__ import annotations

import signal

from fathom.services.sandbox.ipc import status
from fathom.services.sandbox.supervisor.worker.init_handle import InitHandle
from tests.support.waiting import eventually


async def test_the_last_signal_arrives_however_long_orders_are_not_read() -> None:
    handle = InitHandle()
    handle.theirs.setblocking(False)
    filled = 0
    try:
        while True:
            handle.ours.send(status.INTERRUPT)
            filled += 1
    except BlockingIOError:
        pass
    handle.signal_all(signal.SIGSTOP)
    handle.signal_all(signal.SIGCONT)
    for _ in range(filled):
        assert handle.theirs.recv(64) == status.INTERRUPT
    read: list[bytes] = []

    def read_next() -> bool:
        try:
            read.append(handle.theirs.recv(64))
        except BlockingIOError:
            return False
        return True

    await eventually(read_next)
    assert read == [b"continue"]
    handle.close()


async def test_nothing_is_ordered_of_an_init_process_that_has_ended() -> None:
    handle = InitHandle()
    handle.theirs.close()
    handle.signal_all(signal.SIGSTOP)
    assert handle._resending is None
    handle.close()
    handle.signal_all(signal.SIGCONT)
    assert handle._resending is None, "nor of one whose handle is closed"
