"""A training as a RayJob: the release's template, filled with an algorithm, its settings and a name."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import Conflict, CorruptData, FailedPrecondition, InvalidField, NotFound, UpstreamRefused
from fathom.core.ids import content_hash
from fathom.operations.cluster.api import CONFIGMAPS, RAYJOBS, Cluster, Object, UnknownKind

TEMPLATE = "rayjob.json"
# Annotation with the hash of the request; distinguishes a repeated submission from a different one.
ASKED = "fathom/asked"
# KubeRay's limit on names; Linux' limit on one variable is 128 KiB.
NAME_CHARS, SETTINGS_BYTES = 47, 100_000
GPU = "nvidia.com/gpu"
SCALES = "enableInTreeAutoscaling"


@dataclass(frozen=True)
class Wanted:
    """A training to run on a cluster.

    ``settings`` is YAML that overrides the algorithm's defaults; ``job`` makes the name, and submitting the same job
    again finds the first; ``workers``, ``max_workers`` and ``gpus`` override the template's where they are given.
    """

    algorithm: str
    settings: str
    job: str = ""
    workers: int | None = None
    gpus: int | None = None
    max_workers: int | None = None

    @property
    def name(self) -> str:
        """``train-ALGORITHM-JOB``; raises ``InvalidField("job_id")`` when that is not a valid RayJob name."""
        name = f"train-{self.algorithm.replace('_', '-')}-{self.job}"
        if len(name) > NAME_CHARS or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
            room = NAME_CHARS - len(name) + len(self.job)
            raise InvalidField("job_id", f"{self.job!r} must be 1 to {room} of a-z, 0-9 and '-', the ends no '-'")
        return name

    def request_hash(self, release: str) -> str:
        """Return the hash of everything but the name."""
        # Only where it is given: jobs that earlier versions submitted keep their hash.
        more = [] if self.max_workers is None else [self.max_workers]
        return content_hash([release, self.algorithm, self.settings, self.workers, self.gpus, *more])


def new_job() -> str:
    """Return a new random job id."""
    # Eight characters: names are short (see NAME_CHARS), and jobs of one algorithm in a namespace are few.
    return secrets.token_hex(4)


def full_name(release: str) -> str:
    """Return the name that the chart gives to a release's objects (``fathom.name`` in its templates)."""
    base = release if "fathom" in release else f"{release}-fathom"
    if len(base) <= 40:
        return base
    return f"{base[:31].removesuffix('-')}-{hashlib.sha256(release.encode()).hexdigest()[:8]}"


def load_template(cluster: Cluster, release: str) -> Object:
    """Load the release's template for training jobs; a job made from it goes when the release is uninstalled.

    Raises ``FailedPrecondition`` naming release and namespace when there is none, ``CorruptData`` when it cannot be
    read.
    """
    name = f"{full_name(release)}-rayjob"
    try:
        held = cluster.read(CONFIGMAPS, name)
    except NotFound as error:
        message = (
            f"no release {release!r} in namespace {cluster.namespace!r}: ConfigMap {name} is not there. "
            "See `helm list -A`, then give --release and --namespace"
        )
        raise FailedPrecondition(message, metadata={"field": "release"}) from error
    try:
        found: Object = json.loads(held["data"][TEMPLATE])
        found["metadata"]["ownerReferences"] = [make_owner(name, held)]
        return found
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptData(f"ConfigMap {name}", f"{TEMPLATE} cannot be read: {error}") from error


def make_owner(name: str, held: Mapping[str, Any]) -> Object:
    """Return the reference by which Kubernetes deletes what belongs to this ConfigMap together with it.

    Without an owner a training would outlive its release, and run on without the release's network policies.
    """
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": held["metadata"]["uid"]}


def fill_template(template: Mapping[str, Any], wanted: Wanted, release: str) -> Object:
    """Fill the template and return the RayJob.

    Raises ``InvalidField`` for settings that are too large, and for workers that the template does not have.
    """
    size = len(wanted.settings.encode())
    if size > SETTINGS_BYTES:
        raise InvalidField("settings", f"are {size:,} bytes, at most {SETTINGS_BYTES:,} fit into the job")
    job: Object = copy.deepcopy(dict(template))
    job["metadata"]["name"] = wanted.name
    job["metadata"].setdefault("annotations", {})[ASKED] = wanted.request_hash(release)
    spec = job["spec"]
    spec["entrypoint"] = f"python3 -m fathom.trainers.jobs.ray_job {wanted.algorithm}"
    head = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    # $(NAME) in a variable's value would be replaced by the kubelet.
    said = wanted.settings.replace("$(", "$$(")
    head["env"] = [*head.get("env", ()), {"name": "FATHOM_TRAIN_SETTINGS", "value": said}]
    set_workers(spec["rayClusterSpec"], wanted)
    return job


