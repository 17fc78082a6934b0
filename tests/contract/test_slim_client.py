"""The base installation: the client works with nothing but the base requirements, and says which extra is missing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fathom.core.extras import EXTRA_OF
from fathom.core.identity import ANY_SERVICE, SERVICE
from tests.contract.bare import PROJECT, base_requirements, installed_closure, make_bare_environment
from tests.contract.conftest import TOKENS, Connect
from tests.contract.mirror import STREAMED, Mirror

HERE = Path(__file__).parent
House = tuple[dict[str, Mirror], Connect]
ABSENT = ("typer", "rich", "nats", "minio", "opentelemetry", "structlog", "prometheus_client", "yaml", "uvloop")


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The start of a command line for Python with the base requirements only."""
    return make_bare_environment(tmp_path_factory.mktemp("bare"))


def run_in(bare: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*bare, *arguments], capture_output=True, text=True)


def requirements_of(extra: str) -> set[str]:
    """Return the packages that an extra names, those of the extras in it included."""
    found = set()
    for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
        if requirement.name == "fathom":
            found |= {name for inner in requirement.extras for name in requirements_of(inner)}
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def test_the_base_installation_is_small() -> None:
    names = {canonicalize_name(found.metadata["Name"]) for found in installed_closure(base_requirements())}
    assert names <= {
        "grpcio", "protobuf", "googleapis-common-protos", "pydantic", "pydantic-core", "annotated-types",
        "typing-extensions", "typing-inspection",
    }  # fmt: skip


def test_a_bare_environment_has_nothing_else(bare: list[str]) -> None:
    probe = f"import importlib.util as u; print([n for n in {ABSENT!r} if u.find_spec(n)])"
    assert run_in(bare, probe).stdout.strip() == "[]"


@pytest.mark.asyncio(loop_scope="session")
async def test_the_client_alone_calls_streams_retries_and_meets_typed_errors(house: House, bare: list[str]) -> None:
    mirrors, connect = house
    urls = connect("grpc").endpoints
    seen = len(mirrors["sandbox"].seen)
    command = [*bare, str(HERE / "slim_client.py"), urls["retrieval"], urls["sandbox"]]
    # A service's: the program calls for several tenants.
    token = TOKENS.sign("slim", ANY_SERVICE, role=SERVICE)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "FATHOM_TOKEN": token},
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert json.loads(out) == {
        "results": 1,
        "streamed": STREAMED,
        "fields": ["items[3].name", "items[3].name"],
        "retry_after_s": 0.25,
    }
    asked = [request for name, request, _ in mirrors["sandbox"].seen[seen:] if name == "CreateSession"]
    assert len(asked) == 2, "a busy service is asked again"
    assert asked[0].request_id == asked[1].request_id != ""  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("asyncio.run(open_bus('nats://127.0.0.1:4222', open_store('memory://')))", "bus"),
        ("open_store('s3://key:secret@127.0.0.1:9000/bucket')", "s3"),
        ("read_file(Path('/nowhere.yaml'))", "service"),
        ("import fathom.core.telemetry", "service"),
        ("import fathom.hosting.host", "service"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(bare: list[str], statement: str, extra: str) -> None:
    program = (
        "import asyncio\nfrom pathlib import Path\nfrom fathom.transport.bus import open_bus\nfrom fathom.core.config import read_file\n"
        f"from fathom.core.errors import MissingExtra\nfrom fathom.transport.store import open_store\ntry:\n    {statement}\n"
        "except MissingExtra as error:\n    print(error.metadata['extra'], error.message, sep='|')\n"
    )
    done = run_in(bare, program)
    named, _, message = done.stdout.strip().partition("|")
    assert named == extra, done.stderr
    assert message.endswith(f"pip install 'fathom[{extra}]'")


def test_a_command_that_cannot_run_names_the_extra_for_all_of_it(bare: list[str]) -> None:
    program = (
        "from fathom.core.errors import MissingExtra\nfrom fathom.core.extras import name_missing_extra\ntry:\n"
        "    with name_missing_extra('local'):\n        import fathom.transport.rpc.server\n"
        "except MissingExtra as error:\n    print(error.message)\n"
    )
    done = run_in(bare, program)
    assert done.stdout == "grpc_health is not installed: pip install 'fathom[local]'\n", done.stderr


def test_data_cannot_be_built_without_what_converts_them(bare: list[str]) -> None:
    program = (
        "from pathlib import Path\nfrom fathom.services.bundles import build_data\nfrom fathom.core.errors import MissingExtra\n"
        "try:\n    build_data(Path('/nowhere'))\nexcept MissingExtra as error:\n    print(error.metadata['extra'])\n"
    )
    done = run_in(bare, program)
    assert done.stdout == "service\n", done.stderr


def test_the_command_without_its_extra_says_so_in_one_line(bare: list[str]) -> None:
    done = run_in(bare, "from fathom.__main__ import main; main()")
    assert done.returncode == 1
    assert done.stderr == "error: typer is not installed: pip install 'fathom[cli]' [MISSING_EXTRA]\n"


@pytest.mark.parametrize("module", EXTRA_OF)
def test_the_extra_that_is_named_brings_the_module(module: str) -> None:
    providers = packages_distributions().get(module)
    if providers is None:
        pytest.skip(f"{module} is not installed here")
    assert {canonicalize_name(name) for name in providers} & requirements_of(EXTRA_OF[module])


def test_the_client_loads_nothing_of_the_services_where_it_is_installed() -> None:
    heavy = ("typer", "rich", "nats", "minio", "opentelemetry.sdk", "structlog", "prometheus_client", "yaml", "uvloop")
    probe = (
        "import sys\nfrom fathom.clients import connect\nconnect({'retrieval': 'grpc://127.0.0.1:1'})\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
