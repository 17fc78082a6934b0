"""Conversion of the choice of a recording."""

from __future__ import annotations

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.core.ids import checked_id
from fathom.services.planner.model.recording import Mode, RecordingChoice

MODES = {
    pb.RECORDING_MODE_RECORD: Mode.RECORD,
    pb.RECORDING_MODE_REPLAY_STRICT: Mode.STRICT,
    pb.RECORDING_MODE_REPLAY_FALLBACK: Mode.FALLBACK,
}


def recording_from_proto(message: pb.Recording) -> RecordingChoice | None:
    """Return the recording of an episode, None for calls that are simply made; raise ``InvalidField``."""
    if message.mode == pb.RECORDING_MODE_UNSPECIFIED and not message.name:
        return None
    if message.mode not in MODES:
        raise InvalidField("recording.mode", f"{message.mode} is none of record, strict and fallback")
    return RecordingChoice(checked_id("recording.name", message.name), MODES[message.mode])
