"""Test who may speak to whom: a small NetworkPolicy engine over the rendered policies, against what the code needs."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, ROOT, Document, pods, render

SERVICES = ("gateway", "planner", "policy", "retrieval", "datafetch", "sandbox", "memory", "reward")
HOME, NAME = "research", "app.kubernetes.io/component"
Labels = dict[str, str]


@dataclass(frozen=True)
class End:
    """One end of a connection: a pod (labels and its namespace), or an address outside the cluster."""

    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = HOME
    address: str = ""


def matches(selector: Document, labels: Labels) -> bool:
    # A selector that this engine does not understand must fail the test instead of matching everything.
    assert not selector.keys() - {"matchLabels"}, "this engine knows matchLabels only"
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def peer_matches(peer: Document, end: End) -> bool:
    # Blocks are for addresses outside the cluster: pods have addresses that change, and are matched by labels alone.
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        if not end.address:
            return False
        address = ipaddress.ip_address(end.address)
        inside = address in ipaddress.ip_network(block["cidr"])
        return inside and not any(address in ipaddress.ip_network(out) for out in block.get("except", ()))
    if end.address:
        return False
    space = {"kubernetes.io/metadata.name": end.namespace}
    right_space = matches(peer["namespaceSelector"], space) if "namespaceSelector" in peer else end.namespace == HOME
    return right_space and matches(peer.get("podSelector", {}), dict(end.labels))


def passes(documents: tuple[Document, ...], end: End, other: End, port: int, way: str, protocol: str = "TCP") -> bool:
    """Return whether the policies of one end let the connection through: every policy that selects it adds rules."""
    if end.address or end.namespace != HOME:
        return True  # not ours to say
    field, side = ("egress", "to") if way == "Egress" else ("ingress", "from")
    policies = [d["spec"] for d in documents if d["kind"] == "NetworkPolicy"]
    chosen = [p for p in policies if matches(p["podSelector"], dict(end.labels)) and way in p["policyTypes"]]
    # As in Kubernetes: a pod that no policy selects is open.
    if not chosen:
        return True
    for rule in (rule for policy in chosen for rule in policy.get(field, ())):
        open_port = "ports" not in rule or any(
            (p["port"], p.get("protocol", "TCP")) == (port, protocol) for p in rule["ports"]
        )
        if open_port and (side not in rule or any(peer_matches(peer, other) for peer in rule[side])):
            return True
    return False


def allows(documents: tuple[Document, ...], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    """Return whether traffic may leave the source and enter the target."""
    return passes(documents, source, target, port, "Egress", protocol) and passes(
        documents, target, source, port, "Ingress", protocol
    )


def ends(documents: tuple[Document, ...]) -> dict[str, End]:
    """One pod of each component."""
    return {labels[NAME]: End(tuple(sorted(labels.items()))) for _, labels, _ in pods(documents)}


def find_callees(room: Path) -> set[str]:
    """Return the services whose clients the code of a room uses."""
    text = "\n".join(path.read_text() for path in sorted(room.rglob("*.py")))
    return set(re.findall(r"\b_?clients\.([a-z]+)\b", text)) & set(SERVICES)


def find_needed() -> set[tuple[str, str]]:
    """Return (caller, callee) read from the code of the services."""
    return {(name, peer) for name in SERVICES for peer in find_callees(ROOT / "services" / name) if peer != name}


def port_of(documents: tuple[Document, ...], component: str) -> int:
    if component == "gateway":
        return 8080
    ray = any(d["kind"] == "RayService" for d in documents)
    return 9000 if component == "policy" and ray else 50051


def test_the_code_calls_what_the_values_say_it_calls(documents: tuple[Document, ...]) -> None:
    """An edge that the code has and the values have not would be a wall in production."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())["services"]
    declared = {(name, peer) for name in values for peer in values[name]["calls"]}
    assert find_needed() <= declared, find_needed() - declared
    assert len(find_needed()) >= 10


def test_every_call_of_the_code_is_let_through(documents: tuple[Document, ...]) -> None:
    found = ends(documents)
    for caller, callee in sorted(find_needed()):
        port = port_of(documents, callee)
        assert allows(documents, found[caller], found[callee], port), f"{caller} -> {callee}:{port}"


def test_calls_that_the_values_do_not_name_are_stopped(documents: tuple[Document, ...]) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["services"]
    found, stopped = ends(documents), 0
    for caller in SERVICES:
        for callee in SERVICES:
            if callee in ("gateway", caller) or callee in values[caller]["calls"]:
                continue
            port = port_of(documents, callee)
            assert not allows(documents, found[caller], found[callee], port), f"{caller} -> {callee}:{port}"
            stopped += 1
    # Of 56 pairs; the others are calls that the values name, and those of the gateway, whose port is open to browsers.
    assert stopped >= 25


def test_bus_store_and_names_are_reached_by_whoever_needs_them(documents: tuple[Document, ...]) -> None:
    found = ends(documents)
    dns = End((("k8s-app", "kube-dns"),), "kube-system")
    for name in (*SERVICES, "grading", "shadow", "trainer", "backup", "tests"):
        if name not in found:
            continue
        # Long answers of the name server come over TCP. The sandbox needs no names: it calls nobody.
        for protocol in ("UDP", "TCP"):
            assert allows(documents, found[name], dns, 53, protocol) == (name != "sandbox"), name
        if "nats" in found:
            speaks = name not in ("sandbox", "tests")
            assert allows(documents, found[name], found["nats"], 4222) == speaks, name
        if "minio" in found:
            assert allows(documents, found[name], found["minio"], 9000) == (name not in ("tests", "sandbox")), name
    if "nats" in found:
        assert allows(documents, found["nats"], found["nats"], 6222)
        assert not allows(documents, found["planner"], found["nats"], 6222)
        # 8222 is NATS's own monitoring, which tells every subject and connection to whoever asks.
        assert not allows(documents, found["planner"], found["nats"], 8222)


