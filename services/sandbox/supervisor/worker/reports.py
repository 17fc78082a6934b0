"""Reader of a worker's frames in the supervisor. The worker is hostile: a wrong shape raises ``BadFrame``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.services.sandbox.ipc.frames import MEDIA_TYPES, PNG, BadFrame
from fathom.services.sandbox.supervisor.events import Display, Variable

PNG_HEAD = b"\x89PNG\r\n\x1a\n"
# A screen of the largest size several times over: what takes a viewer's memory when it is drawn.
MAX_PIXELS = 50_000_000
# Twice the worker's own limits for texts, so that only a worker that ignores them is cut here.
NAME, TEXT = 200, 64 * 1024
# Texts of a result before those of its variables, and texts of a variable.
RESULT_TEXTS, VARIABLE_TEXTS = 4, 3


@dataclass(frozen=True)
class WorkerResult:
    """End of a request, as the worker claims it."""

    result: str = ""
    traceback: str = ""
    error_name: str = ""
    error_value: str = ""
    variables: tuple[Variable, ...] = ()


def parse_result(texts: Sequence[str]) -> WorkerResult:
    """Return the claims in the texts of a result; raise ``BadFrame`` for another number of them."""
    if len(texts) < RESULT_TEXTS or (len(texts) - RESULT_TEXTS) % VARIABLE_TEXTS:
        raise BadFrame(f"{len(texts)} texts are no result")
    result, traceback, error_name, error_value = texts[:RESULT_TEXTS]
    described = [text[:NAME] for text in texts[RESULT_TEXTS:]]
    variables = (described[at : at + VARIABLE_TEXTS] for at in range(0, len(described), VARIABLE_TEXTS))
    return WorkerResult(
        result[:TEXT],
        traceback[:TEXT],
        error_name[:NAME],
        error_value[:TEXT],
        tuple(Variable(*variable) for variable in variables),
    )


def parse_display(texts: Sequence[str], data: bytes) -> Display | None:
    """Return the display of a frame, None for a picture that is none or too large.

    Raise ``BadFrame`` for a wrong shape or a media type that is not allowed. Whether JSON and markup are what their
    media type says is the service front's to find out: reading them would hold up the sessions of all.
    """
    if len(texts) != 1 or texts[0] not in MEDIA_TYPES:
        raise BadFrame(f"media type {texts[0][:NAME]!r} is not allowed" if texts else "a display without media type")
    if not data:
        raise BadFrame("a display without content")
    if texts[0] == PNG and not (data.startswith(PNG_HEAD) and measure_png(data) <= MAX_PIXELS):
        return None
    return Display(texts[0], data)


def measure_png(data: bytes) -> int:
    """Return the number of pixels that the head of a PNG announces."""
    # The first chunk, IHDR, begins after the signature: length, type, width, height (PNG specification, 11.2.2).
    if data[12:16] != b"IHDR":
        return MAX_PIXELS + 1
    return int.from_bytes(data[16:20]) * int.from_bytes(data[20:24])
