"""The entry of a RayJob: ``python -m trainers.ray_job ALGORITHM --config FILE … [section.field=value …]``.

What the command line does not say comes from the environment: ``FATHOM_TRAIN_ALGORITHM``, ``FATHOM_TRAIN_CONFIG``
(paths, separated by ":"), ``FATHOM_TRAIN_SETTINGS`` (the text of such a file, which lies over them),
``FATHOM_TRAIN_OVERRIDES`` (separated by white space), and, as the services read them, ``FATHOM_RUNTIME_ENDPOINTS``
(JSON, URL by service) and ``FATHOM_RUNTIME_STORE_URL``. Ray is joined where ``RAY_ADDRESS`` names a cluster, and
started here otherwise. Data files and models may be ``store:KEY``; what a training leaves behind is kept in the store
(``trainers.carrying``).

The exit status says what to do next:

| status | meaning | again? |
|---|---|---|
| 0 | trained to the end | no |
| 2 | a setting or a request is wrong; the last line names the field | no: it would be the same |
| 3 | diverged or collapsed; the last good checkpoint is kept | no: look at the report |
| 75 | a service or the cluster was out of reach | yes: it goes on from the checkpoint |
| 143 | stopped by SIGTERM, after a checkpoint | yes: it goes on from the checkpoint |
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

from fathom.errors import CONTRACT, FathomError, InvalidField, may_pass
from trainers.algorithms import configured, find
from trainers.carrying import PREFIX, Curves, bring, keep
from trainers.config import TrainConfig

OK, BROKEN, WRONG, DIVERGED, TRANSIENT, STOPPED = 0, 1, 2, 3, 75, 143
SETTINGS, STORE_URL = "FATHOM_TRAIN_SETTINGS", "FATHOM_RUNTIME_STORE_URL"


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Trains and gives the exit status; the reason of a failure is the last line on stderr."""
    try:
        return run(arguments, environ)
    except FathomError as error:
        field = error.metadata.get("field", "")
        print(f"error: {error.message} [{error.reason}]{f' field={field}' if field else ''}", file=sys.stderr)
        return status_of(error)


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """As ``main``, but raises."""
    wanted = parsed(arguments, environ)
    # Torch is imported by what comes last only: a wrong setting should not take its seconds.
    alone = find(wanted.algorithm).from_files
    endpoints, store = ({}, environ.get(STORE_URL, "")) if alone else surroundings(environ)
    config = settings_of(wanted)
    print(config.to_yaml(), flush=True)
    curves = Curves(config, store) if store else None
    if curves:
        config = bring(config, store)
        curves.bring()

    def show(step: int, total: int, metrics: Mapping[str, float]) -> None:
        tell(step, total, metrics)
        if curves:
            curves.keep()

    from trainers.launch import Interruption, Place, Run

    interruption = Interruption()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: interruption.ask())
    try:
        outcome = Run(wanted.algorithm, config, Place(endpoints, store), show, interruption).train()
    except FathomError:
        with suppress(FathomError):  # what the training died of matters more
            leave(config, store)
        raise
    print(outcome.summary(), flush=True)
    leave(config, store)
    return OK


def leave(config: TrainConfig, store: str) -> None:
    """Keeps what the training has written where there is a store."""
    if store:
        print(f"{len(keep(config, store))} files kept under {PREFIX}/{config.trainer.output.name}/", flush=True)


def settings_of(wanted: argparse.Namespace) -> TrainConfig:
    """The settings that a command line asks for; raises ``NotFound`` for the algorithm, ``ConfigError`` by key."""
    overrides = ["trainer.use_ray=true", *wanted.overrides]
    if not wanted.settings:
        return configured(wanted.algorithm, wanted.config, overrides)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / SETTINGS
        file.write_text(wanted.settings, encoding="utf-8")
        return configured(wanted.algorithm, [*wanted.config, file], overrides)


def tell(step: int, total: int, metrics: Mapping[str, float]) -> None:
    """A line per step, for the job's log."""
    print(json.dumps({"step": step, "of": total, **{name: metrics[name] for name in sorted(metrics)}}), flush=True)


def parsed(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """The command line, with the environment under it; raises ``InvalidField("algorithm")`` for none."""
    parser = argparse.ArgumentParser(prog="python -m trainers.ray_job", description="Trains on Ray.")
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


def surroundings(environ: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """URLs of the services and of the store; raises ``InvalidField`` naming the variable that is missing or wrong."""
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


def status_of(error: FathomError) -> int:
    """The exit status for an error."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "Interrupted" in names:
        return STOPPED
    if names & {"TrainingDiverged", "TrainingCollapsed"}:
        return DIVERGED
    if may_pass(error):
        return TRANSIENT
    return WRONG if error.code in CONTRACT else BROKEN


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
