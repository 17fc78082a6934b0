"""Call context carried over every transport: identity, lane, tenant, deadline, trace.

The dispatcher sets the current call while a handler runs; clients read it, so that lane, tenant, trace and the
remaining time are passed on without being handed down explicitly.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fathom.core.errors import InvalidField, NotFound
from fathom.core.ids import checked_id, new_id

# The same names on every transport: gRPC metadata, NATS headers and the in-process call. gRPC wants them in lower
# case.
REQUEST_ID_HEADER = "fathom-request-id"
LANE_HEADER = "fathom-lane"
TENANT_HEADER = "fathom-tenant"
DEADLINE_HEADER = "fathom-deadline-ms"
TRACE_HEADER = "traceparent"
AUTHORIZATION_HEADER = "authorization"
PRINCIPAL_HEADER = "fathom-principal"
DEFAULT_TENANT = "default"
"""Tenant of calls that name none: the operator's own. What it has keeps plain names; see ``bind``."""
UNTRACED = f"00-{1:032x}-{1:016x}-00"
"""Traceparent of background work that belongs to no request: its flag "not sampled" holds for all calls below it."""


class Lane(StrEnum):
    """Priority class; the names of ``fathom.api.common.v1.Lane``."""

    INTERACTIVE = "interactive"
    EVALUATION = "evaluation"
    TRAINING = "training"


