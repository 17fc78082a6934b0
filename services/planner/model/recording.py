"""Choice of the recording of an episode's calls."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """Treatment of an episode's calls; see ``RecordingMode`` of the API."""

    RECORD = "record"
    STRICT = "strict"
    FALLBACK = "fallback"


@dataclass(frozen=True)
class RecordingChoice:
    """The recording of an episode."""

    name: str
    mode: Mode
