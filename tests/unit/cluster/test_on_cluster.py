"""``fathom train --on-cluster`` against an API server at its HTTP edge: submit, follow, end, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fathom.core.config import ConfigError
from fathom.core.errors import Conflict, DeadlineExceeded, FailedPrecondition, InvalidField, NotReady, UpstreamRefused
from fathom.core.retry import RetryPolicy
from fathom.operations.cluster.api import RAYJOBS, Cluster, Patience, ReleasePlace, connect
from fathom.operations.cluster.following import Follower, Pace
from fathom.operations.cluster.pending import QUEUE
from fathom.operations.cluster.rayjob import Wanted, fill_template, full_name, load_template, submit
from fathom.trainers.commands.on_cluster import Asked, train_on_cluster
from fathom.trainers.jobs.ray_job import parse_arguments, read_settings
from tests.chart.test_ray import find_broken_rules
from tests.unit.cluster.apiserver import CLOSE, DROP, Act, Failure, FakeApiServer, Object, status
from tests.unit.cluster.recorded import JOBS, PODS, becomes, lines, ray_failed, submitter

NAME = "train-grpo-a1"
SMALL = ["rollout.n=2", "data.train_files=[store:prompts/train.parquet]"]


@pytest.fixture
def place(kubeconfig: Path) -> ReleasePlace:
    return ReleasePlace(kubeconfig=kubeconfig)


def make_request(*overrides: str, **more: Any) -> Asked:
    return Asked("grpo", overrides=[*SMALL, *overrides], job="a1", **more)


def succeeds(server: FakeApiServer) -> None:
    server.put(f"{PODS}/{NAME}-t5qzc", submitter(NAME))
    server.acts.extend(
        [Act(becomes("Initializing")), Act(becomes("Running", "PENDING")), Act(becomes("Running", "RUNNING"))]
    )
    server.acts.append(Act(becomes("Complete", "SUCCEEDED", succeeded=1)))
    server.logs.extend(
        [(lines('{"step": 1}', '{"step": 2}'), CLOSE), (lines('{"step": 1}', '{"step": 2}', "done"), CLOSE)]
    )


def read_submitted(server: FakeApiServer) -> Object:
    return server.objects[f"{JOBS}/{NAME}"]


def test_a_training_is_submitted_and_followed_to_its_end(
    server: FakeApiServer, place: ReleasePlace, pace: Pace, capsys: pytest.CaptureFixture[str]
) -> None:
    succeeds(server)
    assert train_on_cluster(make_request(), place, pace) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{NAME} submitted to namespace research"
    order = [line for line in said if line.startswith(f"{NAME}: ")]
    assert order == [
        f"{NAME}: submitted", f"{NAME}: Initializing", f"{NAME}: Running / PENDING", f"{NAME}: Running / RUNNING",
        f"{NAME}: Complete / SUCCEEDED", f"{NAME}: trained to the end",
    ]  # fmt: skip
    assert [line for line in said if line.startswith("{") or line == "done"] == ['{"step": 1}', '{"step": 2}', "done"]


def test_the_job_is_what_the_operator_takes_and_the_trainer_reads(server: FakeApiServer, place: ReleasePlace) -> None:
    assert train_on_cluster(make_request("trainer.total_epochs=3", follow=False), place) == 0
    job = read_submitted(server)
    assert find_broken_rules(job) == []
    assert server.asked_for("POST", JOBS)[0][2]["fieldValidation"] == "Strict"
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    environ = {item["name"]: item.get("value", "") for item in head["env"]}
    assert json.loads(environ["FATHOM_RUNTIME_ENDPOINTS"])["planner"].startswith("grpc://")
    arguments = job["spec"]["entrypoint"].split()
    assert arguments[:3] == ["python3", "-m", "fathom.trainers.jobs.ray_job"]
    config = read_settings(parse_arguments(arguments[3:], environ))
    assert (config.rollout.n, config.trainer.total_epochs, config.trainer.output.name) == (2, 3, NAME)


def test_dollars_in_settings_reach_the_trainer_as_they_are(cluster: Cluster) -> None:
    """The kubelet would replace $(PATH)."""
    wanted = Wanted("grpo", yaml.safe_dump({"rollout": {"system_prompt": "say $(PATH) and $1"}}), "a1")
    job = fill_template(load_template(cluster, "fathom"), wanted, "fathom")
    env = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    assert "say $$(PATH) and $1" in env[-1]["value"]


def test_workers_and_gpus_replace_the_templates(cluster: Cluster) -> None:
    given = load_template(cluster, "fathom")
    job = fill_template(given, Wanted("grpo", "", "a1", workers=3, gpus=2), "fathom")
    (group,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (3, 3, 3)
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert find_broken_rules(job) == []
    assert (
        "workerGroupSpecs"
        not in fill_template(given, Wanted("grpo", "", "a1", workers=0), "fathom")["spec"]["rayClusterSpec"]
    )


def load_golden(name: str) -> Object:
    """Return the template of a reviewed rendering, as a release of these values has it."""
    golden = (Path(__file__).parents[2] / "golden" / "chart" / f"{name}.yaml").read_text()
    documents = yaml.load_all(golden, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    (held,) = [one for one in documents if one["metadata"]["name"] == "demo-fathom-rayjob"]
    found: Object = json.loads(held["data"]["rayjob.json"])
    return found


@pytest.mark.parametrize(
    ("given", "bounds"),
    [({}, (4, 8)), ({"workers": 2, "max_workers": 6}, (2, 6)), ({"max_workers": 5}, (4, 5)),
     ({"workers": 0, "max_workers": 3}, (0, 3)), ({"workers": 6}, (6, 6)), ({"max_workers": 4}, (4, 4))],
)  # fmt: skip
def test_workers_come_and_go_between_their_bounds(given: dict[str, int], bounds: tuple[int, int]) -> None:
    job = fill_template(load_golden("gpu"), Wanted("grpo", "", "a1", **given), "demo")
    cluster = job["spec"]["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (bounds[0], *bounds)
    # A token for the API server goes with the autoscaler alone.
    scales = bounds[0] < bounds[1]
    assert cluster.get("enableInTreeAutoscaling", False) is scales
    assert ("autoscalerOptions" in cluster) is scales
    assert cluster["headGroupSpec"]["template"]["spec"]["automountServiceAccountToken"] is scales
    assert find_broken_rules(job) == []


def test_a_training_without_workers_needs_no_autoscaler() -> None:
    cluster = fill_template(load_golden("gpu"), Wanted("grpo", "", "a1", workers=0), "demo")["spec"]["rayClusterSpec"]
    assert not {"workerGroupSpecs", "enableInTreeAutoscaling", "autoscalerOptions"} & cluster.keys()


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [("gpu", {"workers": 4, "max_workers": 2}, "is 2, fewer than the 4 workers"),
     ("minimal", {"max_workers": 4}, "training.job.maxWorkers")],
)  # fmt: skip
def test_bounds_that_no_release_can_keep_are_refused(name: str, given: dict[str, int], said: str) -> None:
    with pytest.raises(InvalidField, match=said) as refused:
        fill_template(load_golden(name), Wanted("grpo", "", "a1", **given), "demo")
    assert refused.value.metadata["field"] == "max_workers"


def test_a_training_belongs_to_its_release_and_goes_with_it(server: FakeApiServer, place: ReleasePlace) -> None:
    """Kubernetes deletes what belongs to the ConfigMap when ``helm uninstall`` deletes that."""
    assert train_on_cluster(make_request(follow=False), place) == 0
    # By uid and not by name alone: a template that was made anew owns nothing of before.
    template = server.objects["/api/v1/namespaces/research/configmaps/fathom-rayjob"]
    assert read_submitted(server)["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "fathom-rayjob", "uid": template["metadata"]["uid"]}
    ]


def test_older_crds_are_named_with_what_mends_it(server: FakeApiServer, cluster: Cluster) -> None:
    said = 'RayJob in version "v1" cannot be handled: strict decoding error: unknown field "spec.deletionStrategy"'
    server.failures.append(Failure("POST", JOBS, 400, json.dumps(status(400, "BadRequest", said))))
    job = fill_template(load_template(cluster, "fathom"), Wanted("grpo", "", "a1"), "fathom")
    with pytest.raises(FailedPrecondition, match=r"CRDs, are older than the chart .*spec\.deletionStrategy"):
        submit(cluster, job)


def test_the_queue_of_the_values_stays_on_the_job() -> None:
    """Kueue owns suspend from the first moment."""
    job = fill_template(load_golden("full"), Wanted("grpo", "", "a1", workers=2), "demo")
    assert job["metadata"]["labels"][QUEUE] == "training"
    assert job["spec"]["suspend"] is True
    assert find_broken_rules(job) == []


@pytest.mark.parametrize(
    ("deployment", "job", "more", "code", "said"),
    [
        ("Failed", "FAILED", {"reason": "AppFailed", "message": ray_failed(2, "x", "error: rollout.n: 0 [INVALID_FIELD]")}, 2, "rollout.n: 0"),
        ("Failed", "FAILED", {"reason": "AppFailed", "message": ray_failed(3)}, 3, "last good checkpoint"),
        ("Failed", "FAILED", {"reason": "AppFailed", "message": ray_failed(75)}, 75, "out of reach"),
        ("Failed", "FAILED", {"reason": "AppFailed", "message": ray_failed(-9)}, 137, "status 137"),
        ("Failed", "FAILED", {"reason": "AppFailed", "message": "Job supervisor actor died"}, 1, "supervisor"),
        ("Failed", "RUNNING", {"reason": "DeadlineExceeded"}, 124, "deadlineSeconds"),
        ("Failed", "", {"reason": "PreRunningDeadlineExceeded"}, 75, "did not start in time"),
        ("ValidationFailed", "", {"reason": "ValidationFailed", "message": "name too long"}, 2, "name too long"),
        ("Complete", "STOPPED", {}, 143, "stopped"),
    ],
)  # fmt: skip
def test_the_exit_status_is_the_trainings(
    server: FakeApiServer, place: ReleasePlace, pace: Pace, capsys: pytest.CaptureFixture[str],
    deployment: str, job: str, more: dict[str, Any], code: int, said: str,
) -> None:  # fmt: skip
    server.acts.append(Act(becomes(deployment, job, **more)))
    assert train_on_cluster(make_request(), place, pace) == code
    assert said in capsys.readouterr().err


def test_the_same_job_id_again_submits_nothing_and_follows_the_first(
    server: FakeApiServer, place: ReleasePlace, pace: Pace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_on_cluster(make_request(follow=False), place) == 0
    assert "--job-id a1" in capsys.readouterr().out
    server.acts.append(Act(becomes("Complete", "SUCCEEDED")))
    assert train_on_cluster(make_request(), place, pace) == 0
    assert "is there already" in capsys.readouterr().out
    assert len([path for path in server.objects if path.startswith(JOBS)]) == 1


def test_the_same_job_id_with_other_settings_is_a_conflict(server: FakeApiServer, place: ReleasePlace) -> None:
    train_on_cluster(make_request(follow=False), place)
    with pytest.raises(Conflict, match="other settings"):
        train_on_cluster(make_request("rollout.n=8", follow=False), place)


def test_an_answer_that_is_lost_makes_no_second_job(server: FakeApiServer, cluster: Cluster) -> None:
    job = fill_template(load_template(cluster, "fathom"), Wanted("grpo", "", "a1"), "fathom")
    server.failures.append(Failure("POST", "rayjobs", 0, after=True))
    _, new = submit(cluster, job)
    assert len(server.asked_for("POST", "rayjobs")) == 2
    assert not new
    assert list(path for path in server.objects if path.startswith(JOBS)) == [f"{JOBS}/{NAME}"]


def test_an_answer_that_comes_too_late_makes_no_second_job(
    server: FakeApiServer, cluster: Cluster, kubeconfig: Path
) -> None:
    """A slow server carries a request out that its client has given up."""
    job = fill_template(load_template(cluster, "fathom"), Wanted("grpo", "", "a1"), "fathom")
    released = threading.Event()
    server.failures.append(Failure("POST", "rayjobs", 0, after=True, held=released))
    # The shortest wait that a loaded machine keeps: the answer itself comes when the test is over.
    patience = Patience(read_s=1.0, retry=RetryPolicy(attempts=5, first_delay_s=0.0))
    try:
        _, new = submit(connect(kubeconfig=kubeconfig, patience=patience), job)
    finally:
        released.set()
    assert not new
    assert list(path for path in server.objects if path.startswith(JOBS)) == [f"{JOBS}/{NAME}"]


def test_a_server_that_is_busy_is_asked_again(server: FakeApiServer, cluster: Cluster) -> None:
    server.failures.append(Failure("GET", "configmaps", 503, "etcd leader changed", times=2))
    assert load_template(cluster, "fathom")["kind"] == "RayJob"
    server.failures.append(Failure("GET", "configmaps", 503, "etcd leader changed", times=9))
    with pytest.raises(NotReady, match="503"):
        load_template(cluster, "fathom")


def test_a_watch_that_breaks_or_is_too_old_is_begun_again(
    server: FakeApiServer, place: ReleasePlace, pace: Pace
) -> None:
    gone = status(410, "Expired", "too old resource version: 100 (4711)")
    server.acts.extend(
        [
            Act(end=DROP),
            Act(becomes("Initializing"), end=DROP),
            Act(error=gone),
            Act(becomes("Complete", "SUCCEEDED")),
        ]
    )
    assert train_on_cluster(make_request(), place, pace) == 0


def test_a_server_that_stays_away_ends_the_following_and_not_the_job(
    server: FakeApiServer, place: ReleasePlace, pace: Pace
) -> None:
    server.acts.extend([Act(end=DROP)] * 10)
    with pytest.raises(NotReady):
        train_on_cluster(make_request(), place, pace)
    assert len(server.acts) == 10 - (pace.retry.attempts or 0)
    assert read_submitted(server)


def test_a_log_that_breaks_goes_on_without_losing_or_doubling_a_line(
    server: FakeApiServer, place: ReleasePlace, pace: Pace, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(f"{PODS}/{NAME}-t5qzc", submitter(NAME))
    server.acts.append(Act(becomes("Running", "RUNNING")))
    server.acts.append(Act(becomes("Complete", "SUCCEEDED")))
    twice = ["2026-11-21T17:00:02.000000000Z c", "2026-11-21T17:00:02.000000000Z d"]
    server.logs.extend([
        (lines("a", "b"), DROP), ([*lines("b", start=1), twice[0]], DROP), ([*twice, *lines("e", start=3)], CLOSE),
    ])  # fmt: skip
    assert train_on_cluster(make_request(), place, pace) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) == 1] == ["a", "b", "c", "d", "e"]


def test_a_job_that_is_deleted_meanwhile_is_said(server: FakeApiServer, place: ReleasePlace, pace: Pace) -> None:
    server.acts.append(Act(delete=True))
    with pytest.raises(FailedPrecondition, match="is gone"):
        train_on_cluster(make_request(), place, pace)


def test_the_deadline_of_following_leaves_the_job(server: FakeApiServer, cluster: Cluster, pace: Pace) -> None:
    submit(cluster, fill_template(load_template(cluster, "fathom"), Wanted("grpo", "", "a1"), "fathom"))
    now = iter(range(0, 10_000, 40))
    follower = Follower(cluster, NAME, lambda _: None, lambda _: None, replace(pace, deadline_s=100), lambda: next(now))
    with pytest.raises(DeadlineExceeded, match="goes on"):
        follower.run()
    assert read_submitted(server)


@pytest.mark.parametrize("stop", [False, True])
def test_ctrl_c_lets_the_job_go_on_unless_it_is_told_to_stop_it(
    server: FakeApiServer, place: ReleasePlace, pace: Pace, capsys: pytest.CaptureFixture[str], stop: bool
) -> None:
    succeeds(server)

    class Interrupting(list[Any]):
        def append(self, item: Any) -> None:
            super().append(item)
            if item[0] == "GET" and item[1].endswith("/log"):
                signal_self()

    server.requests = Interrupting(server.requests)
    assert train_on_cluster(make_request(stop=stop), place, pace) == 130
    said = capsys.readouterr().out
    assert ("is deleted" in said) == stop
    assert ("goes on" in said) != stop
    assert (f"{JOBS}/{NAME}" in server.objects) != stop


def signal_self() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("overrides", "more", "kind", "said"),
    [
        (["rollout.nn=3"], {}, ConfigError, "rollout.nn"),
        (["data.train_files=[mine.parquet]"], {}, InvalidField, "store:KEY"),
        (["model.path=out/model"], {}, InvalidField, "store:KEY"),
        (["rollout.replay=/tmp/x"], {}, InvalidField, "this machine"),
        ([], {"job": "Not A Name"}, InvalidField, "job_id"),
        ([], {"job": "x" * 40}, InvalidField, "job_id"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_submitted(
    server: FakeApiServer,
    place: ReleasePlace,
    overrides: list[str],
    more: dict[str, str],
    kind: type[Exception],
    said: str,
) -> None:
    with pytest.raises(kind, match=said):
        train_on_cluster(replace(make_request(*overrides), **more), place)  # type: ignore[arg-type]
    assert not server.asked_for("POST", "")


def test_a_cluster_without_the_operator_says_who_installs_it(server: FakeApiServer, place: ReleasePlace) -> None:
    del server.groups["ray.io/v1"]
    with pytest.raises(FailedPrecondition, match="KubeRay's operator is not installed"):
        train_on_cluster(make_request(), place)


def test_a_release_that_is_not_there_is_named(server: FakeApiServer, kubeconfig: Path) -> None:
    with pytest.raises(FailedPrecondition, match=r"no release 'other'.*'research'.*other-fathom-rayjob"):
        train_on_cluster(make_request(), ReleasePlace(release="other", kubeconfig=kubeconfig))


def test_what_the_account_may_not_is_told_with_the_servers_words(server: FakeApiServer, place: ReleasePlace) -> None:
    server.denied.add(("create", "rayjobs"))
    with pytest.raises(UpstreamRefused, match=r"403.*cannot create resource") as caught:
        train_on_cluster(make_request(), place)
    assert caught.value.status == 403


def test_a_log_that_may_not_be_read_does_not_end_the_following(
    server: FakeApiServer, place: ReleasePlace, pace: Pace, capsys: pytest.CaptureFixture[str]
) -> None:
    succeeds(server)
    server.denied.add(("get", "pods/log"))
    assert train_on_cluster(make_request(), place, pace) == 0
    assert capsys.readouterr().out.count("its log cannot be read") == 1


def test_a_kubeconfig_that_is_wrong_is_named(tmp_path: Path, server: FakeApiServer) -> None:
    path = tmp_path / "broken"
    path.write_text("clusters: 3\n")
    for wrong in (path, tmp_path / "none"):
        with pytest.raises(ConfigError, match="kubeconfig"):
            connect(kubeconfig=wrong)
    good = server.kubeconfig(tmp_path)
    good.write_text(good.read_text().replace("a-token", "another"))
    with pytest.raises(UpstreamRefused, match="401"):
        connect(kubeconfig=good).read(RAYJOBS, "x")


def test_a_server_that_is_not_there_is_out_of_reach(tmp_path: Path) -> None:
    state = FakeApiServer()
    with state.running():
        path = state.kubeconfig(tmp_path)
    with pytest.raises(NotReady, match="out of reach"):
        connect(kubeconfig=path, patience=Patience(retry=RetryPolicy(attempts=2, first_delay_s=0.0))).read(RAYJOBS, "x")


@pytest.mark.parametrize("release", ["n", "my-fathom-2", "a" * 53])
def test_names_are_those_of_the_chart(release: str) -> None:
    from tests.chart.rendering import CHART, TOOLS, render

    if not (TOOLS / "helm4").exists():
        pytest.skip("Helm is not there: python deploy/helm.py")
    names = {
        document["metadata"]["name"] for document in render("helm4", CHART / "ci" / "minimal-values.yaml", release)
    }
    assert f"{full_name(release)}-rayjob" in names
