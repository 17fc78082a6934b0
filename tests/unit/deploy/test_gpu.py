"""``make test-gpu`` on a machine that lacks packages: what it reads, what it unpacks, what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy import gpu
from tests.contract.bare import installed_closure
from tests.unit.deploy.importing import import_within


def write_wheel(folder: Path, name: str) -> None:
    """Write a wheel that pip takes, with a module of the same name."""
    info = f"{name}-1.0.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "WORD = 'carried'\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def test_only_files_with_the_mark_are_read() -> None:
    files = [Path(word) for word in gpu.command_of("test") if word.endswith(".py")]
    assert gpu.ROOT / "tests/unit/trainers/learners/test_on_gpu.py" in files
    assert all(gpu.MARK in path.read_text(encoding="utf-8") for path in files)
    assert len(files) < 10, "each file that is read needs its imports on that machine"


def test_what_the_machine_lacks_is_found_once_it_is_unpacked(tmp_path: Path) -> None:
    place = tmp_path / "unpacked"
    assert gpu.find_lacking(["carried_module"], place) == ["carried_module"]
    place.mkdir()
    (place / "carried_module.py").touch()
    assert gpu.find_lacking(["carried_module", "absent_package.part"], place) == ["absent_package.part"]


def test_a_machine_without_torch_or_without_wheels_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "WHEELS", tmp_path)
    monkeypatch.setattr(gpu, "BROUGHT", ("no_such_torch",))
    assert gpu.main(["test"]) == gpu.MISSING
    assert "has no no_such_torch: name a Python that has" in capsys.readouterr().out
    monkeypatch.setattr(gpu, "BROUGHT", ())
    monkeypatch.setattr(gpu, "PACKAGES", {"no_such_module": "no-such-package"})
    assert gpu.main(["bench"]) == gpu.MISSING
    assert "make gpu-wheels" in capsys.readouterr().out


def test_what_is_downloaded_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    class Done:
        returncode = 0

    monkeypatch.setattr("deploy.gpu.subprocess.run", lambda command, check: asked.append(command) or Done())  # type: ignore[func-returns-value]
    assert gpu.main(["wheels", "--python", "3.12"]) == gpu.OK
    (command,) = asked
    assert command[command.index("--python-version") + 1] == "3.12"
    names = [word.partition("==")[0] for word in command if "==" in word]
    assert names == list(gpu.PACKAGES.values()), "each in the version of locks/dev.txt"


def test_carried_wheels_are_unpacked_into_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(tmp_path, "carried_wheel")
    write_wheel(tmp_path, "unwanted")
    monkeypatch.setattr(gpu, "WHEELS", tmp_path)
    monkeypatch.setattr(gpu, "PACKAGES", {"carried_wheel": "carried-wheel"})
    # The Python of a machine may come without pip, as that of a virtual environment by uv does.
    monkeypatch.setattr("deploy.gpu.subprocess.run", lambda *_, **__: pytest.fail("nothing is started"))
    place = gpu.unpack()
    assert (place / "carried_wheel.py").exists()
    assert not (place / "unwanted.py").exists()
    assert gpu.find_lacking(gpu.PACKAGES, place) == []
    assert str(place) not in sys.path


def test_wheels_of_another_python_are_not_taken_and_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    minor = sys.version_info.minor
    taken = [
        "1.0-py3-none-any.whl",
        f"1.0-cp3{minor}-cp3{minor}-x.whl",
        "1.0-cp39-abi3-x.whl",
        "1-py2.py3-none-any.whl",
    ]
    assert [gpu.fits(rest) for rest in taken] == [True] * 4
    other = f"cp3{minor + 1}"
    assert [gpu.fits(f"1.0-{other}-{abi}-x.whl") for abi in (other, "abi3")] == [False, False]
    write_wheel(tmp_path, "carried_wheel")
    (tmp_path / "carried_wheel-1.0-py3-none-any.whl").rename(tmp_path / f"carried_wheel-1.0-{other}-{other}-any.whl")
    monkeypatch.setattr(gpu, "WHEELS", tmp_path)
    monkeypatch.setattr(gpu, "BROUGHT", ())
    monkeypatch.setattr(gpu, "PACKAGES", {"carried_wheel": "carried-wheel"})
    assert gpu.main(["test"]) == gpu.MISSING
    assert f"make gpu-wheels GPU_PYTHON=3.{minor}" in capsys.readouterr().out


def test_the_files_that_are_run_import_what_such_a_machine_has() -> None:
    """The bench asked for the suite's plugins, through the test whose model it measures with."""
    brought = [Requirement(name) for name in gpu.BROUGHT]
    packages = {canonicalize_name(found.metadata["Name"]) for found in installed_closure(brought)}
    packages |= set(map(canonicalize_name, gpu.PACKAGES.values()))
    files = [Path(word) for word in gpu.command_of("test") if word.endswith(".py")]
    modules = [".".join(path.relative_to(gpu.ROOT).with_suffix("").parts) for path in files]
    assert import_within(packages, ["tests.bench.trainers.gpu", *modules], is_inside_free=True) == ""


@pytest.mark.slow
def test_every_part_of_the_bench_runs_in_miniature_where_there_is_no_gpu() -> None:
    command, environ = [sys.executable, "deploy/gpu.py", "bench"], {**os.environ, "BENCH_GPU_DEVICE": "cpu"}
    done = subprocess.run(command, cwd=gpu.ROOT, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    begun = [
        "on the processor, in miniature",
        "learner, 16 rows",
        "step on 4 rows",
        "sampler, 2 in flight",
        "new weights:",
    ]
    assert [words for words in begun if words not in done.stdout] == []
    # Of the learner's own rows, and of those that TRL takes, too.
    assert [done.stdout.count(f"{way:<34}") for way in ("padded", "packed")] == [1, 1]
    assert [done.stdout.count(f"Fathom, whole step, {way}") for way in ("padded", "packed")] == [1, 1]


def test_the_tests_of_a_gpu_are_found_without_the_suites_settings() -> None:
    command = [*gpu.command_of("test"), "--collect-only", "-q"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(gpu.ROOT), str(gpu.ROOT / "libs")])}
    done = subprocess.run(command, cwd=gpu.ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "test_a_gpu_takes_the_step_of_the_cpu[packed]" in done.stdout
    assert "test_offloaded_shards_take_the_step_of_the_cpu" in done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("what", ["test", "bench"])
def test_make_passes_on_to_the_script(what: str) -> None:
    command = ["make", "--no-print-directory", "--dry-run", f"{what}-gpu"]
    done = subprocess.run(command, cwd=gpu.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(f"deploy/gpu.py {what}")
