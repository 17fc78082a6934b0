"""The images' recipe: lint, users, pins, context, labels, locks that meet the extras, and what an SBOM names."""

from __future__ import annotations

import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fathom
from deploy import images, locks, sbom
from fathom.services import gateway
from tests.images.dockerfile import Stage, is_ignored, stages
from tests.unit.deploy.importing import import_within

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
BUILT = stages(DOCKERFILE)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def line(target: str) -> list[Stage]:
    """A stage and what it stands on, the base's side last."""
    found = [BUILT[target]]
    while found[-1].parent in BUILT:
        found.append(BUILT[found[-1].parent])
    return found


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, "--failure-threshold", "style", DOCKERFILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    silenced = re.findall(r"# (?:hadolint ignore=.*)", DOCKERFILE.read_text())
    assert silenced == ["# hadolint ignore=DL3008"], "each further exception wants its reason here"


@pytest.mark.parametrize("target", images.TARGETS)
def test_a_target_is_a_small_user_with_nothing_to_build_with(target: str) -> None:
    chain = line(target)
    assert chain[0].all("USER")[-1] == "10001:10001"
    assert [stage.name for stage in chain] == [target, "runtime"], "no build stage below a finished image"
    module = json.loads(chain[0].all("CMD")[-1])
    if module[:2] == ["python3", "-m"]:
        assert importlib.util.find_spec(module[2]) is not None
    variables = " ".join(text for stage in chain for text in (*stage.all("ENV"), *stage.all("ARG")))
    assert not re.search(r"PIP_|TOKEN|SECRET|PASSWORD|API_KEY|ACCESS_KEY", variables)


@pytest.mark.parametrize("target", images.TARGETS)
def test_labels_say_what_it_is(target: str) -> None:
    [label] = BUILT[target].all("LABEL")
    said = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', label))
    assert said["title"] == f"fathom-{target}"
    assert said["licenses"] == EXTRAS["license"]
    assert (said["version"], said["revision"]) == ("${VERSION}", "${REVISION}")
    assert said["description"]
    passed = images.build_command("buildah", target, {})
    assert f"--build-arg=VERSION={fathom.__version__}" in passed
    assert any(re.fullmatch(r"--build-arg=REVISION=\S+", item) for item in passed)


def test_the_base_is_pinned_and_nothing_comes_from_addresses() -> None:
    bases = {stage.parent for stage in BUILT.values() if stage.parent and stage.parent not in BUILT}
    assert bases == {"${BASE}"}
    [base] = BUILT[""].all("ARG")
    assert re.fullmatch(r"BASE=\S+/python:3\.11\.\d+-slim-bookworm(@sha256:[0-9a-f]{64})?", base)
    text = DOCKERFILE.read_text()
    assert "@sha256:" in text, "the form of a release is documented"
    assert ":latest" not in text
    assert not [stage.name for stage in BUILT.values() if stage.all("ADD")]
    instructions = [text for stage in BUILT.values() for text in stage.all("RUN")]
    assert not [text for text in instructions if re.search(r"https?://|\b(curl|wget) -|git clone", text)]


def test_pip_takes_locked_packages_only() -> None:
    script = (DOCKERFILE.parent / "install.sh").read_text().replace("\\\n", " ")
    runs = [text for stage in BUILT.values() for text in stage.all("RUN")] + script.splitlines()
    calls = [call for text in runs for call in re.findall(r"pip (?:--python \S+ )?(?:install|wheel)[^&]*", text)]
    assert len(calls) == 5
    for call in calls:
        assert "--no-cache-dir" in call, call
        guarded = call.endswith('"$@"') and 'if [ "$1" = --no-deps ]; then' in script
        assert "--require-hashes" in call or "--no-deps" in call or guarded, call
    asked = [text for stage in BUILT.values() for text in stage.all("RUN") if "fathom-install" in text]
    assert len(asked) == 5


def test_what_is_copied_is_there_and_in_the_context() -> None:
    rules = [rule for rule in (ROOT / ".dockerignore").read_text().splitlines() if rule and not rule.startswith("#")]
    copied = [text for stage in BUILT.values() for text in stage.all("COPY") if "--from" not in text]
    sources = {part for text in copied for part in text.split()[:-1] if not part.startswith("--")}
    for source in sources:
        for name in {source.replace("${ENGINE}", engine) for engine in ("cpu", "cuda")}:
            assert (ROOT / name).exists(), name
            assert not is_ignored(name, rules), f"{name} is not in the context"
    assert {"libs", "services", "trainers", "pyproject.toml"} <= sources
    for kept in (".git/config", ".venv/bin/python", ".fathom/data", "tests/conftest.py", "docs/operations.md", "charts/x",
                 "deploy/images.py", "services/gateway/web/package.json", "services/planner/__pycache__/x.pyc", ".env", "shared/specs"):  # fmt: skip
        assert is_ignored(kept, rules), f"{kept} would be sent to the builder"


def test_copies_between_stages_name_stages() -> None:
    named = [re.search(r"--from=(\S+)", text) for stage in BUILT.values() for text in stage.all("COPY")]
    sources = {found[1] for found in named if found}
    assert sources
    assert sources <= set(BUILT)
    assert set(images.TARGETS) <= set(BUILT)


