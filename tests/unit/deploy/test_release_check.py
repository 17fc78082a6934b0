"""The release check: what it demands of a wheel, with a wheel that is really built, and how it names a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import fathom
from deploy import release_check
from deploy.release_check import ReleaseError

WANTED = {
    "fathom/py.typed", "fathom/api/policy/v1/policy_pb2.py", "fathom/api/policy/v1/policy_pb2.pyi",
    "fathom/services/planner/prompts/system.md", "fathom/services/reward/prompts/judge.md", "fathom/services/retrieval/corpus/notes/cpi.en.md",
    "fathom/services/gateway/static/index.html", "fathom/services/gateway/static/assets/index.js", "fathom/services/datafetch/catalog/frameworks/stock.yaml",
    "fathom/services/datafetch/catalog/library/markets.yaml", "fathom/trainers/config/presets/grpo.yaml",
}  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout with the build system of this environment; needs no network."""
    return release_check.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def change_wheel(wheel: Path, tmp_path: Path) -> Callable[[Callable[[str, bytes], bytes | None]], Path]:
    """Return a function that copies the wheel with each member replaced, or left out for None."""

    def copy(change: Callable[[str, bytes], bytes | None]) -> Path:
        target = tmp_path / wheel.name
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
            for name in old.namelist():
                content = change(name, old.read(name))
                if content is not None:
                    new.writestr(name, content)
        return target

    return copy


def test_the_wheel_of_this_checkout_is_complete_and_holds_nothing_else(wheel: Path) -> None:
    release_check.check_wheel(wheel, release_check.ROOT, fathom.__version__)


def test_a_file_that_the_wheel_lacks_is_named(change_wheel: Callable[..., Path]) -> None:
    lacking = change_wheel(lambda name, content: None if name == "fathom/py.typed" else content)
    with pytest.raises(ReleaseError, match=r"lacks 1 files: fathom/py\.typed"):
        release_check.check_wheel(lacking, release_check.ROOT, fathom.__version__)


def test_a_wheel_of_another_version_is_refused(wheel: Path, change_wheel: Callable[..., Path]) -> None:
    with pytest.raises(ReleaseError, match=r"has no fathom-9\.9\.9\.dist-info/METADATA"):
        release_check.check_wheel(wheel, release_check.ROOT, "9.9.9")
    version = f"\nVersion: {fathom.__version__}\n".encode()
    other = change_wheel(lambda name, content: content.replace(version, b"\nVersion: 9.9.9\n", 1))
    with pytest.raises(ReleaseError, match=r"version is 9\.9\.9, and fathom.__version__ is"):
        release_check.check_wheel(other, release_check.ROOT, fathom.__version__)


def test_malformed_metadata_is_refused_with_the_field() -> None:
    with pytest.raises(ReleaseError, match=r"malformed.*requires-python"):
        release_check.check_metadata(
            "Metadata-Version: 2.4\nName: fathom\nVersion: 1.0\nRequires-Python: 3,11\n", version="1.0"
        )
    with pytest.raises(ReleaseError, match="no summary"):
        release_check.check_metadata("Metadata-Version: 2.4\nName: fathom\nVersion: 1.0\n", version="1.0")


@pytest.mark.parametrize(
    ("held", "wanted", "problem"),
    [
        ({*WANTED, "fathom/services/notes.txt"}, WANTED, r"1 files that git does not track: fathom/services/notes\.txt"),
        (WANTED - {"fathom/trainers/config/presets/grpo.yaml"}, WANTED - {"fathom/trainers/config/presets/grpo.yaml"},
         r"has no fathom/trainers/config/presets/\*\.yaml"),
        ({*WANTED, "fathom/trainers/test_ppo.py"}, {*WANTED, "fathom/trainers/test_ppo.py"}, r"has tests: fathom/trainers/test_ppo\.py"),
        ({*WANTED, "fathom/tests/data.txt"}, {*WANTED, "fathom/tests/data.txt"}, "has tests: fathom/tests/data"),
    ],
)  # fmt: skip
def test_contents_that_do_not_belong_in_a_wheel_are_named(held: set[str], wanted: set[str], problem: str) -> None:
    with pytest.raises(ReleaseError, match=problem):
        release_check.check_contents(held, wanted)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_only_what_git_tracks_belongs_in_the_wheel(tmp_path: Path) -> None:
    for name in ("libs/fathom/a.py", "services/b.py", "services/draft.py", "trainers/c.yaml", "tests/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    everything = {"fathom/a.py", "fathom/services/b.py", "fathom/services/draft.py", "fathom/trainers/c.yaml"}
    assert release_check.list_package_files(tmp_path) == everything
    subprocess.run(["git", "-C", str(tmp_path), "init", "--quiet"], check=True)
    tracked = ["libs", "services/b.py", "trainers", "tests"]
    subprocess.run(["git", "-C", str(tmp_path), "add", "--", *tracked], check=True)
    assert release_check.list_package_files(tmp_path) == everything - {"fathom/services/draft.py"}


def test_a_step_that_fails_is_named_with_its_own_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = release_check.run_step("greet", [sys.executable, "-c", "print('hello')"], tmp_path, os.environ)
    assert said == "hello\n"
    assert "release-check: greet\n  hello\n" in capsys.readouterr().out
    broken = [sys.executable, "-c", "import sys; print('no wheel for torch'); sys.exit(3)"]
    with pytest.raises(ReleaseError, match=r"install: ended with status 3\nno wheel for torch"):
        release_check.run_step("install", broken, tmp_path, os.environ)


def stand_in(folder: Path, answer: str, data: str = "tables  763,766 rows") -> Path:
    """Write a command ``fathom`` that only says what it is given, and return its environment."""
    program = folder / "venv" / "bin" / "fathom"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\ncase $1 in version) echo 'fathom 1.0';; data) echo '{data}';; up) echo '{answer}';; esac\n"
    )
    program.chmod(0o755)
    return folder / "venv"


def test_an_installed_command_that_answers_with_citations_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release_check.try_out(stand_in(tmp_path, "It fell by 38.5 % [2]."), tmp_path, "1.0")
    assert "It fell by 38.5 % [2]." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "answer", "data", "problem"),
    [
        ("2.0", "It fell [2].", "tables", "does not speak of the wheel"),
        ("1.0", "It fell.", "tables", "cites nothing"),
        ("1.0", "It fell [2].", "skfolio 1.12.2 is skipped: no pip", "could not build everything.*skfolio"),
    ],
)
def test_an_installed_command_that_does_not_work_fails_the_check(
    tmp_path: Path, version: str, answer: str, data: str, problem: str
) -> None:
    with pytest.raises(ReleaseError, match=f"(?s){problem}"):
        release_check.try_out(stand_in(tmp_path, answer, data), tmp_path, version)


def test_a_folder_that_is_not_empty_is_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("")
    assert release_check.main(["--keep", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
