"""Policy on a local Ray Serve: replicas behind its gRPC door, typed errors, one truth of versions for all."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Lane
from fathom.core.errors import Conflict, FailedPrecondition, InvalidField, NotFound, NotReady
from fathom.core.telemetry import Telemetry
from fathom.domain.weights.manifest import publish
from fathom.transport.bus.nats.server import find_binary
from fathom.transport.sockets import reserved_port
from fathom.transport.store import open_store
from fathom.transport.store.refs import to_ref
from tests.integration.policy.weights.models import tiny_model
from tests.support.waiting import eventually, wait_until

pytestmark = pytest.mark.slow
pytest.importorskip("ray.serve")

ROOT = Path(__file__).resolve().parents[3]
START_S = 150.0


@pytest.fixture(scope="module")
def serve_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Start two replicas on a nats-server of their own; yield the URL of the door and the folder of the store."""
    root = tmp_path_factory.mktemp("serve")
    with reserved_port() as nats_port, reserved_port() as door, reserved_port() as http:
        nats = subprocess.Popen(
            [find_binary(), "-js", "-a", "127.0.0.1", "-p", str(nats_port), "-sd", str(root / "nats")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        config = root / "fathom.yaml"
        settings = {
            "runtime": {"bus_url": f"nats://127.0.0.1:{nats_port}", "store_url": f"file://{root / 'store'}"},
            "policy": {
                "models": {"rules": {"engine": "rules"}},
                "cache_dir": str(root / "cache"),
                "trained": {"threads": 1},
                "roles": {"planner": "rules"},
            },
            "serve": {"min_replicas": 2, "max_replicas": 2, "num_cpus": 0.1, "grpc_port": door, "http_port": http},
        }
        config.write_text(json.dumps(settings))  # JSON is YAML
        environ = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
        environ.setdefault("RAY_worker_niceness", "0")  # as in tests/integration/conftest.py
        environ["RAY_TMPDIR"] = short = f"/tmp/ray-{os.getpid()}"  # sockets have short names
        log = root / "serve.log"
        with log.open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", "fathom.services.policy.ray_serve", "--config", str(config)],
                cwd=ROOT, env=environ, stdout=out, stderr=out,
            )  # fmt: skip
        try:
            wait_until(
                lambda: child.poll() is not None or "grpc://" in log.read_text(errors="replace"),
                within_s=START_S,
                every_s=0.2,
            )
            assert child.poll() is None, log.read_text(errors="replace")[-3000:]
            yield f"grpc://127.0.0.1:{door}", root / "store"
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            nats.terminate()
            nats.wait(10)
            import shutil

            shutil.rmtree(short, ignore_errors=True)


def client(url: str, lane: Lane = Lane.INTERACTIVE) -> Clients:
    return Clients({"policy": url}, Telemetry("test", stream=io.StringIO()), lane=lane)


def question(text: str, model: str = "", **fields: object) -> pb.GenerateRequest:
    tools = [pb.ToolSpec(name="finish", description="ends", parameters_json="{}")]
    messages = [pb.Message(role=pb.ROLE_USER, content=text)]
    return pb.GenerateRequest(model=model, messages=messages, tools=tools, **fields)  # type: ignore[arg-type]


async def test_the_same_servicer_behind_the_door(serve_door: tuple[str, Path]) -> None:
    clients = client(serve_door[0])
    listed = await clients.policy.list_models(pb.ListModelsRequest(), timeout_s=30)
    assert [model.name for model in listed.models] == ["rules"]
    events = [event async for event in clients.policy.generate(question("hello", "planner"), timeout_s=30)]
    completion = events[-1].completion
    assert completion.model == "rules"
    assert "".join(event.delta.text for event in events[:-1]) == completion.text
    ids = await clients.policy.tokenize(pb.TokenizeRequest(text="two words"), timeout_s=30)
    back = await clients.policy.detokenize(pb.DetokenizeRequest(token_ids=ids.token_ids), timeout_s=30)
    assert back.text == "two words"
    await clients.close()


async def test_errors_are_typed_with_their_details(serve_door: tuple[str, Path]) -> None:
    clients = client(serve_door[0])
    with pytest.raises(NotFound) as missing:
        await clients.policy.get_model(pb.GetModelRequest(model="rulez"), timeout_s=30)
    assert missing.value.nearest == ("rules",)
    with pytest.raises(InvalidField) as invalid:
        await clients.policy.list_models(pb.ListModelsRequest(page_size=-1), timeout_s=30)
    assert invalid.value.field == "page_size"
    with pytest.raises(NotFound):
        async for _ in clients.policy.generate(question("hello", "nothing"), timeout_s=30):
            pass
    with pytest.raises(FailedPrecondition):
        await clients.policy.load_weights(pb.LoadWeightsRequest(model="rules", policy_version=1), timeout_s=30)
    await clients.close()


async def test_all_replicas_serve_what_one_was_told_to(serve_door: tuple[str, Path], tmp_path: Path) -> None:
    clients, store = client(serve_door[0]), open_store(f"file://{serve_door[1]}")
    sampling = pb.Sampling(temperature=1.0, max_tokens=8, seed=3)
    for version in (1, 2):
        ref = await publish(store, tiny_model(tmp_path / str(version), version), "tiny", version)
        request = pb.LoadWeightsRequest(
            request_id=f"load-{version}", model="tiny", manifest=to_ref(ref), policy_version=version
        )
        try:
            await clients.policy.load_weights(request, timeout_s=60)
        except Conflict as error:  # a retry may have reached the other replica
            raise AssertionError(error.message) from error
        served_by: list[int] = []

        async def next_one_is_served(served_by: list[int] = served_by, version: int = version) -> bool:
            asked = question(f"question {len(served_by)}", "tiny", sampling=sampling)
            try:
                events = [event async for event in clients.policy.generate(asked, timeout_s=30)]
                served_by.append(events[-1].completion.version_min)
            except (NotFound, NotReady):  # the replica that does not know the model yet, or is just loading it
                served_by.append(0)
            return served_by[-20:] == [version] * 20

        await eventually(next_one_is_served, within_s=60, every_s=0.05)
    await clients.close()
    await store.close()
