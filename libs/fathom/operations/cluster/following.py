"""Following a training job to its end: state changes, why it waits, its log, and the meaning of its end.

Uses one thread and one request at a time: while the job waits, short watches of the job with a look at its pods between
them; while it runs, the log of its driver, with a look at the job whenever the log is silent. Broken connections are
resumed from the same position, a bounded number of times in a row.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fathom.core.errors import DeadlineExceeded, FailedPrecondition, FathomError, NotFound, NotReady, UpstreamRefused
from fathom.core.retry import Retries, RetryPolicy
from fathom.operations.cluster.api import PODS, RAYJOBS, Cluster, Expired, Object
from fathom.operations.cluster.pending import observe, reasons
from fathom.operations.cluster.scheduling import Reason

ENDED = frozenset({"Complete", "Failed", "ValidationFailed"})
# Some one and a half minutes in a row: longer than an API server takes to come back after an upgrade.
RECONNECT = RetryPolicy(attempts=8, first_delay_s=1.0, max_delay_s=30.0)
SUBMITTER = "ray-job-submitter"
# KubeRay's message repeats Ray's words, e.g. "Job entrypoint command failed with exit code 75, last available logs".
EXIT_CODE = re.compile(r"exit code (-?\d+)")
# Exit statuses of fathom.trainers.jobs.ray_job.
MEANING: Mapping[int, str] = {
    0: "trained to the end",
    2: "a setting or a request is wrong: it would be the same again",
    3: "diverged or collapsed; the last good checkpoint is kept: look at the report",
    75: "a service or the cluster was out of reach: the same job id again goes on from the checkpoint",
    143: "stopped after a checkpoint: the same settings and trainer.output go on from there",
}
# Reasons for which KubeRay itself ends a job: (exit status, words).
REASONS: Mapping[str, tuple[int, str]] = {
    "DeadlineExceeded": (124, "took longer than activeDeadlineSeconds (training.job.deadlineSeconds)"),
    "PreRunningDeadlineExceeded": (75, "its pods did not start in time (training.job.startSeconds)"),
    "SubmissionFailed": (1, "could not be handed to Ray: see the log of the submitter's pod"),
    "ValidationFailed": (2, "KubeRay refused it"),
}


@dataclass(frozen=True)
class Pace:
    """Intervals in seconds and limits: ``retry`` for broken connections in a row, ``deadline_s`` in all."""

    window_s: float = 5.0
    silence_s: float = 15.0
    retry: RetryPolicy = RECONNECT
    deadline_s: float = 7 * 86_400.0
    patience_s: float = 20.0
    """Seconds without any status from the operator after which that is reported."""


@dataclass(frozen=True)
class End:
    """End of a job: the exit status for the shell, and the reason in words."""

    status: int
    words: str


@dataclass
class Follower:
    """Follows one job; ``say`` gets lines about it, ``show`` the lines of its log."""

    cluster: Cluster
    name: str
    say: Callable[[str], None]
    show: Callable[[str], None]
    pace: Pace = Pace()
    clock: Callable[[], float] = time.monotonic
    _told: str = ""
    _explained: tuple[Reason, ...] = ()
    _places: dict[str, Place] = field(default_factory=dict)
    _retries: Retries = field(init=False)

    def __post_init__(self) -> None:
        self._retries = Retries(self.pace.retry)

    def run(self) -> End:
        """Follow the job to its end.

        Raises ``FailedPrecondition`` when the job is deleted meanwhile, ``DeadlineExceeded`` when the time is over (the
        job goes on), ``NotReady`` when the API server stays unreachable, ``UpstreamRefused`` without permission to
        watch.
        """
        started = self.clock()
        while True:
            job = self._job()
            self._tell(job)
            if is_ended(job):
                self._log(job, follow=False)
                return end_of(job)
            # Measured after the look at the job: one that ends at the limit has ended.
            waited = self.clock() - started
            if waited > self.pace.deadline_s:
                raise DeadlineExceeded(f"{self.name} goes on, but was followed for {waited:,.0f} s, which is the limit")
            if is_waiting(job) or not self._log(job, follow=True):
                self._explain(job, waited)
                self._await_change(job)

    def _job(self) -> Object:
        try:
            return self.cluster.read(RAYJOBS, self.name)
        except NotFound as error:
            message = f"job {self.name} is gone: somebody deleted it, or its time after the end was over"
            raise FailedPrecondition(message, metadata={"name": self.name}) from error

    def _tell(self, job: Object) -> None:
        status = job.get("status") or {}
        words = " / ".join(filter(None, (status.get("jobDeploymentStatus"), status.get("jobStatus")))) or "submitted"
        if failed := status.get("failed"):
            words += f", {failed} failed {'attempt' if failed == 1 else 'attempts'}"
        if words != self._told:
            self._told = words
            self.say(f"{self.name}: {words}")

    def _explain(self, job: Object, waited: float) -> None:
        found = tuple(reasons(observe(self.cluster, job), silent=waited > self.pace.patience_s))
        if found != self._explained:
            for reason in found:
                self.say(f"  waits: {reason.what}")
                self.say(f"         {reason.remedy}")
        self._explained = found

    def _await_change(self, job: Object) -> None:
        """Wait until the job changes, or the window is over."""
        before = (job.get("status"), job["spec"].get("suspend"))
        try:
            for kind, now in self.cluster.changes(
                RAYJOBS, self.name, job["metadata"].get("resourceVersion", "0"), self.pace.window_s
            ):
                # Something arrived: only breaks in a row count.
                self._retries.reset()
                if kind == "DELETED" or (now.get("status"), now["spec"].get("suspend")) != before:
                    return
            self._retries.reset()
        except Expired:
            self._retries.reset()  # too old: the next read begins anew
        except NotReady as error:
            self._again(error)

    def _log(self, job: Object, *, follow: bool) -> bool:
        """Print new lines of the log; return False when there is no log to follow."""
        pod = self._submitter()
        if pod is None:
            return False
        place = self._places.setdefault(pod, Place())
        place.begin()
        try:
            for line in self.cluster.log(
                pod, SUBMITTER, since=place.time, follow=follow, silence_s=self.pace.silence_s
            ):
                self._retries.reset()
                if (text := place.fresh(line)) is not None:
                    self.show(text)
            # A log that ended before the job is not to be asked for again at once.
            return False
        except NotReady as error:
            return self._silent(error, follow)
        except (UpstreamRefused, FailedPrecondition) as error:
            if getattr(error, "status", 0) == 403:
                self._say_once(f"its log cannot be read: {error.message}")
            return False  # the container has not started

    def _silent(self, error: NotReady, follow: bool) -> bool:
        """Treat a read timeout while following as silence; count any other as a broken connection."""
        # A driver that computes for a while prints nothing: the next look at the job tells whether it still runs.
        if follow and "ReadTimeout" in error.message:
            return True
        self._again(error)
        return True

    def _submitter(self) -> str | None:
        """Return the newest pod that submits the job to Ray and prints the driver's log, None if there is none."""
        try:
            found = self.cluster.list_objects(PODS, labels=f"job-name={self.name}")
        except FathomError as error:
            self._say_once(f"its pods cannot be listed: {error.message}")
            return None
        started = [pod for pod in found if (pod.get("status") or {}).get("phase") != "Pending"]
        # Each attempt has a pod of its own; the newest one has the log of the present attempt.
        newest = max(started, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None)
        return str(newest["metadata"]["name"]) if newest else None

    def _say_once(self, words: str) -> None:
        if words not in self._places:
            self._places[words] = Place()
            self.say(words)

    def _again(self, error: NotReady) -> None:
        """Wait before the next attempt; raise ``error`` after too many in a row."""
        self.cluster.sleep(self._retries.next_delay_s(error))


