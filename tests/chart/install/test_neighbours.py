"""Two releases in one namespace: no name twice, no pod of the one behind a Service of the other, and walls between."""

from __future__ import annotations

import pytest

from tests.chart.rendering import CHART, Document, by_key, key, pods, render
from tests.chart.test_flows import NAME, SERVICES, End, allows

SHARED = {("RuntimeClass", "gvisor"), ("ExternalSecret", "object-store")}
"""Named by the values, and the same for whoever uses them: one release makes them, the other leaves them out."""


def render_two(values: str) -> tuple[tuple[Document, ...], tuple[Document, ...]]:
    path = CHART / "ci" / f"{values}-values.yaml"
    return render("helm4", path, "first"), render("helm4", path, "second")


def ends_of(documents: tuple[Document, ...]) -> dict[str, End]:
    return {labels[NAME]: End(tuple(sorted(labels.items()))) for _, labels, _ in pods(documents)}


@pytest.mark.parametrize("values", ["minimal", "full", "gpu"])
def test_no_object_of_one_is_an_object_of_the_other(values: str) -> None:
    first, second = render_two(values)
    assert by_key(first).keys() & by_key(second).keys() <= SHARED


def test_selectors_choose_pods_of_their_own_release() -> None:
    first, second = render_two("minimal")
    chosen = 0
    for document in first:
        # A Service selects by its selector itself, workloads and budgets by the matchLabels in it.
        spec = document.get("spec", {})
        selector = spec.get("selector", {})
        wanted = (
            selector.get("matchLabels", selector)
            if document["kind"] != "NetworkPolicy"
            else spec["podSelector"]["matchLabels"]
        )
        if document["kind"] in ("Service", "Deployment", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"):
            assert not [name for name, labels, _ in pods(second) if wanted.items() <= labels.items()], key(document)
            chosen += 1
    assert chosen >= 30


def test_walls_stand_between_them() -> None:
    # All policies of the namespace at once, as the cluster's engine has them.
    both = tuple(document for release in render_two("minimal") for document in release)
    first, second = map(ends_of, render_two("minimal"))
    for caller in SERVICES:
        assert not allows(both, first[caller], second["nats"], 4222)
        assert not allows(both, first[caller], second["minio"], 9000)
        for callee in set(SERVICES) - {"gateway"}:
            assert not allows(both, first[caller], second[callee], 50051), (caller, callee)
    assert allows(both, first["planner"], first["memory"], 50051)


def test_trainings_make_room_for_production_and_names_are_the_releases_own() -> None:
    documents = render("helm4", CHART / "ci" / "gpu-values.yaml")
    values = {
        name: document["value"] for (kind, name), document in by_key(documents).items() if kind == "PriorityClass"
    }
    assert values == {"research-demo-fathom-production": 1000, "research-demo-fathom-training": 100}
    for name, labels, spec in pods(documents):
        if labels[NAME] != "tests":
            kind = "training" if labels[NAME] == "trainer" else "production"
            assert spec["priorityClassName"] == f"research-demo-fathom-{kind}", name
    (held,) = [one for (_, name), one in by_key(documents).items() if name.endswith("-rayjob")]
    assert '"priorityClassName":"research-demo-fathom-training"' in held["data"]["rayjob.json"]
    # Whoever has classes of their own keeps them.
    named = render("helm4", CHART / "ci" / "gpu-values.yaml", "demo", "pod.priorityClassName=mine")
    assert {spec.get("priorityClassName") for _, labels, spec in pods(named) if labels[NAME] != "tests"} == {"mine"}
