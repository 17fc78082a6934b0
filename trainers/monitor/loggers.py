"""Where metrics go: a JSON line per step, TensorBoard, MLflow. Each logger takes a step's metrics and nothing else."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from fathom.errors import CorruptData, InvalidField, MissingExtra

Metrics = Mapping[str, float]
METRICS = "metrics.jsonl"
"""Where a training's folder has them; report and resume read it."""


class Logger(Protocol):
    """Hears of every step, and of the end."""

    def log(self, step: int, metrics: Metrics) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """``metrics.jsonl``: {"step": n, "time": seconds since the epoch, "metrics": {…}} per line, flushed at once.

    A training that goes on appends; of two lines with one step the later counts.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        mend(path)
        self._file = path.open("a", encoding="utf-8")

    def log(self, step: int, metrics: Metrics) -> None:
        line = {"step": step, "time": time.time(), "metrics": dict(metrics)}
        self._file.write(json.dumps(line, allow_nan=True) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def mend(path: Path) -> None:
    """Ends a last line that a killed process left unfinished by cutting it off."""
    if path.exists() and (data := path.read_bytes()) and not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])


def read_lines(path: Path) -> dict[int, dict[str, float]]:
    """Metrics by step, ascending; raises ``CorruptData`` for a line that is none."""
    found: dict[int, dict[str, float]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            content = json.loads(line)
            found[int(content["step"])] = {str(name): float(value) for name, value in content["metrics"].items()}
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptData(f"{path}:{number}", f"is no line of metrics: {error}") from error
    return dict(sorted(found.items()))


class TensorBoard:
    """Event files in ``folder``; raises ``MissingExtra`` where TensorBoard is not installed."""

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
    """A run in the tracking server that ``MLFLOW_TRACKING_URI`` names; raises ``MissingExtra`` without MLflow."""

    def __init__(self, name: str, parameters: Mapping[str, object]) -> None:
        try:
            self._mlflow: Any = importlib.import_module("mlflow")
        except ImportError as error:
            raise MissingExtra("mlflow", "mlflow") from error
        self._mlflow.start_run(run_name=name)
        self._mlflow.log_params({key: str(value)[:500] for key, value in parameters.items()})

    def log(self, step: int, metrics: Metrics) -> None:
        # Its names take no other signs than these.
        allowed = {"".join(c if c.isalnum() or c in "_-. /" else "_" for c in name): v for name, v in metrics.items()}
        self._mlflow.log_metrics(allowed, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


def make_loggers(names: Sequence[str], output: Path, parameters: Mapping[str, object]) -> list[Logger]:
    """The loggers of these names, ``metrics.jsonl`` always among them: report and resume read it.

    "console" is the command line's own. Raises ``MissingExtra``, and ``InvalidField`` for an unknown name.
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
        undo.pop_all()
    return made
