"""The chart's pods, run as they are rendered, answer the smoke question and pass ``helm test``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chart.rendering import TOOLS, render
from tests.integration.cluster.images import image
from tests.integration.cluster.manifests import expand
from tests.integration.cluster.node import inside, why_not
from tests.integration.cluster.scenarios import ONE_OF_EACH, SECRETS, VALUES
from tests.integration.cluster.usage import read_mib

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(not (TOOLS / "helm4").exists(), reason="no helm: run python deploy/helm.py .fathom/tools"),
]
ADDED = {"HOSTNAME", "PWD"}
"""Variables that a container runtime sets by itself."""


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return inside("smoke", tmp_path_factory.mktemp("cluster") / "node", timeout_s=200)


def test_pods_come_and_go_without_the_node_changing_its_hardware_address(tmp_path: Path) -> None:
    """Others send to the address they know: a stream through the node would fall silent, and never be seen to end."""
    found = inside("neighbours", tmp_path / "node", timeout_s=60)
    assert len(found["addresses"]) == 6
    assert len(set(found["addresses"])) == 1, found


def test_the_pods_run_what_was_rendered_and_nothing_else(findings: dict[str, Any]) -> None:
    """Read from the kernel: no argument, variable, port, host or path was changed on the way."""
    documents = render("helm4", VALUES, "demo", *ONE_OF_EACH)
    maps = {item["metadata"]["name"]: item["data"] for item in documents if item["kind"] == "ConfigMap"}
    seen = set()
    for document in documents:
        if document["kind"] not in ("Deployment", "StatefulSet"):
            continue
        (container,) = document["spec"]["template"]["spec"]["containers"]
        ((pod, found),) = [
            item for item in findings["running"].items() if item[0].startswith(document["metadata"]["name"])
        ]
        stand_in, expected = image(container["image"]), {}
        for source in container.get("envFrom", ()):
            expected.update(maps[source["configMapRef"]["name"]])
        for item in container["env"]:
            expected[item["name"]] = expand(item.get("value", "") or resolve_value(item, pod), expected)
        command = [*(container.get("command") or stand_in.entrypoint), *container.get("args", ())]
        assert as_written(found["command"], command[0]) == command
        assert set(found["environment"]) == set(stand_in.environment) | set(expected) | ADDED
        assert found["environment"] == found["environment"] | stand_in.environment | expected
        seen.add(document["metadata"]["name"].removeprefix("demo-fathom-"))
    assert seen == {
        "datafetch",
        "gateway",
        "grading",
        "memory",
        "nats",
        "planner",
        "policy",
        "retrieval",
        "reward",
        "sandbox",
    }


def as_written(command: list[str], program: str) -> list[str]:
    """The command line without what the kernel puts before a script: its interpreter, and the folder it was found in."""
    return [program, *command[2:]] if Path(command[1]).name == program else command


def resolve_value(item: dict[str, Any], pod: str) -> str:
    """Return what a variable with ``valueFrom`` has to hold; the chart asks for pod names and secrets."""
    (kind, reference), *_ = item["valueFrom"].items()
    return pod if kind == "fieldRef" else SECRETS[reference["name"]][reference["key"]]


def test_every_pod_got_ready_without_a_restart(findings: dict[str, Any]) -> None:
    print(findings["seconds"])
    assert len(findings["pods"]) == 10
    assert not {name: pod for name, pod in findings["pods"].items() if pod["restarts"]}


def test_every_pod_asks_for_the_memory_that_it_uses(findings: dict[str, Any]) -> None:
    """A pod above its request is the first to go when its node is short; one far below keeps others off the node."""
    asked = {}
    for document in render("helm4", VALUES, "demo", *ONE_OF_EACH):
        if document["kind"] in ("Deployment", "StatefulSet"):
            (container,) = document["spec"]["template"]["spec"]["containers"]
            component = document["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
            asked[component] = read_mib(container["resources"]["requests"]["memory"])
    for component, usage in sorted(findings["usage"].items()):
        idle, used = usage["idle"], usage["used"]
        print(
            f"| {component} | {idle['memory_mib']:.0f} | {used['memory_mib']:.0f} | {asked[component]:.0f} "
            f"| {idle['processor_s']:.1f} | {used['processor_s'] - idle['processor_s']:.1f} |"
        )
    over = {name: usage["used"]["memory_mib"] for name, usage in findings["usage"].items()}
    assert not {name: size for name, size in over.items() if size > asked[name]}


def test_the_smoke_question_is_answered_over_http(findings: dict[str, Any]) -> None:
    events = [event for event in findings["events"] if int(event["sequence"]) or "waiting" not in event]
    assert [event["sequence"] for event in events] == [str(number + 1) for number in range(len(events))]
    finished = events[-1]["finished"]
    assert finished["stop_reason"] == "STOP_REASON_FINISHED", finished
    answer, material = finished["answer"], {item["number"]: item for item in finished["material"]}
    assert "-38.52%" in answer["markdown"]
    assert answer["cited"]
    assert set(answer["cited"]) <= set(material)
    # The question's own table and the course in its window, the whole series that the calculation needs, its results.
    assert {item["sheet"]["rows"] for item in material.values() if "sheet" in item} == {"1511", "8313", "4"}
    figures = [figure for item in material.values() for figure in item.get("code", {}).get("figures", ())]
    assert len(figures) == 1


def test_a_terminal_in_a_pod_gets_the_same(findings: dict[str, Any]) -> None:
    status, said = findings["terminal"]
    assert status == 0, said
    assert "table sheet_3" in said
    assert "figure fig_1" in said


def test_a_definition_comes_from_the_documents(findings: dict[str, Any]) -> None:
    assert findings["definition"] == 0
    assert "Maximum drawdown (Fathom notes)" in findings["terminal"][1]


def test_all_answers_are_graded_in_production(findings: dict[str, Any]) -> None:
    """By the pod that the chart has for it, as its ServiceMonitor would see it."""
    grades = findings["grades"]
    assert grades['fathom_grading_runs_total{model="rules"}'] == 3
    assert grades['fathom_grading_value_count{grader="tool_steps",model="rules"}'] == 3
    # A call of one of the three questions found nothing.
    assert grades['fathom_grading_value_bucket{grader="tool_steps",le="0.9",model="rules"}'] == 1
    assert grades['fathom_grading_value_count{grader="code",model="rules"}'] >= 2
    assert not [name for name in grades if name.startswith("fathom_grading_ungraded_total")]


def test_helm_test_passes(findings: dict[str, Any], tmp_path: Path) -> None:
    status, said = findings["helm_test"]
    assert status == 0, said
    assert said.count("✓") == 8
