"""Metric loggers: JSON lines, TensorBoard and MLflow. Each receives every step's metrics."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from fathom.core.errors import InvalidField, MissingExtra
from fathom.domain.training_report.about import METRICS

Metrics = Mapping[str, float]


class Logger(Protocol):
    """Receiver of every step's metrics; closed at the end."""

    def log(self, step: int, metrics: Metrics) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """Logger to ``metrics.jsonl``, flushed after every line.

    Each line is {"step": n, "time": seconds since the epoch, "metrics": {…}}. A resumed training appends; of two lines
    with the same step the later one counts.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Appending to half a line would make one malformed line of two good ones.
        mend(path)
        self._file = path.open("a", encoding="utf-8")

    def log(self, step: int, metrics: Metrics) -> None:
        line = {"step": step, "time": time.time(), "metrics": dict(metrics)}
        self._file.write(json.dumps(line, allow_nan=True) + "\n")
        # A killed training must leave every step that it reported; steps take seconds, so that a flush each costs
        # nothing.
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def mend(path: Path) -> None:
    """Remove an unfinished last line, as a killed process leaves one."""
    if path.exists() and (data := path.read_bytes()) and not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])


class TensorBoard:
    """Logger to event files in ``folder``; raises ``MissingExtra`` when TensorBoard is not installed."""

    def __init__(self, folder: Path) -> None:
        try:
            self._writer: Any = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(folder))
        except ImportError as error:
            raise MissingExtra("tensorboard", "train") from error

    def log(self, step: int, metrics: Metrics) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class MlFlow:
    """Logger to a run on the tracking server ``MLFLOW_TRACKING_URI``.

    Raises ``MissingExtra`` when MLflow is not installed.
    """

    def __init__(self, name: str, parameters: Mapping[str, object]) -> None:
        try:
            self._mlflow: Any = importlib.import_module("mlflow")
        except ImportError as error:
            raise MissingExtra("mlflow", "mlflow") from error
        self._mlflow.start_run(run_name=name)
        # MLflow refuses longer values, and with them the run.
        self._mlflow.log_params({key: str(value)[:500] for key, value in parameters.items()})

    def log(self, step: int, metrics: Metrics) -> None:
        # MLflow rejects metric names with other characters than these.
        allowed = {"".join(c if c.isalnum() or c in "_-. /" else "_" for c in name): v for name, v in metrics.items()}
        self._mlflow.log_metrics(allowed, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


def make_loggers(names: Sequence[str], output: Path, parameters: Mapping[str, object]) -> list[Logger]:
    """Create the named loggers and, always, the one for ``metrics.jsonl``, which report and resume read.

    "console" is handled by the command line and ignored here. Raises ``MissingExtra``, and ``InvalidField`` for an
    unknown name; loggers created before the error are closed.
    """
    made: list[Logger] = []
    with ExitStack() as undo:

        def add(logger: Logger) -> None:
            made.append(logger)
            undo.callback(logger.close)

        add(JsonLines(output / METRICS))
        for name in names:
            if name == "tensorboard":
                add(TensorBoard(output / "tensorboard"))
            elif name == "mlflow":
                add(MlFlow(output.name, parameters))
            elif name not in ("console", "jsonl"):
                raise InvalidField("trainer.loggers", f"{name!r} is not console, jsonl, tensorboard or mlflow")
        # All were created: from here on the caller closes them.
        undo.pop_all()
    return made
