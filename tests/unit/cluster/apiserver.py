"""An API server at its HTTP edge: REST paths, selectors, Status answers, watches and logs, as a real one sends them.

Objects are plain mappings by path. What happens while somebody watches is a script: each watch takes the next act, and
each request for a log the next piece. Failures are scripted by method and path. Nothing waits for the clock.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Object = dict[str, Any]
TOKEN = "a-token"
DROP = "drop"
"""End of a watch or a log: the connection breaks in the middle."""
CLOSE = "close"
"""Its window is over."""


@dataclass
class Act:
    """Script what one watch sees: changes of the object, then how the watch ends."""

    change: Callable[[Object], None] | None = None
    end: str = CLOSE
    error: Object | None = None
    delete: bool = False


@dataclass
class Failure:
    """An answer instead of the right one, ``times`` over; a status of 0 breaks the connection."""

    method: str
    path: str
    status: int
    body: str = ""
    times: int = 1
    after: bool = False
    """The request is carried out first: only the answer is lost."""
    held: threading.Event | None = None
    """The answer comes when this is set: a server that is slower than its clients wait."""


@dataclass
class FakeApiServer:
    """State of the cluster, and what was asked for."""

    objects: dict[str, Object] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    """Resources by "group/version"; the core's is not listed."""
    acts: deque[Act] = field(default_factory=deque)
    logs: deque[tuple[list[str], str]] = field(default_factory=deque)
    failures: list[Failure] = field(default_factory=list)
    denied: set[tuple[str, str]] = field(default_factory=set)
    """(verb, resource) that the account may not; "*" is every verb."""
    version: str = "v1.34.2"
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    _clock: int = 100

    def put(self, path: str, content: Object) -> Object:
        """Adds an object with what the server fills in."""
        self._clock += 1
        content.setdefault("metadata", {})["resourceVersion"] = str(self._clock)
        content["metadata"].setdefault("name", path.rpartition("/")[2])
        content["metadata"].setdefault("uid", f"uid-{path.rpartition('/')[2]}")
        self.objects[path] = content
        return content

    def asked_for(self, method: str, part: str) -> list[tuple[str, str, dict[str, str]]]:
        return [one for one in self.requests if one[0] == method and part in one[1]]

    @contextmanager
    def running(self) -> Iterator[FakeApiServer]:
        server = Quiet(self)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def kubeconfig(self, folder: Path, namespace: str = "research") -> Path:
        """A file as kubectl has it."""
        path = folder / "kubeconfig"
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": TOKEN}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me", "namespace": namespace}}],
        }  # fmt: skip
        path.write_text(yaml.safe_dump(content))
        return path


