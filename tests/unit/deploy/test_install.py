"""The set-up of a checkout: what it checks, how it goes on after an interruption, and how it explains failures.

The installer itself is a stand-in here, since tests have no network; ``python -m tests.bench setup`` runs the real one.
"""

from __future__ import annotations

import json
import multiprocessing
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy import install

Steps = list[tuple[str, str]]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Replace the installers by ones that only write down that they ran."""
    done: Steps = []

    def create(venv: Path) -> None:
        done.append(("create", venv.name))
        venv.mkdir(parents=True, exist_ok=True)
        (venv / install.MARKER).touch()

    monkeypatch.setattr(install, "create_environment", create)
    monkeypatch.setattr(install, "install_packages", lambda role, venv: done.append(("install", role)))
    return done


def test_a_second_set_up_has_nothing_to_do(tmp_path: Path, steps: Steps) -> None:
    venv = tmp_path / "a folder with ü and 空格" / ".venv"
    assert install.set_up("run", venv)
    assert not install.set_up("run", venv)
    assert steps == [("create", ".venv"), ("install", "run")]


def test_an_environment_for_tests_is_one_for_running_too(tmp_path: Path, steps: Steps) -> None:
    install.set_up("dev", tmp_path / "v")
    assert not install.set_up("run", tmp_path / "v")


def test_an_environment_for_running_is_widened_for_tests(tmp_path: Path, steps: Steps) -> None:
    install.set_up("run", tmp_path / "v")
    install.set_up("dev", tmp_path / "v")
    assert steps == [("create", "v"), ("install", "run"), ("install", "dev")]
    assert not install.set_up("run", tmp_path / "v")


def test_an_environment_for_tests_stays_one_when_a_lock_changes(tmp_path: Path, steps: Steps) -> None:
    install.set_up("dev", tmp_path / "v")
    (tmp_path / "v" / install.STAMP).write_text(json.dumps({"dev": "digest of an older lock"}))
    assert install.set_up("run", tmp_path / "v")
    assert steps[2:] == [("create", "v"), ("install", "dev")]
    assert not install.set_up("dev", tmp_path / "v")


@pytest.mark.parametrize("interruption", ["marker", "stamp", "lock"])
def test_an_environment_that_is_not_whole_is_made_anew(tmp_path: Path, steps: Steps, interruption: str) -> None:
    venv = tmp_path / "v"
    install.set_up("run", venv)
    if interruption == "marker":
        (venv / install.MARKER).touch()
    elif interruption == "stamp":
        (venv / install.STAMP).write_text("{")
    else:
        (venv / install.STAMP).write_text(json.dumps({"run": "digest of an older lock"}))
    assert install.set_up("run", venv)
    assert steps[2:] == [("create", "v"), ("install", "run")]


def test_a_set_up_that_fails_leaves_no_stamp(tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(role: str, venv: Path) -> None:
        raise install.SetupError("the disk is full", "make room")

    monkeypatch.setattr(install, "install_packages", fail)
    with pytest.raises(install.SetupError):
        install.set_up("run", tmp_path / "v")
    assert not install.is_ready("run", tmp_path / "v")


def set_up_quietly(venv: Path, created: Path) -> None:
    """Run a set-up whose installer notes each run in a file; for a process of its own."""

    def create(target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        (target / install.MARKER).touch()
        with created.open("a") as file:
            file.write("created\n")

    install.create_environment = create
    install.install_packages = lambda role, target: None
    install.set_up("run", venv)


def test_two_set_ups_at_once_do_the_work_once(tmp_path: Path) -> None:
    created = tmp_path / "created"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=set_up_quietly, args=(tmp_path / "v", created)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert created.read_text() == "created\n"


@pytest.mark.parametrize(
    ("output", "cause", "remedy"),
    [
        ("error: failed to write: No space left on device (os error 28)", "the disk is full", "goes on"),
        (
            "Because there is no version of duckdb==2.0.0 and you require it\nNo solution found",
            "lacks a wheel",
            "index",
        ),
        ("error sending request: dns error: Name resolution failed", "cannot be reached", "network"),
        (
            "Retrying after connection broken by 'NewConnectionError': refused\nERROR: No matching distribution found",
            "cannot be reached",
            "network",
        ),
        (
            "error: Failed to fetch: https://me:secret@wheels.example/whl/cpu/torch/\n"
            "  cause: error sending request for url (https://me:secret@wheels.example/whl/cpu/torch/)\n"
            "  cause: tunnel error: failed to create underlying connection",
            "packages: https://wheels.example/whl/cpu/torch/ cannot be reached",
            "PIP_EXTRA_INDEX_URL",
        ),
        (
            "Looking in indexes: https://a.example/simple, https://b.example/simple\nRetrying after connection broken by"
            " 'NameResolutionError(\"HTTPSConnection(host='b.example', port=443): Failed to resolve\")': /simple/uv/",
            "packages: b.example cannot be reached",
            "network",
        ),
        (
            "error sending request for url (https://a.example/simple/)\n  cause: invalid peer certificate: UnknownIssuer",
            "the certificate of https://a.example/simple/ is not trusted",
            "PIP_CERT",
        ),
        ("The virtual environment was not created: ensurepip is not available", "has no venv", "apt-get install"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "not those of the lock", "proxy"),
        ("something nobody has seen", "status 2", "above"),
    ],
)
def test_a_failure_names_its_cause_and_its_remedy(output: str, cause: str, remedy: str) -> None:
    error = install.explain_failure("packages", output, 2)
    assert cause in str(error)
    assert remedy in error.remedy


def test_an_interpreter_that_is_too_new_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    with pytest.raises(install.SetupError, match=r"3\.11, 3\.12 or 3\.13"):
        install.check_machine("run", tmp_path)


def test_another_kind_of_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(install.SetupError, match="aarch64"):
        install.check_machine("run", tmp_path)


def test_too_small_a_disk_is_refused_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(install.FREE_BYTES, "run", 1 << 60)
    with pytest.raises(install.SetupError, match="GB free"):
        install.check_machine("run", tmp_path / "v")


def test_pip_s_settings_hold_for_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "\n".join([
        "global.index-url='https://mirror.example/simple'",
        "global.extra-index-url='file:///a/simple file:///b/simple'",
        ":env:.find-links='/wheels'",
        "global.timeout='60'",
    ])  # fmt: skip

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(list(command), 0, listed, "")

    monkeypatch.setattr("deploy.install.subprocess.run", run)
    assert install.read_pip_settings(Path("python"), {"UV_INDEX": "of the user"}) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_FIND_LINKS": "/wheels",
    }


def test_the_makefile_keeps_the_state_of_a_read_only_checkout_elsewhere(tmp_path: Path) -> None:
    makefile = (install.ROOT / "Makefile").read_text()
    (tmp_path / "Makefile").write_text(makefile + "\nshow:\n\t@echo '$(VENV)' '$(HOME_DIR)'\n")
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/home/an analyst"}
    command = ["make", "--no-print-directory", "-C", str(tmp_path), "show"]
    shown = subprocess.run(command, capture_output=True, text=True, env=environ, check=True).stdout
    assert shown.split() == ["./.venv", "./.fathom"]
    # Root may write everywhere, so that the test itself is answered instead of the folder's mode.
    text = makefile.replace("test -w .", "false")
    (tmp_path / "Makefile").write_text(text + "\nshow:\n\t@echo '$(VENV)'\n")
    shown = subprocess.run(command, capture_output=True, text=True, env=environ, check=True).stdout
    assert shown.strip() == "/home/an analyst/.local/state/fathom/.venv"
