"""Metric loggers: JSON lines, TensorBoard, MLflow and Weights & Biases. Each receives every step's metrics."""

from __future__ import annotations

import importlib
import json
import os
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
    """Logger to a run on the tracking server ``MLFLOW_TRACKING_URI``, or else to ``mlflow.db`` in ``folder``.

    Raises ``MissingExtra`` when MLflow is not installed.
    """

    def __init__(self, name: str, folder: Path, parameters: Mapping[str, object]) -> None:
        try:
            self._mlflow: Any = importlib.import_module("mlflow")
        except ImportError as error:
            raise MissingExtra("mlflow", "mlflow") from error
        # MLflow's own default is the folder in which the command happens to run.
        if "MLFLOW_TRACKING_URI" not in os.environ:
            folder.mkdir(parents=True, exist_ok=True)
            self._mlflow.set_tracking_uri(f"sqlite:///{folder.resolve() / 'mlflow.db'}")
        self._mlflow.start_run(run_name=name)
        # MLflow refuses longer values, and with them the run.
        self._mlflow.log_params({key: str(value)[:500] for key, value in parameters.items()})

    def log(self, step: int, metrics: Metrics) -> None:
        # MLflow rejects metric names with other characters than these.
        allowed = {"".join(c if c.isalnum() or c in "_-. /" else "_" for c in name): v for name, v in metrics.items()}
        self._mlflow.log_metrics(allowed, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


class WeightsAndBiases:
    """Logger to a run of Weights & Biases in the project ``WANDB_PROJECT`` ("fathom" by default).

    Without ``WANDB_MODE`` and ``WANDB_API_KEY`` nothing is sent: the run lies in ``folder``, for ``wandb sync``. Raises
    ``MissingExtra`` when the library is not installed.
    """

    def __init__(self, name: str, folder: Path, parameters: Mapping[str, object]) -> None:
        try:
            wandb: Any = importlib.import_module("wandb")
        except ImportError as error:
            raise MissingExtra("wandb", "wandb") from error
        folder.mkdir(parents=True, exist_ok=True)
        # Without a key the library would ask for one on the terminal, which a job does not have.
        mode = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "fathom",
            name=name,
            # Every start is a run of its own, since steps of a run must ascend; those of one training are a group.
            group=name,
            dir=str(folder),
            mode=mode,
            config=dict(parameters),
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log(self, step: int, metrics: Metrics) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


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
                add(MlFlow(output.name, output, parameters))
            elif name == "wandb":
                add(WeightsAndBiases(output.name, output, parameters))
            elif name not in ("console", "jsonl"):
                raise InvalidField("trainer.loggers", f"{name!r} is not console, jsonl, tensorboard, mlflow or wandb")
        # All were created: from here on the caller closes them.
        undo.pop_all()
    return made
