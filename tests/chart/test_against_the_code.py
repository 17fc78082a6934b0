"""Every name that the chart uses is one that the code has: settings, ports, health names, queues, modules, images."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import promql_parser
import pytest
import structlog
import typer
from prometheus_client import CollectorRegistry, generate_latest

from deploy import chart
from fathom.cli.main import app
from fathom.core.admission import Admission, Claimant, Limits, quota
from fathom.core.config import load
from fathom.core.errors import Overloaded
from fathom.domain.chat.messages import Message, Role, ToolSpec
from fathom.hosting.host import Runtime, dependencies
from fathom.services.policy import config as policy_config
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request
from fathom.services.sandbox import config as sandbox_config
from fathom.services.sandbox.ipc.levels import Level
from fathom.services.sandbox.supervisor.isolation.probe import combine_level
from fathom.transport.bus.quotas import Quotas
from fathom.transport.bus.streams import LESSONS, Retention, topology
from fathom.transport.rpc.server import HEALTH_NAMES
from fathom.transport.store.memory import MemoryStore
from tests.chart.rendering import CHART, ROOT, Document, by_key, containers, pods, render

FULL = CHART / "ci" / "full-values.yaml"
MINIMAL = CHART / "ci" / "minimal-values.yaml"
SERVICES = ("gateway", "planner", "policy", "retrieval", "datafetch", "sandbox", "memory", "reward")
WATCHES = {"grading": "monitoring", "shadow": "shadow"}


def environments(documents: tuple[Document, ...]) -> dict[str, dict[str, str]]:
    """Return what each service's container would find in its environment, secrets as placeholders."""
    found, maps = {}, by_key(documents)
    for _, labels, spec in pods(documents):
        component = labels["app.kubernetes.io/component"]
        for container in spec["containers"]:
            if container["name"] not in (*SERVICES, *WATCHES):
                continue
            source = container["envFrom"][0]["configMapRef"]["name"]
            # The container's own entries go over those of the ConfigMap, as Kubernetes merges them.
            plain = {item["name"]: item.get("value", "secret") for item in container["env"]}
            found[component] = maps["ConfigMap", source]["data"] | plain
    return found


def test_the_services_take_their_environment(documents: tuple[Document, ...]) -> None:
    """Loaded by the code that the pod runs: an unknown name or a wrong value would stop it."""
    checked = environments(documents)
    # Loops that find nothing to look at would pass: each of these tests counts what it has seen.
    assert len(checked) >= 7
    for name, environ in checked.items():
        runtime = load(Runtime, "runtime", environ=environ)
        assert runtime.host == "0.0.0.0"
        room = f"operations.{WATCHES[name]}" if name in WATCHES else f"services.{name}"
        module = f"fathom.{room}.config"
        config: Any = importlib.import_module(module).Config
        load(config, name, environ=environ)
        sections = {"RUNTIME", name.upper(), "GATEWAY" if name == "gateway" else name.upper()}
        odd = [key for key in environ if key.startswith("FATHOM_") and key.split("_")[1] not in sections]
        assert not odd, f"{name} would ignore {odd}"


def test_ports_are_those_that_the_services_listen_on(documents: tuple[Document, ...]) -> None:
    listens = environments(documents)
    for name, container in containers(documents):
        component = container["name"]
        if component not in listens:
            continue
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        runtime = load(Runtime, "runtime", environ=listens[component])
        assert ports.get("http", ports.get("grpc", 0)) == runtime.port, name
        assert ports.get("metrics", -1) == runtime.metrics_port, name


def test_probes_ask_for_names_that_health_knows(documents: tuple[Document, ...]) -> None:
    doors = {
        "gateway": (ROOT / "services" / "gateway" / "app.py").read_text(),
        **{
            name: (ROOT / "libs" / "fathom" / "operations" / room / "host.py").read_text()
            for name, room in WATCHES.items()
        },
    }
    asked = 0
    for name, container in containers(documents):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            said = container.get(probe, {})
            if "grpc" in said:
                assert said["grpc"]["service"] in HEALTH_NAMES, name
                asked += 1
            elif container["name"] in doors:
                assert f'"{said["httpGet"]["path"]}"' in doors[container["name"]], name
                asked += 1
    assert asked >= 20


