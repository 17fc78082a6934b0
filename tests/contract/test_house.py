"""The house rules: generated stubs, lint of the protos, who imports whom, what an import costs, shape of a service."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import order_file

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("datafetch", "gateway", "memory", "planner", "policy", "retrieval", "reward", "sandbox")
SLEEPS = ("time.sleep", "asyncio.sleep", "anyio.sleep", "trio.sleep")
CLOCKS = ("time.time", "time.monotonic", "time.perf_counter")
# A source without these words breaks no rule about them; parsing only the others spares the suite half a minute.
SLEEP_WORDS = re.compile(r"sleep|wait_for_timeout")
CLOCK_WORDS = re.compile(r"^\s*(import|from)\b.*\btime\b", re.MULTILINE)
BARE_IMPORTS = re.compile(r"\b(from|import)\s+\.*(services|trainers)\b|\bimport\b.*,\s*(services|trainers)\b")
MAY_SLEEP = {
    "support/waiting.py": "the one place where tests poll",
    "integration/cluster/cluster.py": "plays the kubelet, with the periods and back-offs of the manifests",
    "integration/cluster/load.py": "plays users, who pause between two requests",
    "integration/cluster/scenarios.py": "measures the load over windows of time, not to wait for anything",
    "integration/stack/scripted_model.py": "plays a model that writes at a pace, which services turn into drafts",
}
HEAVY = ("torch", "ray", "vllm", "faiss", "pandas", "pyarrow", "transformers", "duckdb", "IPython", "fastapi")


# Calls that fail a test by themselves, beside helpers named by what they do (`assert_equal`, `check_bars`, `expect`).
FAILING_CALLS = frozenset({"raises", "warns", "deprecated_call", "fail", "eventually"})
CHECKING_NAMES = ("assert_", "check_", "expect")


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
    # The sandbox's folders are its processes, and its engine runs in the supervisor.
    engine = "supervisor/engine.py" if name == "sandbox" else "engine.py"
    for file in ("__init__.py", "__main__.py", "config.py", "server.py", engine, "README.md"):
        assert (folder / file).exists(), f"services/{name}/{file}"


def test_services_and_trainers_are_imported_below_fathom_alone() -> None:
    """A wheel has no package as general as ``services``; in a checkout both would be found, and be two modules."""
    wrong = [
        f"{room}/{path}:{node.lineno}"
        for room in ("libs", "services", "trainers", "tests", "examples", "deploy")
        for path, tree in parse_sources(room, BARE_IMPORTS).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name and name.split(".")[0] in ("services", "trainers")
    ]
    assert not wrong


@pytest.mark.parametrize("name", SERVICES)
def test_an_unknown_setting_stops_a_service_with_its_name(name: str, tmp_path: Path) -> None:
    config = tmp_path / "fathom.yaml"
    config.write_text(f"{name}: {{no_such_key: 1}}\n")
    done = run(sys.executable, "-m", f"fathom.services.{name}", "--config", str(config))
    assert done.returncode == 1
    assert f"{name}.no_such_key" in done.stderr
    assert "Traceback" not in done.stderr


def parse_sources(room: str, words: re.Pattern[str]) -> dict[str, ast.Module]:
    """Return the syntax trees of the sources below a folder that have the words in them, by path below it."""
    folder = ROOT / room
    sources = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    return {path: ast.parse(source) for path, source in sources.items() if words.search(source)}


def parse_tests(words: re.Pattern[str]) -> dict[str, ast.Module]:
    """Return the same for all tests but the benchmarks."""
    return {path: tree for path, tree in parse_sources("tests", words).items() if Path(path).parts[0] != "bench"}


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name stands for, such as ``{"pause": "time.sleep"}``."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def calls_below(root: ast.AST, names: dict[str, str]) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with the full name of what is called, as far as imports tell it."""
    for node in ast.walk(root):
        if isinstance(node, ast.Call):
            first, dot, rest = ast.unparse(node.func).partition(".")
            yield names.get(first, first) + dot + rest, node


def find_sleeps(tree: ast.Module) -> list[int]:
    """Return the lines that wait for a time; ``sleep(0)`` only lets others run. Code for a cell is a string to ast."""
    return [
        call.lineno
        for name, call in calls_below(tree, imported_names(tree))
        if (name in SLEEPS or name.endswith(".wait_for_timeout")) and [ast.unparse(one) for one in call.args] != ["0"]
    ]


