"""RayJob and RayService: our own reduced schema always, the operator's CRDs when they are there, and its rules."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.chart.rendering import CHART, FAST, ROOT, Document, HelmFailed, by_key, pods, render

CRDS = ROOT.parent / "shared" / "data" / "kuberay_crds"
SCHEMAS = ROOT / "tests" / "golden" / "schemas"
FILES = {"RayJob": "ray.io_rayjobs.yaml", "RayService": "ray.io_rayservices.yaml"}


def ray_documents(documents: tuple[Document, ...]) -> list[Document]:
    """Every Ray object, and the one inside the ConfigMap that `fathom train --on-cluster` fills in."""
    found = [document for document in documents if document["kind"] in FILES]
    maps = [document for (kind, name), document in by_key(documents).items() if name.endswith("-rayjob")]
    return found + [json.loads(document["data"]["rayjob.json"]) for document in maps]


def close_schema(schema: Any) -> Any:
    """Forbid unknown fields: the API server prunes them in silence; here they are errors."""
    if isinstance(schema, list):
        return [close_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {name: close_schema(item) for name, item in schema.items() if not name.startswith("x-kubernetes-")}
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["additionalProperties"] = False
    return found


@functools.cache
def crd_validator(kind: str) -> Any:
    """The operator's schema, closed; reading it takes seconds."""
    content = yaml.load((CRDS / FILES[kind]).read_text(), Loader=FAST)
    (version,) = [v for v in content["spec"]["versions"] if v["name"] == "v1"]
    found: Document = close_schema(version["schema"]["openAPIV3Schema"])
    # The fields of metadata are the API server's, and a CRD does not list them.
    found["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft7Validator(found)


@pytest.mark.skipif(not CRDS.exists(), reason="the operator's CRDs are not on this machine")
def test_the_operators_schema_knows_every_field(documents: tuple[Document, ...]) -> None:
    for document in ray_documents(documents):
        assert list(crd_validator(document["kind"]).iter_errors(document)) == []


def test_our_reduced_schema_knows_every_field(documents: tuple[Document, ...]) -> None:
    for document in ray_documents(documents):
        schema = json.loads((SCHEMAS / f"{document['kind'].lower()}.json").read_text())
        assert list(jsonschema.validators.validator_for(schema)(schema).iter_errors(document)) == []


def test_kubernetes_takes_rays_pods(documents: tuple[Document, ...]) -> None:
    """Templates inside a custom resource are checked by nobody else before the operator makes pods of them."""
    for document in ray_documents(documents):
        for name, labels, spec in pods((document,)):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "labels": labels}, "spec": spec}
            kubernetes_validate.validate(pod, "1.34", strict=True)
            assert spec["restartPolicy"] == "Never", f"{name}: autoscaling and sidecars need it"


def find_broken_rules(document: Document) -> list[str]:
    """Return the rules of the operator's own validation that a RayJob breaks."""
    spec, name, found = document["spec"], document["metadata"]["name"], []
    if len(name) > 47 or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
        found.append("name: at most 47 characters of DNS-1035")
    if ("rayClusterSpec" in spec) == ("clusterSelector" in spec):
        found.append("exactly one of rayClusterSpec and clusterSelector")
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        found.append("suspend needs shutdownAfterJobFinishes")
    ttl = spec.get("ttlSecondsAfterFinished", 0)
    if ttl < 0 or (ttl > 0 and not spec.get("shutdownAfterJobFinishes")):
        found.append("ttlSecondsAfterFinished needs shutdownAfterJobFinishes")
    found += find_broken_deletion(spec)
    if spec.get("submissionMode") not in ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"):
        found.append("submissionMode")
    if spec.get("submissionMode") == "SidecarMode" and "submitterPodTemplate" in spec:
        found.append("SidecarMode has no submitter")
    found += [key for key in ("activeDeadlineSeconds", "preRunningDeadlineSeconds") if spec.get(key, 1) <= 0]
    found += find_broken_scaling(spec.get("rayClusterSpec", {}))
    queue = document["metadata"]["labels"].get("kueue.x-k8s.io/queue-name")
    if queue and not (spec.get("suspend") and spec.get("shutdownAfterJobFinishes")):
        found.append("Kueue owns suspend and needs shutdownAfterJobFinishes")
    return found


