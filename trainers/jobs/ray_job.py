"""Entry point of a RayJob: ``python -m fathom.trainers.jobs.ray_job ALGORITHM --config FILE … [field=value …]``.

Options missing on the command line come from the environment: ``FATHOM_TRAIN_ALGORITHM``, ``FATHOM_TRAIN_CONFIG``
(paths, separated by ":"), ``FATHOM_TRAIN_SETTINGS`` (the text of a settings file, applied over those),
``FATHOM_TRAIN_OVERRIDES`` (separated by white space), and, as for the services, ``FATHOM_RUNTIME_ENDPOINTS`` (JSON, URL
by service) and ``FATHOM_RUNTIME_STORE_URL``. Joins the Ray cluster at ``RAY_ADDRESS``, or starts Ray locally. Data
files and models may be ``store:KEY``; outputs are uploaded to the store (``fathom.trainers.jobs.artifacts``).

The exit status says what to do next:

| status | meaning | again? |
|---|---|---|
| 0 | trained to the end | no |
| 2 | a setting or a request is wrong; the last line names the field | no: it would be the same |
| 3 | diverged or collapsed; the last good checkpoint is kept | no: look at the report |
| 75 | a service or the cluster was out of reach | yes: it resumes from the checkpoint |
| 143 | stopped by SIGTERM, after a checkpoint | yes: it resumes from the checkpoint |
| 1 | anything else | look at the log |
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fathom.core.errors import NON_RETRYABLE, FathomError, InvalidField, is_retryable
from fathom.domain.training_report.about import PREFIX
from fathom.trainers.config import TrainConfig
from fathom.trainers.jobs.artifacts import stage_inputs, upload_outputs
from fathom.trainers.jobs.registry import find, load_settings

# Exit statuses: 75 is EX_TEMPFAIL of sysexits.h (try again), 143 is 128 + SIGTERM (stopped, goes on from a checkpoint).
OK, BROKEN, WRONG, DIVERGED, TRANSIENT, STOPPED = 0, 1, 2, 3, 75, 143
SETTINGS, STORE_URL = "FATHOM_TRAIN_SETTINGS", "FATHOM_RUNTIME_STORE_URL"


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Train and return the exit status; on failure, the last line on stderr gives the reason."""
    try:
        return run(arguments, environ)
    except FathomError as error:
        field = error.metadata.get("field", "")
        print(f"error: {error.message} [{error.reason}]{f' field={field}' if field else ''}", file=sys.stderr)
        return exit_status(error)


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Train like ``main``, but raise errors instead of returning their status."""
    wanted = parse_arguments(arguments, environ)
    # Torch is imported by what comes last only: a wrong setting should not take its seconds.
    alone = find(wanted.algorithm).from_files
    endpoints, store = ({}, environ.get(STORE_URL, "")) if alone else read_environment(environ)
    config = read_settings(wanted)
    print(config.to_yaml(), flush=True)
    if store:
        config = stage_inputs(config, store)
    from fathom.trainers.jobs.launch import Interruption, Place, Run

    interruption = Interruption()
    # Python allows signal handlers in the main thread only; a caller in another one stops the run by itself.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: interruption.request())
    try:
        outcome = Run(wanted.algorithm, config, Place(endpoints, store), print_metrics, interruption).train()
    except FathomError:
        with suppress(FathomError):  # what the training died of matters more
            upload_results(config, store)
        raise
    print(outcome.summary(), flush=True)
    upload_results(config, store)
    return OK


def upload_results(config: TrainConfig, store: str) -> None:
    """Upload the training's outputs when there is a store."""
    if store:
        print(
            f"{len(upload_outputs(config, store))} files kept under {PREFIX}/{config.trainer.output.name}/", flush=True
        )


def read_settings(wanted: argparse.Namespace) -> TrainConfig:
    """Load the settings of a command line; raises ``NotFound`` for the algorithm, ``ConfigError`` naming the key."""
    # First, so that the command line may still say otherwise.
    # Trainings from files are one learner in this process.
    overrides = [*([] if find(wanted.algorithm).from_files else ["trainer.use_ray=true"]), *wanted.overrides]
    if not wanted.settings:
        return load_settings(wanted.algorithm, wanted.config, overrides)
    # As a file, because layers are files: origin and line of a wrong setting are reported for it like for any other.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / SETTINGS
        file.write_text(wanted.settings, encoding="utf-8")
        return load_settings(wanted.algorithm, [*wanted.config, file], overrides)


def print_metrics(step: int, total: int, metrics: Mapping[str, float]) -> None:
    """Print a step's metrics as one JSON line for the job's log."""
    print(json.dumps({"step": step, "of": total, **{name: metrics[name] for name in sorted(metrics)}}), flush=True)


def parse_arguments(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Parse the command line with the environment as defaults.

    Raises ``InvalidField("algorithm")`` without an algorithm.
    """
    parser = argparse.ArgumentParser(prog="python -m fathom.trainers.jobs.ray_job", description="Trains on Ray.")
    parser.add_argument("words", nargs="*", default=[], metavar="ALGORITHM, section.field=value")
    parser.add_argument("--config", action="append", type=Path, default=[], help="YAML file over the defaults")
    found = parser.parse_intermixed_args(list(arguments))
    named = [word for word in found.words if "=" not in word]
    if len(named) > 1:
        raise InvalidField("algorithm", f"{named[1]!r} is neither the algorithm nor section.field=value")
    found.algorithm = named[0] if named else environ.get("FATHOM_TRAIN_ALGORITHM", "")
    if not found.algorithm:
        raise InvalidField("algorithm", "is missing: name it, or set FATHOM_TRAIN_ALGORITHM")
    files = [Path(path) for path in environ.get("FATHOM_TRAIN_CONFIG", "").split(":") if path]
    found.config = [*files, *found.config]
    found.settings = environ.get(SETTINGS, "")
    found.overrides = [
        *environ.get("FATHOM_TRAIN_OVERRIDES", "").split(),
        *(word for word in found.words if "=" in word),
    ]
    return found


def read_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Read the URLs of the services and the store; raises ``InvalidField`` naming a missing or invalid variable."""
    try:
        endpoints = json.loads(environ.get("FATHOM_RUNTIME_ENDPOINTS", ""))
        if not isinstance(endpoints, dict) or not all(isinstance(url, str) for url in endpoints.values()):
            raise ValueError("is no object of URLs")
    except ValueError as error:
        raise InvalidField("FATHOM_RUNTIME_ENDPOINTS", f"must be a JSON object, URL by service: {error}") from error
    store = environ.get(STORE_URL, "")
    if not store:
        raise InvalidField(STORE_URL, "is missing")
    return endpoints, store


def exit_status(error: FathomError) -> int:
    """Return the exit status for an error."""
    # By name, because the modules of some of these classes import torch.
    names = {kind.__name__ for kind in type(error).__mro__}
    # Before the general rule: a training that was stopped is no failure, and is started again.
    if "Interrupted" in names:
        return STOPPED
    if names & {"TrainingDiverged", "TrainingCollapsed"}:
        return DIVERGED
    if is_retryable(error):
        return TRANSIENT
    return WRONG if error.code in NON_RETRYABLE else BROKEN


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
