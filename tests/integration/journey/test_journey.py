"""The journey, walked whole: on the cluster of KUBECONFIG with FATHOM_CLUSTER=1, else on the simulated one.

FATHOM_JOURNEY names the file of the report; without it the simulated journey, of some minutes, is left out.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.chart.rendering import ROOT, TOOLS
from tests.integration.cluster import load
from tests.integration.cluster.cluster import NotReady
from tests.integration.cluster.node import inside, why_not
from tests.integration.cluster.scenarios import Window
from tests.integration.journey import simulated
from tests.integration.journey.on_cluster import walk_on_cluster
from tests.integration.journey.operator import Operator
from tests.integration.journey.report import summarize, write_report
from tests.integration.journey.simulated import WHY_NOT
from tests.integration.journey.steps import FAILED, NOT_SEEN, SEEN, STEPS, Journal, NotSeen, Record

ON_CLUSTER = os.environ.get("FATHOM_CLUSTER") == "1"
REPORT = os.environ.get("FATHOM_JOURNEY", "")


def show(where: str, records: list[Record]) -> None:
    write_report(Path(REPORT or "journey.html"), where, records)
    for record in records:
        print(f"{record.state:<9} {record.step:<22} {record.seconds:6.0f} s  {record.detail}")
    print(summarize(records))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(ON_CLUSTER or not REPORT, reason="make cluster-test walks it")
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.skipif(not (TOOLS / "helm4").exists(), reason="no helm: run python deploy/helm.py .fathom/tools")
def test_the_journey_on_the_simulated_cluster(tmp_path: Path) -> None:
    found = inside("journey", tmp_path / "node", timeout_s=3500)
    records = [Record(**record) for record in found["records"]]
    show("On the simulated cluster: processes in namespaces, no API server, no operator", records)
    assert [record.step for record in records] == list(STEPS)
    assert not [record for record in records if record.state == FAILED]
    assert {record.step for record in records if record.state == NOT_SEEN} == set(WHY_NOT)


@pytest.mark.cluster
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not ON_CLUSTER, reason="make cluster-test KUBECONFIG=FILE walks it")
def test_the_journey_on_a_cluster() -> None:
    records = list(walk_on_cluster(shlex.split(os.environ.get("FATHOM_CLUSTER_HELM", ""))))
    show("On the cluster of KUBECONFIG", records)
    assert not [record for record in records if record.state == FAILED]
    assert next(record for record in records if record.step == "install").state == SEEN


PROGRAM = """#!/bin/sh
echo "{name} $*" >> "$CALLS"
{body}
exit 0
"""
POD = {"metadata": {"name": "fathom-x-0"}, "status": {"containerStatuses": [{"restartCount": 0}]}}


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs on the path that write down what they are asked for, and answer as those of a sound cluster do."""
    log, folder = tmp_path / "calls", tmp_path / "bin"
    folder.mkdir()
    log.touch()
    (tmp_path / "pods.json").write_text(json.dumps({"items": [POD]}))
    bodies = {
        "helm": f'case "$1" in uninstall) touch {tmp_path}/gone;; esac',
        "fathom": f'case "$*" in *train*) echo "trained to the end";; *) echo "all is well";; esac; exec cat {tmp_path}/none',
        "kubectl": f"""case "$*" in
*"pods,jobs"*rayjobs*) cat {tmp_path}/left 2>/dev/null;;
*"pods,jobs"*) test -e {tmp_path}/gone || echo pod/fathom-x-0;;
*"get pods"*) cat {tmp_path}/pods.json;;
*"api-resources"*) cat {tmp_path}/kinds 2>/dev/null;;
*"deployments,statefulsets"*) echo deployment.apps/fathom-planner;;
*persistentvolumeclaims*) echo persistentvolumeclaim/data-fathom-memory-0;;
*exec*python3*nats*|*exec*python3*kubernetes*) echo "command terminated with exit code 7" >&2; exit 7;;
*exec*python3*minio*) test ! -e {tmp_path}/asked || exit 0; touch {tmp_path}/asked; echo "exit code 7" >&2; exit 7;;
*verify*) echo "every checksum is right";;
*"memory erase"*) touch {tmp_path}/erased;;
*"condition=complete"*) rm -f {tmp_path}/erased;;
*"memory export"*) test -e {tmp_path}/erased && echo "rows.jsonl: nothing" || echo "rows.jsonl: 7 turns, 2 conversations";;
esac""",
    }
    (tmp_path / "none").touch()
    for name, body in bodies.items():
        (folder / name).write_text(PROGRAM.format(name=name, body=body))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setenv("CALLS", str(log))
    monkeypatch.setattr(Operator, "ask", lambda operator: "3 citations")
    return log


