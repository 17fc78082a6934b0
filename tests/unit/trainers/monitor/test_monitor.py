"""Test what is said of a training: metrics that survive a kill, collapse seen in time."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from fathom.core.errors import InvalidField, MissingExtra
from fathom.trainers.config.sections import CollapseConfig
from fathom.trainers.monitor.collapse import CollapseDetector, Signal, TrainingCollapsed
from fathom.trainers.monitor.loggers import JsonLines, make_loggers
from tests.support.training.metrics import read_lines
from tests.support.waiting import wait_until

HEALTHY = {
    "actor/entropy": 1.0, "critic/score/mean": 0.5, "response_length/mean": 40.0, "actor/ppo_kl": 0.01,
    "rollout/invalid_action_ratio": 0.1,
}  # fmt: skip


def run(detector: CollapseDetector, name: str, values: list[float]) -> list[bool]:
    return [detector(step, HEALTHY | {name: value}) for step, value in enumerate(values, 1)]


@pytest.mark.parametrize(
    ("name", "signal", "values", "settings"),
    [
        ("actor/entropy", "entropy", [1.0] * 4 + [0.001] * 9, {"entropy_floor": 0.01}),
        ("actor/entropy", "entropy", [1.0] * 4 + [9.5] * 9, {}),
        ("actor/ppo_kl", "kl", [0.1] * 4 + [5.0] * 9, {}),
        ("response_length/mean", "length", [100.0] * 4 + [2.0] * 9, {}),
        ("rollout/invalid_action_ratio", "invalid actions", [0.2] * 4 + [1.0] * 9, {}),
        ("critic/score/mean", "reward", [0.1, 0.5, 0.6, 0.6, 0.6] + [0.0] * 9, {}),
    ],
)
def test_each_collapse_ends_the_run_by_its_name_and_says_what_was_good(
    name: str, signal: str, values: list[float], settings: dict[str, float]
) -> None:
    detector = CollapseDetector(CollapseConfig(window=2, patience=3, **settings))  # type: ignore[arg-type]
    with pytest.raises(TrainingCollapsed) as bad:
        run(detector, name, values)
    assert bad.value.signal == signal
    first_bad = next(step for step, value in enumerate(values, 1) if step > 1 and value == values[-1])
    assert first_bad - 1 <= bad.value.last_good <= first_bad, "a window may hide one bad step, not more"
    assert bad.value.step == bad.value.last_good + 3
    assert f"the last good step is {bad.value.last_good}" in bad.value.message


def test_healthy_and_passing_troubles_do_not_end_a_run_but_are_not_kept() -> None:
    detector = CollapseDetector(CollapseConfig(window=1, patience=3))
    kept = run(detector, "actor/ppo_kl", [0.1, 3.0, 3.0, 0.1, 3.0, 0.1])
    assert kept == [True, False, False, True, False, True]
    assert detector.last_good == 6
    noise = CollapseDetector(CollapseConfig(window=2, patience=2))
    assert all(run(noise, "critic/score/mean", [0.4, 0.6, 0.5, 0.7, 0.45, 0.8, 0.6]))


def test_an_untrained_model_may_begin_with_what_would_be_a_collapse_later() -> None:
    detector = CollapseDetector(CollapseConfig(window=1, patience=2))
    assert all(run(detector, "rollout/invalid_action_ratio", [1.0] * 10 + [0.5] * 3))
    assert not detector(14, HEALTHY | {"rollout/invalid_action_ratio": 1.0})
    with pytest.raises(TrainingCollapsed, match=r"invalid actions is 1, above 0\.9"):
        detector(15, HEALTHY | {"rollout/invalid_action_ratio": 1.0})


@pytest.mark.parametrize("enable", [True, False])
def test_what_is_not_finite_ends_a_run_at_once(enable: bool) -> None:
    detector = CollapseDetector(CollapseConfig(enable=enable))
    assert detector(1, HEALTHY)
    with pytest.raises(TrainingCollapsed, match="actor/pg_loss is nan; the last good step is 1") as bad:
        detector(2, HEALTHY | {"actor/pg_loss": math.nan})
    assert bad.value.metadata["signal"] == "actor/pg_loss"


def test_an_algorithm_adds_signals_of_its_own() -> None:
    mine = Signal("mine", ("absent", "mine"), floor=1.0)
    detector = CollapseDetector(CollapseConfig(window=1, patience=1), (mine,))
    with pytest.raises(TrainingCollapsed, match=r"mine is 0\.5, below 1"):
        detector(1, {"mine": 0.5})


def test_metrics_survive_a_kill_and_a_step_that_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    log = JsonLines(path)
    for step in (1, 2, 3):
        log.log(step, {"a": step / 2})
    log.close()
    with path.open("a") as file:
        file.write('{"step": 4, "metr')  # killed here
    log = JsonLines(path)
    log.log(3, {"a": 9.0})
    log.log(4, {"a": float("nan")})
    log.close()
    found = read_lines(path)
    assert [found[step]["a"] for step in (1, 2, 3)] == [0.5, 1.0, 9.0]
    assert math.isnan(found[4]["a"])


def test_tensorboard_reads_what_was_logged(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for logger in make_loggers(["console", "jsonl", "tensorboard"], tmp_path, {}):
        for step in (1, 2):
            logger.log(step, {"critic/score/mean": step * 0.25})
        logger.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("critic/score/mean")] == [(1, 0.25), (2, 0.5)]
    assert read_lines(tmp_path / "metrics.jsonl")[2] == {"critic/score/mean": 0.5}


def test_a_logger_that_is_not_installed_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtra, match=rf"fathom\[{name}\]"):
            make_loggers([name], tmp_path, {})
    with pytest.raises(InvalidField, match=r"trainer\.loggers: 'swanlab'"):
        make_loggers(["swanlab"], tmp_path, {})


def test_mlflow_gets_names_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, object]] = []

    class Recorder:
        def __getattr__(self, name: str) -> object:
            return lambda *args, **kwargs: calls.append((name, (args, kwargs)))

    monkeypatch.setitem(sys.modules, "mlflow", Recorder())  # type: ignore[arg-type]
    loggers = make_loggers(["mlflow"], tmp_path, {"lr": 0.1})
    for logger in loggers:
        logger.log(3, {"val/score@k": 1.0})
        logger.close()
    assert [name for name, _ in calls] == ["set_tracking_uri", "start_run", "log_params", "log_metrics", "end_run"]
    assert calls[3][1] == (({"val/score_k": 1.0},), {"step": 3})


# Of its own dependency, which it still uses as an earlier version had it.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mlflow_itself_reads_what_was_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    # More settings than one request of its protocol takes.
    settings = {f"section.name{number}": "x" * 600 for number in range(150)}
    for logger in make_loggers(["mlflow"], tmp_path / "run", settings):
        logger.log(3, {"critic/score/mean": 0.5})
        logger.close()
    found = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'run' / 'mlflow.db'}").search_runs(["0"])[0]
    assert (found.info.run_name, found.data.metrics) == ("run", {"critic/score/mean": 0.5})
    assert found.data.params["section.name149"] == "x" * 500


class Runs:
    """The library of Weights & Biases, as far as it is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def Settings(self, **given: object) -> dict[str, object]:
        return given

    def init(self, **given: object) -> Runs:
        self.calls.append(("init", given))
        return self

    def log(self, metrics: object, step: int) -> None:
        self.calls.append(("log", (metrics, step)))

    def finish(self) -> None:
        self.calls.append(("finish", None))


