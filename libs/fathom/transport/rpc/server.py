"""gRPC server: every method of a dispatcher, health by service name, and reflection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, NoReturn

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from fathom.core.errors import FathomError
from fathom.transport.rpc.contract import MAX_MESSAGE_BYTES, Method, encode
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.requests import decode, decode_each
from fathom.transport.sockets import PortInUse, format_host, reserved_port
from fathom.transport.status import to_status
from fathom.transport.tls import Certificates, server_credentials

SERVER_OPTIONS = (
    # One more byte than a client may send, so that the typed error comes before the transport's own.
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES + 1024),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES + 1024),
    # Clients ping every 20 s (clients/transport.py), others perhaps without a call in flight; by default gRPC's
    # servers end such a connection with ENHANCE_YOUR_CALM.
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Off: a second server on the same port would silently get half of the calls.
    ("grpc.so_reuseport", 0),
    # Calls that run are not cut: the client is told to make its next ones on a new connection, for which it asks the
    # name again and finds replicas that came meanwhile.
    ("grpc.max_connection_age_ms", 60_000),
)
# "" is the whole server in gRPC's health protocol; the others are the probes of the chart.
HEALTH_NAMES = ("", "live", "ready", "startup")


class GrpcServer:
    """A ``grpc.aio`` server for one dispatcher; ``port`` is known after ``start``."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        host: str,
        port: int,
        certificates: Certificates | None = None,
        health_port: int = -1,
    ) -> None:
        """Create a server; with certificates it speaks mutual TLS, and health also without on ``health_port``.

        The kubelet's probes have no certificate. A ``health_port`` of 0 picks any free one, -1 opens none.
        """
        self._dispatcher = dispatcher
        self._host, self.port, self.health_port = host, port, health_port
        self._certificates = certificates
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self._health = health.aio.HealthServicer()
        self._probed = grpc.aio.server(options=SERVER_OPTIONS) if health_port >= 0 else None
        self._facts: set[str] = set()

    async def start(self) -> None:
        """Bind the port and answer health checks; raise ``PortInUse`` when the port is taken."""
        full_name = self._dispatcher.contract.full_name
        self._server.add_generic_rpc_handlers([generic_handler(self._dispatcher)])
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (full_name, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        await self.set_serving(False)
        self.port = self._bind(self._server, self.port, self._certificates)
        if self._probed is not None:
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._probed)
            self.health_port = self._bind(self._probed, self.health_port, None)
            await self._probed.start()
        await self._server.start()

    def _bind(self, server: grpc.aio.Server, port: int, certificates: Certificates | None) -> int:
        """Bind a port and return it, the one that was found for 0; raise ``PortInUse`` and ``ConfigError``."""
        address = f"{format_host(self._host)}:{port}"
        try:
            if certificates is None:
                return int(server.add_insecure_port(address))
            return int(server.add_secure_port(address, server_credentials(certificates)))
        except RuntimeError as error:
            # gRPC does not say why: a plain socket meets the same cause, and has a word for it.
            with reserved_port(self._host, port, self._dispatcher.service.name):
                raise PortInUse(self._dispatcher.service.name, self._host, port) from error

    async def set_serving(self, serving: bool) -> None:
        """Set the readiness of the service and its facts; "live" stays SERVING as long as the process answers."""
        state = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        facts = self._dispatcher.service.facts() if serving else ()
        for name in (*HEALTH_NAMES, self._dispatcher.contract.full_name, *facts):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING if name == "live" else state)
        # A fact that has gone, such as an isolation level, must not stay SERVING from earlier.
        for name in self._facts - set(facts):
            await self._health.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
        self._facts.update(facts)

    async def leave(self) -> None:
        """Turn health to NOT_SERVING for good; calls are still answered."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls, let running ones finish for ``grace_s`` seconds, then close."""
        await self._server.stop(grace_s)
        if self._probed is not None:
            await self._probed.stop(0)


def generic_handler(dispatcher: Dispatcher) -> grpc.GenericRpcHandler:
    """Return all methods of the contract as gRPC handlers."""
    handlers = {name: method_handler(dispatcher, method) for name, method in dispatcher.contract.methods.items()}
    return grpc.method_handlers_generic_handler(dispatcher.contract.full_name, handlers)


def method_handler(dispatcher: Dispatcher, method: Method) -> grpc.RpcMethodHandler:
    """Return the gRPC handler of one method; its kind decides which of gRPC's four shapes is used."""

    def read(argument: Any) -> Message | AsyncIterator[Message]:
        # Decoded here: bytes that are no request get a typed error, where gRPC itself would answer UNKNOWN.
        return decode_each(method, argument) if method.client_streaming else decode(method, argument)

    async def answer(argument: Any, context: Any) -> bytes:
        try:
            request, call = read(argument), dispatcher.admit(headers(context), context.time_remaining())
            return encode(await dispatcher.answer(method, request, call, "grpc"))
        except FathomError as error:
            await abort(context, error)

    async def stream(argument: Any, context: Any) -> AsyncGenerator[bytes, None]:
        try:
            request, call = read(argument), dispatcher.admit(headers(context), context.time_remaining())
            async with aclosing(dispatcher.stream(method, request, call, "grpc")) as responses:
                async for response in responses:
                    yield encode(response)
        except FathomError as error:
            await abort(context, error)

    kind = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[method.client_streaming, method.server_streaming]
    return kind(stream if method.server_streaming else answer)


async def abort(context: Any, error: FathomError) -> NoReturn:
    """End a call with an error: code and message for any client, and in a trailer the whole ``google.rpc.Status``."""
    # As gRPC's own libraries read it.
    trailer = (("grpc-status-details-bin", to_status(error).SerializeToString()),)
    await context.abort(grpc.StatusCode[error.code], error.message, trailer)
    raise error  # not reached: gRPC ends the handler with an exception of its own


def headers(context: Any) -> dict[str, str]:
    """Return the call's text metadata, without binary entries."""
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
