"""One version: whatever names it agrees with ``fathom.__version__``."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

import fathom
from fathom.cli.version import describe_version, read_commit
from fathom.transport.rpc.contract import DOMAINS, contract, contract_version

ROOT = Path(__file__).resolve().parents[2]


def test_the_version_is_a_release_in_canonical_form() -> None:
    version = Version(fathom.__version__)
    assert str(version) == fathom.__version__
    assert len(version.release) == 3


def test_the_package_takes_its_version_from_the_code() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in settings["project"]["dynamic"]
    assert "version" not in settings["project"]
    assert (ROOT / settings["tool"]["hatch"]["version"]["path"]).samefile(fathom.__file__)


@pytest.mark.parametrize("key", ["version", "appVersion"])
def test_the_chart_has_the_version_of_the_package(key: str) -> None:
    assert yaml.safe_load((ROOT / "charts" / "fathom" / "Chart.yaml").read_text())[key] == fathom.__version__


def test_the_changelog_describes_the_version_first() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    released = [heading for heading in headings if heading != "Unreleased"]
    assert released[0] == fathom.__version__
    assert released == sorted(released, key=Version, reverse=True)


def test_the_upgrade_notes_have_a_section_for_the_version() -> None:
    assert f"\n## {fathom.__version__}\n" in (ROOT / "charts" / "fathom" / "UPGRADING.md").read_text()


def test_the_operations_guide_names_images_of_the_version() -> None:
    tags = re.findall(r"fathom-core:([\d.]+\d)|TAG=([\d.]+\d)", (ROOT / "docs" / "operations.md").read_text())
    assert {first or second for first, second in tags} == {fathom.__version__}


def test_all_domains_of_the_contract_have_one_version() -> None:
    assert {contract(name).full_name.split(".")[-2] for name in DOMAINS} == {contract_version()}


def test_the_version_command_prints_what_a_report_of_a_bug_needs() -> None:
    command = [sys.executable, "-m", "fathom.cli.main", "version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.rstrip() == describe_version()
    assert printed.startswith(f"fathom {fathom.__version__}\ncontract {contract_version()} (")
    assert f"\npython {sys.version_info.major}.{sys.version_info.minor}." in printed


def test_the_option_prints_the_version_alone() -> None:
    command = [sys.executable, "-m", "fathom.cli.main", "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == f"fathom {fathom.__version__}\n"


def test_the_commit_is_named_in_a_checkout_only(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    (tmp_path / "file").write_text("before")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "first"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert read_commit(tmp_path) == commit
    (tmp_path / "file").write_text("after")
    assert read_commit(tmp_path) == f"{commit}-dirty"
    (tmp_path / "below").mkdir()
    assert read_commit(tmp_path / "below") == ""