def set_workers(cluster: Object, wanted: Wanted) -> None:
    """Set the least and the largest number of workers, and their GPUs, where they are given.

    Raises ``InvalidField`` for workers without a group, and for more of them than the template lets come and go.
    """
    groups = cluster.get("workerGroupSpecs") or []
    if (wanted.workers or wanted.gpus) and not groups:
        raise InvalidField("workers", "the release's template has none: set training.job.workers in its values")
    if groups:
        set_bounds(cluster, groups[0], wanted)
    elif wanted.max_workers:
        raise InvalidField("max_workers", FIXED)
    if wanted.workers == 0 and not cluster.get(SCALES):
        cluster.pop("workerGroupSpecs", None)
    elif wanted.gpus is not None:
        for container in groups[0]["template"]["spec"]["containers"][:1]:
            container["resources"].setdefault("limits", {})[GPU] = wanted.gpus
            if not wanted.gpus:
                del container["resources"]["limits"][GPU]


def set_bounds(cluster: Object, group: Object, wanted: Wanted) -> None:
    """Set between how many and how many workers a group has; a cluster whose bounds are equal needs no autoscaler.

    Raises ``InvalidField("max_workers")`` for fewer than the least, and for more where the template has no autoscaler.
    """
    least = group["minReplicas"] if wanted.workers is None else wanted.workers
    # A given number of workers is exact unless more of them are asked for.
    most = wanted.max_workers
    if most is None:
        most = group["maxReplicas"] if wanted.workers is None else least
    if most < least:
        raise InvalidField("max_workers", f"is {most}, fewer than the {least} workers to begin with")
    if most > least and not cluster.get(SCALES):
        raise InvalidField("max_workers", FIXED)
    group |= {"replicas": least, "minReplicas": least, "maxReplicas": most}
    if most == least and cluster.pop(SCALES, False):
        cluster.pop("autoscalerOptions", None)
        # Only the autoscaler asks the API server.
        cluster["headGroupSpec"]["template"]["spec"]["automountServiceAccountToken"] = False


def submit(cluster: Cluster, job: Mapping[str, Any]) -> tuple[Object, bool]:
    """Submit the job; return it as the server has it, and True if it is new.

    Raises ``Conflict`` when another training has this name, ``FailedPrecondition`` without KubeRay's operator or with
    one whose RayJobs lack what the template says, and the errors of the API.
    """
    name, asked = job["metadata"]["name"], job["metadata"]["annotations"][ASKED]
    try:
        return cluster.create(RAYJOBS, job), True
    except UnknownKind as error:
        raise FailedPrecondition(NO_OPERATOR, metadata={"missing": str(RAYJOBS)}) from error
    except UpstreamRefused as error:
        if "unknown field" not in error.message:
            raise
        raise FailedPrecondition(f"{OLD_OPERATOR} ({error.message})", metadata={"missing": str(RAYJOBS)}) from error
    except Conflict as error:
        there = cluster.read(RAYJOBS, name)
        if there["metadata"].get("annotations", {}).get(ASKED) == asked:
            return there, False
        message = f"job {name} is there already, with other settings: give another --job-id, or delete it first"
        raise Conflict(message, metadata={"field": "job_id"}) from error


FIXED = (
    "the workers of the release's template cannot come and go: set training.job.maxWorkers in its values, and "
    "networkPolicy.apiServer for the autoscaler"
)
OLD_OPERATOR = (
    "KubeRay's operator, or its CRDs, are older than the chart (1.7): an administrator upgrades both, CRDs first, "
    "since helm upgrade leaves them as they are"
)
NO_OPERATOR = (
    "the cluster knows no RayJobs: KubeRay's operator is not installed. An administrator installs it: "
    "helm install kuberay-operator kuberay/kuberay-operator --namespace ray-system --create-namespace"
)