class Quiet(ThreadingHTTPServer):
    """Says nothing about clients that go away."""

    daemon_threads = True

    def __init__(self, state: FakeApiServer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.state = state

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


def status(code: int, reason: str, message: str, **details: Any) -> Object:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": details, "code": code,
    }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """Answers one connection from the state of its server."""

    server: Quiet
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def do_DELETE(self) -> None:
        self.answer("DELETE")

    def answer(self, method: str) -> None:
        split = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        self.server.state.requests.append((method, split.path, query))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.send(401, status(401, "Unauthorized", "Unauthorized"))
        failure = next(
            (f for f in self.server.state.failures if f.times and f.method == method and f.path in split.path), None
        )
        if failure:
            failure.times -= 1
            if failure.after:
                route_request(self.server.state, method, split.path, query, body)
            if failure.held:
                failure.held.wait()
                return self.break_connection()
            if not failure.status:
                return self.break_connection()
            return self.send(failure.status, failure.body)
        if query.get("watch") in ("true", "True"):
            return self.watch(split.path, query)
        if split.path.endswith("/log"):
            return self.log(split.path)
        self.send(*route_request(self.server.state, method, split.path, query, body))

    def send(self, code: int, content: Object | str) -> None:
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def break_connection(self) -> None:
        self.close_connection = True
        self.connection.close()

    def chunks(self, lines: list[str], end: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            data = f"{line}\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if end == DROP:
            self.wfile.flush()
            return self.break_connection()
        self.wfile.write(b"0\r\n\r\n")

    def watch(self, path: str, query: dict[str, str]) -> None:
        refusal = deny_access(self.server.state, "watch", path)
        if refusal:
            return self.send(*refusal)
        name = query["fieldSelector"].removeprefix("metadata.name=")
        act = self.server.state.acts.popleft() if self.server.state.acts else Act()
        if act.error:
            return self.chunks([json.dumps({"type": "ERROR", "object": act.error})], act.end)
        lines = []
        if act.delete:
            lines = [json.dumps({"type": "DELETED", "object": self.server.state.objects.pop(f"{path}/{name}")})]
        elif act.change:
            act.change(self.server.state.objects[f"{path}/{name}"])
            self.server.state.put(f"{path}/{name}", self.server.state.objects[f"{path}/{name}"])
            lines = [json.dumps({"type": "MODIFIED", "object": self.server.state.objects[f"{path}/{name}"]})]
        self.chunks(lines, act.end)

    def log(self, path: str) -> None:
        refusal = deny_access(self.server.state, "get", path.removesuffix("/log"), "pods/log")
        if refusal:
            return self.send(*refusal)
        if not self.server.state.logs:
            pod = path.split("/")[-2]
            said = f'container "ray-job-submitter" in pod "{pod}" is waiting to start: ContainerCreating'
            return self.send(400, status(400, "BadRequest", said))
        self.chunks(*self.server.state.logs.popleft())


def route_request(
    state: FakeApiServer, method: str, path: str, query: dict[str, str], body: Object
) -> tuple[int, Object | str]:
    """Return (status, content) of a request that is neither a watch nor a log."""
    if path == "/version":
        return 200, {"major": "1", "minor": state.version.split(".")[1], "gitVersion": state.version}
    if path.endswith("/selfsubjectaccessreviews"):
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        wanted = {(asked["verb"], resource), ("*", resource)}
        return 201, {**body, "status": {"allowed": not wanted & state.denied}}
    parts = path.strip("/").split("/")
    if parts[0] == "apis" and len(parts) == 3:
        return discover_group(state, "/".join(parts[1:]))
    if parts[0] == "apis" and parts[3:4] == ["namespaces"] and not knows_resource(state, parts):
        return 404, "404 page not found\n"
    verb = {"GET": "get" if path in state.objects else "list", "POST": "create", "DELETE": "delete"}[method]
    refusal = deny_access(state, verb, path)
    if refusal:
        return refusal
    if method == "POST":
        return create(state, path, body)
    if path in state.objects:
        return 200, state.objects.pop(path) if method == "DELETE" else state.objects[path]
    if single(path):
        kind, name = parts[-2], parts[-1]
        return 404, status(404, "NotFound", f'{kind} "{name}" not found', name=name, kind=kind)
    return 200, {
        "kind": "List",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "1"},
        "items": items(state, path, query),
    }


def knows_resource(state: FakeApiServer, parts: list[str]) -> bool:
    return parts[5] in state.groups.get("/".join(parts[1:3]), [])


def discover_group(state: FakeApiServer, group: str) -> tuple[int, Object | str]:
    if group not in state.groups:
        return 404, "404 page not found\n"
    resources = [{"name": name, "namespaced": True, "kind": name} for name in state.groups[group]]
    return 200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": resources}


def single(path: str) -> bool:
    """The path names one object, not a collection."""
    parts = path.strip("/").split("/")
    if "namespaces" not in parts:
        return len(parts) == 5
    return len(parts) - parts.index("namespaces") != 3


def items(state: FakeApiServer, path: str, query: dict[str, str]) -> list[Object]:
    everywhere = "/namespaces/" not in path
    found = [
        content for place, content in state.objects.items()
        if place.rpartition("/")[0] == path or (everywhere and place.split("/")[-2] == path.rpartition("/")[2])
    ]  # fmt: skip
    labels = dict(pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair)
    return [one for one in found if labels.items() <= one["metadata"].get("labels", {}).items()]


def create(state: FakeApiServer, path: str, body: Object) -> tuple[int, Object]:
    name = body["metadata"]["name"]
    if f"{path}/{name}" in state.objects:
        kind = path.rpartition("/")[2]
        return 409, status(409, "AlreadyExists", f'{kind}.ray.io "{name}" already exists', name=name, kind=kind)
    return 201, state.put(f"{path}/{name}", body)


def deny_access(state: FakeApiServer, verb: str, path: str, resource: str = "") -> tuple[int, Object] | None:
    parts = path.strip("/").split("/")
    resource = resource or (parts[-2] if single(path) or path in state.objects else parts[-1])
    if not {(verb, resource), ("*", resource)} & state.denied:
        return None
    said = f'{resource} is forbidden: User "me" cannot {verb} resource "{resource}" in the namespace "research"'
    return 403, status(403, "Forbidden", said, kind=resource)
