"""Owner of a session: only the same tenant, in the same run, is told that the session exists."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Owner(NamedTuple):
    """Tenant that opened a session, and the run that it opened it for, "" for none."""

    tenant: str
    run_id: str = ""


NOBODY = Owner("")
"""Owner of sessions that no caller has asked for."""


class SessionRequest(Protocol):
    """Request of the API that is about one session."""

    session_id: str
    run_id: str

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - the name is protobuf's
