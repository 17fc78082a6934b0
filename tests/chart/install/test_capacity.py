"""Test that a release asks of its cluster what README says, and fits where README says it fits."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.chart.rendering import CHART, ROOT, Document, render

README = (ROOT / "README.md").read_text()
SIZES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
SYSTEM_CPU = 0.95
"""Processors that kind's own control plane and network ask for on its node."""


def read_cpu(quantity: str) -> float:
    return float(quantity.removesuffix("m")) / 1_000 if quantity.endswith("m") else float(quantity)


def read_bytes(quantity: str) -> float:
    return float(quantity[:-2]) * SIZES[quantity[-2:]]


def add_requests(documents: tuple[Document, ...]) -> tuple[float, float]:
    """Return processors and GiB that the long-running pods ask for."""
    # Jobs come and go; what stays is what the cluster must have room for.
    cpu = memory = 0.0
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet"):
            for container in document["spec"]["template"]["spec"]["containers"]:
                asked = container["resources"]["requests"]
                cpu += document["spec"]["replicas"] * read_cpu(str(asked["cpu"]))
                memory += document["spec"]["replicas"] * read_bytes(asked["memory"])
    return cpu, memory / 2**30


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ("first-try.yaml", r"asks for ([\d.]+) processors and ([\d.]+) GiB of memory"),
        ("two-of-each-values.yaml", r"ask for ([\d.]+) processors and ([\d.]+) GiB"),
    ],
)
def test_readme_says_which_cluster_is_needed(values: str, sentence: str) -> None:
    """8.6 processors and 17.6 GiB were asked for by a release that used 1.9 GiB, and README said nothing."""
    cpu, memory = add_requests(render("helm4", CHART / "ci" / values))
    said = re.search(sentence, README)
    assert said is not None
    assert (float(said[1]), float(said[2])) == (round(cpu, 2), round(memory, 1))


def test_a_first_try_fits_on_the_node_that_readme_names() -> None:
    found = re.search(r"a node with (\d+) processors and (\d+) GiB", README)
    assert found is not None
    # A node of this size gives pods a little less processor than it has.
    cpu, memory = add_requests(render("helm4", CHART / "ci" / "first-try.yaml"))
    assert cpu + SYSTEM_CPU < int(found[1]) * 0.95
    # The kubelet and the system keep about a fifth of a small node.
    assert memory < int(found[2]) * 0.8


def test_the_capacity_table_has_the_requests_of_the_values() -> None:
    rows = re.findall(
        r"^\| (\w+)(?: \(`rules`\))? \| \d+ \| \d+ \| ([\d,]+) \|", (ROOT / "docs" / "operations.md").read_text(), re.M
    )
    asked = {}
    for document in render("helm4", CHART / "ci" / "two-of-each-values.yaml"):
        if document["kind"] in ("Deployment", "StatefulSet"):
            (container,) = document["spec"]["template"]["spec"]["containers"]
            asked[container["name"]] = read_bytes(container["resources"]["requests"]["memory"]) / 2**20
    assert {name: int(size.replace(",", "")) for name, size in rows} == asked


def test_the_extrapolation_follows_from_what_a_question_and_a_rollout_cost() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    pods = re.findall(r"^\| \w+(?: \(`rules`\))? \| (\d\.\d\d) \| (\d\.\d\d) \| \d+ \| [\d.—]+ \|$", text, re.M)
    question, rollout = map(float, re.findall(r"^\| all \| ([\d.]+) \| ([\d.]+) \|", text, re.M)[0])
    assert len(pods) == 10
    # The bench adds before it rounds, so that ten rounded shares may be off by half a hundredth each.
    for total, shares in ((question, (float(pod[0]) for pod in pods)), (rollout, (float(pod[1]) for pod in pods))):
        assert sum(shares) == pytest.approx(total, abs=0.05)
    rows = re.findall(r"^\| (\d+) in all \| (\d+) \| (\d+) \| ([\d.]+) \|$", text, re.M)
    assert len(rows) >= 3
    for processors, questions, users, rollouts in rows:
        assert int(questions) == round(int(processors) * 60 / question)
        assert int(users) == round(int(processors) * 120 / question), "who ask every two minutes"
        assert float(rollouts) == round(int(processors) / rollout, 2)


def test_requests_are_not_above_the_limits() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, block in {**values["services"], "defaults": values["defaults"], "nats": values["nats"]}.items():
        if "resources" in block:
            asked, bound = block["resources"]["requests"], block["resources"]["limits"]
            assert read_bytes(asked["memory"]) <= read_bytes(bound["memory"]), name
