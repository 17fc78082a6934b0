"""``fathom train --on-cluster``: checks the settings locally, submits a RayJob and follows it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml

from fathom.core.errors import InvalidField
from fathom.operations.cluster.api import RAYJOBS, Cluster, ReleasePlace, connect
from fathom.operations.cluster.following import Follower, Pace
from fathom.operations.cluster.rayjob import Wanted, fill_template, load_template, new_job, submit

if TYPE_CHECKING:
    from fathom.trainers.config import TrainConfig

STORE = "store:"
IN_THE_IMAGE = ("tiny", "smollm2")


@dataclass(frozen=True)
class Asked:
    """Options of the job itself from the command line."""

    algorithm: str
    files: Sequence[Path] = ()
    overrides: Sequence[str] = ()
    job: str = ""
    workers: int | None = None
    gpus: int | None = None
    max_workers: int | None = None
    follow: bool = True
    stop: bool = False
    """Ctrl-C deletes the job; otherwise it goes on."""

    def to_job(self) -> Wanted:
        """Return the job, its settings checked by the code that will read them.

        Raises ``NotFound`` for the algorithm, ``ConfigError`` by key, ``InvalidField`` for files of this machine.
        """
        from fathom.trainers.config.tree import merge_layers
        from fathom.trainers.jobs.registry import load_settings

        wanted = Wanted(self.algorithm, "", self.job or new_job(), self.workers, self.gpus, self.max_workers)
        # Here, where a wrong setting costs a second; in the pod it would cost the wait for a node.
        check_places(load_settings(self.algorithm, self.files, self.overrides))
        said: dict[str, Any] = merge_layers(self.files, self.overrides)
        # Results are kept under the folder's name: two jobs must not write over each other's.
        said.setdefault("trainer", {}).setdefault("output", f".fathom/training/{wanted.name}")
        return replace(wanted, settings=yaml.safe_dump(said, sort_keys=True, allow_unicode=True))


def check_places(config: TrainConfig) -> None:
    """Raise ``InvalidField`` for a path that does not exist in a pod."""
    if config.rollout.replay is not None:
        raise InvalidField("rollout.replay", "is a folder of this machine: replay where the recording is")
    files = [
        (f"data.{kind}_files", path) for kind in ("train", "val") for path in getattr(config.data, f"{kind}_files")
    ]
    for field, path in (*files, ("model.path", Path(config.model.path))):
        said = str(path)
        if not (said.startswith(STORE) or path.is_absolute() or said in IN_THE_IMAGE):
            raise InvalidField(
                field, f"{said} is of this machine: put it into the release's object store and name it {STORE}KEY"
            )


def train_on_cluster(asked: Asked, place: ReleasePlace, pace: Pace | None = None) -> int:
    """Submit and follow; return the exit status of the training, 0 when detached, 130 after Ctrl-C.

    Raises typed errors for settings, for the release and for requests that the API server refuses.
    """
    wanted = asked.to_job()
    cluster = connect(place.namespace, place.context, place.kubeconfig)
    # The release brings the template: image, volumes and limits are those of its operator, not of the client's version.
    job = fill_template(load_template(cluster, place.release), wanted, place.release)
    _, new = submit(cluster, job)
    typer.echo(f"{wanted.name} {'submitted to' if new else 'is there already in'} namespace {cluster.namespace}")
    if not asked.follow:
        typer.echo(again(wanted, asked, place))
        return 0
    try:
        with sigterm_as_interrupt():
            end = Follower(cluster, wanted.name, typer.echo, typer.echo, pace or Pace()).run()
    except KeyboardInterrupt:
        return handle_interrupt(cluster, wanted, asked, place)
    typer.secho(f"{wanted.name}: {end.words}", fg="green" if end.status == 0 else "red", err=end.status != 0)
    return end.status


def handle_interrupt(cluster: Cluster, wanted: Wanted, asked: Asked, place: ReleasePlace) -> int:
    """Handle Ctrl-C: delete the job with ``--stop``, otherwise leave it running."""
    if asked.stop:
        cluster.delete(RAYJOBS, wanted.name)
        typer.echo(f"{wanted.name} is deleted; what it had kept in the object store stays")
    else:
        typer.echo(f"{wanted.name} goes on. " + again(wanted, asked, place))
    return 130


def again(wanted: Wanted, asked: Asked, place: ReleasePlace) -> str:
    """Describe how to return to a job, and how to end it."""
    where = f" --namespace {place.namespace}" if place.namespace else ""
    return (
        f"To follow it: the same command with --job-id {wanted.job}. "
        f"To end it: kubectl{where} delete rayjob {wanted.name}"
    )


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM (a runner that is stopped) like Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
