"""The folder of a local stack: one stack at a time, and which layout it has."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fathom import __version__
from fathom.core.errors import Conflict, CorruptData, FailedPrecondition, InvalidField

LAYOUT = 1
"""Grows when an older Fathom could not work with what this one writes. A home without the file is of layout 0, which
has the same streams, records and tables, and is taken over as it is."""


@contextmanager
def hold_home(home: Path) -> Iterator[None]:
    """Hold the folder, which is made when it is not there, for one stack; the kernel lets go when the process dies.

    Raises ``Conflict`` that names the process which holds it: two would share one JetStream folder. Raises
    ``InvalidField`` for a folder that cannot be made or written.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / "lock").open("a+")
    except OSError as error:
        raise InvalidField("home", f"{home} cannot be written ({error.strerror}): choose another --home") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise Conflict(
                f"a stack is up in {home} already (process {holder}): stop it, or choose another --home",
                metadata={"pid": holder},
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def claim_layout(home: Path) -> None:
    """Check the layout of a home that is held, and write this one's down.

    Raises ``FailedPrecondition`` for the home of a newer Fathom, and ``CorruptData`` for a file that cannot be read.
    """
    path = home / "version"
    try:
        found = json.loads(path.read_text())
        layout, written_by = int(found["layout"]), str(found["fathom"])
    except FileNotFoundError:
        layout, written_by = 0, ""
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(str(path), f"{error!r}; delete it when no newer Fathom has used this folder") from error
    if layout > LAYOUT:
        raise FailedPrecondition(
            f"{home} was written by fathom {written_by} (layout {layout}), and this is fathom {__version__} "
            f"(layout {LAYOUT}): use that version, or choose another --home",
            metadata={"field": "home"},
        )
    if layout < LAYOUT:
        path.write_text(json.dumps({"layout": LAYOUT, "fathom": __version__}))
