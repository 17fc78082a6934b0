"""Client transports over gRPC, the bus and in process, behind one protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import grpc
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

from fathom.core.call import Call
from fathom.core.errors import DependencyFailed, FathomError
from fathom.core.extras import name_missing_extra
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import rpc_subject
from fathom.transport.rpc.contract import MAX_MESSAGE_BYTES, Method, encode
from fathom.transport.status import STATUS_HEADER, from_grpc, from_status, to_status
from fathom.transport.tls import Certificates, Material, channel_credentials

if TYPE_CHECKING:
    from fathom.transport.rpc.dispatch import Dispatcher

# A headless name has an address per replica: calls go to all of them in turn. The name is asked again when one of them
# goes, and when a server ends a connection for its age, so that new replicas are found too.
ROUND_ROBIN = '{"loadBalancingConfig": [{"round_robin": {}}]}'
# Reconnects within a second instead of gRPC's two minutes: replicas are replaced at every deployment, and the callers'
# retries last some ten seconds. Despite its name, min_reconnect_backoff is how long a connection may take to be made:
# shorter than a second shuts out a server on a busy node, longer keeps callers at the address of a pod that is gone.
# Keepalive finds a peer that vanished without closing the connection, 30 s after its last word. While another ping of
# gRPC's own waits for its reply, as after a message, keepalive sends none: the ping timeout ends that wait, of a minute
# by default.
CHANNEL_OPTIONS = (
    ("grpc.service_config", ROUND_ROBIN),
    ("grpc.dns_min_time_between_resolutions_ms", 1000),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES + 1024),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES + 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 30_000),
    ("grpc.enable_retries", 0),  # retries and their budget are the client's, alike on all transports
)


# Longer than any call's deadline is: streams of runs end with their run, at most after an hour.
RETIRE_S = 3600.0
# A name has no address while the only pod behind it is replaced. gRPC asks for such a name again after ever longer
# pauses, of up to two minutes, which no option shortens: a pod that was away for half a minute stayed out of reach for
# a quarter more. A new channel asks at once.
RENEW_S = 2.0
UNREACHABLE = grpc.ChannelConnectivity.TRANSIENT_FAILURE


Requests = Message | AsyncIterator[Message]
"""A request, or an iterator of those of a method that takes many."""


class Transport(Protocol):
    """Carries one call; raises ``FathomError`` only."""

    async def unary(self, method: Method, request: Message, call: Call) -> Message:
        """Send one request and return its response."""
        ...

    def stream(self, method: Method, requests: Requests, call: Call) -> AsyncGenerator[Message, None]:
        """Call a method of any kind; a single response is an iterator of one."""
        ...

    async def ready(self, service: str, timeout_s: float) -> None:
        """Return when the service says that it is ready; asks once, and costs the service nothing."""
        ...

    async def close(self) -> None: ...


class StreamsNeedGrpc(FathomError):
    """A streaming RPC, or health, was asked for over a transport that carries unary ones only."""

    code, reason = "UNIMPLEMENTED", "NOT_IMPLEMENTED"


class GrpcTransport:
    """Transport over one gRPC channel to one target, with mutual TLS where it has certificates."""

    def __init__(
        self, target: str, certificates: Certificates | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._target, self._certificates, self._clock = target, certificates, clock
        self._material: Material | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._stubs: dict[str, Any] = {}
        # Opened by the first call, with the certificate of that moment.
        self._channel: grpc.aio.Channel | None = None
        self._opened = 0.0

    def _open(self) -> grpc.aio.Channel:
        """Return the channel; after a rotation a new one, while the calls on the old one end there.

        Raises ``NotReady`` when this side's certificate has expired.
        """
        material = None if self._certificates is None else self._certificates.require_current()
        if self._channel is None or material is not self._material:
            self._retire()
            if material is None:
                self._channel = grpc.aio.insecure_channel(self._target, options=CHANNEL_OPTIONS)
            else:
                credentials = channel_credentials(material)
                self._channel = grpc.aio.secure_channel(self._target, credentials, options=CHANNEL_OPTIONS)
            self._material, self._opened = material, self._clock()
        return self._channel

    def _read_error(self, error: grpc.aio.AioRpcError, service: str, method: str) -> FathomError:
        """Return the typed error of a failed call; a channel that reaches nobody is not used again."""
        channel, age_s = self._channel, self._clock() - self._opened
        if channel is not None and age_s >= RENEW_S and channel.get_state() is UNREACHABLE:
            self._retire()
        return from_grpc(error, service, method)

    def _retire(self) -> None:
        """Close the channel once its calls have ended."""
        if self._channel is not None:
            task = asyncio.get_running_loop().create_task(self._channel.close(RETIRE_S))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
        self._channel, self._stubs = None, {}

    async def unary(self, method: Method, request: Message, call: Call) -> Message:
        data = encode(request)
        try:
            response: Message = await self._stub(method)(
                data, timeout=call.remaining_s(), metadata=tuple(call.headers().items())
            )
        except grpc.aio.AioRpcError as error:
            raise self._read_error(error, method.service, method.name) from None
        return response

    async def stream(self, method: Method, requests: Requests, call: Call) -> AsyncGenerator[Message, None]:
        if not isinstance(requests, Message) and not method.client_streaming:
            requests = await anext(requests)
        argument = encode(requests) if isinstance(requests, Message) else requests
        stub = self._stub(method)
        running = stub(argument, timeout=call.remaining_s(), metadata=tuple(call.headers().items()))
        try:
            if not method.server_streaming:
                yield await running
                return
            async for response in running:
                yield response
        except grpc.aio.AioRpcError as error:
            raise self._read_error(error, method.service, method.name) from None
        finally:
            running.cancel()

    async def ready(self, service: str, timeout_s: float) -> None:
        with name_missing_extra():
            from grpc_health.v1 import health_pb2, health_pb2_grpc
        request = health_pb2.HealthCheckRequest(service="ready")
        channel = self._open()
        try:
            reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._read_error(error, service, "health") from None
        if reply.status != health_pb2.HealthCheckResponse.SERVING:
            raise DependencyFailed(service, "is warming up or draining")

    def _stub(self, method: Method) -> Any:
        channel = self._open()
        if method.path not in self._stubs:
            kinds = {(False, False): "unary_unary", (False, True): "unary_stream",
                     (True, False): "stream_unary", (True, True): "stream_stream"}  # fmt: skip
            make = getattr(channel, kinds[method.client_streaming, method.server_streaming])
            self._stubs[method.path] = make(
                method.path,
                # A single request is encoded before, for its size; the items of a stream as they are sent.
                request_serializer=method.request_type.SerializeToString if method.client_streaming else None,
                response_deserializer=method.response_type.FromString,
            )
        return self._stubs[method.path]

    async def close(self) -> None:
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()


class BusTransport:
    """Transport by request/reply over the bus; does not own or close the bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def unary(self, method: Method, request: Message, call: Call) -> Message:
        data, remaining = encode(request), call.remaining_s()
        reply = await self._bus.request(
            rpc_subject(method.service, method.name),
            data,
            headers=call.headers(),
            # A request over the bus must end at some time, even for a caller without a deadline.
            timeout_s=60.0 if remaining is None else remaining,
        )
        # NATS has no status of its own: a failed call is a reply whose payload is the status.
        if STATUS_HEADER in reply.headers:
            raise from_status(Status.FromString(reply.payload))
        return method.response_type.FromString(reply.payload)

    async def stream(self, method: Method, requests: Requests, call: Call) -> AsyncGenerator[Message, None]:
        raise StreamsNeedGrpc(f"{method.service}.{method.name} streams: give its service a grpc:// URL")
        yield  # an async generator, like its siblings

    async def ready(self, service: str, timeout_s: float) -> None:
        raise StreamsNeedGrpc(f"the health of {service} is asked over gRPC: give it a grpc:// URL")

    async def close(self) -> None:
        """Do nothing: the bus is closed by its owner."""