def find_timed_assertions(tree: ast.Module) -> list[int]:
    """Return the lines of assertions that compare what a clock says, or subtract from it.

    Adding to it makes a deadline, and the processor time of a process does not depend on what else the machine does.
    """
    names, found = imported_names(tree), []
    for asserted in (node for node in ast.walk(tree) if isinstance(node, ast.Assert)):
        for node in ast.walk(asserted):
            operands = [node.left] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else []
            operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else operands
            calls = (call for operand in operands for call in calls_below(operand, names) if call[1] is operand)
            found += [asserted.lineno for name, _ in calls if name in CLOCKS]
    return found


def test_no_test_sleeps_to_wait_for_something() -> None:
    """Wait with ``tests.support.waiting.eventually``, or simulate the time with ``tests.support.clock``."""
    found = {path: lines for path, tree in parse_tests(SLEEP_WORDS).items() if (lines := find_sleeps(tree))}
    assert found.keys() == MAY_SLEEP.keys(), found


def test_no_assertion_is_about_real_time() -> None:
    """A loaded machine that is late is not wrong: simulate the time, or measure it in ``tests/bench``."""
    trees = parse_tests(CLOCK_WORDS)
    assert {path: lines for path, tree in trees.items() if (lines := find_timed_assertions(tree))} == {}


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("import services", True),
        ("from trainers.learners import tiny", True),
        ("import os, trainers.data as data", True),
        ("from fathom.services import local", False),
    ],
)
def test_imports_outside_fathom_are_seen(source: str, is_found: bool) -> None:
    assert bool(BARE_IMPORTS.search(source)) == is_found


@pytest.mark.parametrize("line", ["import os, time", "import time as clock", "    from time import monotonic as now"])
def test_every_way_to_a_clock_is_seen(line: str) -> None:
    assert CLOCK_WORDS.search(f"import os\n{line}\n")


def test_the_rules_of_time_see_through_other_names() -> None:
    tree = ast.parse(
        "import asyncio as aio, time\nfrom time import monotonic as now, sleep as pause\n"
        "pause(1)\naio.sleep(0)\naio.sleep(delay)\npage.wait_for_timeout(5)\nrun('time.sleep(9)')\ntime.sleep(0.5)\n"
        "assert now() - began < 3\nassert took < 3\n"
        "assert get(deadline=time.monotonic() + 5) == 1\nassert time.time() < limit\n"
    )
    assert find_sleeps(tree) == [3, 5, 6, 8]
    assert find_timed_assertions(tree) == [9, 12]


def is_assertion(node: ast.AST) -> bool:
    """Return whether a node can fail its test on purpose: an ``assert`` or a call that checks something."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in FAILING_CALLS or name.startswith(CHECKING_NAMES)
    return False


def find_tests_without_assertion(source: str) -> Iterator[tuple[int, str]]:
    """Return line and name of each test function that has no assertion."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        if not any(is_assertion(inner) for inner in ast.walk(node)):
            yield node.lineno, node.name


def test_every_test_asserts_something() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for line, name in find_tests_without_assertion(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("assert x", False),
        ("with pytest.raises(ValueError): f()", False),
        ("np.testing.assert_allclose(a, b)", False),
        ("await expect(page.locator('a')).to_be_visible()", False),
        ("check_bars(found)", False),
        ("f()", True),
        ("client.check(x)", True),
        ("'assert x'", True),
    ],
)
def test_a_test_without_assertion_is_found(body: str, is_found: bool) -> None:
    source = f"class TestIt:\n    async def test_it(self):\n        {body}\n"
    assert list(find_tests_without_assertion(source)) == ([(2, "test_it")] if is_found else [])


def test_no_test_gets_a_second_try() -> None:
    """A rerun hides state left behind, fixed ports and waits that are too short: mend those instead."""
    second_try = re.compile("|".join((r"--re" r"runs", r"rerun" r"failures", r"mark\.fl" r"aky", r"-ra" r"R\b")))
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / ".ci").iterdir(), ROOT / "pyproject.toml", ROOT / "Makefile"]
    assert [str(path) for path in files if second_try.search(path.read_text(encoding="utf-8"))] == []


def test_the_files_on_the_shared_stack_follow_each_other() -> None:
    """Otherwise each worker starts the stack twice: for the slow files and for the others."""
    slow = {"unit/trainers/test_a.py", "integration/stack/runs/test_b.py", "integration/test_c.py"}
    others = {"unit/core/test_d.py", "integration/stack/test_e.py", "integration/bus/test_f.py", "e2e/test_g.py"}
    order = sorted(slow | others, key=lambda path: (order_file(ROOT / "tests" / path, is_slow=path in slow), path))
    assert order == [
        "integration/test_c.py", "integration/stack/runs/test_b.py", "integration/stack/test_e.py", "e2e/test_g.py",
        "integration/bus/test_f.py", "unit/core/test_d.py", "unit/trainers/test_a.py",
    ]  # fmt: skip
