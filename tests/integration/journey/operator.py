"""Commands of an operator against one namespace of a real cluster: kubectl, helm, fathom."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy import smoke
from tests.chart.rendering import ROOT, TOOLS

COMMAND_S = 1200.0


class CommandFailed(Exception):
    """A command ended with another status than 0; the text has its last words."""


def find_program(name: str) -> str:
    """Return the program: one of the path, else one of ``deploy/helm.py``, else one of this environment."""
    own = {"helm": TOOLS / "helm4", "kubectl": TOOLS / "kubectl", "fathom": Path(sys.executable).parent / "fathom"}
    return shutil.which(name) or str(own[name])


@dataclass
class Operator:
    """Someone with a kubeconfig, a namespace and a release in it."""

    namespace: str
    release: str = "fathom"
    helm_options: Sequence[str] = ()
    """More options for install, upgrade and template, e.g. the registry of the images."""

    def run(self, name: str, *words: str, feed: str | None = None, deadline_s: float = COMMAND_S) -> str:
        """Run a command to its end; return what it printed. Raises ``CommandFailed``."""
        command = [find_program(name), *words]
        # The root of the checkout: the chart and the examples of README are named from there.
        done = subprocess.run(
            command, input=feed, cwd=ROOT, capture_output=True, text=True, timeout=deadline_s, check=False
        )
        if done.returncode:
            raise CommandFailed(f"{name} {' '.join(words)}: {(done.stderr or done.stdout)[-1500:]}")
        return done.stdout

    def kubectl(self, *words: str, feed: str | None = None) -> str:
        return self.run("kubectl", "-n", self.namespace, *words, feed=feed)

    def helm(self, verb: str, *words: str) -> str:
        # helm test, rollback and uninstall know no values.
        more = self.helm_options if verb in ("install", "upgrade", "template") else ()
        return self.run("helm", verb, self.release, *words, "-n", self.namespace, *more)

    def fathom(self, *words: str) -> str:
        return self.run("fathom", *words, "--namespace", self.namespace, "--release", self.release)

    def list_names(self, kinds: str) -> list[str]:
        """Return KIND/NAME of what the release has of these kinds; kinds that the server does not know are an error."""
        # Pods of KubeRay carry the label too, by the template of the job.
        selector = f"app.kubernetes.io/instance={self.release}"
        return self.kubectl("get", kinds, "-l", selector, "-o", "name").split()

    def list_pods(self, component: str = "") -> list[dict[str, Any]]:
        selector = f"app.kubernetes.io/instance={self.release}" + (
            f",app.kubernetes.io/component={component}" if component else ""
        )
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]
        return found

    def wait_for_rollout(self) -> None:
        """Return when every Deployment and StatefulSet is rolled out."""
        # By name: `rollout status` takes one at a time, and a selector would pass when nothing matches.
        for workload in self.list_names("deployments,statefulsets"):
            self.kubectl("rollout", "status", workload, "--timeout=15m")

    @contextmanager
    def forward(self) -> Iterator[str]:
        """Forward a free port to the gateway within the block; yield its URL."""
        words = ["-n", self.namespace, "port-forward", f"svc/{self.release}-gateway", ":80"]
        command = [find_program("kubectl"), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
            # One that never says its port is ended, and with it the reading below.
            alarm = threading.Timer(60, child.terminate)
            # Cancelled as soon as the port is known.
            alarm.start()
            try:
                said = ""
                for line in child.stdout or ():
                    said += line
                    if match := re.search(r"127\.0\.0\.1:(\d+)", line):
                        alarm.cancel()
                        yield f"http://localhost:{match[1]}"
                        return
                raise CommandFailed(f"port-forward: {said.strip() or 'nothing in 60 s'}")
            finally:
                alarm.cancel()
                child.terminate()

    def read_token(self) -> str:
        """Return the token that the gateway wants of its callers."""
        words = ("get", "secret", "fathom-gateway", "-o", "jsonpath={.data.token}")
        return base64.b64decode(self.kubectl(*words)).decode()

    def ask(self, deadline_s: float = 300.0) -> str:
        """Ask README's question through a forwarded port; return what the answer has. Raises ``SmokeFailed``."""
        # A port-forward of its own for each question: one that stays open would die with its pod, and the loss would
        # be kubectl's and not the release's.
        with self.forward() as url:
            gateway = smoke.Gateway(url, self.read_token(), time.monotonic() + deadline_s)
            finished = smoke.ask(gateway, smoke.QUESTION)
        if faults := smoke.find_faults(finished):
            raise smoke.SmokeFailed("; ".join(faults))
        return f"{len(finished['answer']['cited'])} citations"


@dataclass
class Load:
    """Users that ask one after the other until they are told to stop."""

    operator: Operator
    users: int = 2
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __str__(self) -> str:
        total = len(self.seconds) + len(self.errors)
        longest = f", the longest {max(self.seconds):.1f} s" if self.seconds else ""
        return f"{len(self.seconds)} of {total} questions good{longest}"

    def _use(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self.operator.ask()
                self.seconds.append(time.monotonic() - began)
            # A user whose port-forward breaks notices as much as one whose question fails.
            except (smoke.SmokeFailed, CommandFailed, OSError) as error:
                self.errors.append(str(error))
                self._stop.wait(1.0)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Ask within the block; raise ``CommandFailed`` when a question was lost, or none was asked."""
        threads = [threading.Thread(target=self._use, name=f"user {number}") for number in range(self.users)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        # Users who asked nothing would prove nothing.
        if self.errors or not self.seconds:
            raise CommandFailed(f"{self}: {self.errors[:3]}")
