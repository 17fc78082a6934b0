"""The images' recipe: lint, users, pins, context, labels, locks that meet the extras, and what an SBOM names."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fathom
from deploy import arm64, chart, images, locks, sbom
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
    # DL3006 wants tags, which stages have not that are chosen by ENGINE; DL3008 versions of Debian's packages, which the
    # base's release fixes; DL3067 no copy of a whole file system, which is how a finished image becomes one layer.
    wanted = [*["DL3006"] * 4, *["DL3008"] * 2, "DL3067"]
    assert sorted(silenced) == [f"# hadolint ignore={rule}" for rule in wanted], "each wants its reason"


@pytest.mark.parametrize("target", images.TARGETS)
def test_a_target_is_a_small_user_with_nothing_to_build_with(target: str) -> None:
    chain = line(target)
    assert chain[0].all("USER")[-1] == "10001:10001"
    below = ["with-ray", "system"] if target in ("policy-gpu", "trainer") else ["runtime"]
    assert [stage.name for stage in chain] == [target, *below], "no build stage below a finished image"
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
    parents = {stage.parent.replace("${ENGINE}", name) for stage in BUILT.values() for name in ("cpu", "cuda")}
    assert parents - set(BUILT) == {"${BASE}", "scratch"}
    base, engine = BUILT[""].all("ARG")
    assert engine == "ENGINE=cuda"
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
    assert len(asked) == 13


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
    """Return what the package and its extras ask for, extras of extras included."""
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


@pytest.mark.parametrize("name", [name for name, lock in locks.LOCKS.items() if lock.bases])
def test_what_runs_is_what_was_tested(name: str) -> None:
    """Or what an earlier base has; what no base has is PyTorch for GPUs with its libraries, or vLLM's."""
    found, known = read_lock(name), dict[str, str]()
    for base in reversed(locks.LOCKS[name].bases):
        known |= read_lock(base)
    torch = {"torch", "triton"} if locks.LOCKS[name].has_cuda else set()
    assert {package: version for package, version in found.items() if package in known and package not in torch} == {
        package: known[package] for package in found if package in known and package not in torch
    }
    added = {package for package in found if package not in known and not package.startswith(("nvidia-", "cuda-"))}
    assert name.startswith("policy-gpu") or added <= {"torch", "triton", "faiss-gpu"}, added


def test_layers_are_laid_over_equal_packages() -> None:
    """Equal lines are one layer, which a node pulls once: a version of its own would be shadowed by the layer above."""
    lines = {name: set(locks.path_of(name).read_text().splitlines()[1:]) for name in locks.LOCKS}
    laid = [
        ("operations", "gateway"),
        ("gateway", "policy"),
        ("torch-cpu", "policy"),
        ("policy", "core"),
        ("torch-cpu", "trainer-cpu"),
    ]
    laid += [("torch-cuda", name) for name in ("trainer-cuda", "policy-gpu-cuda", "retrieval-gpu")]
    for below, above in laid:
        assert lines[below] < lines[above], f"{above} has other versions than {below}"
    copied = [
        re.findall(r"fathom-install \"?locks/(\S+).txt\"? --above ([^&]*)", text)
        for stage in BUILT.values()
        for text in stage.all("RUN")
    ]
    asked = {(Path(below).stem, above) for [(above, belows)] in filter(None, copied) for below in belows.split()}
    assert asked == set(laid)


def test_images_for_processors_begin_alike() -> None:
    """A node unpacks a layer once only where all below it are equal."""
    layers = ("operations", "gateway", "torch-cpu", "policy", "core")
    packages = [f"--from=packages-{name} /opt/venv /opt/venv" for name in layers]
    for name, count in (("operations", 1), ("gateway", 2), ("policy", 4), ("core", 5)):
        assert BUILT[name].steps[:count] == [("COPY", text) for text in packages[:count]]


IN_IMAGES = {
    "sandbox": ("services/sandbox",),
    "operations": ("libs/fathom/operations", "libs/fathom/cli"),
    "gateway": ("services/gateway",),
    "policy": ("services/policy",),
    "core": tuple(
        f"services/{name}" for name in ("planner", "datafetch", "retrieval", "memory", "reward", "gateway", "policy")
    ),
    "trainer-cuda": ("trainers", "services/retrieval"),
    "policy-gpu-cuda": ("services/policy",),
    "retrieval-gpu": ("services/retrieval",),
}
"""The code of an image, by its lock; locks for processors have the packages of those for GPUs, but for the builds."""