def test_an_operator_walks_every_step_in_a_namespace_of_its_own(calls: Path) -> None:
    (calls.parent / "kinds").write_text("rayjobs.ray.io\n")
    records = walk_on_cluster(["--set", "global.image.registry=r.example.com"])
    # For another place, see WHY_NOT.
    states = {record.step: (record.state, record.detail) for record in records}
    assert {step for step, (state, _) in states.items() if state != SEEN} == {"store away"}
    assert states["install"][1] == "1 pods, 0 restarts"
    assert states["kill"][1].endswith("; 0 restarts of containers")
    assert states["training, two workers"][1] == "trained to the end"
    assert states["restore"][1] == "7 turns are there again; asked once more: 3 citations"
    assert states["uninstall"][1] == "left: persistentvolumeclaim/data-fathom-memory-0"
    said = calls.read_text().splitlines()
    (install,) = (line for line in said if line.startswith("helm install"))
    assert install.endswith("--set global.image.registry=r.example.com")
    (namespace,) = {line.split("-n ")[1].split()[0] for line in said if line.startswith("helm ")}
    assert namespace.startswith("fathom-journey-")
    assert said[-1].startswith(f"kubectl delete namespace {namespace}")
    assert len([line for line in said if " train grpo --on-cluster" in line]) == 2


def test_what_a_cluster_lacks_is_not_seen_and_what_it_leaves_behind_fails(calls: Path) -> None:
    # An uninstall that says nothing and does nothing.
    (calls.parent / "bin" / "helm").write_text("#!/bin/sh\nexit 0\n")
    states = {record.step: record for record in walk_on_cluster([])}
    assert states["training, no workers"].detail == "KubeRay's operator is not installed"
    assert states["training, no workers"].state == NOT_SEEN
    assert states["uninstall"].state == FAILED
    assert "pod/fathom-x-0" in states["uninstall"].detail


def test_a_restore_that_brings_nothing_back_fails(calls: Path) -> None:
    program = calls.parent / "bin" / "kubectl"
    # A Job that ends well and has restored nothing.
    program.write_text(program.read_text().replace(f"rm -f {calls.parent}/erased", "true"))
    states = {record.step: record for record in walk_on_cluster([])}
    assert states["backup"].state == SEEN
    assert states["restore"].state == FAILED
    assert "0 turns of 7 are there again" in states["restore"].detail
    # Services are stopped before the Job is made: memory's file must not change under it.
    said = calls.read_text()
    assert said.index("scale statefulset fathom-memory fathom-sandbox --replicas=0") < said.index(
        "helm template fathom"
    )


def test_a_training_that_outlives_the_release_fails_the_uninstall(calls: Path) -> None:
    (calls.parent / "kinds").write_text("rayclusters.ray.io\nrayjobs.ray.io\n")
    (calls.parent / "left").write_text("rayjob.ray.io/fathom-nightly\n")
    states = {record.step: record for record in walk_on_cluster([])}
    assert states["uninstall"].state == FAILED
    assert "rayjob.ray.io/fathom-nightly" in states["uninstall"].detail
    (asked,) = [line for line in calls.read_text().splitlines() if "pods,jobs" in line]
    assert "pods,jobs,services,networkpolicies,rayjobs.ray.io,rayclusters.ray.io " in asked


def test_a_failed_installation_ends_the_journey_and_the_namespace(calls: Path) -> None:
    (calls.parent / "bin" / "helm").write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    records = walk_on_cluster([])
    assert records[0].state == FAILED
    assert "no room" in records[0].detail
    assert {record.state for record in records[1:]} == {NOT_SEEN}
    assert "kubectl delete namespace fathom-journey-" in calls.read_text()


def test_a_step_is_seen_unless_it_fails_or_says_why_not(tmp_path: Path) -> None:
    journal = Journal()
    with journal.step("install") as record:
        record.detail = "16 pods"
    with journal.step("doctor"):
        raise NotSeen("no <API> server")
    with journal.step("smoke"):
        raise ValueError("no answer")
    records = journal.finish("not tried")
    assert [(record.state, record.detail) for record in records[:4]] == [
        ("seen", "16 pods"),
        ("not seen", "no <API> server"),
        ("not seen", "not tried"),
        ("failed", "ValueError: no answer"),
    ]
    write_report(tmp_path / "journey.html", "Here", records)
    page = (tmp_path / "journey.html").read_text()
    assert "1 seen, 1 failed, 14 not seen" in page
    assert "no &lt;API&gt; server" in page
    assert page.count("<tr class=") == len(STEPS)


