"""One namespace behind one API server: plain objects in and out, typed errors, deadlines and bounded retries.

The official client handles kubeconfig, exec plugins, certificates and proxies; objects stay the mappings that the
server sends, so that fields of newer servers and of custom resources are available.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fathom.core.config import ConfigError
from fathom.core.errors import (
    Conflict,
    FailedPrecondition,
    FathomError,
    MissingExtra,
    NotFound,
    NotReady,
    UpstreamRefused,
)
from fathom.core.retry import RetryPolicy, retry_blocking

Object = dict[str, Any]
SERVER = "the API server"
# Kinds of the core group, with their names in the client.
CORE = {
    "pods": "pod", "events": "event", "configmaps": "config_map", "secrets": "secret",
    "persistentvolumeclaims": "persistent_volume_claim",
}  # fmt: skip
# Maximum assumed clock difference in seconds; callers drop the repeated log lines it causes.
CLOCKS_S = 60
# 500 included: the API server answers it while etcd elects a leader.
TRANSIENT = frozenset({429, 500, 502, 503, 504})
RETRY = RetryPolicy(attempts=4, first_delay_s=0.5, max_delay_s=8.0)
# Maximum delay that the server can ask for; a request has no other deadline.
MAX_RETRY_AFTER_S = 8.0


class Expired(Conflict):
    """The version that a watch was to resume from is too old (410): read again, then watch from there."""


class UnknownKind(FailedPrecondition):
    """The server knows no such resource: the operator that defines it is not installed."""


@dataclass(frozen=True)
class Resource:
    """A kind of object: group ("" is the core's), version, plural."""

    group: str
    version: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS, EVENTS, CONFIGMAPS = Resource("", "v1", "pods"), Resource("", "v1", "events"), Resource("", "v1", "configmaps")
RAYJOBS, RAYCLUSTERS = Resource("ray.io", "v1", "rayjobs"), Resource("ray.io", "v1", "rayclusters")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta1", "workloads")


@dataclass(frozen=True)
class ReleasePlace:
    """A release of the chart and where it runs; "" and None use the kubeconfig's."""

    release: str = "fathom"
    namespace: str = ""
    context: str = ""
    kubeconfig: Path | None = None


@dataclass(frozen=True)
class Patience:
    """Timeouts in seconds and retries of one request."""

    connect_s: float = 5.0
    read_s: float = 30.0
    retry: RetryPolicy = RETRY


@dataclass(frozen=True)
class Cluster:
    """A namespace; ``client`` is an ``ApiClient``. Created by ``connect``."""

    client: Any
    namespace: str
    patience: Patience = Patience()
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def read(self, kind: Resource, name: str) -> Object:
        """Return one object; raise ``NotFound``, ``UnknownKind``, and the errors of ``request``."""
        if kind.group:
            return self.request(self._custom().get_namespaced_custom_object, *self._path(kind), name)
        return self.request(getattr(self._core(), f"read_namespaced_{CORE[kind.plural]}"), name, self.namespace)

    def list_objects(self, kind: Resource, labels: str = "", fields: str = "") -> list[Object]:
        """Return at most 500 objects selected by labels and fields."""
        options: dict[str, Any] = {"limit": 500}
        if labels:
            options["label_selector"] = labels
        if fields:
            options["field_selector"] = fields
        # One page, and no further one: what a single job owns is far less.
        found = self.request(self._lister(kind), *self._place(kind), **options)
        items: list[Object] = found.get("items") or []
        return items

    def create(self, kind: Resource, content: Mapping[str, Any]) -> Object:
        """Create an object; unknown fields are refused by the server instead of dropped.

        Raises ``Conflict`` when the name is taken; after a lost response it may be taken by this very call.
        """
        create = self._custom().create_namespaced_custom_object
        return self.request(create, *self._path(kind), dict(content), field_validation="Strict")

    def delete(self, kind: Resource, name: str) -> None:
        """Delete an object and everything that it owns; no error when it is gone already."""
        try:
            self.request(
                self._custom().delete_namespaced_custom_object, *self._path(kind), name, propagation_policy="Background"
            )
        except NotFound:
            return

    def changes(self, kind: Resource, name: str, version: str, window_s: float) -> Iterator[tuple[str, Object]]:
        """Yield (ADDED, MODIFIED or DELETED, object) from ``version`` on, for at most ``window_s`` seconds.

        Raises ``Expired``, ``NotReady`` when the connection breaks, and the errors of ``request``.
        """
        # The server ends the watch itself, in whole seconds.
        seconds = max(1, round(window_s))
        watch = importlib.import_module("kubernetes.watch").Watch()
        stream = watch.stream(
            self._lister(kind), *self._place(kind), field_selector=f"metadata.name={name}", resource_version=version,
            # Five seconds more on this side, for a server that has not kept to its own end.
            timeout_seconds=seconds, _request_timeout=(self.patience.connect_s, seconds + 5.0),
        )  # fmt: skip
        for event in self.translate_errors(stream):
            yield event["type"], event["raw_object"]

    def log(
        self,
        pod: str,
        container: str,
        *,
        since: str = "",
        follow: bool = False,
        silence_s: float = 15.0,
        limit_bytes: int | None = None,
    ) -> Iterator[str]:
        """Yield log lines, each prefixed by its time; ``since`` is such a time, ``limit_bytes`` the most that is read.

        Ends with the container or after ``silence_s`` seconds without a line.
        """
        options: dict[str, Any] = {"container": container, "timestamps": True}
        if limit_bytes:
            options["limit_bytes"] = limit_bytes
        if since:
            age = datetime.now(UTC) - datetime.fromisoformat(since[:19] + "+00:00")
            options["since_seconds"] = max(1, int(age.total_seconds()) + CLOCKS_S)
        watch = importlib.import_module("kubernetes.watch").Watch()
        timeout = (self.patience.connect_s, silence_s if follow else self.patience.read_s)
        read = self._core().read_namespaced_pod_log

        def once(name: str, namespace: str, **more: Any) -> Any:
            return read(name, namespace, **{**more, "follow": follow})

        # The client looks for this line in the docstring of what it calls, to tell logs from lists of objects.
        once.__doc__ = ":param follow:"
        yield from self.translate_errors(watch.stream(once, pod, self.namespace, _request_timeout=timeout, **options))

    def raw(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> Object:
        """Send a request to any path of the server."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}

        def call(**options: Any) -> Any:
            arguments = self.client.param_serialize(
                method, path, header_params=dict(headers), body=content, auth_settings=["BearerToken"]
            )
            return self.client.call_api(*arguments, _request_timeout=options["_request_timeout"]).response

        return self.request(call)

    def request(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Object:
        """Send one request, retrying while the server is unreachable; raise typed errors.

        Raises ``NotFound``, ``UnknownKind``, ``Conflict``, ``Expired``, ``UpstreamRefused`` (with the status, e.g. 403)
        and ``NotReady`` after the last attempt.
        """
        return retry_blocking(lambda: self._once(call, *arguments, **options), self.patience.retry, sleep=self.sleep)

    def _once(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Object:
        timeout = (self.patience.connect_s, self.patience.read_s)
        extra = {} if "_request_timeout" in options else {"_preload_content": False}
        try:
            answer = call(*arguments, _request_timeout=timeout, **extra, **options)
            body = answer.data
        except api_exception() as error:
            raise refused_by(error) from error
        except connection_errors() as error:
            raise unreachable(error) from error
        if not 200 <= answer.status < 300:
            raise error_from_response(answer.status, body, answer.headers.get("Retry-After", ""))
        found: Object = json.loads(body)
        return found

    def translate_errors(self, lines: Iterator[Any]) -> Iterator[Any]:
        """Yield the same stream, converting errors to typed ones."""
        try:
            yield from lines
        except api_exception() as error:
            raise refused_by(error) from error
        except connection_errors() as error:
            raise unreachable(error) from error

    def _core(self) -> Any:
        return importlib.import_module("kubernetes.client").CoreV1Api(self.client)

    def _custom(self) -> Any:
        return importlib.import_module("kubernetes.client").CustomObjectsApi(self.client)

    def _lister(self, kind: Resource) -> Callable[..., Any]:
        found: Callable[..., Any] = (
            self._custom().list_namespaced_custom_object
            if kind.group
            else getattr(self._core(), f"list_namespaced_{CORE[kind.plural]}")
        )
        return found

    def _path(self, kind: Resource) -> tuple[str, str, str, str]:
        return kind.group, kind.version, self.namespace, kind.plural

    def _place(self, kind: Resource) -> Sequence[str]:
        return self._path(kind) if kind.group else (self.namespace,)


def connect(
    namespace: str = "", context: str = "", kubeconfig: Path | None = None, patience: Patience | None = None
) -> Cluster:
    """Connect to the cluster of the kubeconfig (``KUBECONFIG``, ~/.kube/config), or the one that this process runs in.

    ``namespace`` is by default the context's. Raises ``MissingExtra`` without the client, ``ConfigError`` naming the
    problem with the kubeconfig.
    """
    try:
        config = importlib.import_module("kubernetes.config")
        client = importlib.import_module("kubernetes.client")
    except ImportError as error:
        raise MissingExtra("kubernetes", "cluster") from error
    settings = client.Configuration()
    file = str(kubeconfig) if kubeconfig else None
    try:
        if kubeconfig is None and not context and inside():
            config.load_incluster_config(client_configuration=settings)
            known = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace").read_text().strip()
        else:
            config.load_kube_config(file, context or None, settings, persist_config=False)
            _, current = config.list_kube_config_contexts(file)
            # Read again by name: the client says which context is current, not which one it was just told to use.
            chosen = next((c for c in config.list_kube_config_contexts(file)[0] if c["name"] == context), current)
            known = chosen["context"].get("namespace", "default")
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"the kubeconfig cannot be used: {error}", metadata={"field": "kubeconfig"}) from error
    settings.retries = False  # ours are bounded by attempts and typed
    return Cluster(client.ApiClient(settings), namespace or known, patience or Patience())


def inside() -> bool:
    """Return True if this process runs in a pod with a service account token."""
    return Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()


def connection_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions of a failing connection."""
    urllib3: Any = importlib.import_module("urllib3")
    return urllib3.exceptions.HTTPError, OSError


def api_exception() -> type[Exception]:
    """Return the client's exception for an unsuccessful response."""
    found: type[Exception] = importlib.import_module("kubernetes.client.exceptions").ApiException
    return found


def refused_by(error: Any) -> FathomError:
    """Convert the client's exception to a typed error."""
    return error_from_response(
        error.status or 500, error.body or error.reason, (error.headers or {}).get("Retry-After", "")
    )


def unreachable(error: BaseException) -> NotReady:
    return NotReady(f"{SERVER} is out of reach: {type(error).__name__}: {error}")


def error_from_response(status: int, body: Any, retry_after: str = "") -> FathomError:
    """Convert an unsuccessful response to a typed error; ``body`` is a Status object or anything else."""
    said = status_of(body)
    message = str(said.get("message") or (body if isinstance(body, str) else "") or f"HTTP {status}")[:1000]
    details = said.get("details") or {}
    # The server names the object that is missing; without a name it is the resource itself that is unknown.
    if status == 404 and details.get("name"):
        return NotFound(str(details.get("kind") or "object"), str(details["name"]))
    if status == 404:
        return UnknownKind("the cluster knows no such resource", metadata={"said": message})
    if status == 409:
        return Conflict(message)
    if status == 410:
        return Expired(message)
    if status in TRANSIENT:
        wait = min(float(retry_after), MAX_RETRY_AFTER_S) if retry_after.isdigit() else None
        return NotReady(f"{SERVER} answered {status}: {message}", retry_after_s=wait)
    return UpstreamRefused(SERVER, status, message)


def status_of(body: Any) -> Mapping[str, Any]:
    """Return the Status object of a response; empty when it is none."""
    if isinstance(body, Mapping):
        return body
    try:
        found = json.loads(body)
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "Status" else {}