def test_scrapes_scaling_and_operators_reach_what_they_watch(documents: tuple[Document, ...]) -> None:
    found = ends(documents)
    prometheus, keda = End(namespace="monitoring"), End(namespace="keda")
    operator, stranger = End(namespace="ray-system"), End(namespace="default")
    ray = any(d["kind"] == "RayService" for d in documents)
    for name in SERVICES:
        port = 8080 if name == "gateway" or (name == "policy" and ray) else 9090
        assert allows(documents, prometheus, found[name], port), name
        if name != "gateway":
            assert not allows(documents, stranger, found[name], port), name
            assert not allows(documents, stranger, found[name], port_of(documents, name)), name
    if "nats" in found:
        assert allows(documents, keda, found["nats"], 8222)
        assert not allows(documents, stranger, found["nats"], 4222)
    if ray:
        assert allows(documents, operator, found["policy"], 8265)
        assert allows(documents, found["policy"], found["policy"], 6379)
    if "trainer" in found:
        assert allows(documents, operator, found["trainer"], 8265)
        assert allows(documents, found["trainer"], found["trainer"], 6379)
        assert not allows(documents, stranger, found["trainer"], 8265)
        for peer in ("planner", "policy", "reward", "datafetch"):
            assert allows(documents, found["trainer"], found[peer], port_of(documents, peer)), peer
        for peer in ("memory", "sandbox", "retrieval"):
            assert not allows(documents, found["trainer"], found[peer], 50051), peer


def test_the_watches_over_production_reach_what_their_code_calls_and_nobody_calls_them(
    documents: tuple[Document, ...], values: Path
) -> None:
    found = ends(documents)
    assert ("grading" in found) == (values.stem != "external-nats-values")
    assert ("shadow" in found) == (values.stem == "full-values")
    for watch, room in (("grading", "monitoring"), ("shadow", "shadow")):
        if watch not in found:
            continue
        code = find_callees(ROOT / "libs" / "fathom" / "operations" / room)
        assert code == {"planner", "reward"}
        for name in SERVICES:
            reached = allows(documents, found[watch], found[name], port_of(documents, name))
            # The gateway's port is open to all in some examples, to nobody inside in the others; no watch goes there.
            assert reached == (name in code), (watch, name)
            assert not allows(documents, found[name], found[watch], 9090), (watch, name)
        assert allows(documents, End(namespace="monitoring"), found[watch], 9090)
        assert not allows(documents, End(namespace="default"), found[watch], 9090)


def test_helm_test_reaches_every_service(documents: tuple[Document, ...]) -> None:
    found = ends(documents)
    if "tests" in found:
        for name in SERVICES:
            assert allows(documents, found["tests"], found[name], port_of(documents, name)), name


def test_browsers_come_in_where_they_should(documents: tuple[Document, ...], values: Path) -> None:
    gateway = ends(documents)["gateway"]
    assert allows(documents, End(namespace="ingress-nginx"), gateway, 8080)
    full = values.stem == "full-values"
    assert allows(documents, End(namespace="default"), gateway, 8080) != full
    assert allows(documents, End(address="198.51.100.7"), gateway, 8080) != full, "a LoadBalancer keeps the address"


def test_only_those_that_may_leave_the_cluster_do(documents: tuple[Document, ...], values: Path) -> None:
    found = ends(documents)
    leaving = {"datafetch"} | {"full-values": {"gateway", "retrieval"}, "custom-values": {"policy"}}.get(
        values.stem, set()
    )
    for name, end in found.items():
        assert allows(documents, end, End(address="93.184.216.34"), 443) == (name in leaving), name
        # The first is where clouds hand out the node's credentials.
        for private in ("169.254.169.254", "10.0.0.1", "192.168.7.7"):
            assert not allows(documents, end, End(address=private), 80), f"{name} -> {private}"


def test_the_engine_sees_a_hole(documents: tuple[Document, ...]) -> None:
    """Without the default deny and the policies, everything passes: so the checks above check something."""
    bare = tuple(document for document in documents if document["kind"] != "NetworkPolicy")
    found = ends(documents)
    assert allows(bare, found["sandbox"], found["memory"], 50051)
    assert not allows(documents, found["sandbox"], found["memory"], 50051)


@pytest.mark.parametrize("port", [443, 6443])
def test_the_api_server_is_reached_by_rays_autoscaler_alone(port: int) -> None:
    documents = render("helm4", CHART / "ci" / "gpu-values.yaml")
    fixed = ("training.job.maxWorkers=0", "training.jobs.evening.maxWorkers=0")
    settled = render("helm4", CHART / "ci" / "gpu-values.yaml", "demo", *fixed)
    # The Service's address and the server's own: which of them a network plugin looks at differs.
    server = End(address="10.96.0.1" if port == 443 else "192.168.1.10")
    assert {name for name, end in ends(documents).items() if allows(documents, end, server, port)} == {
        "policy",
        "trainer",
    }
    assert {name for name, end in ends(settled).items() if allows(settled, end, server, port)} == {"policy"}
