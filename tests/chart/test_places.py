"""Stores, buses and name servers that are no part of the release, behind walls that are enforced."""

from __future__ import annotations

import pytest

from tests.chart.rendering import CHART, Document, render
from tests.chart.test_flows import End, allows, ends

MINIMAL = CHART / "ci" / "minimal-values.yaml"
STORAGE = End((("app", "minio"),), "storage")
USERS = {"planner", "retrieval", "datafetch", "memory", "gateway", "reward", "policy", "grading"}


def render_with(*settings: str) -> tuple[Document, ...]:
    """Render with the store in a namespace of the platform, unless the settings say otherwise."""
    store = ("objectStore.dev.enabled=false", "objectStore.secure=false", "objectStore.endpoint=s3.storage:9000")
    return render("helm4", MINIMAL, "demo", *store, *settings)


def find_users(documents: tuple[Document, ...], target: End, port: int) -> set[str]:
    return {name for name, end in ends(documents).items() if allows(documents, end, target, port)}


@pytest.mark.parametrize(
    ("endpoint", "place", "port"),
    [
        ("s3.storage:9000", STORAGE, 9000),
        ("s3.storage.svc:9000", STORAGE, 9000),
        ("s3.storage.svc.cluster.local", STORAGE, 80),
        ("minio:9000", End((("app", "minio"),)), 9000),
        ("10.9.8.7:9000", End(address="10.9.8.7"), 9000),
    ],
)
def test_a_store_whose_address_says_where_it_is_needs_nothing_more(endpoint: str, place: End, port: int) -> None:
    """README's own command left every pod without its store: 14 of 16 were Ready and questions hung."""
    documents = render_with(f"objectStore.endpoint={endpoint}")
    assert find_users(documents, place, port) == USERS
    # Another port of the same pods, and the same port elsewhere, are still closed.
    assert not find_users(documents, place, port + 1)
    elsewhere = End(address="10.9.8.8") if place.address else End(place.labels, "default")
    assert not find_users(documents, elsewhere, port)


def test_a_bus_in_another_namespace_is_reached_by_those_that_speak_over_it() -> None:
    servers = "nats-0.nats.messaging.svc:4222, nats-1.nats.messaging.svc:4222"
    documents = render_with("nats.enabled=false", "nats.external.servers=" + servers.replace(",", "\\,"))
    assert find_users(documents, End((("app", "nats"),), "messaging"), 4222) == USERS


def test_pods_that_listen_elsewhere_than_their_service_are_named_by_their_namespace() -> None:
    place = "networkPolicy.externalStores[0]"
    documents = render_with(f"{place}.namespace=storage", f"{place}.port=9001", f"{place}.podLabels.app=minio")
    assert find_users(documents, STORAGE, 9001) == USERS
    assert not find_users(documents, End((("app", "other"),), "storage"), 9001)


@pytest.mark.parametrize(
    ("server", "port"),
    [
        (End((("k8s-app", "kube-dns"),), "kube-system"), 53),
        (End((("k8s-app", "kube-dns"),), "kube-system"), 5353),  # pods of a name server whose Service alone has 53
        (End((("dns.operator.openshift.io/daemonset-dns", "default"),), "openshift-dns"), 5353),
        (End(address="169.254.20.10"), 53),  # NodeLocal DNSCache
    ],
)
def test_names_are_looked_up_on_clusters_of_several_kinds(server: End, port: int) -> None:
    documents = render("helm4", MINIMAL)
    found = ends(documents)
    # The sandbox calls nobody and looks up nothing, so that it cannot carry anything out by names either.
    for protocol in ("UDP", "TCP"):
        assert allows(documents, found["planner"], server, port, protocol)
        assert not allows(documents, found["sandbox"], server, port, protocol)
    assert not allows(documents, found["planner"], End(address="169.254.169.254"), port, "UDP")


def test_another_name_server_takes_the_place_of_those_that_are_known() -> None:
    peer = "networkPolicy.dns.peers[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=names"
    documents = render("helm4", MINIMAL, "demo", peer, "networkPolicy.dns.ports={1053}")
    # A list of the values replaces the default as a whole, where a mapping would be merged with it.
    planner = ends(documents)["planner"]
    assert allows(documents, planner, End(namespace="names"), 1053, "UDP")
    assert not allows(documents, planner, End((("k8s-app", "kube-dns"),), "kube-system"), 53, "UDP")