def test_weights_and_biases_sends_nothing_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    seen = []
    for key, mode in ((None, None), ("secret", None), ("secret", "disabled")):
        for name, value in (("WANDB_API_KEY", key), ("WANDB_MODE", mode)):
            if value is not None:
                monkeypatch.setenv(name, value)
        runs = Runs()
        monkeypatch.setitem(sys.modules, "wandb", runs)  # type: ignore[arg-type]
        for logger in make_loggers(["wandb"], tmp_path / "run", {"actor.optim.lr": 0.1}):
            logger.log(3, {"val/score": 1.0})
            logger.close()
        (first, given), *others = runs.calls
        assert first == "init"
        assert isinstance(given, dict)
        assert (given["project"], given["name"], given["config"]) == ("fathom", "run", {"actor.optim.lr": 0.1})
        assert others == [("log", ({"val/score": 1.0}, 3)), ("finish", None)]
        seen.append(given["mode"])
    assert seen == ["offline", "online", "disabled"]


def test_weights_and_biases_itself_writes_a_run_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for logger in make_loggers(["wandb"], tmp_path / "run", {"actor.optim.lr": 0.1}):
        for step in (1, 2):
            logger.log(step, {"critic/score/mean": step * 0.25})
        logger.close()
    written = list((tmp_path / "run").glob("wandb/offline-run-*/run-*.wandb"))
    assert len(written) == 1
    # Its own process writes the last of it.
    wait_until(lambda: b"critic/score/mean" in written[0].read_bytes())
