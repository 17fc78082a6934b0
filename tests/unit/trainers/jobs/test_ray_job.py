"""The job's entry: what it reads, and what its exit status tells whoever started it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.core.config import ConfigError
from fathom.core.errors import (
    DeadlineExceeded,
    DependencyFailed,
    FathomError,
    Internal,
    InvalidField,
    NotFound,
    NotImplementedYet,
    NotReady,
    VersionMismatch,
)
from fathom.trainers.algorithms.context import TrainingDiverged
from fathom.trainers.jobs.launch import Interrupted, Interruption, Place, Run, fill_vocabulary
from fathom.trainers.jobs.ray_job import exit_status, main, parse_arguments
from fathom.trainers.jobs.registry import ALGORITHMS, Algorithm, find, load_settings
from fathom.trainers.monitor.collapse import TrainingCollapsed

ENVIRON = {
    "FATHOM_RUNTIME_ENDPOINTS": json.dumps({"planner": "grpc://127.0.0.1:1"}),
    "FATHOM_RUNTIME_STORE_URL": "memory://",
}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("rollout.n: wrong"), 2),
        (InvalidField("tasks", "is empty"), 2),
        (VersionMismatch("tiny", 2, 1), 2),
        (NotFound("model", "x"), 2),
        (TrainingDiverged("nan"), 3),
        (TrainingCollapsed(3, "kl", "is 9", 1), 3),
        (NotReady("no planner"), 75),
        (DependencyFailed("policy", "gone"), 75),
        (DeadlineExceeded("late"), 75),
        (Interrupted("stopped"), 143),
        (Internal("broken"), 1),
    ],
)
def test_the_exit_status_says_what_to_do_next(error: FathomError, status: int) -> None:
    assert exit_status(error) == status


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        ([], ENVIRON, "field=algorithm"),
        (["nope"], ENVIRON, "grpo"),
        (["grpo", "stray"], ENVIRON, "'stray'"),
        (["grpo", "rollout.nn=3"], ENVIRON, "did you mean 'n'"),
        (["grpo", "rollout.n=1"], ENVIRON, "rollout.n"),
        (["grpo"], {**ENVIRON, "FATHOM_RUNTIME_ENDPOINTS": "nonsense"}, "field=FATHOM_RUNTIME_ENDPOINTS"),
        (["grpo"], {"FATHOM_RUNTIME_ENDPOINTS": "{}"}, "field=FATHOM_RUNTIME_STORE_URL"),
        (["grpo", "--config", "/not/there.yaml"], ENVIRON, "/not/there.yaml"),
    ],
)
def test_what_is_wrong_is_named_and_ends_the_job_for_good(
    arguments: list[str], environ: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, environ) == 2
    assert said in capsys.readouterr().err


def test_the_command_line_lies_over_the_environment(tmp_path: Path) -> None:
    environ = {
        "FATHOM_TRAIN_ALGORITHM": "ppo", "FATHOM_TRAIN_CONFIG": "a.yaml:b.yaml",
        "FATHOM_TRAIN_OVERRIDES": "rollout.n=2\nactor.optim.lr=1e-3",
    }  # fmt: skip
    found = parse_arguments(["--config", "c.yaml", "rollout.n=3"], environ)
    assert found.algorithm == "ppo"
    assert [path.name for path in found.config] == ["a.yaml", "b.yaml", "c.yaml"]
    assert found.overrides == ["rollout.n=2", "actor.optim.lr=1e-3", "rollout.n=3"]
    assert parse_arguments(["rloo"], environ).algorithm == "rloo"


def test_a_job_without_a_cluster_says_so_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fathom.trainers.jobs.ray_job", "grpo", "rollout.n=zero"],
        capture_output=True, text=True, env={**ENVIRON, "PATH": "", "PYTHONPATH": ":".join(sys.path)}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: rollout.n")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["ppo", "grpo", "rloo", "prime", "search_r1", "interpreter"])
def test_every_algorithm_accepts_its_own_defaults(name: str, tmp_path: Path) -> None:
    config = load_settings(name, [], [])
    wanted = {"ppo": "gae", "search_r1": "gae", "rloo": "rloo", "prime": "rloo"}.get(name, "grpo")
    assert config.algorithm.adv_estimator == wanted
    assert config.reward_model.enable == (name == "prime")
    assert wanted in find(name).load()(config).estimators
    file = tmp_path / "mine.yaml"
    file.write_text("rollout: {n: 7}\ntrainer: {total_epochs: 3}\n")
    mine = load_settings(name, [file], ["trainer.total_epochs=2"])
    assert (mine.rollout.n, mine.trainer.total_epochs) == (7, 2)


def test_an_algorithm_that_is_not_there_is_a_typed_error() -> None:
    with pytest.raises(NotFound, match="grpo, gspo, interpreter"):
        find("reinforce")
    missing = Algorithm("future", "fathom.trainers.future:Trainer", Path("none.yaml"))
    with pytest.raises(
        NotImplementedYet, match=r"train future is not implemented yet: fathom\.trainers\.future:Trainer"
    ):
        missing.load()
    broken = Algorithm("broken", "fathom.trainers.algorithms.ppo:NoSuchTrainer", Path("none.yaml"))
    with pytest.raises(NotImplementedYet):
        broken.load()
    assert {"sft", "dpo"} <= set(ALGORITHMS)


def test_a_tiny_model_gets_the_words_of_the_small_task_and_no_others() -> None:
    config = load_settings("grpo", [], [])
    rows = [{"data_source": "comparison"}]
    assert "<answer>" in fill_vocabulary(config, rows).model.vocabulary
    with pytest.raises(InvalidField, match=r"model\.vocabulary"):
        fill_vocabulary(config, [*rows, {"data_source": "nq"}])
    own = load_settings("grpo", [], ["model.vocabulary=[a, b]"])
    assert fill_vocabulary(own, [{"data_source": "nq"}]).model.vocabulary == ("a", "b")


def test_a_training_that_cannot_begin_still_leaves_settings_and_report(tmp_path: Path) -> None:
    config = load_settings("grpo", [], [f"trainer.output={tmp_path / 'run'}", "rollout.mode=async", "rollout.staleness=1",
                                     "rollout.group_versions=weighted"])  # fmt: skip
    run = Run("grpo", config, Place({}, "memory://"), lambda *_: None, Interruption())
    with pytest.raises(ConfigError, match="importance_cap"):
        run.train()
    assert "group_versions: weighted" in (tmp_path / "run" / "config.yaml").read_text()
    assert (tmp_path / "run" / "report.html").exists()
