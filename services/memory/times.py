"""Times of the contract to and from seconds since the epoch."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp


def to_timestamp(seconds: float) -> Timestamp:
    """Return a time of the contract."""
    time = Timestamp()
    # FromSeconds would drop the fraction, which orders what happened within one second.
    time.FromMicroseconds(int(seconds * 1e6))
    return time


def to_seconds(time: Timestamp) -> float:
    """Return seconds since the epoch, 0 for a time that is not set."""
    return time.seconds + time.nanos / 1e9
