"""What a job brings from the object store and leaves there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fathom.config import ConfigError
from fathom.errors import NotFound
from fathom.store import open_store
from trainers.carrying import bring, keep, resume
from trainers.config import load_config
from trainers.ray_job import parsed, settings_of


@pytest.fixture
def url(tmp_path: Path) -> str:
    return (tmp_path / "store").as_uri()


def put(url: str, key: str, data: bytes = b"x") -> None:
    asyncio.run(open_store(url).put(key, data))


def test_data_and_model_of_the_store_become_local(url: str, tmp_path: Path) -> None:
    put(url, "exports/sft.jsonl", b"{}\n")
    put(url, "training/sft/model/config.json", b"{}")
    put(url, "training/sft/model/weights/a.safetensors", b"w")
    config = load_config([], [
        "data.train_files=[store:exports/sft.jsonl]", "data.val_files=[/here/val.jsonl]",
        "model.path=store:training/sft/model", f"trainer.output={tmp_path / 'run'}",
    ])  # fmt: skip
    brought = bring(config, url)
    assert brought.data.train_files[0].read_bytes() == b"{}\n"
    assert brought.data.val_files == (Path("/here/val.jsonl"),)
    assert (Path(brought.model.path) / "weights" / "a.safetensors").read_bytes() == b"w"


def test_a_key_that_holds_nothing_is_named(url: str, tmp_path: Path) -> None:
    config = load_config([], ["data.train_files=[store:exports/no.jsonl]", f"trainer.output={tmp_path / 'run'}"])
    with pytest.raises(NotFound, match=r"exports/no\.jsonl"):
        bring(config, url)


def test_the_next_attempt_finds_what_the_last_one_left(url: str, tmp_path: Path) -> None:
    first, second = (load_config([], [f"trainer.output={tmp_path / place / 'run'}"]) for place in ("a", "b"))
    output = first.trainer.output
    for name in ("checkpoints/step-2/state.pt", "checkpoints/latest.json", "model/w", "report.html"):
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(name)
    for name in ("rollouts/batch", "brought/data"):
        (output / name).parent.mkdir(parents=True)
        (output / name).write_text(name)
    keys = keep(first, url)
    assert sorted(keys) == [
        "training/run/checkpoints/latest.json", "training/run/checkpoints/step-2/state.pt",
        "training/run/model/w", "training/run/report.html",
    ]  # fmt: skip
    resume(second, url)
    assert (second.trainer.output / "checkpoints" / "step-2" / "state.pt").read_text() == "checkpoints/step-2/state.pt"
    assert not (second.trainer.output / "model").exists()


def test_settings_in_the_environment_lie_over_files_and_under_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("rollout: {n: 3, max_turns: 5}\ntrainer: {total_epochs: 4}\n")
    environ = {"FATHOM_TRAIN_SETTINGS": "rollout: {n: 6}\ntrainer: {total_epochs: 8}\n"}
    config = settings_of(parsed(["grpo", "--config", str(file), "trainer.total_epochs=9"], environ))
    assert (config.rollout.n, config.rollout.max_turns, config.trainer.total_epochs) == (6, 5, 9)
    with pytest.raises(ConfigError, match="FATHOM_TRAIN_SETTINGS"):
        settings_of(parsed(["grpo"], {"FATHOM_TRAIN_SETTINGS": "rollout: {nn: 6}"}))
