"""A plain gRPC client without Fathom's own client: it learns the API by reflection and calls Search.

    python examples/grpc_client.py 127.0.0.1:50051 "maximum drawdown"

The address of a local stack's retrieval service is in ``.fathom/endpoints.json``; without arguments
it is read from there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson, ParseDict
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = "fathom.api.retrieval.v1.RetrievalService"


def main() -> None:
    if len(sys.argv) > 1:
        target = sys.argv[1]
    else:
        endpoints = json.loads(Path(".fathom/endpoints.json").read_text())
        target = endpoints["services"]["retrieval"].removeprefix("grpc://")
    query = sys.argv[2] if len(sys.argv) > 2 else "maximum drawdown"
    with grpc.insecure_channel(target) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        service = DescriptorPool(database).FindServiceByName(SERVICE)
        method = service.FindMethodByName("Search")
        request = ParseDict({"queries": [query], "top_k": 3}, GetMessageClass(method.input_type)())
        search = channel.unary_unary(
            f"/{SERVICE}/Search",
            request_serializer=type(request).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        print(MessageToJson(search(request, timeout=10), preserving_proto_field_name=True))


if __name__ == "__main__":
    main()
