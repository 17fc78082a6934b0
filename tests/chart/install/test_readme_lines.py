"""The commands that README and the chart's README show for a cluster: what they make is what the chart needs.

With ``FATHOM_CLUSTER=1`` README's own lines are run as they stand on the cluster of KUBECONFIG, in the namespace
``fathom``, which must not exist yet; ``FATHOM_CLUSTER_HELM`` has more options for the install, e.g. the registry.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import images, smoke
from fathom.operations.cluster.rayjob import NO_OPERATOR
from tests.chart.install.readme import (
    PROGRAMS,
    expand,
    find_missing,
    preview_objects,
    read_lines,
    render_install,
    value_of,
)
from tests.chart.rendering import CHART, HELMS, ROOT, TOOLS, by_key, containers, read_documents
from tests.chart.test_against_the_code import parses

SHOWN = {"README": (ROOT / "README.md", "## On Kubernetes"), "chart": (CHART / "README.md", "")}
AWAY = ("make ", "fathom train ")
"""Images are made where there is a builder, and a training needs KubeRay's operator."""


@pytest.fixture(params=SHOWN)
def lines(request: pytest.FixtureRequest) -> list[str]:
    return read_lines(*SHOWN[request.param])


@pytest.mark.parametrize("helm", HELMS)
def test_what_the_lines_make_is_what_the_chart_needs(lines: list[str], helm: str, tmp_path: Path) -> None:
    """Namespace, label and Secrets were missing, and no pod could start."""
    assert {line.split()[0] for line in lines} <= set(PROGRAMS)
    made = preview_objects(lines, tmp_path)
    words, rendered = render_install(lines, helm)
    documents = read_documents(rendered)
    namespace = value_of(words, "-n")
    assert made["Namespace", namespace]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert {item["metadata"].get("namespace", namespace) for item in made.values()} == {namespace}
    needs = json.loads(by_key(documents)["ConfigMap", "fathom-needs"]["data"]["needs.json"])
    assert not find_missing(needs["secrets"], made)
    assert not needs["kinds"], "a first try needs no operators"
    hooks = [item for item in documents if item["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"]
    assert hooks, "helm test would test nothing"


def test_images_are_made_under_the_names_that_the_chart_asks_for() -> None:
    """Every pod of a first install was in ImagePullBackOff: `make images` had a tag of its own."""
    # Other images of the release are those of NATS and the trial store.
    _, rendered = render_install(read_lines(*SHOWN["README"]), "helm4")
    documents = read_documents(rendered)
    asked = {container["image"] for _, container in containers(documents)}
    ours = {image for image in asked if image.startswith("fathom-")}
    assert ours == {images.tag(target, {}) for target in images.SERVING}
    template = by_key(documents)["ConfigMap", "fathom-rayjob"]["data"]["rayjob.json"]
    assert f'"{images.tag("trainer", {})}"' in template


def test_commands_of_fathom_are_known(lines: list[str]) -> None:
    ours = [expand(line)[1:] for line in lines if line.startswith("fathom ")]
    assert ours
    for words in ours:
        parses(words)


def show_notes(*settings: str) -> str:
    """Return what Helm says after the installation of a first try with these settings."""
    command = ["install", "demo", str(CHART), "-f", str(CHART / "ci" / "first-try.yaml"), "--dry-run=client"]
    more = [word for setting in settings for word in ("--set", setting)]
    environ = {**os.environ, "KUBECONFIG": os.devnull}
    done = subprocess.run(
        [str(TOOLS / "helm4"), *command, *more], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.partition("NOTES:")[2]


def test_notes_suggest_the_question_that_the_stack_is_asked_by_the_tests() -> None:
    """tests/integration asks it of a stack with the bundled data, and of the simulated cluster."""
    notes = show_notes()
    assert re.findall(r'fathom ask .* "(.*)"', notes) == [smoke.QUESTION]
    makefile = (ROOT / "Makefile").read_text()
    assert re.findall(r"^QUESTION \?= (.*)$", makefile, re.MULTILINE) == [smoke.QUESTION]
    assert "helm uninstall demo" in notes


def test_notes_say_that_a_load_balancer_wants_its_name_allowed() -> None:
    outside = "gateway.service.type=LoadBalancer"
    assert "answers to localhost alone" in show_notes(outside)
    assert "answers to localhost alone" not in show_notes()
    assert "answers to localhost alone" not in show_notes(outside, "gateway.allowedHosts={ask.example.com}")


def show_notes_on(folder: Path, *versions: str) -> str:
    """Return what Helm says on a cluster that serves these kinds, beside those of Kubernetes."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart)
    # Notes are rendered by an installation only, which asks a server; as a document they are by a template, too.
    notes = chart / "templates" / "NOTES.txt"
    lines = "".join(f"    {line}" for line in notes.read_text().splitlines(keepends=True))
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata:\n  text: |\n"
    notes.with_name("notes.yaml").write_text(head + lines)
    command = [str(TOOLS / "helm4"), "template", "demo", str(chart), "-f", str(chart / "ci" / "first-try.yaml")]
    command += ["--show-only", "templates/notes.yaml", *(word for one in versions for word in ("--api-versions", one))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (found,) = read_documents(done.stdout)
    return str(found["data"]["text"])


def test_notes_say_where_trainings_want_an_operator_first(tmp_path: Path) -> None:
    """The command for a training was shown on clusters that could only refuse it."""
    bare = show_notes_on(tmp_path / "bare")
    assert "helm install kuberay-operator kuberay/kuberay-operator" in bare
    assert NO_OPERATOR.rpartition(": ")[2] in bare, "the command that the training's own refusal names"
    there = show_notes_on(tmp_path / "there", "ray.io/v1", "ray.io/v1/RayJob")
    assert "kuberay-operator" not in there
    assert "fathom train grpo --on-cluster" in there


@pytest.mark.cluster
@pytest.mark.timeout(3600)
@pytest.mark.skipif(os.environ.get("FATHOM_CLUSTER") != "1", reason="FATHOM_CLUSTER=1 runs it on KUBECONFIG's cluster")
def test_the_lines_of_readme_run_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "helm").symlink_to(TOOLS / "helm4")
    path = os.pathsep.join([str(tmp_path), str(TOOLS), str(Path(sys.executable).parent), os.environ["PATH"]])
    shown = [line for line in read_lines(*SHOWN["README"]) if not line.startswith(AWAY)]
    more = os.environ.get("FATHOM_CLUSTER_HELM", "")
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    there = ["kubectl", "get", "namespace", "fathom", "--ignore-not-found", "-o", "name"]
    found = subprocess.run(there, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True)
    assert not found.stdout, "the namespace fathom is there already, with somebody's release in it"
    # As they stand, with one exception: where images come from differs from cluster to cluster.
    try:
        for line in shown:
            command = f"{line} {more}" if line.startswith("helm install") else line
            done = subprocess.run(
                ["bash", "-euc", command], cwd=tmp_path, env={**os.environ, "PATH": path},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            print(f"$ {command}", done.stdout, done.stderr, sep="\n")
            assert done.returncode == 0, f"{shlex.quote(command)}: {done.stderr[-2000:]}"
    finally:
        for command in ("helm uninstall fathom -n fathom --ignore-not-found", "kubectl delete namespace fathom"):
            subprocess.run(["bash", "-c", command], env={**os.environ, "PATH": path}, check=False)