def test_addresses_name_services_that_exist(documents: tuple[Document, ...]) -> None:
    services = {name: document for (kind, name), document in by_key(documents).items() if kind == "Service"}
    workloads = {name: document for (kind, name), document in by_key(documents).items() if kind == "StatefulSet"}
    for name, environ in environments(documents).items():
        for peer, url in json.loads(environ["FATHOM_RUNTIME_ENDPOINTS"]).items():
            assert peer in SERVICES
            # NATS finds its services by subject, and the service of Ray Serve is made by KubeRay, not by the chart.
            if url == "nats://" or "-serve-svc" in url:
                continue
            for target in url.rpartition("://")[2].split(","):
                host, _, port = target.partition(":")
                pod, _, service = host.rpartition(".")
                assert int(port) in [item["port"] for item in services[service]["spec"]["ports"]], (name, url)
                # One replica by its own name: it must be one of those that the StatefulSet has.
                if pod:
                    ordinal = int(pod.rpartition("-")[2])
                    assert ordinal < workloads[pod.rpartition("-")[0]]["spec"]["replicas"]


def test_commands_are_modules_and_programs_of_the_package(documents: tuple[Document, ...]) -> None:
    for name, container in containers(documents):
        command = container.get("command", [])
        if command[:2] == ["python3", "-m"]:
            assert importlib.util.find_spec(f"{command[2]}.__main__"), name
        elif command[:1] == ["fathom"]:
            given = {item["name"]: item.get("value", "secret") for item in container.get("env", ())}
            # Options without a value in the command are read from the environment of the same container.
            with mock.patch.dict(os.environ, given):
                parses(command[1:])
    for document in documents:
        if document["kind"] == "RayJob":
            module = document["spec"]["entrypoint"].split()[2]
            assert importlib.util.find_spec(module), module


def parses(words: list[str]) -> None:
    """The command line knows these words and options; nothing runs."""
    found: Any = typer.main.get_command(app)
    context = typer.Context(found, info_name="fathom")
    while hasattr(found, "commands") and words:
        name, words = words[0], words[1:]
        assert name in found.commands, f"fathom has no command {name!r}"
        found = found.commands[name]
        context = typer.Context(found, info_name=name, parent=context)
    # A group without a command prints its help and has nothing to parse.
    if not hasattr(found, "commands"):
        found.parse_args(context, list(words))


def test_autoscaling_watches_queues_that_the_bus_declares(documents: tuple[Document, ...]) -> None:
    declared = {
        (stream.name, durable.name)
        for stream in topology().streams
        # Dead letters are few, and more planners do not end them sooner; nobody waits for what is learnt behind answers.
        if stream.retention is Retention.WORK_QUEUE and stream.name != LESSONS
        for durable in stream.durables
    }
    for document in documents:
        # Policy has no queue of its own on the bus: it scales on a metric.
        if document["kind"] == "ScaledObject" and document["metadata"]["name"].endswith("-planner"):
            watched = {
                (trigger["metadata"]["stream"], trigger["metadata"]["consumer"])
                for trigger in document["spec"]["triggers"]
            }
            assert watched == declared, "what planners work on, and all of it"


def test_images_are_targets_of_the_dockerfile(documents: tuple[Document, ...]) -> None:
    text = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
    targets = set(re.findall(r"^FROM \S+ AS (\S+)$", text, flags=re.MULTILINE))
    for name, container in containers(documents):
        image = container["image"].partition("@")[0].rpartition("/")[2].partition(":")[0]
        if image.startswith("fathom-"):
            assert image.removeprefix("fathom-") in targets, name