class InprocTransport:
    """Calls a dispatcher of this process; messages are copied, so that neither side sees the other's changes."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def unary(self, method: Method, request: Message, call: Call) -> Message:
        with passing_errors():
            return await self._answer(method, copy_message(request), call)

    async def stream(self, method: Method, requests: Requests, call: Call) -> AsyncGenerator[Message, None]:
        if not isinstance(requests, Message) and not method.client_streaming:
            requests = await anext(requests)
        with passing_errors():
            argument = copy_message(requests) if isinstance(requests, Message) else requests
            if not method.server_streaming:
                yield await self._answer(method, argument, call)
                return
            arrived = self._dispatcher.admit(call.headers())
            async with aclosing(self._dispatcher.stream(method, argument, arrived, "inproc")) as responses:
                async for response in responses:
                    yield copy_message(response)

    async def _answer(self, method: Method, request: Message | AsyncIterator[Message], call: Call) -> Message:
        arrived = self._dispatcher.admit(call.headers())
        return copy_message(await self._dispatcher.answer(method, request, arrived, "inproc"))

    async def ready(self, service: str, timeout_s: float) -> None:
        if not self._dispatcher.ready:
            raise DependencyFailed(service, "is warming up or draining")

    async def close(self) -> None:
        """Do nothing: there is no channel to close."""


def copy_message(message: Message) -> Message:
    """Return a copy of a message; raise ``PayloadTooLarge`` where a network would."""
    return type(message).FromString(encode(message))


@contextmanager
def passing_errors() -> Iterator[None]:
    """Pass errors through their status, as over a network: of the same class, message and metadata."""
    try:
        yield
    except FathomError as error:
        raise from_status(to_status(error)) from None
