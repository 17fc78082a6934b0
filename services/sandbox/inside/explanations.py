"""One sentence for errors whose own text does not say that a wall of the sandbox has caused them."""

from __future__ import annotations

import traceback

from fathom.services.sandbox.inside.jail.rootfs import TEMPORARY

NO_TMP = f"{TEMPORARY} is not writable at this level of isolation: use the working folder, or the module tempfile."
NO_SEMAPHORES = (
    "Process pools need /dev/shm, which this level of isolation does not have: use"
    " concurrent.futures.ThreadPoolExecutor, or multiprocessing.Process with a pipe."
)
SEMAPHORES = ("multiprocessing/synchronize.py", "multiprocessing/heap.py", "multiprocessing/shared_memory.py")


def explain_error(error: BaseException) -> None:
    """Add the sentence as a note to an error that a missing folder of the session has caused; else do nothing."""
    if not isinstance(error, PermissionError | FileNotFoundError):
        return
    places = [frame.filename for frame in traceback.extract_tb(error.__traceback__, limit=-10)]
    if any(place.endswith(SEMAPHORES) for place in places):
        error.add_note(NO_SEMAPHORES)
    elif isinstance(error, PermissionError) and str(error.filename).startswith(f"{TEMPORARY}/"):
        error.add_note(NO_TMP)
