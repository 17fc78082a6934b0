"""Policy on Ray Serve: the same servicer as autoscaled replicas behind Serve's gRPC proxy.

``fathom.services.policy.ray_serve:application`` is the import path for a RayService; ``python -m
fathom.services.policy.ray_serve`` runs it on this machine. Every replica reconciles with the served versions on the
bus, so a replica that starts late serves the same versions.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message
from pydantic import Field
from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.request_router import FIFOMixin, PendingRequest, RequestRouter, RunningReplica

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.core.config import Settings, load
from fathom.core.errors import FathomError, NotReady, PayloadTooLarge
from fathom.domain.chat.affinity import generation_key, rendezvous_weight
from fathom.hosting.host import Runtime, dependencies
from fathom.services.policy.config import Config
from fathom.services.policy.server import build
from fathom.transport.rpc.contract import MAX_MESSAGE_BYTES, Method, contract
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.door import OpenDoor, TokenDoor
from fathom.transport.rpc.server import headers
from fathom.transport.status import to_status

NAME = "policy"
SERVICER = "fathom.api.policy.v1.policy_pb2_grpc.add_PolicyServiceServicer_to_server"


class ServeSettings(Settings):
    """Settings of Ray Serve for policy; section ``serve``, ``FATHOM_SERVE_*``."""

    # With 0 the first request would wait for a model to load.
    min_replicas: int = Field(default=1, ge=0)
    """Minimum number of replicas."""
    max_replicas: int = Field(default=4, ge=1)
    """Maximum number of replicas."""
    target_ongoing_requests: float = Field(default=8.0, gt=0)
    """Autoscaling target of concurrent calls per replica."""
    max_ongoing_requests: int = Field(default=64, ge=1)
    """Limit of concurrent calls per replica; policy's own admission control rejects calls before that."""
    upscale_delay_s: float = Field(default=10.0, ge=0)
    """Seconds of high load before replicas are added."""
    # Far longer than scaling up: a replica that comes back has to load its model and has lost its prefix cache.
    downscale_delay_s: float = Field(default=300.0, ge=0)
    """Seconds of low load before replicas are removed."""
    num_cpus: float = Field(default=1.0, ge=0)
    """CPU cores that one replica reserves."""
    num_gpus: float = Field(default=0.0, ge=0)
    """GPUs that one replica reserves."""
    grpc_port: int = Field(default=9000, ge=1)
    """Port of Serve's gRPC proxy."""
    http_port: int = Field(default=8000, ge=1)
    """Port of Serve's HTTP proxy, which serves health checks only; Serve opens no gRPC proxy without it."""
    slack: int = Field(default=16, ge=0)
    """Calls that the preferred replica of a conversation may have above the least loaded one before another is
    preferred.
    """


class PrefixRouter(FIFOMixin, RequestRouter):
    """Router that sends the turns of a conversation to the replica with their prefix in its cache.

    A replica with more than ``slack`` calls above the least loaded one is tried last.
    """

    def initialize_state(self, **kwargs: Any) -> None:
        self._slack: int = kwargs["slack"]

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return groups of replicas in the order of preference, one replica per group when the call has an affinity."""
        key = compute_affinity_key(pending_request)
        if key is None:
            return [list(candidate_replicas)]
        # Rendezvous hashing: when a replica comes or goes, only the conversations of that replica move.
        ranked = sorted(candidate_replicas, key=lambda one: rendezvous_weight(key, str(one.replica_id)))
        calls = {one.replica_id: self.replica_queue_len_cache.get(one.replica_id) or 0 for one in ranked}
        least = min(calls.values(), default=0)
        # A stable sort keeps the order of the hash among the crowded and among the others. An unknown queue length
        # counts as 0.
        ranked.sort(key=lambda one: calls[one.replica_id] > least + self._slack)
        # Serve tries the groups in order, and within a group picks by load: one replica per group keeps the ranking.
        return [[one] for one in ranked]


def compute_affinity_key(pending: PendingRequest | None) -> str | None:
    """Return a key shared by all turns of a generation's conversation; None for any other call."""
    argument = pending.args[0] if pending is not None and pending.args else None
    # Serve's gRPC proxy wraps a request in its own type; a call through a deployment handle passes the message itself.
    request = getattr(argument, "user_request_proto", argument)
    if not isinstance(request, pb.GenerateRequest):
        return None
    return generation_key(request)


