"""Test that the file of a local stack says where its metrics are, and each address answers with its own service's."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from fathom.cli.doctor.local import check_services
from fathom.clients import Clients
from fathom.clients.local import read_endpoints
from fathom.services.local import ORDER, Endpoints, LocalSettings, LocalStack
from tests.integration.stack.conftest import MODELS, prepare

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def check_metrics(home: Path) -> None:
    """Read every address that the file names; each service's own calls are counted there."""
    metrics = read_endpoints(home).metrics
    assert sorted(metrics) == sorted(ORDER)
    # As Prometheus reads it: file_sd_configs, with the path of each target as a label.
    groups = json.loads((home / "metrics_targets.json").read_text())
    scraped = {
        group["labels"]["service"]: [
            f"http://{target}{group['labels']['__metrics_path__']}" for target in group["targets"]
        ]
        for group in groups
    }
    assert scraped == {name: [url] for name, url in metrics.items()}
    async with httpx.AsyncClient(timeout=20) as client:
        for name, url in metrics.items():
            text = (await client.get(url)).raise_for_status().text
            own = "fathom_http_seconds" if name == "gateway" else f'fathom_rpc_held_bytes{{service="{name}"}}'
            assert own in text, name


async def test_every_service_of_one_process_has_metrics_of_its_own(stack: tuple[Endpoints, Clients]) -> None:
    home = Path(stack[0].store.removeprefix("file://")).parent
    await check_metrics(home)
    told = {finding.subject: finding.detail for finding in await check_services(home)}
    assert stack[0].metrics["policy"] in told["policy"]


async def test_every_process_has_metrics_where_the_file_says(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path
) -> None:
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    settings = LocalSettings(home=home, gateway_port=0, models=MODELS, processes=True)
    async with LocalStack(settings).running():
        await check_metrics(home)
