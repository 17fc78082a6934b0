"""Fathom on a cluster of one's own, in Docker: ``python -m deploy.kind up|deploy|smoke|down``.

``up`` makes the cluster if there is none and puts the images of ``make images`` into it; ``deploy`` applies
deploy/k8s/overlays/kind and waits for every pod; ``smoke`` asks the gateway a question; ``down`` removes it all. Each
may be called again. Needs docker and kind; kubectl is taken from .fathom/tools (``python deploy/helm.py``) or the path.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy import images
from deploy import smoke as question
from fathom.core.identity import make_keys

ROOT = Path(__file__).parents[1]
CLUSTER, NAMESPACE = "fathom", "fathom"
STORE, IDENTITY, GATEWAY = "fathom-object-store", "fathom-identity", "fathom-gateway"
OVERLAY = ROOT / "deploy" / "k8s" / "overlays" / "kind"
NEEDED = images.SERVING
"""Images of the services."""
IMAGES = (*NEEDED, "trainer")
ROLLOUT_S, COMMAND_S = 900, 600


class KindFailed(Exception):
    """Something that is needed is missing, or did not happen in time; the text says what to do."""


def find_tool(name: str) -> str:
    """Return a program's path; raise ``KindFailed`` saying where it comes from."""
    own = ROOT / ".fathom" / "tools" / name
    found = str(own) if own.exists() else shutil.which(name)
    if not found:
        hint = {
            "kubectl": "python deploy/helm.py",
            "kind": "https://kind.sigs.k8s.io",
            "docker": "https://docs.docker.com",
        }
        raise KindFailed(f"{name} is not installed: {hint.get(name, name)}")
    return found


def run(*command: str, feed: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one command with a deadline; raise ``KindFailed`` with the end of its output."""
    try:
        done = subprocess.run(command, input=feed, capture_output=True, text=True, timeout=COMMAND_S + ROLLOUT_S)
    except subprocess.TimeoutExpired as error:
        raise KindFailed(f"{' '.join(command[:4])} took longer than {error.timeout:.0f} s") from error
    if check and done.returncode:
        raise KindFailed(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done


def kubectl(*arguments: str, feed: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run kubectl on this cluster and no other."""
    return run(find_tool("kubectl"), "--context", f"kind-{CLUSTER}", *arguments, feed=feed, check=check)


def up() -> None:
    """Create the cluster unless it exists, and load the images into it."""
    docker, kind = find_tool("docker"), find_tool("kind")
    if CLUSTER not in run(kind, "get", "clusters").stdout.split():
        print("+ kind create cluster (minutes)", flush=True)
        run(kind, "create", "cluster", "--name", CLUSTER, "--wait", "180s")
    for target in IMAGES:
        name = images.tag(target, {})
        if run(docker, "image", "inspect", name, check=False).returncode:
            if target in NEEDED:
                raise KindFailed(f"image {name} is not there: make images BUILDER=docker")
            print(f"- {name} is not there: no training jobs")
            continue
        print(f"+ kind load {name}", flush=True)
        run(kind, "load", "docker-image", name, "--name", CLUSTER)


def deploy() -> None:
    """Apply the namespace, its Secrets and the overlay; return when every pod is ready."""
    kubectl("apply", "-f", str(ROOT / "deploy" / "k8s" / "base" / "namespace.yaml"))
    absent = [name for name in SECRETS if kubectl("-n", NAMESPACE, "get", "secret", name, check=False).returncode]
    if absent:
        kubectl("apply", "-f", "-", feed="---\n".join(write_secret(name, SECRETS[name]()) for name in absent))
    print("+ kubectl apply -k deploy/k8s/overlays/kind", flush=True)
    kubectl("apply", "-k", str(OVERLAY))
    found = kubectl("-n", NAMESPACE, "get", "deployments,statefulsets", "-o", "name").stdout.split()
    for workload in found:
        print(f"+ {workload}", flush=True)
        done = kubectl("-n", NAMESPACE, "rollout", "status", workload, f"--timeout={ROLLOUT_S}s", check=False)
        if done.returncode:
            raise KindFailed(f"{done.stdout}{done.stderr}{describe_pods()}")


def describe_pods() -> str:
    """Return the state of the pods and their last events."""
    pods = kubectl("-n", NAMESPACE, "get", "pods", check=False).stdout
    events = kubectl("-n", NAMESPACE, "get", "events", "--sort-by=.lastTimestamp", check=False).stdout
    return "\n".join([pods, *events.splitlines()[-15:], "fathom doctor --cluster says more"])


def make_store_login() -> dict[str, str]:
    """Return a new login for the object store."""
    return {"AWS_ACCESS_KEY_ID": "fathom", "AWS_SECRET_ACCESS_KEY": secrets.token_urlsafe(24)}


def make_identity() -> dict[str, str]:
    """Return new keys by which the services know each other."""
    signing, public = make_keys()
    return {"signing.pem": signing, "public.pem": public}


def make_gateway_token() -> dict[str, str]:
    """Return a new token for callers of the gateway."""
    return {"token": secrets.token_urlsafe(24)}


SECRETS = {STORE: make_store_login, IDENTITY: make_identity, GATEWAY: make_gateway_token}


def write_secret(name: str, content: Mapping[str, str], namespace: str = NAMESPACE) -> str:
    """Return a Secret in YAML."""
    lines = [f"  {key}: {base64.b64encode(value.encode()).decode()}" for key, value in content.items()]
    return "\n".join(
        ["apiVersion: v1", "kind: Secret", f"metadata: {{name: {name}, namespace: {namespace}}}", "data:", *lines, ""]
    )


def read_token() -> str:
    """Return the token that the gateway wants of its callers."""
    found = kubectl("-n", NAMESPACE, "get", "secret", GATEWAY, "-o", "jsonpath={.data.token}", check=False).stdout
    return base64.b64decode(found).decode()


def ask() -> int:
    """Ask the smoke question through a forwarded port; return the exit status of deploy/smoke.py."""
    environ = {"FATHOM_GATEWAY_TOKEN": read_token(), **os.environ}
    with forward_port("svc/fathom-gateway", 80) as url:
        return question.main([url, *os.environ.get("QUESTION", "").split()], environ)


@contextmanager
def forward_port(target: str, port: int) -> Iterator[str]:
    """Forward a free port of this machine to ``port`` of the target within the block; yield its URL."""
    where = ["--context", f"kind-{CLUSTER}", "-n", NAMESPACE]
    command = [find_tool("kubectl"), *where, "port-forward", target, f":{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        # A port-forward that never says its port is ended, and with it the reading below.
        alarm = threading.Timer(60, child.terminate)
        alarm.start()
        try:
            assert child.stdout is not None
            said = ""
            for line in child.stdout:
                said += line
                if match := re.search(r"127\.0\.0\.1:(\d+)", line):
                    alarm.cancel()
                    yield f"http://localhost:{match[1]}"
                    return
            raise KindFailed(f"port-forward: {said.strip() or 'nothing in 60 s'}")
        finally:
            alarm.cancel()
            child.terminate()


def down() -> None:
    """Remove the cluster with everything in it."""
    run(find_tool("kind"), "delete", "cluster", "--name", CLUSTER)


ACTIONS: Mapping[str, Callable[[], int | None]] = {"up": up, "deploy": deploy, "smoke": ask, "down": down}


def main(arguments: Sequence[str]) -> int:
    """Run one action; return 1 and print the reason when it fails."""
    if len(arguments) != 1 or arguments[0] not in ACTIONS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return ACTIONS[arguments[0]]() or 0
    except KindFailed as error:
        print(f"kind: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