def list_modules(folder: str, packages: set[str]) -> list[str]:
    """Return the modules below a folder that an image with these packages imports."""
    paths = [path.relative_to(ROOT).with_suffix("") for path in sorted((ROOT / folder).rglob("*.py"))]
    names = [f"fathom.{'.'.join(path.parts)}".replace("fathom.libs.", "").removesuffix(".__init__") for path in paths]
    # vLLM is not among the packages of the tests, and Alembic runs its file, which cannot be imported.
    left_out = [".vllm", "migrations.env", *([] if "ray" in packages else ["policy.ray_serve"])]
    return [name for name in names if not any(part in name for part in left_out)]


@pytest.mark.parametrize("name", list(IN_IMAGES))
def test_every_module_of_an_image_is_imported_with_its_packages_alone(name: str) -> None:
    packages = set(read_lock(name))
    modules = [module for folder in IN_IMAGES[name] for module in list_modules(folder, packages)]
    assert {f"fathom.services.{folder[9:]}.__main__" for folder in IN_IMAGES[name] if folder[:9] == "services/"} <= {
        *modules
    }
    # The same module in two packages, of which the tests have this one.
    packages |= {"faiss-cpu"} if "faiss-gpu" in packages else set()
    # transformers looks for what it can do without.
    assert import_within(packages, modules, is_inside_free="transformers" in packages) == ""


def test_images_of_all_locks_are_known() -> None:
    built = {name for name, lock in locks.LOCKS.items() if lock.folder == locks.IMAGES}
    layers = {"build", "torch-cpu", "torch-cuda"}
    engines = {f"{target}-{engine}" for target in images.BY_ENGINE for engine in ("cpu", "cuda")}
    assert built == layers | engines | (set(images.TARGETS) - set(images.BY_ENGINE))
    assert set(IN_IMAGES) == {name for name in built - layers if name.removesuffix("-cpu") not in images.BY_ENGINE}
    assert {name for names in chart.IMAGES_OF.values() for name in names} <= set(images.TARGETS)


def test_images_without_cuda_have_none() -> None:
    for name in ("sandbox", "operations", "gateway", "policy", "core", "trainer-cpu", "policy-gpu-cpu"):
        assert not [package for package in read_lock(name) if package.startswith("nvidia-")], name
    assert read_lock("core")["torch"].endswith("+cpu")
    for name in ("trainer-cuda", "policy-gpu-cuda", "retrieval-gpu"):
        assert read_lock(name)["torch"] == read_lock("core")["torch"].removesuffix("+cpu")
    assert not {"torch", "transformers", "fastapi", "duckdb", "openai", "ray"} & set(read_lock("sandbox"))
    assert not {"vllm", "fastapi-cli", "openai"} & set(read_lock("trainer-cuda")), "trainers ask policy for samples"
    assert not {"ray", "vllm", "faiss-cpu"} & set(read_lock("retrieval-gpu"))


def test_a_lock_for_gpus_takes_no_build_for_processors() -> None:
    """uv prefers the version with a local part, where a folder of wheels has it."""
    assert "torch!=2.13.0+cpu" in locks.read_constraints("trainer-cuda").splitlines()
    assert "torch!=2.13.0+cpu" not in locks.read_constraints("trainer-cpu").splitlines()


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
    assert (
        "known: sandbox, operations, gateway, policy, core, trainer, policy-gpu, retrieval-gpu"
        in capsys.readouterr().err
    )


