"""Records of vendors: every connector has one, nothing imports a connector before it is enabled, absence is named."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from deploy import release_check
from fathom.core.errors import FathomError
from fathom.services.datafetch import commands, doctor
from fathom.services.datafetch.sources import Connector, ConnectorsConfig, ConnectorsMissing, connect, load_records
from fathom.services.datafetch.sources.vendors import ORDER

ROOT = Path(__file__).resolve().parents[4]
CONNECTORS = ROOT / "services/datafetch/sources/connectors"


def test_every_vendor_of_a_market_and_every_module_has_a_record() -> None:
    records = load_records()
    assert {name for names in ORDER.values() for name in names} == {*records}
    modules = {path.stem for path in CONNECTORS.glob("*.py")} - {"__init__", "sql"}
    assert modules == {record.connector.partition(":")[0] for record in records.values()}


def test_a_record_leads_to_its_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRED_API_KEY", "k" * 32)
    config = ConnectorsConfig(edgar_agent="Fathom test@example.com")
    for name, record in load_records().items():
        if name != "akshare-statements":  # needs its library
            made = record.load()(config)
            assert isinstance(made, Connector)
            assert made.name == name


def test_the_service_starts_without_importing_a_connector() -> None:
    program = (
        "import sys; import fathom.services.datafetch.server, fathom.services.datafetch.sources; "
        "print([name for name in sys.modules if 'sources.connectors' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_an_installation_without_the_connectors_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fathom.services.datafetch.sources.records.PACKAGE", "fathom.services.datafetch.no_connectors")
    with pytest.raises(ConnectorsMissing, match=r"enabled names fred.*fathom-connectors is not installed"):
        connect(ConnectorsConfig(enabled=("fred",)))
    commands.list_sources()
    assert "Not installed here: pip install" in capsys.readouterr().out
    monkeypatch.setenv("FATHOM_DATAFETCH_CONNECTORS", '{"enabled": ["fred"]}')
    (finding,) = await doctor.check_vendors()
    assert (finding.subject, finding.good, finding.needed) == ("vendor fred", False, True)


@pytest.mark.parametrize(
    ("enabled", "subjects", "needed"),
    [("[]", ["vendors"], True), ('["fred"]', ["vendor fred"], False), ('["nobody"]', ["vendor nobody"], True)],
)
async def test_doctor_says_how_far_an_enabled_vendor_was_tried(
    monkeypatch: pytest.MonkeyPatch, enabled: str, subjects: list[str], needed: bool
) -> None:
    monkeypatch.setenv("FATHOM_DATAFETCH_CONNECTORS", f'{{"enabled": {enabled}}}')
    findings = await doctor.check_vendors()
    assert [finding.subject for finding in findings] == subjects
    assert findings[0].needed is needed
    if "fred" in enabled:
        assert "never tried against the vendor; tested with what fredapi" in findings[0].detail


def test_the_list_says_of_each_vendor_when_it_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    commands.list_sources()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*load_records()]
    assert all("tried" in line for line in lines)


def test_the_connectors_are_a_wheel_of_their_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", tmp_path]
    subprocess.run([*command, CONNECTORS], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("fathom_connectors-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    folder = "fathom/services/datafetch/sources/connectors"
    assert held == {f"{folder}/{path.name}" for path in CONNECTORS.glob("*.py")}
    assert not any(name.startswith(folder) for name in release_check.list_package_files(ROOT))


def test_the_default_installation_is_without_what_connectors_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "connectors" not in extras["local"][0]


def test_an_unknown_vendor_is_named_with_the_known_ones() -> None:
    with pytest.raises(FathomError, match="yfinance"):
        connect(ConnectorsConfig(enabled=("yahoo",)))
