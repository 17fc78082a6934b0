"""``fathom call``: calls any RPC with JSON in and JSON out."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import Message

from fathom.clients import connect
from fathom.clients.client import Client
from fathom.clients.local import read_endpoints
from fathom.core.errors import InvalidField, NotFound
from fathom.transport.rpc.contract import Method, contract


def call_method(service: str, method: str, body: str, home: Path, url: str, timeout_s: float) -> None:
    """Call the RPC and print each response.

    Raises ``NotFound`` for an unknown method, ``InvalidField("method")`` for one that takes a stream of requests and
    ``InvalidField("body")`` for malformed JSON or JSON that does not fit the request.
    """
    methods = contract(service).methods
    if method not in methods:
        raise NotFound("method", f"{service}.{method}", sorted(methods))
    if methods[method].client_streaming:
        raise InvalidField("method", f"{method} takes a stream of requests; use a gRPC client")
    request = parse(methods[method], body)
    endpoints = {service: url} if url else read_endpoints(home).services
    asyncio.run(exchange(methods[method], request, dict(endpoints), timeout_s))


def parse(method: Method, body: str) -> Message:
    """Parse the JSON as the method's request; raise ``InvalidField("body")``."""
    try:
        if not isinstance(json.loads(body), dict):
            raise ParseError("must be a JSON object")
        request: Message = Parse(body, method.request_type())
    except (ValueError, ParseError) as error:
        raise InvalidField("body", f"is no {method.request_type.DESCRIPTOR.name}: {error}") from error
    return request


async def exchange(method: Method, request: Message, endpoints: dict[str, str], timeout_s: float) -> None:
    clients = connect(endpoints)
    try:
        client: Client = getattr(clients, method.service)
        if method.unary:
            print(MessageToJson(await client.unary(method, request, timeout_s), preserving_proto_field_name=True))
            return
        async with aclosing(client.stream(method, request, timeout_s)) as responses:
            async for response in responses:
                print(MessageToJson(response, preserving_proto_field_name=True, indent=None), flush=True)
    finally:
        await clients.close()