def find_broken_deletion(spec: Document) -> list[str]:
    """Return the rules of deletion that a RayJob's spec breaks: the operator's webhook and the CRD's CEL."""
    if "deletionStrategy" not in spec:
        return []
    # What the API server and the operator say about them, each in its own words.
    found, seen = [], set()
    if spec.get("shutdownAfterJobFinishes") or spec.get("ttlSecondsAfterFinished"):
        found.append("deletionStrategy excludes shutdownAfterJobFinishes and its ttl")
    for rule in spec["deletionStrategy"]["deletionRules"]:
        ends = [key for key in ("jobStatus", "jobDeploymentStatus") if key in rule["condition"]]
        if len(ends) != 1:
            found.append("a deletion condition names exactly one status")
        key = (rule["policy"], *(rule["condition"][end] for end in ends))
        if key in seen:
            found.append(f"two rules of deletion for {key}")
        seen.add(key)
    return found


def find_broken_scaling(cluster: Document) -> list[str]:
    """Return the rules of worker groups that a Ray cluster breaks: the operator's, and those of Ray's autoscaler v2."""
    found, groups = [], cluster.get("workerGroupSpecs", ())
    for group in groups:
        if not group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]:
            found.append(f"replicas of {group['groupName']}")
        # The operator makes `replicas` pods and nobody would ever change that.
        if group["minReplicas"] < group["maxReplicas"] and not cluster.get("enableInTreeAutoscaling"):
            found.append(f"{group['groupName']} has bounds and no autoscaler")
    if cluster.get("enableInTreeAutoscaling"):
        templates = [cluster["headGroupSpec"]["template"], *(group["template"] for group in groups)]
        if any(template["spec"]["restartPolicy"] != "Never" for template in templates):
            found.append("v2 wants pods that are never restarted")
        if not templates[0]["spec"]["automountServiceAccountToken"]:
            found.append("the autoscaler has no token for the API server")
    return found


ENDS = {("jobStatus", "SUCCEEDED"), ("jobStatus", "FAILED"), ("jobDeploymentStatus", "Failed")}


def test_a_finished_job_gives_its_cluster_back_at_once_and_can_be_looked_at(documents: tuple[Document, ...]) -> None:
    """However it ends: its GPUs stood idle for an hour when the seconds of the job were those of its cluster."""
    for job in (document for document in ray_documents(documents) if document["kind"] == "RayJob"):
        spec = job["spec"]
        # Kueue refuses jobs with rules of deletion; the pair of older fields does the same for the cluster.
        if "kueue.x-k8s.io/queue-name" in job["metadata"]["labels"]:
            assert (spec["shutdownAfterJobFinishes"], spec["ttlSecondsAfterFinished"]) == (True, 0)
            continue
        rules = {
            (
                rule["policy"],
                *next((key, rule["condition"][key]) for key in rule["condition"] if key != "ttlSeconds"),
            ): (rule["condition"]["ttlSeconds"])
            for rule in spec["deletionStrategy"]["deletionRules"]
        }
        assert {rule: seconds for rule, seconds in rules.items() if rule[0] == "DeleteCluster"} == {
            ("DeleteCluster", *end): 0 for end in ENDS
        }
        assert {rule: seconds for rule, seconds in rules.items() if rule[0] == "DeleteSelf"} == {
            ("DeleteSelf", *end): 3600 for end in ENDS
        }


def test_jobs_keep_the_operators_rules(documents: tuple[Document, ...]) -> None:
    jobs = [document for document in ray_documents(documents) if document["kind"] == "RayJob"]
    assert jobs
    for job in jobs:
        assert find_broken_rules(job) == []


def test_the_rules_see_what_breaks_them() -> None:
    # A check of rules that were written down here: each must find what it is there for.
    job = ray_documents(render("helm4", CHART / "ci" / "minimal-values.yaml"))[0]
    for change, said in (
        ({"ttlSecondsAfterFinished": 5}, "ttlSeconds"),
        ({"shutdownAfterJobFinishes": True}, "excludes shutdownAfterJobFinishes"),
        (
            {"deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf", "condition": {"ttlSeconds": 0}}]}},
            "exactly one status",
        ),
        ({"submissionMode": "Sidecar"}, "submissionMode"),
        ({"clusterSelector": {"a": "b"}}, "exactly one"),
        ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds"),
        ({"rayClusterSpec": job["spec"]["rayClusterSpec"] | {"enableInTreeAutoscaling": True}}, "no token"),
    ):
        assert any(said in line for line in find_broken_rules({**job, "spec": job["spec"] | change})), said


