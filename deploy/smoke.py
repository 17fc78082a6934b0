"""Ask a deployed gateway one question and check the answer: ``python -m deploy.smoke URL [QUESTION]``.

Exits with 0 when a cited answer came whose citations are in its text, with 1 and the reason otherwise. Needs nothing
but Python; FATHOM_GATEWAY_TOKEN is sent where it is set, DEADLINE_S (300) bounds the whole.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
CONNECTIONS = 10
"""Reconnects of one run's events; each goes on behind the last event that came."""
SILENCE_S = 30.0
"""Seconds without a byte after which a connection is given up: an event stream has a ping every ten."""


class SmokeFailed(Exception):
    """The deployment does not answer as it should; the text says how."""


@dataclass
class Gateway:
    """A gateway's address, what proves who asks, and when patience ends (of ``time.monotonic``)."""

    url: str
    token: str
    until: float

    def send(self, path: str, body: Mapping[str, Any] | None = None, **headers: str) -> Any:
        """Send a request and return the open reply.

        Raises ``SmokeFailed`` for a refusal, ``OSError`` for a connection that fails.
        """
        sent = {"content-type": "application/json", **headers}
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, sent)  # noqa: S310 - the operator names the gateway
        try:
            patience_s = max(1.0, min(SILENCE_S, self.remaining_s()))
            return urllib.request.urlopen(request, timeout=patience_s)  # noqa: S310 - as above
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                raise OSError(f"{path} answered {error.code}") from error
            raise SmokeFailed(f"{path} answered {error.code}: {error.read()[:500].decode(errors='replace')}") from error

    def remaining_s(self) -> float:
        """Return the seconds left; raise ``SmokeFailed`` when there are none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise SmokeFailed("the time is over (DEADLINE_S)")
        return left

    def wait_until_ready(self) -> None:
        """Wait until the gateway and the services behind it are ready."""
        while True:
            try:
                with self.send("/healthz/ready"):
                    return
            except (OSError, http.client.HTTPException) as error:
                if self.remaining_s() < 2:
                    raise SmokeFailed(f"{self.url} does not become ready: {error}") from error
                time.sleep(1.0)

    def follow(self, run: str) -> Iterator[dict[str, Any]]:
        """Yield the run's events to the end, across reconnects."""
        after = 0
        for _ in range(CONNECTIONS):
            try:
                with self.send(f"/v1/runs/{run}/events?after={after}") as reply:
                    for line in reply:
                        self.remaining_s()
                        # A ping has no content.
                        if line.startswith(b"data:") and (event := json.loads(line[5:])):
                            after = int(event.get("sequence", after))
                            yield event
                            if "finished" in event:
                                return
            except (OSError, http.client.HTTPException):
                time.sleep(1.0)
        raise SmokeFailed(f"the events of {run} broke off {CONNECTIONS} times")


def ask(gateway: Gateway, question: str) -> dict[str, Any]:
    """Ask the question and return the finished run; raise ``SmokeFailed``."""
    gateway.wait_until_ready()
    try:
        with gateway.send("/v1/runs", {"question": question}) as reply:
            run = json.load(reply)["run_id"]
    except OSError as error:
        raise SmokeFailed(f"the question is not taken: {error}") from error
    for event in gateway.follow(run):
        if "finished" in event:
            found: dict[str, Any] = event["finished"]
            return found
    raise SmokeFailed(f"run {run} has no end")


def find_faults(finished: Mapping[str, Any]) -> list[str]:
    """Return the faults of a finished run's answer, [] for none."""
    if finished.get("stop_reason") != "STOP_REASON_FINISHED":
        culprit = finished.get("culprit")
        return [f"{finished.get('stop_reason')}: {finished.get('error', '')}{f' ({culprit})' if culprit else ''}"]
    answer = finished.get("answer") or {}
    text, cited = str(answer.get("markdown", "")), [int(n) for n in answer.get("cited", ())]
    known = {int(item.get("number", 0)) for item in (*finished.get("material", ()), *answer.get("material", ()))}
    found = []
    if len(text) < 100:
        found.append(f"the answer has {len(text)} characters")
    if not cited:
        found.append("nothing is cited")
    if not {int(n) for n in re.findall(r"\[(\d+)\]", text)} & set(cited):
        found.append("no citation stands in the text")
    if not set(cited) <= known:
        found.append(f"cited but not there: {sorted(set(cited) - known)}")
    return found


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Ask, print the answer and its faults, and return the exit status."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    until = time.monotonic() + float(environ.get("DEADLINE_S", "300"))
    gateway = Gateway(arguments[0].rstrip("/"), environ.get("FATHOM_GATEWAY_TOKEN", ""), until)
    try:
        finished = ask(gateway, " ".join(arguments[1:]) or QUESTION)
    except SmokeFailed as error:
        print(f"smoke: {error}", file=sys.stderr)
        return 1
    wrong = find_faults(finished)
    print(finished.get("answer", {}).get("markdown", "")[:2000])
    for line in wrong:
        print(f"smoke: {line}", file=sys.stderr)
    if not wrong:
        print(f"smoke: ok, {len(finished['answer']['cited'])} citations, model {finished['answer'].get('model')}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