def test_a_release_signs_and_attests_every_image_by_the_digest_that_it_pushed() -> None:
    (job,) = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"].values()
    assert tuple(job["strategy"]["matrix"]["target"]) == images.SERVING
    assert job["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    assert job["env"]["RELEASE"] == "1", "a base without digest is refused"
    steps = {step.get("uses", step.get("run", "")).partition("@")[0]: step for step in job["steps"]}
    pushed = {
        "subject-name": "${{ steps.pushed.outputs.name }}",
        "subject-digest": "${{ steps.pushed.outputs.digest }}",
        "push-to-registry": True,
    }
    assert steps["actions/attest-build-provenance"]["with"] == pushed
    document = {"sbom-path": "dist/sbom/fathom-${{ matrix.target }}.cdx.json"}
    assert steps["actions/attest-sbom"]["with"] == pushed | document, "as deploy/sbom.py names it"
    (sign,) = [step for step in job["steps"] if step.get("run", "").startswith("cosign sign")]
    assert sign["env"]["IMAGE"].endswith("@${{ steps.pushed.outputs.digest }}"), "a tag may be moved"


def test_a_package_without_a_wheel_for_arm64_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """uv's answers as it gave them for two locks; it names one package at a time."""
    asked: list[str] = []
    mine, theirs = "a" * 64, "b" * 64

    def answer(command: list[str], *, input: str, **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(input)
        said = (
            "error: No solution found when resolving dependencies\n  cause: Because faiss-gpu==1.15.1 has no wheels with a matching"
            " platform tag (e.g., `manylinux_2_36_aarch64`) and you require faiss-gpu==1.15.1, we can conclude"
        )
        if "faiss-gpu" in input:
            return subprocess.CompletedProcess(command, 1, "", said)
        (output,) = (word.partition("=")[2] for word in command if word.startswith("--output-file="))
        wheel = (
            f'[[packages]]\nname = "numpy"\nversion = "2.4.0"\nwheels = [{{ hashes = {{ sha256 = "{theirs}" }} }}]\n'
        )
        Path(output).write_text(wheel)
        return subprocess.CompletedProcess(command, 0, "", "")

    lock = tmp_path / "retrieval-gpu.txt"
    lines = [f"{pin} --hash=sha256:{mine}" for pin in ("faiss-gpu==1.15.1", "numpy==2.4.0")]
    lock.write_text("\n".join([locks.describe_lock(2), *lines, ""]))
    monkeypatch.setattr(arm64, "path_of", lambda name: tmp_path / f"{name}.txt")
    monkeypatch.setattr(arm64, "read_pip_settings", lambda *_: {})
    monkeypatch.setattr("deploy.arm64.subprocess.run", answer)
    assert arm64.main(["retrieval-gpu"]) == 1
    assert asked[-1] == "numpy==2.4.0"
    assert theirs not in lock.read_text()
    # Written twice, it stays the same.
    for _ in range(2):
        assert arm64.main(["--write", "retrieval-gpu"]) == 0
        assert lock.read_text().splitlines() == [
            "# Made by deploy/locks.py; 2 packages; without a wheel for arm64: faiss-gpu",
            lines[0],
            f"{lines[1]} --hash=sha256:{theirs}",
        ]
    failed = subprocess.CompletedProcess([], 2, "", "error: cannot reach the index")
    monkeypatch.setattr("deploy.arm64.subprocess.run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="cannot reach the index"):
        arm64.resolve({"torch": "torch==2.13.0"})
    assert arm64.main(["fathom"]) == 1


@pytest.mark.parametrize("name", [name for name, lock in locks.LOCKS.items() if lock.folder == locks.IMAGES])
def test_a_locked_package_has_a_wheel_for_arm64_or_is_named(name: str) -> None:
    """A wheel with compiled code is another one there; of packages that are installed here, metadata says which have it."""
    first, *lines = locks.path_of(name).read_text().splitlines()
    lacking = set(first.partition("without a wheel for arm64: ")[2].split(", "))
    compiled = 0
    for line in lines:
        pin, *hashes = line.split(" --hash=")
        package, _, version = pin.partition("==")
        try:
            installed = distribution(package)
        except PackageNotFoundError:
            continue
        tags = re.findall("^Tag: (.+)$", installed.read_text("WHEEL") or "", re.MULTILINE)
        if installed.version == version and tags and not any(tag.endswith("-any") for tag in tags):
            compiled += 1
            assert (len(hashes) > 1) is (package not in lacking), line
    assert compiled or name in ("build", "torch-cuda"), "of these two nothing compiled is installed here"


def test_a_builder_gets_target_name_and_options() -> None:
    environ = {"TAG": "1.2", "REPOSITORY": "reg/fathom", "BUILDER_OPTIONS": "--isolation chroot", "ENGINE": "cpu"}
    step = images.build_command("buildah", "policy-gpu", environ)
    assert step[:3] == ["buildah", "bud", "--layers"]
    assert step[step.index("--tag") + 1] == "reg/fathom-policy-gpu:1.2"
    assert step[step.index("--target") + 1] == "policy-gpu"
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
