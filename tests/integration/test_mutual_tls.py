"""Mutual TLS between services, with real certificates: who is let in, what an expired one says, and rotation."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients.connect import Clients
from fathom.core.config import ConfigError
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, NotReady
from fathom.core.identity import Credentials, Tokens, make_keys, service_credentials
from fathom.core.retry import RetryPolicy
from fathom.core.tracing import AmbientTelemetry
from fathom.hosting.host import Hosted, Runtime, dependencies, hosting
from fathom.services.memory.config import Config
from fathom.services.memory.server import build
from fathom.transport.tls import Certificates
from tests.support.certificates import DAY, Authority
from tests.support.waiting import eventually

ONCE = RetryPolicy(attempts=1)
MINUTE = timedelta(minutes=1)


@asynccontextmanager
async def serving(tmp_path: Path, **settings: object) -> AsyncIterator[Hosted]:
    runtime = Runtime.model_validate({"log_level": "error", "grace_s": 0.5, **settings})
    async with dependencies("memory", runtime) as deps:
        service = build(Config(path=tmp_path / "memory.sqlite3"), deps)
        async with hosting(service, deps, runtime) as hosted:
            await hosted.warm
            yield hosted


def connect(url: str, folder: Path | None, credentials: Credentials | None = None) -> Clients:
    certificates = None if folder is None else Certificates(folder, look_s=0.0)
    endpoints = {"memory": url}
    return Clients(endpoints, AmbientTelemetry(), policy=ONCE, certificates=certificates, credentials=credentials)


async def call(clients: Clients, timeout_s: float = 5.0) -> None:
    await clients.memory.list_conversations(pb.ListConversationsRequest(), timeout_s=timeout_s)


async def try_once(url: str, folder: Path | None) -> None:
    clients = connect(url, folder)
    try:
        await call(clients)
    finally:
        await clients.close()


async def test_one_authority_on_both_sides_and_health_for_probes_without_any(tmp_path: Path) -> None:
    authority = Authority.make()
    server, client = authority.issue(tmp_path / "server"), authority.issue(tmp_path / "client")
    async with serving(tmp_path, tls_dir=str(server), health_port=0) as hosted:
        assert hosted.url.startswith("grpcs://")
        await try_once(hosted.url, client)
        # What has no certificate gets no answer, in plain text or in TLS.
        with pytest.raises(FathomError):
            await try_once(hosted.url.replace("grpcs://", "grpc://"), None)
        with pytest.raises(InvalidField, match=r"runtime\.tls_dir"):
            await try_once(hosted.url, None)
        trust = grpc.ssl_channel_credentials((client / "ca.crt").read_bytes())
        async with grpc.aio.secure_channel(hosted.url.removeprefix("grpcs://"), trust) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5.0)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        async with grpc.aio.insecure_channel(f"127.0.0.1:{hosted.health_port}") as channel:
            request = health_pb2.HealthCheckRequest(service="ready")
            reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=5.0)
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
            method = "/fathom.api.memory.v1.MemoryService/ListConversations"
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(method)(b"", timeout=5.0)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED, "health alone is there"


async def test_another_authority_opens_nothing(tmp_path: Path) -> None:
    server = Authority.make("ours").issue(tmp_path / "server")
    other = Authority.make("another").issue(tmp_path / "client")
    async with serving(tmp_path, tls_dir=str(server)) as hosted:
        with pytest.raises((DependencyFailed, NotReady), match="certificate"):
            await try_once(hosted.url, other)
        # It trusts us, but we do not trust it.
        (other / "ca.crt").write_bytes((server / "ca.crt").read_bytes())
        with pytest.raises((DependencyFailed, NotReady)):
            await try_once(hosted.url, other)


async def test_expired_and_future_certificates_are_named_at_the_start(tmp_path: Path) -> None:
    authority = Authority.make()
    expired = authority.issue(tmp_path / "expired", begins=-2 * DAY, ends=-DAY)
    future = authority.issue(tmp_path / "future", begins=DAY, ends=2 * DAY)
    for folder, message in ((expired, r"tls\.crt has expired on \d{4}"), (future, "is not valid before")):
        with pytest.raises(ConfigError, match=message) as caught:
            async with serving(tmp_path, tls_dir=str(folder)):
                pytest.fail("it served with that certificate")
        assert caught.value.metadata["field"] == "runtime.tls_dir"
    (authority.issue(tmp_path / "half") / "tls.key").write_bytes((future / "tls.key").read_bytes())
    with pytest.raises(ConfigError, match=r"tls\.key is not the key of"):
        Certificates(tmp_path / "half")
    (expired / "ca.crt").unlink()
    with pytest.raises(ConfigError, match=r"ca\.crt cannot be read"):
        Certificates(expired)


async def test_a_certificate_that_expires_while_running_is_named_by_its_own_side(tmp_path: Path) -> None:
    authority = Authority.make()
    clock = [time.time()]
    certificates = Certificates(authority.issue(tmp_path / "c", ends=MINUTE), lambda: clock[0], look_s=0.0)
    assert certificates.require_current()
    clock[0] += 61
    with pytest.raises(NotReady, match=r"tls\.crt has expired on"):
        certificates.require_current()
    # Its renewal is taken over without a restart.
    authority.issue(tmp_path / "c", ends=2 * MINUTE)
    assert certificates.require_current()


async def test_rotation_needs_no_restart_on_either_side(tmp_path: Path) -> None:
    """All of it is exchanged, the authority too, while one client goes on calling."""
    old, new = Authority.make("old"), Authority.make("new")
    server, client = old.issue(tmp_path / "server"), old.issue(tmp_path / "client")
    async with serving(tmp_path, tls_dir=str(server)) as hosted:
        clients = connect(hosted.url, client)
        try:
            await call(clients)
            new.issue(server)
            new.issue(client)

            async def works() -> bool:
                await call(clients, 1.0)
                return True

            # The server looks at its files once a second.
            await eventually(works, ignoring=(FathomError,))
            with pytest.raises(FathomError):
                await try_once(hosted.url, old.issue(tmp_path / "late"))
        finally:
            await clients.close()


async def test_a_half_written_rotation_leaves_what_works(tmp_path: Path) -> None:
    authority = Authority.make()
    folder = authority.issue(tmp_path / "c")
    certificates = Certificates(folder, look_s=0.0)
    before = certificates.current()
    (folder / "tls.crt").write_text("half of a certif")
    assert certificates.current() is before
    authority.issue(folder)
    assert certificates.current() is not before


async def test_tokens_still_say_who_calls(tmp_path: Path) -> None:
    """A certificate opens the connection; whose things the call is about, its token says."""
    authority, (private, _) = Authority.make(), make_keys()
    (tmp_path / "keys.pem").write_text(private)
    server, client = authority.issue(tmp_path / "server"), authority.issue(tmp_path / "client")
    async with serving(tmp_path, tls_dir=str(server), identity_file=str(tmp_path / "keys.pem")) as hosted:
        with pytest.raises(FathomError, match="bearer token"):
            await try_once(hosted.url, client)
        clients = connect(hosted.url, client, service_credentials(Tokens(private), "planner"))
        try:
            await call(clients)
        finally:
            await clients.close()


async def test_beyond_loopback_it_is_required_where_the_operator_says_so(tmp_path: Path) -> None:
    (tmp_path / "keys.pem").write_text(make_keys()[0])
    beyond = {"host": "0.0.0.0", "identity_file": str(tmp_path / "keys.pem"), "tls_required": True}
    with pytest.raises(ConfigError, match=r"runtime\.tls_required is set: set runtime\.tls_dir"):
        async with serving(tmp_path, **beyond):
            pytest.fail("it listened in plain text")
    folder = Authority.make().issue(tmp_path / "server")
    plain = {"planner": "grpc://127.0.0.1:1", "policy": "grpc://policy:50051"}
    with pytest.raises(ConfigError, match=r"runtime\.endpoints\.policy: .* use grpcs://"):
        async with serving(tmp_path, **beyond, tls_dir=str(folder), endpoints=plain):
            pytest.fail("it would call in plain text")
    async with serving(tmp_path, tls_required=True) as hosted:
        await try_once(hosted.url, None)  # on loopback all stays as it is
