"""Runs inside an image: starts a service with the chart's command, waits until it is ready, ends it with SIGTERM.

``python3 -c THIS NAME``; prints one line of JSON: seconds to ready, exit status, files left in the volumes, log on
failure. Uses what the image has.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fathom.core.identity import make_keys

LIMIT_S = 240.0
KEYS = Path("/tmp/keys.pem")
"""Files that the chart mounts of the Secret by which services know each other."""


def ready(name: str) -> bool:
    # The one service without gRPC.
    if name == "gateway":
        try:
            with urllib.request.urlopen("http://127.0.0.1:8080/healthz/live", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False
    with grpc.insecure_channel("127.0.0.1:50051") as channel:
        try:
            request = health_pb2.HealthCheckRequest(service="ready")
            said = health_pb2_grpc.HealthStub(channel).Check(request, timeout=2)
        except grpc.RpcError:
            return False
    return bool(said.status == health_pb2.HealthCheckResponse.SERVING)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait a little for the process to end; return whether it did."""
    try:
        process.wait(0.05)
    except subprocess.TimeoutExpired:
        return False
    return True


def main(name: str) -> None:
    log = Path("/tmp/log")
    signing, public = make_keys()
    KEYS.write_text(public if name == "sandbox" else signing)
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(["python3", "-m", f"fathom.services.{name}"], stdout=out, stderr=subprocess.STDOUT)
        found = False
        ended = False
        # A service that dies at its start is reported at once, not after the limit.
        while not found and not ended and time.monotonic() - began < LIMIT_S:
            found, ended = ready(name), has_ended(process)
        seconds = time.monotonic() - began
        process.send_signal(signal.SIGTERM)
        # Longer than a service takes to drain that has nothing to do.
        status = process.wait(30)
    places = ("/tmp", "/var/cache/fathom", "/var/lib/fathom")
    left = sorted(
        str(path) for place in places for path in Path(place).rglob("*") if path.is_file() and path not in (log, KEYS)
    )
    result = {"ready": found, "seconds": round(seconds, 2), "status": status, "left": left[:40], "user": os.getuid()}
    print(json.dumps(result | ({} if found else {"log": log.read_text()[-3000:]})))


if __name__ == "__main__":
    main(sys.argv[1])
