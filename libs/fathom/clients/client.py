"""Base of all clients: call context, deadline, idempotency key, retries, and descriptors that declare RPC methods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from google.protobuf.message import Message

from fathom.clients.transport import Transport
from fathom.core.call import DEFAULT_TENANT, Call, Lane, current_call
from fathom.core.errors import DeadlineExceeded, FathomError, Overloaded
from fathom.core.identity import Credentials
from fathom.core.ids import new_id
from fathom.core.retry import Retries, RetryBudget, RetryPolicy
from fathom.core.tracing import ClientTelemetry, Span
from fathom.transport.rpc.contract import Method, contract, once

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)
Q_contra = TypeVar("Q_contra", bound=Message, contravariant=True)
R_co = TypeVar("R_co", bound=Message, covariant=True)

# The defaults of a caller that sets nothing: an answer at once, and a whole run of research. A call made while another
# one is handled never gets more time than that one has left.
UNARY_TIMEOUT_S = 30.0
STREAM_TIMEOUT_S = 600.0


class Client:
    """Client of one service; its calls inherit lane, tenant, trace and deadline from the call being handled."""

    service = ""

    def __init__(
        self,
        transport: Transport,
        telemetry: ClientTelemetry,
        *,
        policy: RetryPolicy | None = None,
        lane: Lane = Lane.INTERACTIVE,
        tenant: str = DEFAULT_TENANT,
        credentials: Credentials | None = None,
    ) -> None:
        self.transport = transport
        self._telemetry = telemetry
        self._policy = policy or RetryPolicy()
        # One per lane: a training whose calls all fail must not take the retries of people.
        self._budgets = {known: RetryBudget() for known in Lane}
        self._lane, self._tenant, self._credentials = lane, tenant, credentials

    def method(self, name: str) -> Method:
        return contract(self.service).methods[name]

    async def ready(self, timeout_s: float) -> None:
        """Return when the service says that it is ready, without a retry; raises ``FathomError`` only."""
        await self.transport.ready(self.service, timeout_s)

    async def unary(self, method: Method, request: Message, timeout_s: float = UNARY_TIMEOUT_S) -> Message:
        """Call a unary method and retry transient errors; raise ``FathomError`` only."""
        request = with_request_id(method, request)
        span, call = self._begin(method, timeout_s)
        try:
            retries: Retries | None = None
            while True:
                try:
                    response = await self.transport.unary(method, request, call)
                except FathomError as error:
                    retries = retries or Retries(self._policy)
                    await self._pause(method, call, retries, error)
                else:
                    self._budgets[call.lane].give_back()
                    return response
        finally:
            span.end()

    async def stream(
        self,
        method: Method,
        requests: AsyncIterator[Message] | Message,
        timeout_s: float = STREAM_TIMEOUT_S,
        is_notice: Callable[[Message], bool] = lambda response: False,
    ) -> AsyncGenerator[Message, None]:
        """Yield the responses of a streaming method; retry only until the first response.

        Responses that are only notices may come again in a further attempt. A request stream is sent once only, so such
        calls are never retried. Raises ``FathomError`` only.
        """
        if isinstance(requests, Message):
            requests = with_request_id(method, requests)
        span, call = self._begin(method, timeout_s)
        retries: Retries | None = None
        begun = not isinstance(requests, Message)
        try:
            while True:
                # An iterator serves one attempt; a single request gets a new one each time, where one is wanted.
                source = once(requests) if isinstance(requests, Message) and method.client_streaming else requests
                try:
                    async with aclosing(self.transport.stream(method, source, call)) as responses:
                        async for response in responses:
                            begun = begun or not is_notice(response)
                            yield response
                    self._budgets[call.lane].give_back()
                    return
                except FathomError as error:
                    # After a first response a repeated call would give the caller some responses twice.
                    if begun:
                        raise
                    retries = retries or Retries(self._policy)
                    await self._pause(method, call, retries, error)
        finally:
            span.end()

    def _begin(self, method: Method, timeout_s: float) -> tuple[Span, Call]:
        """Return the span and the context of a call that begins now."""
        current, token = current_call(), self._credentials.token(self.service) if self._credentials else ""
        span, traceparent = self._telemetry.start_call(method.path, current.traceparent if current else "")
        deadline = time.monotonic() + timeout_s
        # A request id per call: the handler's own would make its second call to a service look like a repetition of
        # the first.
        if current is None:
            call = Call(new_id("req"), self._lane, self._tenant, deadline, traceparent, token=token)
        else:
            if current.deadline is not None:
                deadline = min(deadline, current.deadline)
            who = current.principal, current.is_operator
            call = Call(new_id("req"), current.lane, current.tenant, deadline, traceparent, *who, token)
        return span, call

    async def _pause(self, method: Method, call: Call, retries: Retries, error: FathomError) -> None:
        """Wait before the next attempt; raise the error when no further attempt is allowed.

        Raises ``DeadlineExceeded`` when the pause would outlast the call's deadline.
        """
        # The order counts: an error that no retry mends is raised as it is, and takes nothing from the budget.
        delay, remaining = retries.next_delay_s(error), call.remaining_s()
        if not self._budgets[call.lane].take():
            raise error
        if remaining is not None and remaining <= delay:
            # It says when to come again, which this caller cannot wait for, but its own caller may.
            if isinstance(error, Overloaded):
                raise error
            culprit = error.metadata.get("culprit", method.service)
            raise DeadlineExceeded(
                f"{method.service}.{method.name} gave up after {retries.failures} attempts: {error.message}",
                metadata={"culprit": culprit},
            ) from error
        self._telemetry.count_retry(method.service, method.name)
        await asyncio.sleep(delay)


def with_request_id(method: Method, request: Message) -> Message:
    """Return the request with an idempotency key shared by all attempts, if its type has one and it is empty."""
    if not method.acts or str(getattr(request, "request_id")):  # noqa: B009 - the field exists
        return request
    # A copy: the caller's message may be used for another call, which must not inherit this key.
    copy = type(request).FromString(request.SerializeToString())
    setattr(copy, "request_id", new_id("req"))  # noqa: B010 - the field exists: method.acts
    return copy


def rpc_name(attribute: str) -> str:
    """Convert a method name to its RPC name: ``list_turns`` → ``ListTurns``."""
    return "".join(part.capitalize() for part in attribute.split("_"))


class OneAnswer(Protocol[Q_contra, R_co]):
    """Type of a call that returns one response; raises ``FathomError`` only."""

    async def __call__(self, request: Q_contra, *, timeout_s: float = UNARY_TIMEOUT_S) -> R_co: ...


class ManyAnswers(Protocol[Q_contra, R_co]):
    """Type of a call that streams its responses; raises ``FathomError`` only."""

    def __call__(self, request: Q_contra, *, timeout_s: float = STREAM_TIMEOUT_S) -> AsyncGenerator[R_co, None]: ...


class ManyRequests(Protocol[Q_contra, R_co]):
    """Type of a call that sends a stream of requests and returns one response; raises ``FathomError`` only."""

    async def __call__(self, requests: AsyncIterator[Q_contra], *, timeout_s: float = STREAM_TIMEOUT_S) -> R_co: ...


class Declared(Generic[Q, R]):
    """Base descriptor of a client method, named after its RPC in snake case."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.rpc = name, rpc_name(name)


