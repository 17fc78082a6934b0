"""Records of search engines: each leads to its class, an installation without them says so, and the doctor as well."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy import release_check
from fathom.services.retrieval import doctor
from fathom.services.retrieval.web import EnginesMissing, WebConfig, load_records, make_configured_engines
from fathom.services.retrieval.web.online import LazyWebCorpus

ROOT = Path(__file__).parents[4]
ADDRESS = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for record in load_records().values():
        monkeypatch.delenv(f"{record.name.upper()}_API_KEY", raising=False)


def test_a_record_leads_to_its_engine_and_says_what_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, record in load_records().items():
        assert not record.is_configured(WebConfig())
        monkeypatch.setenv(f"{name.upper()}_API_KEY", "secret")
        config = WebConfig(searxng_url=ADDRESS)
        assert record.is_configured(config)
        assert record.load()(config).name == name


def test_an_installation_without_the_engines_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.services.retrieval.web.records.PACKAGE", "fathom.services.retrieval.web.no_engines")
    assert make_configured_engines(WebConfig()) == []
    with pytest.raises(EnginesMissing, match=r"retrieval\.web\.searxng_url turns searxng on.*fathom-web-engines"):
        LazyWebCorpus(WebConfig(searxng_url=ADDRESS)).get_corpus()


def test_the_service_starts_without_importing_an_engine() -> None:
    program = "import sys; import fathom.services.retrieval.server; print('fathom.services.retrieval.web.engines' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


async def test_doctor_says_how_far_each_engine_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = await doctor.check_web_engines()
    assert finding.good
    for name in load_records():
        assert f"{name} (last tried never)" in finding.detail
    monkeypatch.setenv("FATHOM_RETRIEVAL_WEB", f'{{"searxng_url": "{ADDRESS}"}}')
    (finding,) = await doctor.check_web_engines()
    assert (finding.subject, finding.good, finding.needed) == ("web engine searxng", False, False)
    assert "last tried never" in finding.detail
    monkeypatch.setattr("fathom.services.retrieval.web.records.PACKAGE", "fathom.services.retrieval.web.no_engines")
    (finding,) = await doctor.check_web_engines()
    assert "fathom-web-engines is not installed" in finding.detail


def test_the_engines_are_a_wheel_of_their_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", tmp_path]
    subprocess.run([*command, ROOT / "services/retrieval/web/engines"], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("fathom_web_engines-*.whl")
    folder = "fathom/services/retrieval/web/engines"
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {f"{folder}/__init__.py"}
    packaged = release_check.list_package_files(ROOT)
    assert "fathom/services/retrieval/web/records.yaml" in packaged
    assert not any(name.startswith(folder) for name in packaged)