@dataclass
class Place:
    """Read position of a log: the time of the last line, and the number of lines with that time."""

    time: str = ""
    count: int = 0
    _again: int = 0

    def begin(self) -> None:
        """Prepare for reading the log again from this time on."""
        self._again = 0

    def fresh(self, line: str) -> str | None:
        """Return the text of a line that is new, else None."""
        stamp, _, text = line.partition(" ")
        # Kubernetes takes whole seconds for "since", so that a resumed log repeats lines: by their own stamps of
        # nanoseconds the known ones are found, and of one stamp as many as were shown are skipped.
        if stamp < self.time:
            return None
        if stamp == self.time:
            self._again += 1
            if self._again <= self.count:
                return None
            self.count = self._again
            return text
        self.time, self.count, self._again = stamp, 1, 1
        return text


def is_ended(job: Object) -> bool:
    return (job.get("status") or {}).get("jobDeploymentStatus") in ENDED


def is_waiting(job: Object) -> bool:
    """Return True if nothing of the training runs yet."""
    status = job.get("status") or {}
    return status.get("jobDeploymentStatus") != "Running"


def end_of(job: Object) -> End:
    """Return the meaning of a job's end, with the driver's exit status where KubeRay reports it."""
    status = job["status"]
    said, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if status.get("jobStatus") == "SUCCEEDED":
        return End(0, MEANING[0])
    if said in REASONS or status["jobDeploymentStatus"] == "ValidationFailed":
        code, words = REASONS[said if said in REASONS else "ValidationFailed"]
        return End(code, f"{words}: {message}" if message else words)
    if status.get("jobStatus") == "STOPPED":
        return End(143, "stopped")
    found = EXIT_CODE.search(message)
    if found is None:
        return End(1, f"failed: {message or said or 'nothing is said'}")
    # A signal is -N for Python and 128 + N for a shell.
    code = int(found[1]) if int(found[1]) >= 0 else 128 - int(found[1])
    last = next((line for line in reversed(message.splitlines()) if line.startswith("error: ")), "")
    words = MEANING.get(code, f"the driver ended with status {code}: look at its log")
    return End(code, f"{words}. {last}" if last else words)
