"""``fathom doctor --serving`` in a pod, as ``helm test`` runs it: whole addresses, and remedies that a pod has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fathom.cli.doctor.findings import Finding, print_findings
from fathom.cli.doctor.local import examine_serving

ADDRESS = "grpc://a-release-with-a-long-name-fathom-retrieval.a-namespace-with-a-long-name.svc.cluster.local:50051"


def test_addresses_and_remedies_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """They were, at 80 columns: `grpc://fathom-retrieval…` can be copied by nobody."""
    # Wider than any line: it is folded between words.
    remedy = " ".join(f"--from-literal=KEY_{number}=value" for number in range(20))
    assert print_findings([Finding(ADDRESS, False, "NOT_SERVING", "restart it")]) == 1
    assert ADDRESS in capsys.readouterr().out
    assert print_findings([Finding("secret", False, "missing", remedy)]) == 1
    said = capsys.readouterr().out
    assert "…" not in said
    assert all(word in said.split() for word in remedy.split())


def test_a_service_elsewhere_has_no_log_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine_serving(["grpc://127.0.0.1:1"]) == 1
    said = capsys.readouterr().out
    assert "see the log of grpc://127.0.0.1:1" in said
    assert ".fathom" not in said


class Unready(BaseHTTPRequestHandler):
    """Answers as a gateway whose object store is away."""

    def do_GET(self) -> None:
        body = b'{"error": {"message": "store: refused a write [DEPENDENCY_FAILED]"}}'
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def gateway() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Unready)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_gateway_says_what_it_waits_for(gateway: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine_serving([gateway]) == 1
    assert "store: refused a write" in " ".join(capsys.readouterr().out.split())
