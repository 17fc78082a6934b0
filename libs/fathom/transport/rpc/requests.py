"""Requests as they arrive: decoded, and refused by name where no handler could make sense of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.core.errors import InvalidField
from fathom.transport.rpc.contract import Method

TIMESTAMP = Timestamp.DESCRIPTOR.full_name
# The first second of the year 1 and the last of 9999: protobuf's own range, which other languages' dates share.
FIRST_S, LAST_S = -62_135_596_800, 253_402_300_799
MAX_NANOS = 999_999_999


def decode(method: Method, data: bytes) -> Message:
    """Return the request in these bytes; raise ``InvalidField("payload")`` for others."""
    try:
        return method.request_type.FromString(data)
    except DecodeError as error:
        raise InvalidField("payload", f"is no {method.request_type.DESCRIPTOR.full_name}") from error


async def decode_each(method: Method, items: AsyncIterator[bytes]) -> AsyncGenerator[Message, None]:
    """Yield the requests of a stream."""
    async for item in items:
        yield decode(method, item)


def check_request(request: Message | AsyncIterator[Message]) -> Message | AsyncIterator[Message]:
    """Return the request, or those of a stream; raise ``InvalidField`` for one with a time that is none."""
    if isinstance(request, Message):
        check_times(request)
        return request
    return check_each(request)


async def check_each(requests: AsyncIterator[Message]) -> AsyncGenerator[Message, None]:
    """Yield the requests of a stream; raise ``InvalidField`` for one with a time that is none."""
    async for request in requests:
        check_times(request)
        yield request


def check_times(message: Message, path: str = "") -> None:
    """Raise ``InvalidField`` with the path of a timestamp that is outside the years 1 to 9999 or has wrong nanos."""
    for field in timed_fields(message.DESCRIPTOR):
        if field.is_repeated:
            items = list(getattr(message, field.name))
            named = [(f"{path}{field.name}[{place}]", item) for place, item in enumerate(items)]
        else:
            named = [(path + field.name, getattr(message, field.name))] if message.HasField(field.name) else []
        for name, item in named:
            if isinstance(item, Timestamp):
                check_time(name, item)
            else:
                check_times(item, f"{name}.")


def check_time(name: str, time: Timestamp) -> None:
    """Raise ``InvalidField`` for a timestamp that protobuf does not allow."""
    if not FIRST_S <= time.seconds <= LAST_S:
        raise InvalidField(name, "must be between the years 1 and 9999")
    if not 0 <= time.nanos <= MAX_NANOS:
        raise InvalidField(f"{name}.nanos", f"must be 0 to {MAX_NANOS:,}")


@cache
def timed_fields(descriptor: Descriptor) -> tuple[FieldDescriptor, ...]:
    """Return the fields below which there may be a timestamp; maps have none in this contract."""
    return tuple(
        field
        for field in descriptor.fields
        if field.message_type is not None
        and not field.message_type.GetOptions().map_entry
        and reaches_time(field.message_type, frozenset())
    )


def reaches_time(descriptor: Descriptor, seen: frozenset[str]) -> bool:
    """Return whether a message is a timestamp or may hold one."""
    if descriptor.full_name == TIMESTAMP:
        return True
    # A message may hold its own kind.
    inner = seen | {descriptor.full_name}
    kinds = (field.message_type for field in descriptor.fields if field.message_type is not None)
    return any(kind.full_name not in inner and reaches_time(kind, inner) for kind in kinds)
