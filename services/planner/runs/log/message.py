"""Messages of a run's log: an event for readers and, with some events, a step for the planner that resumes the run."""

from __future__ import annotations

from collections.abc import Mapping

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import CorruptData

STEP_HEADER = "fathom-step"
"""Header of a message with a step: where its event ends and where its step begins, in bytes, as ``end:begin``."""
# The step is framed as a field that ``RunEvent`` does not have: planners of earlier versions, which read the whole
# payload as an event, skip it. One byte more would be needed from field 2,048 on; below 1,000 the API may grow.
STEP_FIELD = 1_000
LENGTH_DELIMITED = 2


def write_message(event: pb.RunEvent, step: trajectory.Step | None) -> tuple[bytes, dict[str, str]]:
    """Return payload and headers of an event, with a step if there is one."""
    shown = event.SerializeToString()
    if step is None:
        return shown, {}
    told = step.SerializeToString()
    frame = encode_varint(STEP_FIELD << 3 | LENGTH_DELIMITED) + encode_varint(len(told))
    return shown + frame + told, {STEP_HEADER: f"{len(shown)}:{len(shown) + len(frame)}"}


def read_message(payload: bytes, headers: Mapping[str, str]) -> tuple[pb.RunEvent, trajectory.Step | None]:
    """Return the event and the step of a message; raise ``CorruptData`` for a malformed header."""
    places = headers.get(STEP_HEADER)
    if places is None:
        return pb.RunEvent.FromString(payload), None
    try:
        end, begin = map(int, places.split(":"))
    except ValueError:
        raise CorruptData("log of a run", f"{STEP_HEADER} {places!r} is no pair of places") from None
    return pb.RunEvent.FromString(payload[:end]), trajectory.Step.FromString(payload[begin:])


def encode_varint(number: int) -> bytes:
    """Return a non-negative number as protobuf writes it: seven bits per byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
