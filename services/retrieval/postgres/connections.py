"""Connections to the PostgreSQL that holds corpora: few, bounded in time, and with typed errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fathom.core.config import ConfigError
from fathom.core.errors import DeadlineExceeded, DependencyFailed, FailedPrecondition, Overloaded
from fathom.core.extras import require_modules
from fathom.services.retrieval.postgres.schema import SCHEMA

T = TypeVar("T")
NAME = "retrieval's database"
CONNECT_S = 10
# The second attempt is on a connection of its own: the server may have restarted since the first one was opened.
ATTEMPTS = 2


class Connections:
    """At most ``places`` connections, kept open between uses; thread-safe."""

    def __init__(self, url: str, places: int, timeout_s: float) -> None:
        """Store the settings without connecting; raise ``MissingExtra``, and ``ConfigError`` without a URL."""
        if not url:
            field = "retrieval.database_url"
            raise ConfigError(f"{field}: a recipe says postgres, and no database is named", metadata={"field": field})
        require_modules("psycopg")
        self._url, self._timeout_s = url, timeout_s
        self._places = threading.BoundedSemaphore(places)
        self._idle: list[Any] = []

    def run(self, work: Callable[[Any], T]) -> T:
        """Return what ``work`` returns, in one transaction; repeat it once when the server has gone away.

        Raises ``DependencyFailed``, ``DeadlineExceeded`` for a statement that takes too long, ``Overloaded``, and
        ``FailedPrecondition`` when the server has no pgvector.
        """
        import psycopg

        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._use() as connection, connection.transaction():
                    return work(connection)
            except psycopg.errors.QueryCanceled as error:
                raise DeadlineExceeded(f"{NAME} did not answer within {self._timeout_s:g} s") from error
            except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
                raise FailedPrecondition(f"{NAME} cannot be used: {str(error).splitlines()[0]}") from error
            except psycopg.OperationalError as error:
                if attempt == ATTEMPTS:
                    # Without the driver's own text, which may name the user and the host.
                    raise DependencyFailed(NAME, f"cannot be reached ({type(error).__name__})") from error
            except psycopg.Error as error:
                raise DependencyFailed(NAME, f"refused a statement ({type(error).__name__})") from error
        raise AssertionError("unreachable")

    @contextmanager
    def _use(self) -> Iterator[Any]:
        if not self._places.acquire(timeout=self._timeout_s):
            raise Overloaded(f"all connections to {NAME} are in use", self._timeout_s)
        try:
            connection = self._idle.pop() if self._idle else self._connect()
            try:
                yield connection
            except BaseException:
                # Nothing is known of what a failed statement has left behind.
                connection.close()
                raise
            self._idle.append(connection)
        finally:
            self._places.release()

    def _connect(self) -> Any:
        import psycopg

        milliseconds = round(self._timeout_s * 1_000)
        return psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_S,
            tcp_user_timeout=milliseconds,
            options=f"-c search_path={SCHEMA},public -c statement_timeout={milliseconds} "
            f"-c idle_in_transaction_session_timeout={milliseconds}",
        )

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()
