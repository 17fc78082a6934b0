"""The servers of others' tools as ``ListToolServers`` tells them."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.domain.contact import check_credential
from fathom.services.planner.config import VARIABLE, McpServer
from fathom.services.planner.mcp.mount import Mount


def list_servers(mounts: Iterable[Mount]) -> pb.ListToolServersResponse:
    """Return the servers by name; their health is this planner's."""
    found = sorted((describe_server(mount) for mount in mounts), key=lambda server: server.name)
    return pb.ListToolServersResponse(servers=found)


def describe_server(mount: Mount) -> pb.ToolServer:
    """Return a server: of its address the host alone, since paths and queries may hold keys."""
    server = mount.server
    offered = {tool.adopted.remote for tool in mount.tools}
    return pb.ToolServer(
        name=server.name,
        is_program=bool(server.command),
        host=urlsplit(server.url).hostname or "",
        tools=server.tools,
        missing_tools=[tool for tool in server.tools if tool not in offered],
        is_connected=mount.is_connected,
        credential=find_credential(server),
        contact=mount.contact.to_proto(),
    )


def find_credential(server: McpServer) -> common.Credential:
    """Return whether all environment variables that a server's settings name have a value."""
    templates = (*server.http_headers.values(), *server.env.values())
    return check_credential([server.token_env, *(name for value in templates for name in VARIABLE.findall(value))])