class Replica:
    """One replica: the service with its dependencies, with a method per RPC. It is ready when its default model is."""

    async def __init__(self, file: str | None) -> None:  # type: ignore[misc]  # Serve awaits it
        path = Path(file) if file else None
        runtime = load(Runtime, "runtime", file=path)
        self._stack = AsyncExitStack()
        deps = await self._stack.enter_async_context(dependencies(NAME, runtime))
        service = build(load(Config, NAME, file=path), deps)
        self._stack.push_async_callback(service.close)
        # Serve's proxy listens beyond this machine: callers are identified where the other services identify theirs.
        door = OpenDoor() if deps.tokens is None else TokenDoor(NAME, deps.tokens)
        self._dispatcher = Dispatcher(service, deps.telemetry, door=door)
        try:
            if runtime.metrics_port >= 0:
                deps.telemetry.serve_metrics(runtime.host, runtime.metrics_port)
            await service.warm_up()
        except BaseException:  # cancellation included: whatever stops the start, the dependencies are closed
            await self._stack.aclose()
            raise
        self._dispatcher.ready = True

    async def check_health(self) -> None:
        """Raise ``NotReady`` when Serve should replace this replica."""
        if not self._dispatcher.ready:
            raise NotReady("policy is draining")

    async def __del__(self) -> None:
        # Serve calls this when it takes the replica away, after its last call.
        self._dispatcher.ready = False
        await self._stack.aclose()

    async def answer(self, method: Method, request: Message, grpc_context: Any) -> AsyncGenerator[Message, None]:
        """Yield the responses of a call.

        After an error, yield an empty response and set the error on the gRPC context.
        """
        try:
            call = self._dispatcher.admit(headers(grpc_context))
            if not method.server_streaming:
                yield within_limit(await self._dispatcher.answer(method, request, call, "serve"))
                return
            async with aclosing(self._dispatcher.stream(method, request, call, "serve")) as responses:
                async for response in responses:
                    yield within_limit(response)
        except FathomError as error:
            grpc_context.set_code(grpc.StatusCode[error.code])
            grpc_context.set_details(error.message)
            details = to_status(error).SerializeToString()
            grpc_context.set_trailing_metadata([("grpc-status-details-bin", details)])
            # Serve's proxy turns an exception into an internal error without details. It does forward what the context
            # carries, but only with a response: hence an empty one, of which a unary call shows the status alone and a
            # stream the response as well.
            yield method.response_type()


def within_limit(message: Message) -> Message:
    """Return the message; raise ``PayloadTooLarge`` before the transport refuses it with an untyped error."""
    if (size := message.ByteSize()) > MAX_MESSAGE_BYTES:
        raise PayloadTooLarge(size, MAX_MESSAGE_BYTES)
    return message


def build_rpc_method(method: Method) -> Callable[..., Any]:
    """Return the method of ``Replica`` that Serve calls for an RPC."""

    async def stream(self: Replica, request: Message, grpc_context: Any) -> AsyncGenerator[Message, None]:
        async with aclosing(self.answer(method, request, grpc_context)) as responses:
            async for response in responses:
                yield response

    async def single(self: Replica, request: Message, grpc_context: Any) -> Message:
        async with aclosing(self.answer(method, request, grpc_context)) as responses:
            return await anext(responses)

    made: Callable[..., Any] = stream if method.server_streaming else single
    made.__name__ = made.__qualname__ = method.name
    return made


def build_replica_class() -> type[Replica]:
    """Return a subclass of ``Replica`` with a method for every RPC of the service."""
    methods = {name: build_rpc_method(method) for name, method in contract(NAME).methods.items()}
    # With the module's name, a replica on another node unpickles the class by reference instead of by value.
    return type("PolicyReplica", (Replica,), {**methods, "__module__": __name__})


PolicyReplica = build_replica_class()


def application(arguments: dict[str, str] | None = None) -> serve.Application:
    """Build the Serve application; ``arguments["config"]`` is the path of a settings file readable on every node."""
    file = (arguments or {}).get("config")
    settings = load(ServeSettings, "serve", file=Path(file) if file else None)
    deployment: Any = serve.deployment(
        PolicyReplica,
        name=NAME,
        max_ongoing_requests=settings.max_ongoing_requests,
        autoscaling_config={
            "min_replicas": settings.min_replicas,
            "max_replicas": settings.max_replicas,
            "target_ongoing_requests": settings.target_ongoing_requests,
            "upscale_delay_s": settings.upscale_delay_s,
            "downscale_delay_s": settings.downscale_delay_s,
        },
        ray_actor_options={"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus},
        request_router_config=RequestRouterConfig(
            request_router_class=f"{__name__}.PrefixRouter",  # type: ignore[arg-type]  # a path is what it wants
            request_router_kwargs={"slack": settings.slack},
        ),
    )
    bound: serve.Application = deployment.bind(file)
    return bound


def start(file: Path | None = None) -> str:
    """Run the application on this machine's Ray and return the URL of its gRPC proxy."""
    settings = load(ServeSettings, "serve", file=file)
    serve.start(
        proxy_location="HeadOnly",
        http_options={"host": "127.0.0.1", "port": settings.http_port},
        grpc_options={"port": settings.grpc_port, "grpc_servicer_functions": [SERVICER]},
    )
    serve.run(application({"config": str(file)} if file else None), name=NAME)
    return f"grpc://127.0.0.1:{settings.grpc_port}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs policy on a local Ray Serve until Ctrl-C.")
    parser.add_argument("--config", type=Path, help="YAML file with sections 'runtime', 'policy' and 'serve'")
    from fathom.services.policy import ray_serve  # the replicas know this module by its name, not as __main__

    print(ray_serve.start(parser.parse_args().config), flush=True)
    import signal

    # Serve runs in its own processes; this one has only to wait, and must shut them down in the end.
    signal.sigwait((signal.SIGINT, signal.SIGTERM))
    serve.shutdown()  # type: ignore[no-untyped-call]
