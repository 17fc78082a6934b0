"""Runtime view of the service contracts: the methods of ``fathom.api`` with their types and streaming kinds.

Read from the protobuf descriptors.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from fathom.core.errors import NotFound, PayloadTooLarge
from fathom.core.ids import sha256

# The largest message that is sent, whatever carries it.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
# The domains by name rather than by a search of the package: a new one is a decision that clients and hosts share.
DOMAINS = ("datafetch", "memory", "planner", "policy", "retrieval", "reward", "sandbox")


@dataclass(frozen=True)
class Method:
    """One RPC. ``path`` is its gRPC path; ``acts`` is True when its request carries a ``request_id``."""

    service: str
    name: str
    path: str
    request_type: type[Message]
    response_type: type[Message]
    client_streaming: bool
    server_streaming: bool

    @cached_property
    def unary(self) -> bool:
        """True for one request and one response, the only kind that NATS carries too."""
        return not self.client_streaming and not self.server_streaming

    @cached_property
    def acts(self) -> bool:
        return "request_id" in self.request_type.DESCRIPTOR.fields_by_name


@dataclass(frozen=True)
class Contract:
    """The service of one domain and its methods by name."""

    name: str
    full_name: str
    methods: Mapping[str, Method]


@cache
def contract(name: str) -> Contract:
    """Return the contract of a domain, e.g. ``"retrieval"``.

    Raises ``NotFound`` with the nearest known names.
    """
    if name not in DOMAINS:
        raise NotFound("service", name, DOMAINS)
    module = importlib.import_module(f"fathom.api.{name}.v1.{name}_pb2")
    service = module.DESCRIPTOR.services_by_name[f"{name.capitalize()}Service"]
    methods = {
        method.name: Method(
            name,
            method.name,
            f"/{service.full_name}/{method.name}",
            GetMessageClass(method.input_type),
            GetMessageClass(method.output_type),
            method.client_streaming,
            method.server_streaming,
        )
        for method in service.methods
    }
    return Contract(name, service.full_name, MappingProxyType(methods))


def contract_version() -> str:
    """Return the version of the contract's packages, e.g. ``"v1"``; it changes only when callers must change."""
    return contract(DOMAINS[0]).full_name.split(".")[-2]


@cache
def proto_hash() -> str:
    """Return the SHA-256 over the serialized descriptors of all domains; it is part of every version stamp."""
    files = set()
    for name in DOMAINS:
        module = importlib.import_module(f"fathom.api.{name}.v1.{name}_pb2")
        pending = [module.DESCRIPTOR]
        while pending:
            descriptor = pending.pop()
            # Google's own protos come with the installed package and differ between its versions.
            if descriptor.name.startswith("fathom/"):
                files.add((descriptor.name, descriptor.serialized_pb))
                pending.extend(descriptor.dependencies)
    return sha256(b"".join(content for _, content in sorted(files)))


def encode(message: Message) -> bytes:
    """Return the bytes of a message; raise ``PayloadTooLarge`` before a transport refuses it with an untyped error."""
    data = message.SerializeToString()
    if len(data) > MAX_MESSAGE_BYTES:
        raise PayloadTooLarge(len(data), MAX_MESSAGE_BYTES)
    return data


async def once(message: Message) -> AsyncGenerator[Message, None]:
    """Yield one message."""
    yield message
