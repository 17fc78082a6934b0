"""ListFrameworks as a client gets it, ids that the tables have, and the command that checks a file."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core import errors
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.datafetch.catalog.frameworks import load_frameworks
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.server import build
from fathom.transport.bus import open_bus
from fathom.transport.store import open_store
from tests.golden.datafetch.oracle import Oracle

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "frameworks"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(tables_dir: Path) -> AsyncIterator[Clients]:
    """Datafetch in this process, with the example's folder of further frameworks."""
    store, telemetry = open_store("memory://"), Telemetry("test", stream=io.StringIO())
    bus = await open_bus("memory://", store)
    config = Config.model_validate({"data_dir": tables_dir, "frameworks_dir": EXAMPLE})
    service = build(config, Deps(Clients({}, telemetry), store, bus, telemetry))
    async with hosting(service, Deps(Clients({}, telemetry), store, bus, telemetry), Runtime(grace_s=0.1)) as hosted:
        await hosted.warm
        yield Clients({"datafetch": hosted.url}, telemetry)
    await bus.close()


async def test_all_frameworks_come_with_whole_trees(clients: Clients) -> None:
    found = (await clients.datafetch.list_frameworks(pb.ListFrameworksRequest())).frameworks
    assert [framework.topic for framework in found] == sorted([*load_frameworks().topics, "esg"])
    assert {framework.score for framework in found} == {0.0}
    for framework in found:
        assert {len(node.path) for node in framework.nodes} == {1, 2, 3}
        assert all(node.name and node.name_zh and node.tool for node in framework.nodes)


async def test_a_question_brings_its_topics_first(clients: Clients) -> None:
    request = pb.ListFrameworksRequest(question="10-year less 2-year Treasury yield curve: is it inverted?", limit=1)
    (bond,) = (await clients.datafetch.list_frameworks(request)).frameworks
    assert bond.topic == "bond"
    assert bond.score > 0.5
    node = next(node for node in bond.nodes if node.name == "10-year less 2-year spread")
    assert (list(node.path), list(node.indicators)) == (["Rates", "Curve", node.name], ["gs10", "gs2"])
    assert node.tool == pb.FRAMEWORK_TOOL_DATA


async def test_topics_level_and_limit_narrow_the_answer(clients: Clients) -> None:
    request = pb.ListFrameworksRequest(topics=["fund", "esg"], level=1, question="碳中和基金")
    found = (await clients.datafetch.list_frameworks(request)).frameworks
    assert {framework.topic for framework in found} == {"fund", "esg"}
    assert {len(node.path) for framework in found for node in framework.nodes} == {1}
    nothing = await clients.datafetch.list_frameworks(pb.ListFrameworksRequest(question="hello there"))
    assert list(nothing.frameworks) == []


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        (pb.ListFrameworksRequest(topics=["bonds"]), errors.NotFound, "bond"),
        (pb.ListFrameworksRequest(level=4), errors.InvalidField, "level"),
        (pb.ListFrameworksRequest(limit=-1), errors.InvalidField, "limit"),
        (pb.ListFrameworksRequest(question="x" * 2001), errors.InvalidField, "2,000"),
    ],
)
async def test_bad_requests_are_refused(
    clients: Clients, request_: pb.ListFrameworksRequest, error: type[errors.FathomError], said: str
) -> None:
    with pytest.raises(error, match=said):
        await clients.datafetch.list_frameworks(request_)


async def test_a_draft_is_checked_beside_the_files_and_the_tables_of_the_service(clients: Clients) -> None:
    file = await clients.datafetch.get_framework_file(pb.GetFrameworkFileRequest(topic="esg"))
    text = (EXAMPLE / "esg.yaml").read_text(encoding="utf-8")
    assert (file.name, file.text, file.is_bundled) == ("esg.yaml", text, False)
    assert (await clients.datafetch.get_framework_file(pb.GetFrameworkFileRequest(topic="bond"))).is_bundled
    valid = await clients.datafetch.check_framework(pb.CheckFrameworkRequest(text=text, replaces="esg"))
    assert (valid.is_valid, list(valid.problems)) == (True, [])
    listed = await clients.datafetch.list_frameworks(pb.ListFrameworksRequest(topics=["esg"]))
    assert valid.framework == listed.frameworks[0]
    draft = text.replace("mcoilwtico", "mcoilwti")
    wrong = await clients.datafetch.check_framework(pb.CheckFrameworkRequest(text=draft))
    assert [(one.field, one.line) for one in wrong.problems] == [("topic", 4), ("ids", 25)]
    assert "near: mcoilwtico" in wrong.problems[1].message
    with pytest.raises(errors.NotFound, match="bond"):
        await clients.datafetch.check_framework(pb.CheckFrameworkRequest(text=text, replaces="bonds"))


async def test_indicator_ids_are_those_of_the_tables(tables_dir: Path) -> None:
    oracle = Oracle(tables_dir)
    known = set(oracle.names())
    oracle.close()
    library = load_frameworks()
    used = {ident for topic in library.topics for place in library.list_nodes(topic) for ident in place.node.ids}
    assert used <= known
    assert len(used) >= 80


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "fathom.cli.main", "data", "frameworks", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60)


async def test_the_command_approves_good_files(tables_dir: Path) -> None:
    done = command("validate", EXAMPLE, ROOT / "services/datafetch/catalog/frameworks/bond.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "esg.yaml: 3 dimensions, 5 aspects, 10 indicators (7 by data, 3 by search; 1 with ids)" in done.stdout
    listed = command("list", "--extra", EXAMPLE)
    assert len(listed.stdout.splitlines()) == 11


async def test_the_command_says_what_is_wrong_and_where(tables_dir: Path, tmp_path: Path) -> None:
    good = (EXAMPLE / "esg.yaml").read_text(encoding="utf-8")
    (tmp_path / "a.yaml").write_text(good.replace("zh: 分范围碳排放", "zh: scopes"), encoding="utf-8")
    (tmp_path / "b.yaml").write_text(good.replace("mcoilwtico", "mcoilwti"), encoding="utf-8")
    (tmp_path / "c.yaml").write_text(good.replace("topic: esg", "topic: bond"), encoding="utf-8")
    done = command("validate", tmp_path)
    assert done.returncode == 1
    first, second, third = done.stderr.strip().splitlines()
    assert first.startswith(f"{tmp_path}/a.yaml: Environment / Emissions / carbon emissions by scope: zh: ")
    assert "fuel price exposure: ids: 'mcoilwti' is no indicator of the tables; near: mcoilwtico" in second
    assert third.endswith("c.yaml: topic: 'bond' is one of the package's own topics")
    assert command("validate", tmp_path / "none.yaml").returncode == 1