class Unary(Declared[Q, R]):
    """Declares a unary method: ``search = Unary[SearchRequest, SearchResponse]()``."""

    def __get__(self, client: Client, owner: type) -> OneAnswer[Q, R]:
        call = partial(client.unary, client.method(self.rpc))
        # Found in the client itself from now on: every call looks its method up.
        client.__dict__[self.name] = call
        return cast(OneAnswer[Q, R], call)


class ServerStream(Declared[Q, R]):
    """Declares a method that streams responses; those that are only notices do not end the attempts."""

    def __init__(self, is_notice: Callable[[Any], bool] = lambda response: False) -> None:
        self._is_notice = is_notice

    def __get__(self, client: Client, owner: type) -> ManyAnswers[Q, R]:
        # No function of its own, which each call would pass.
        call = partial(client.stream, client.method(self.rpc), is_notice=self._is_notice)
        client.__dict__[self.name] = call
        return cast(ManyAnswers[Q, R], call)


class ClientStream(Declared[Q, R]):
    """Declares a method that takes a stream of requests and returns one response."""

    def __get__(self, client: Client, owner: type) -> ManyRequests[Q, R]:
        async def call(requests: AsyncIterator[Q], *, timeout_s: float = STREAM_TIMEOUT_S) -> R:
            async with aclosing(client.stream(client.method(self.rpc), requests, timeout_s)) as responses:
                return cast(R, await anext(responses))

        return call
