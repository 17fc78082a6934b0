"""Cancellation of calls into nats-py that is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restore_cancellation() -> Iterator[None]:
    """Raise ``CancelledError`` at the end of the block if the task was cancelled in it, whatever the block made of it.

    For a block that awaits nats-py and ends in time by itself.
    """
    # Python 3.11's wait_for, on which nats-py's calls rest, answers with the result or the error when it comes together
    # with a cancellation, and the cancellation is forgotten: a time limit does not end its block, and a worker that is
    # stopped takes the next message and runs on. The task still counts the request. Python 3.12 mended wait_for; a
    # connection that closes at the same time still hides a cancellation in nats-py's next_msg.
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError
