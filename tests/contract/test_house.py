"""The house rules: generated stubs, lint of the protos, who imports whom, what an import costs, shape of a service."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("datafetch", "gateway", "memory", "planner", "policy", "retrieval", "reward", "sandbox")
HEAVY = ("torch", "ray", "vllm", "faiss", "pandas", "pyarrow", "transformers", "duckdb", "IPython", "fastapi")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("command", ["check", "lint", "breaking"])
def test_contract(command: str) -> None:
    done = run(sys.executable, "protos/contract.py", command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_would_notice_a_missing_comment(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("contract_tool", ROOT / "protos" / "contract.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    folder = tmp_path / "fathom" / "api" / "odd" / "v1"
    folder.mkdir(parents=True)
    (folder / "odd.proto").write_text('syntax = "proto3";\npackage fathom.api.odd.v1;\nmessage Odd { int32 x = 1; }\n')
    image = tool.image(tmp_path, tmp_path / "image.binpb")
    assert tool.buf("lint", str(image)) != 0


def test_hooks_and_ci_run_the_same_checks() -> None:
    makefile = (ROOT / "Makefile").read_text().replace('"$(BIN)/', "").replace('"', "")
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    checks = {hook["entry"].removeprefix(".venv/bin/").split(" --")[0] for hook in repository["hooks"]}
    assert checks >= {"ruff check", "ruff format", "mypy", "lint-imports"}
    for check in checks:
        recipe = rf"^{check.removeprefix('make ')}:" if check.startswith("make ") else rf"(^\t|&& ){check}\b"
        assert re.search(recipe, makefile, flags=re.MULTILINE), f"{check} is a hook, and make does not run it"
    wanted = {
        name: set(re.findall(rf"^{name}: ([a-z -]*)", makefile, re.MULTILINE)[0].split()) for name in ("test", "lint")
    }
    assert wanted["test"] >= {"lint", "types", "proto-check"}
    assert wanted["lint"] >= {"workflows"}


def test_every_shell_script_is_checked() -> None:
    found = {path for path in run("git", "ls-files", "*.sh", ".ci").stdout.split() if path}
    command = re.search(r"shellcheck\" (.*)", (ROOT / "Makefile").read_text())
    assert command is not None
    assert set(command[1].split()) == found


def test_import_rules() -> None:
    done = run(str(Path(sys.executable).parent / "lint-imports"))
    assert done.returncode == 0, done.stdout


def test_shared_library_is_light() -> None:
    probe = f"import fathom, fathom.clients, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run(sys.executable, "-c", probe).stdout.strip() == "[]"


def test_help_imports_nothing_heavy() -> None:
    probe = (
        "import sys\nfrom typer.testing import CliRunner\nfrom fathom.cli.main import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        f"print([m for m in {(*HEAVY, 'grpc', 'nats', 'google.protobuf')!r} if m in sys.modules])"
    )
    assert run(sys.executable, "-c", probe).stdout.strip() == "[]"


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_the_same_inside(name: str) -> None:
    folder = ROOT / "services" / name
    for file in ("__init__.py", "__main__.py", "config.py", "server.py", "engine.py", "README.md"):
        assert (folder / file).exists(), f"services/{name}/{file}"


@pytest.mark.parametrize("name", SERVICES)
def test_an_unknown_setting_stops_a_service_with_its_name(name: str, tmp_path: Path) -> None:
    config = tmp_path / "fathom.yaml"
    config.write_text(f"{name}: {{no_such_key: 1}}\n")
    done = run(sys.executable, "-m", f"services.{name}", "--config", str(config))
    assert done.returncode == 1
    assert f"{name}.no_such_key" in done.stderr
    assert "Traceback" not in done.stderr