def test_a_job_name_that_kuberay_refuses_is_refused_at_once() -> None:
    with pytest.raises(HelmFailed, match="47 characters"):
        render("helm4", CHART / "ci" / "minimal-values.yaml", "a" * 30, "training.jobs.nightly-of-all.workers=1")


def test_code_is_in_the_image_and_not_fetched_at_the_start(documents: tuple[Document, ...]) -> None:
    for document in ray_documents(documents):
        text = json.dumps(document)
        assert "pip install" not in text
        assert "runtimeEnvYAML" not in text


def test_workers_land_elsewhere_than_what_must_not_be_lost() -> None:
    """GPU and spot nodes could be named for all pods of a release alone, services included."""
    documents = by_key(render("helm4", CHART / "ci" / "gpu-values.yaml"))
    job = json.loads(documents["ConfigMap", "demo-fathom-rayjob"]["data"]["rayjob.json"])["spec"]
    (workers,) = (group["template"]["spec"] for group in job["rayClusterSpec"]["workerGroupSpecs"])
    assert workers["nodeSelector"] == {"pool": "gpu-spot"}
    assert [taint["key"] for taint in workers["tolerations"]] == ["spot"]
    for spec in (job["rayClusterSpec"]["headGroupSpec"]["template"]["spec"], job["submitterPodTemplate"]["spec"]):
        assert spec["nodeSelector"] == {"pool": "gpu"}
        assert "tolerations" not in spec
        assert spec["priorityClassName"] == workers["priorityClassName"] == "research-demo-fathom-training"


def test_a_job_of_the_values_has_a_place_of_its_own() -> None:
    settings = ("training.jobs.nightly.headPlacement.nodeSelector.disk=fast",)
    documents = by_key(render("helm4", CHART / "ci" / "gpu-values.yaml", "demo", *settings))
    cluster = documents["RayJob", "demo-fathom-nightly"]["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["template"]["spec"]["nodeSelector"] == {"disk": "fast"}
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["template"]["spec"]["nodeSelector"] == {"pool": "gpu-spot"}


def test_workers_of_a_training_come_and_go_where_the_values_say_so() -> None:
    documents = by_key(render("helm4", CHART / "ci" / "gpu-values.yaml"))
    job = json.loads(documents["ConfigMap", "demo-fathom-rayjob"]["data"]["rayjob.json"])
    bounds = {}
    for found in (job, documents["RayJob", "demo-fathom-evening"]):
        cluster = found["spec"]["rayClusterSpec"]
        assert cluster["enableInTreeAutoscaling"] is True
        assert cluster["autoscalerOptions"]["version"] == "v2"
        # What the trainer's account may, submitting trainings, is nothing that code of a training needs.
        assert cluster["headGroupSpec"]["template"]["spec"]["serviceAccountName"] == "demo-fathom-autoscaler"
        (group,) = cluster["workerGroupSpecs"]
        assert group["template"]["spec"]["serviceAccountName"] == "demo-fathom-trainer"
        bounds[found["metadata"]["name"]] = (group["replicas"], group["minReplicas"], group["maxReplicas"])
    assert bounds == {"template": (4, 4, 8), "demo-fathom-evening": (0, 0, 2)}
    roles = [one["metadata"]["name"] for one in documents.values() if one["kind"] == "RoleBinding"]
    assert roles == ["demo-fathom-trainer"], "the operator binds the autoscaler's account to the pods of its cluster"


def test_workers_stay_where_the_values_do_not_say_so() -> None:
    documents = by_key(render("helm4", CHART / "ci" / "minimal-values.yaml"))
    cluster = json.loads(documents["ConfigMap", "demo-fathom-rayjob"]["data"]["rayjob.json"])["spec"]["rayClusterSpec"]
    assert not {"enableInTreeAutoscaling", "autoscalerOptions"} & cluster.keys()
    assert ("ServiceAccount", "demo-fathom-autoscaler") not in documents