@dataclass(frozen=True)
class Call:
    """Context of one call. ``deadline`` is in seconds of the monotonic clock; None means no deadline.

    ``principal`` is who calls, "" where nobody is identified; ``is_operator`` says whether that may change what all
    tenants share. ``token`` is what the next hop is shown; it is never taken over from a caller.
    """

    request_id: str
    lane: Lane = Lane.INTERACTIVE
    tenant: str = DEFAULT_TENANT
    deadline: float | None = None
    traceparent: str = ""
    principal: str = ""
    is_operator: bool = False
    token: str = field(default="", repr=False)

    @classmethod
    def new(
        cls,
        *,
        lane: Lane = Lane.INTERACTIVE,
        tenant: str = DEFAULT_TENANT,
        timeout_s: float | None = None,
        traceparent: str = "",
    ) -> Call:
        """Create a call that originates in this process; ``traceparent`` makes it part of an earlier trace."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        return cls(new_id("req"), lane, tenant, deadline, traceparent)

    def remaining_s(self) -> float | None:
        """Return the seconds until the deadline, at least 0; None without a deadline."""
        # Never negative: it is passed on as a timeout, of which 0 ends the call at once.
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def with_timeout(self, timeout_s: float) -> Call:
        """Return the call with a deadline no later than ``timeout_s`` seconds from now."""
        limit = time.monotonic() + timeout_s
        return replace(self, deadline=limit if self.deadline is None else min(limit, self.deadline))

    # Every call to a service passes these two: the constructor takes a third of the time of ``dataclasses.replace``.
    def with_trace(self, traceparent: str) -> Call:
        """Return the call as a part of another span."""
        return Call(
            self.request_id,
            self.lane,
            self.tenant,
            self.deadline,
            traceparent,
            self.principal,
            self.is_operator,
            self.token,
        )

    def with_caller(self, principal: str, tenant: str, *, is_operator: bool) -> Call:
        """Return the call as one of a caller that is known."""
        return Call(
            self.request_id, self.lane, tenant, self.deadline, self.traceparent, principal, is_operator, self.token
        )

    def headers(self) -> dict[str, str]:
        """Return the context as string headers for any transport."""
        headers = {REQUEST_ID_HEADER: self.request_id, LANE_HEADER: self.lane.value, TENANT_HEADER: self.tenant}
        if self.deadline is not None:
            # The time left travels, not a moment: the clocks of two machines may differ by more than a call takes.
            headers[DEADLINE_HEADER] = str(max(0, int((self.deadline - time.monotonic()) * 1000)))
        if self.traceparent:
            headers[TRACE_HEADER] = self.traceparent
        if self.principal:
            headers[PRINCIPAL_HEADER] = self.principal
        if self.token:
            headers[AUTHORIZATION_HEADER] = f"Bearer {self.token}"
        return headers

    def origin(self) -> dict[str, str]:
        """Return the headers of work that is queued now and done later: for whom, and in which trace."""
        # Neither the deadline nor the request id: the work may wait for longer than its caller, and each delivery is a
        # call of its own.
        headers = {TENANT_HEADER: self.tenant}
        return {**headers, TRACE_HEADER: self.traceparent} if self.traceparent else headers

    @classmethod
    def from_headers(cls, headers: Mapping[str, str], timeout_s: float | None = None) -> Call:
        """Parse headers; raise ``InvalidField`` when one is malformed.

        ``timeout_s`` is the transport's own deadline, used when no header gives one.
        """
        text = headers.get(DEADLINE_HEADER)
        if text is not None:
            # The header wins over the transport's own deadline; over NATS it is the only one.
            if not text.isdigit():
                raise InvalidField(DEADLINE_HEADER, "must be a number of milliseconds")
            timeout_s = int(text) / 1000
        try:
            lane = Lane(headers.get(LANE_HEADER, Lane.INTERACTIVE))
        except ValueError:
            raise InvalidField(LANE_HEADER, f"must be one of {', '.join(Lane)}") from None
        request_id, tenant = headers.get(REQUEST_ID_HEADER), headers.get(TENANT_HEADER)
        return cls(
            checked_id(REQUEST_ID_HEADER, request_id) if request_id else new_id("req"),
            lane,
            DEFAULT_TENANT if tenant is None else checked_id(TENANT_HEADER, tenant),
            None if timeout_s is None else time.monotonic() + timeout_s,
            headers.get(TRACE_HEADER, ""),
        )


# A context variable, not a parameter: it follows the task through code that knows nothing of calls, and a handler's
# tasks inherit it.
_current: ContextVar[Call | None] = ContextVar("fathom_call", default=None)


def current_call() -> Call | None:
    """Return the call being handled, or None outside a handler."""
    return _current.get()


def current_tenant() -> str:
    """Return the tenant of the call being handled, the default one outside a handler."""
    call = _current.get()
    return DEFAULT_TENANT if call is None else call.tenant


def current_principal() -> str:
    """Return who makes the call being handled; "" where nobody is identified, and outside a handler."""
    call = current_call()
    return "" if call is None else call.principal


def bind(identifier: str) -> str:
    """Return the name under which the current call's tenant has what it calls ``identifier``.

    Two tenants may choose the same id for different things, e.g. a run's: the bound names differ. Raises ``NotFound``
    for an identifier with "=", which ends the tenant of bound names and is in no id.
    """
    if "=" in identifier:
        raise NotFound("id", identifier)
    tenant = current_tenant()
    return identifier if tenant == DEFAULT_TENANT else f"{tenant}={identifier}"


def unbind(name: str) -> tuple[str, str]:
    """Return the tenant and the identifier of a bound name."""
    tenant, _, identifier = name.rpartition("=")
    return tenant or DEFAULT_TENANT, identifier


def current_origin() -> dict[str, str]:
    """Return the origin of the call being handled, without headers outside a handler."""
    call = current_call()
    return {} if call is None else call.origin()


def calling(call: Call) -> CurrentCall:
    """Make ``call`` the current one within the block."""
    return CurrentCall(call)


# A class and not a generator, as every call passes it.
class CurrentCall:
    """Context of ``calling``."""

    __slots__ = ("_call", "_token")

    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> Call:
        self._token = _current.set(self._call)
        return self._call

    def __exit__(self, *failure: object) -> None:
        _current.reset(self._token)


@contextmanager
def in_lane(lane: Lane) -> Iterator[Call]:
    """Make the current call, or a new one, one of ``lane`` within the block."""
    call = current_call()
    with calling(Call.new(lane=lane) if call is None else replace(call, lane=lane)) as changed:
        yield changed
