"""`make kind-up deploy smoke`, with docker, kind and kubectl that only write down what they are asked for."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import images, kind, smoke

PROGRAM = """#!/bin/sh
echo "{name} $*" >> "$CALLS"
{body}
exit 0
"""
ANSWER = "Apple's price grew by 386 % from 2015 to 2020 and its maximum drawdown was 38.7 % [1]; Microsoft's were others [2]."


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs on the path that write their calls here; the state of the cluster is files beside them."""
    folder, log = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    log.touch()
    bodies = {
        "docker": 'case "$*" in *fathom-trainer*) exit 1;; esac',
        "kind": f'case "$*" in "get clusters") cat {tmp_path}/clusters;; create*) echo fathom > {tmp_path}/clusters;; esac',
        "kubectl": f"""case "$*" in
*"get secret"*) test -e {tmp_path}/secret; exit $?;;
*"apply -f -"*) cat > {tmp_path}/secret;;
*"-o name"*) echo deployment.apps/fathom-gateway; echo statefulset.apps/fathom-nats;;
*"rollout status"*nats*) test ! -e {tmp_path}/stuck || {{ echo "timed out waiting"; exit 1; }};;
*"get pods"*) echo "fathom-nats-0 0/1 Pending";;
*port-forward*) echo "Forwarding from 127.0.0.1:$GATEWAY_PORT -> 8080"; exec sleep 60;;
esac""",
    }
    for name, body in bodies.items():
        (folder / name).write_text(PROGRAM.format(name=name, body=body))
        (folder / name).chmod(0o755)
    (tmp_path / "clusters").touch()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setenv("CALLS", str(log))
    monkeypatch.setattr(kind, "ROOT", tmp_path)
    return log


def find_calls(calls: Path, start: str) -> list[str]:
    return [line for line in calls.read_text().splitlines() if line.startswith(start)]


def test_a_cluster_is_made_once_and_the_images_are_put_into_it(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (kind.main(["up"]), kind.main(["up"])) == (0, 0)
    assert len(find_calls(calls, "kind create cluster --name fathom")) == 1
    loaded = find_calls(calls, "kind load docker-image")
    wanted = [images.tag(target, {}) for target in images.SERVING]
    assert loaded == [f"kind load docker-image {name} --name fathom" for name in wanted] * 2
    assert "no training jobs" in capsys.readouterr().out


def test_the_overlay_is_applied_with_a_secret_that_is_made_once(calls: Path, tmp_path: Path) -> None:
    assert (kind.main(["deploy"]), kind.main(["deploy"])) == (0, 0)
    assert all("--context kind-fathom" in line for line in find_calls(calls, "kubectl")), "never another cluster"
    assert len(find_calls(calls, "kubectl --context kind-fathom apply -f -")) == 1
    made = {secret["metadata"]["name"]: secret for secret in yaml.safe_load_all((tmp_path / "secret").read_text())}
    assert all(secret["metadata"]["namespace"] == kind.NAMESPACE for secret in made.values())
    assert {name: set(secret["data"]) for name, secret in made.items()} == {
        kind.STORE: {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
        kind.IDENTITY: {"signing.pem", "public.pem"},
        kind.GATEWAY: {"token"},
    }
    order = [line.split("kind-fathom ")[1] for line in find_calls(calls, "kubectl")]
    assert order[0].startswith("apply -f"), "the namespace and its label come first"
    assert any(f"apply -k {kind.OVERLAY}" in line for line in order)
    assert len([line for line in order if "rollout status" in line]) == 4


def test_a_pod_that_stays_away_is_shown(calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stuck").touch()
    assert kind.main(["deploy"]) == 1
    said = capsys.readouterr().err
    assert "timed out waiting" in said
    assert "fathom-nats-0 0/1 Pending" in said


def test_what_is_not_installed_is_named(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (calls.parent / "bin" / "kind").unlink()
    assert kind.main(["up"]) == 1
    assert "https://kind.sigs.k8s.io" in capsys.readouterr().err


class Gateway(ThreadingHTTPServer):
    """Answers like the gateway; ``finished`` is the run's last event, ``drops`` how often its events break off."""

    daemon_threads = True
    finished: dict[str, Any]
    drops = 0
    seen: list[str]

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


class Door(BaseHTTPRequestHandler):
    server: Gateway

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self.server.seen.append(self.path)
        self.send_response(200)
        self.end_headers()
        if "/events" in self.path:
            self.wfile.write(b'event: run\ndata: {"sequence": "4", "started": {}}\n\n')
            if self.server.drops:
                self.server.drops -= 1
                return
            event = {"sequence": "5", "finished": self.server.finished}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(202)
        self.end_headers()
        self.wfile.write(b'{"run_id": "run-1"}')


def make_finished(**answer: Any) -> dict[str, Any]:
    return {
        "stop_reason": "STOP_REASON_FINISHED", "material": [{"number": 1}, {"number": 2}],
        "answer": {"markdown": ANSWER, "cited": [1, 2], "model": "rules", **answer},
    }  # fmt: skip


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    server = Gateway(("127.0.0.1", 0), Door)
    server.finished, server.seen = make_finished(), []
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setenv("GATEWAY_PORT", str(server.server_address[1]))
    monkeypatch.setattr("deploy.smoke.time.sleep", lambda _: None)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_question_goes_through_a_port_of_its_own(
    calls: Path, gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.drops = 2
    assert kind.main(["smoke"]) == 0
    assert "smoke: ok, 2 citations, model rules" in capsys.readouterr().out
    assert find_calls(calls, "kubectl")[-1].endswith("port-forward svc/fathom-gateway :80")
    assert [path for path in gateway.seen if "events" in path][-1].endswith("after=4"), (
        "what was seen is not sent again"
    )


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (make_finished(cited=[]), "nothing is cited"),
        (make_finished(markdown="short [1]"), "9 characters"),
        (make_finished(markdown="x" * 200), "no citation stands in the text"),
        (make_finished(cited=[1, 7]), "cited but not there: [7]"),
        ({"stop_reason": "STOP_REASON_FAILED", "error": "no model", "culprit": "policy"}, "no model (policy)"),
    ],
)
def test_an_answer_that_is_none_fails(
    gateway: Gateway, end: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.finished = end
    assert smoke.main([f"http://127.0.0.1:{os.environ['GATEWAY_PORT']}"], {}) == 1
    assert said in capsys.readouterr().err


def test_events_that_never_end_and_a_gateway_that_is_not_there_are_bounded(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.drops = 99
    assert smoke.main([f"http://127.0.0.1:{os.environ['GATEWAY_PORT']}"], {}) == 1
    assert "broke off 10 times" in capsys.readouterr().err
    assert smoke.main(["http://127.0.0.1:9"], {"DEADLINE_S": "1"}) == 1
    assert "does not become ready" in capsys.readouterr().err