def test_ray_is_the_version_that_the_image_installs(documents: tuple[Document, ...]) -> None:
    pinned = re.search(r'"ray\[serve\]==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned is not None
    for document in documents:
        spec = document.get("spec", {})
        cluster = spec.get("rayClusterSpec") or spec.get("rayClusterConfig")
        if cluster:
            assert cluster["rayVersion"] == pinned[1]


@pytest.mark.parametrize("subject", ["fathom.api.policy.v1.policy_pb2_grpc.add_PolicyServiceServicer_to_server"])
def test_what_ray_serve_is_told_exists(documents: tuple[Document, ...], subject: str) -> None:
    for document in documents:
        if document["kind"] == "RayService":
            assert subject in document["spec"]["serveConfigV2"]
            module, _, function = subject.rpartition(".")
            assert hasattr(importlib.import_module(module), function)
            assert (ROOT / "services" / "policy" / "ray_serve.py").read_text().count("\ndef application(") == 1


def test_a_training_finds_every_service_that_trainers_call(documents: tuple[Document, ...]) -> None:
    """The interpreter's asks datafetch for its sheets. Commands are run by people, beside a stack."""
    called = {
        match for path in (ROOT / "trainers").rglob("*.py") if "commands" not in path.relative_to(ROOT).parts
        for match in re.findall(r"\bclients\.([a-z]+)\.[a-z_]+\(", path.read_text())
    }  # fmt: skip
    assert {"policy", "reward", "datafetch"} <= called
    # What `fathom train --on-cluster` submits lies in a ConfigMap, as one JSON.
    (held,) = [one for (_, name), one in by_key(documents).items() if name.endswith("-rayjob")]
    head = json.loads(held["data"]["rayjob.json"])["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    environ = {item["name"]: item.get("value", "") for item in head["containers"][0]["env"]}
    assert called <= json.loads(environ["FATHOM_RUNTIME_ENDPOINTS"]).keys()


@pytest.mark.parametrize(
    ("settings", "walls", "level"),
    [
        ((), "landlock", Level.LANDLOCK),
        (("runtimeClassName=gvisor",), "seccomp", Level.GUEST_KERNEL),
        (("runtimeClassName=kata",), "landlock", Level.VM),
        (("runtimeClassName=kata-qemu", "boundary=vm"), "landlock", Level.VM),
        (("runtimeClassName=runsc", "boundary=guest-kernel"), "seccomp", Level.GUEST_KERNEL),
        (("boundary=vm",), "landlock", Level.VM),  # of the cluster's default class
        (("runtimeClassName=gvisor", "env.min_isolation=landlock"), "seccomp", Level.GUEST_KERNEL),
    ],
)
def test_a_runtime_class_alone_gives_the_sandbox_its_level(settings: tuple[str, ...], walls: str, level: Level) -> None:
    """The class alone declared no boundary, and required walls of Landlock that gVisor does not have."""
    documents = render("helm4", MINIMAL, "demo", *(f"services.sandbox.{setting}" for setting in settings))
    config = load(sandbox_config.Config, "sandbox", environ=environments(documents)["sandbox"])
    assert (config.walls, combine_level(config.walls, config.boundary)) == (walls, level)
    # The pod is ready at what the class gives and not below it, unless the operator asks for less.
    assert Level.of(config.min_isolation) is (Level.LANDLOCK if "env.min_isolation=landlock" in settings else level)
    needs = json.loads(by_key(documents)["ConfigMap", "demo-fathom-needs"]["data"]["needs.json"])
    assert needs["sandbox"]["minIsolation"] == config.min_isolation


async def test_a_service_holds_the_quotas_of_the_values() -> None:
    found = environments(render("helm4", FULL))
    runtime = load(Runtime, "runtime", environ=found["planner"])
    assert [name for name in found if "FATHOM_RUNTIME_QUOTAS" in found[name]] == ["datafetch", "planner", "policy"]
    alone = runtime.model_copy(update={"bus_url": "memory://", "store_url": "memory://", "identity_file": ""})
    async with dependencies("planner", alone, io.StringIO()) as deps:
        quotas = Quotas(deps.bus, deps.telemetry.log, deps.quotas)
        quotas.start()
        try:
            python = quotas.govern("tool.python", Admission("tool 'python'", Limits(8, 64)))
            tenant = quotas.find_tenant("acme")
            assert tenant is not None
            (await tenant.acquire(Claimant())).release()
            assert (tenant.places, tenant.per_second) == (4, 2.5)
            assert quotas.find_tenant("other") is None
            with pytest.raises(Overloaded, match="its quota is 0"):
                await python.acquire(Claimant())
        finally:
            await quotas.close()


def test_the_bounds_of_quotas_are_those_of_the_services() -> None:
    limits = chart.QUOTAS["additionalProperties"]["properties"]
    assert (limits["running"]["maximum"], limits["perSecond"]["maximum"]) == (quota.MAX_RUNNING, quota.MAX_PER_SECOND)
    assert chart.QUOTAS["propertyNames"]["pattern"] == quota.NAME_PATTERN


async def test_policy_scales_on_a_metric_that_it_exports(tmp_path: Path) -> None:
    """Asked of the registry that the service serves under /metrics, after its first generation."""
    scaled = by_key(render("helm4", FULL))["ScaledObject", "demo-fathom-policy"]["spec"]["triggers"]
    (trigger,) = [one["metadata"] for one in scaled if one["type"] == "prometheus"]
    promql_parser.parse(trigger["query"])
    (name,) = re.findall(r"fathom_\w+", trigger["query"])
    # Two of KEDA's own fields, without which it refuses the object.
    assert trigger["serverAddress"].startswith("http://")
    assert float(trigger["threshold"]) > 0
    config = policy_config.Config(models={"rules": policy_config.RulesModel()}, cache_dir=tmp_path)
    registry = CollectorRegistry()
    engine = Engine(config, MemoryStore(), structlog.get_logger(), registry=registry)
    await engine.start()
    try:
        request = Request("r1", "", (Message(Role.USER, "hello"),), tools=(ToolSpec("finish", "ends", "{}"),))
        async for _ in engine.generate(request, lambda: None):
            pass
        assert f'\n{name}{{model="rules"}} ' in generate_latest(registry).decode()
    finally:
        await engine.close()