def read_lock(name: str) -> dict[str, str]:
    """Return the versions of a lock for Python 3.11, by canonical name; every wheel must have a checksum."""
    found: dict[str, str] = {}
    for text in locks.path_of(name).read_text().splitlines()[1:]:
        pin, *hashes = text.split(" --hash=")
        requirement = Requirement(pin)
        if requirement.marker and not requirement.marker.evaluate({"python_full_version": "3.11.7"}):
            continue
        assert hashes, text
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", item) for item in hashes), text
        (version,) = requirement.specifier
        assert version.operator == "==", text
        found[canonicalize_name(requirement.name)] = version.version
    return found


def direct(extras: tuple[str, ...]) -> list[Requirement]:
    """What the package and its extras ask for, extras of extras included."""
    found = []
    for text in (*EXTRAS["dependencies"], *(text for name in extras for text in EXTRAS["optional-dependencies"][name])):
        requirement = Requirement(text)
        found += direct(tuple(requirement.extras)) if requirement.name == "fathom" else [requirement]
    return found


@pytest.mark.parametrize("name", list(locks.LOCKS))
def test_locks_meet_what_the_package_asks_for(name: str) -> None:
    lock, versions = locks.LOCKS[name], read_lock(name)
    asked = [*(direct(lock.extras) if lock.extras else []), *map(Requirement, lock.packages)]
    assert asked
    for requirement in asked:
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement}: {version}"


@pytest.mark.parametrize("name", [name for name, lock in locks.LOCKS.items() if lock.base])
def test_what_runs_is_what_was_tested(name: str) -> None:
    base = read_lock(locks.LOCKS[name].base)
    assert {package: base.get(package) for package in read_lock(name)} == read_lock(name)


def test_core_is_laid_over_the_packages_of_the_gateway() -> None:
    """Equal lines are one layer, which a node pulls once: a version of its own would be shadowed by the layer above."""
    gateway, core = (set(locks.path_of(name).read_text().splitlines()[1:]) for name in ("gateway", "core"))
    assert gateway < core


def test_every_module_of_the_gateway_is_imported_with_the_packages_of_its_image() -> None:
    names = [found.name for found in pkgutil.walk_packages(gateway.__path__, f"{gateway.__name__}.")]
    assert "fathom.services.gateway.server" in names
    assert import_within(read_lock("gateway"), names) == ""


def test_images_without_cuda_have_none() -> None:
    for name in ("sandbox", "gateway", "core", "gpu-cpu"):
        assert not [package for package in read_lock(name) if package.startswith("nvidia-")], name
    assert read_lock("core")["torch"].endswith("+cpu")
    assert read_lock("gpu-cuda")["torch"] == read_lock("core")["torch"].removesuffix("+cpu")
    assert not {"torch", "transformers", "fastapi", "duckdb", "openai", "ray"} & set(read_lock("sandbox"))


def test_a_release_wants_its_base_by_digest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="by digest"):
        images.build_command(
            "buildah", "core", {"RELEASE": "1", "BASE": "docker.io/library/python:3.11.14-slim-bookworm"}
        )
    base = f"docker.io/library/python@sha256:{'0' * 64}"
    assert f"--build-arg=BASE={base}" in images.build_command("docker", "core", {"RELEASE": "1", "BASE": base})
    monkeypatch.setenv("BUILDER", "kaniko")
    assert images.main(["core"]) == 1
    assert "kaniko" in capsys.readouterr().err
    assert images.main(["cores"]) == 1
    assert "known: sandbox, gateway, core, gpu" in capsys.readouterr().err


def test_a_builder_gets_target_name_and_options() -> None:
    environ = {"TAG": "1.2", "REPOSITORY": "reg/fathom", "BUILDER_OPTIONS": "--isolation chroot", "ENGINE": "cpu"}
    step = images.build_command("buildah", "gpu", environ)
    assert step[:3] == ["buildah", "bud", "--layers"]
    assert step[step.index("--tag") + 1] == "reg/fathom-gpu:1.2"
    assert step[step.index("--target") + 1] == "gpu"
    assert "--build-arg=ENGINE=cpu" in step
    assert step[-3:] == ["--isolation", "chroot", "."]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sbom")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOLDER", str(folder))
        assert sbom.main(["--locks", "sandbox"]) == 0
    found: dict[str, Any] = json.loads((folder / "fathom-sandbox.cdx.json").read_text())
    return found


def test_an_sbom_names_what_was_asked_for_with_versions(document: dict[str, Any]) -> None:
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    described = document["metadata"]["component"]
    assert (described["name"], described["version"]) == ("fathom", fathom.__version__)
    components = {canonicalize_name(item["name"]): item for item in document["components"]}
    versions = read_lock("sandbox")
    assert set(components) == set(versions)
    for requirement in direct(("sandbox",)):
        item = components[canonicalize_name(requirement.name)]
        assert item["version"] == versions[canonicalize_name(requirement.name)]
        assert item["purl"].startswith(f"pkg:pypi/{canonicalize_name(requirement.name)}@{item['version']}")


def test_debian_packages_are_components_too(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u14\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1\n\n"
        "Package: login\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:4.13+dfsg1-1\nDescription: x\n y\n"
    )
    assert [item["purl"] for item in sbom.list_debian_packages(tmp_path)] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64",
        "pkg:deb/debian/login@1%3A4.13%2Bdfsg1-1?arch=amd64",
    ]