async def test_each_step_of_the_simulated_journey_counts_its_own_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installation was said to have taken as long as the whole journey."""
    ended: list[str] = []
    workload = SimpleNamespace(component="planner")
    pods = [SimpleNamespace(workload=workload, ready_after_s=4.25, restarts=0, container=SimpleNamespace(process=None))]

    @asynccontextmanager
    async def install(folder: Path, *settings: str, ready_s: float) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(pods=pods)
        pods[0].container.process = SimpleNamespace(returncode=0)
        ended.append("uninstalled")

    async def look(journal: Journal, found: object) -> None:
        # The file has the steps that have ended, each after its own seconds.
        (written,) = json.loads((tmp_path / "records.json").read_text())
        assert (written["step"], written["state"]) == ("install", SEEN)
        assert not ended

    monkeypatch.setattr(simulated, "cluster", install)
    monkeypatch.setattr(simulated, "walk", look)
    records = {record["step"]: record for record in (await simulated.journey(tmp_path))["records"]}
    assert ended == ["uninstalled"]
    assert records["install"]["detail"] == "1 pods, the last one ready planner after 4.2 s, 0 restarts"
    assert records["uninstall"]["state"] == SEEN


async def test_a_simulated_installation_that_fails_ends_the_journey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def fail(folder: Path, *settings: str, ready_s: float) -> AsyncIterator[None]:
        raise NotReady("planner, 3 restarts")
        yield

    monkeypatch.setattr(simulated, "cluster", fail)
    records = {record["step"]: record for record in (await simulated.journey(tmp_path))["records"]}
    assert records["install"]["state"] == FAILED
    assert "planner, 3 restarts" in records["install"]["detail"]
    assert records["uninstall"]["detail"] == "the journey ended before it"
    assert records["walls"]["detail"] == WHY_NOT["walls"]


def test_the_longest_wait_is_told_of_each_loss() -> None:
    done = [
        {"what": "question", "began": 1.0, "seconds": 2.0},
        {"what": "policy", "began": 10.0, "seconds": 22.4},
        {"what": "question", "began": 31.0, "seconds": 1.0},
        {"what": "question", "began": 34.0, "seconds": 3.0},
        {"what": "memory", "began": 70.0, "seconds": 0.1},
    ]
    losses = [Window("policy", 11.0, 30.0), Window("planner", 33.0, 33.5), Window("planner", 34.5, 36.0)]
    losses.append(Window("nats", 50.0, 51.0))
    assert simulated.describe_waits(done, losses) == (
        "the longest 22.4 s (policy), by what was lost: policy 22.4 s (policy); "
        "planner 3.0 s (question, usually 1.5); nats nobody"
    )
    assert simulated.describe_waits(done, []) == "the longest 22.4 s (policy)"


async def test_everybody_who_is_waited_for_is_at_work() -> None:
    assert load.operations("demo-fathom", 1).keys() == load.USERS


def test_a_loss_counts_alone() -> None:
    """One operation of 16 s counted for the six pods that were killed while it ran."""
    loss = Window("policy", 2.0, 3.0)
    # The second question was asked while policy was away.
    done = [{"what": what, "began": began} for what, began in (("question", 1.0), ("memory", 3.5), ("question", 2.5))]
    assert not simulated.is_over(loss, done)
    assert simulated.is_over(loss, [*done, {"what": "question", "began": 3.1}])


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("setting", "built"), [([], [[]]), (["KUBECONFIG=lab.yaml"], [])])
def test_make_builds_the_data_that_the_cluster_of_the_journey_needs(setting: list[str], built: list[list[str]]) -> None:
    """A minute of vectors was computed for pods that rank by words, and data for pods that have their own."""
    command = ["make", "--no-print-directory", "--dry-run", "cluster-test", *setting]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [shlex.split(line) for line in done.stdout.splitlines() if 'fathom" data' in line]
    options = [[word for word in line[line.index("data") + 1 :] if word.startswith("--")] for line in lines]
    assert options == [[*words, "--home"] for words in built]
    assert "tests/integration/journey" in done.stdout
