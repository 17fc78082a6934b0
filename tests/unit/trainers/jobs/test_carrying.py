"""Test what a job brings from the object store and leaves there."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import pytest

from fathom.core.config import ConfigError
from fathom.core.errors import InvalidField, NotFound
from fathom.trainers.config import load_config
from fathom.trainers.jobs.artifacts import stage_inputs, upload_outputs
from fathom.trainers.jobs.ray_job import main, parse_arguments, read_settings
from fathom.trainers.learners.stored_models import fetch_models
from fathom.transport.store import open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return (tmp_path / "store").as_uri()


def put(url: str, key: str, data: bytes = b"x") -> None:
    asyncio.run(open_store(url).put(key, data))


def test_data_and_model_of_the_store_become_local(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data where the driver is, models wherever a learner is, once per node and content."""
    (tmp_path / "node").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "node"))
    put(url, "exports/sft.jsonl", b"{}\n")
    put(url, "training/sft/model/config.json", b"{}")
    put(url, "training/sft/model/weights/a.safetensors", b"w")
    config = load_config([], [
        "data.train_files=[store:exports/sft.jsonl]", "data.val_files=[/here/val.jsonl]",
        # A path without "store:" is the pod's own and stays as it is.
        "model.path=store:training/sft/model", f"trainer.output={tmp_path / 'run'}",
    ])  # fmt: skip
    brought = stage_inputs(config, url)
    assert brought.data.train_files[0].read_bytes() == b"{}\n"
    assert brought.data.val_files == (Path("/here/val.jsonl"),)
    assert brought.model.path == "store:training/sft/model", "the driver fetches no weights"
    first = Path(fetch_models(brought, url).model.path)
    assert first.is_relative_to(tmp_path / "node")
    assert (first / "weights" / "a.safetensors").read_bytes() == b"w"
    assert Path(fetch_models(brought, url).model.path) == first
    small = Path(fetch_models(brought, url, weights=False).model.path)
    assert [path.name for path in small.rglob("*")] == ["config.json"], "enough for a tokenizer"
    put(url, "training/sft/model/weights/a.safetensors", b"new")
    assert (Path(fetch_models(brought, url).model.path) / "weights" / "a.safetensors").read_bytes() == b"new"
    with pytest.raises(InvalidField, match=r"model\.path.*no store"):
        fetch_models(brought, "")


def test_a_key_that_holds_nothing_is_named(url: str, tmp_path: Path) -> None:
    config = load_config([], ["data.train_files=[store:exports/no.jsonl]", f"trainer.output={tmp_path / 'run'}"])
    with pytest.raises(NotFound, match=r"exports/no\.jsonl"):
        stage_inputs(config, url)


def test_copies_and_batches_of_rollouts_are_not_kept(url: str, tmp_path: Path) -> None:
    config = load_config([], [f"trainer.output={tmp_path / 'run'}"])
    # The report and the model are results; batches of rollouts and what was brought are not.
    for name in ("model/w", "report.html", "rollouts/batch", "brought/data"):
        path = config.trainer.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert sorted(upload_outputs(config, url)) == ["training/run/model/w", "training/run/report.html"]


def test_settings_in_the_environment_lie_over_files_and_under_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("rollout: {n: 3, max_turns: 5}\ntrainer: {total_epochs: 4}\n")
    environ = {"FATHOM_TRAIN_SETTINGS": "rollout: {n: 6}\ntrainer: {total_epochs: 8}\n"}
    # Environment over file, command line over both.
    config = read_settings(parse_arguments(["grpo", "--config", str(file), "trainer.total_epochs=9"], environ))
    assert (config.rollout.n, config.rollout.max_turns, config.trainer.total_epochs) == (6, 5, 9)
    with pytest.raises(ConfigError, match="FATHOM_TRAIN_SETTINGS"):
        # An unknown key names the variable and not some file.
        read_settings(parse_arguments(["grpo"], {"FATHOM_TRAIN_SETTINGS": "rollout: {nn: 6}"}))


def test_what_one_job_has_learned_the_next_one_on_another_pod_begins_with(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the job's entry, as the rayjobs sft and dpo follow each other; each has a disk of its own."""
    rows = [{"id": f"r{n}", "token_ids": [2, 8 + n, 6, 8 + n, 3], "loss_mask": [0, 0, 0, 1, 1]} for n in range(4)]
    put(url, "exports/sft.jsonl", "\n".join(json.dumps(row) for row in rows).encode())
    words = ",".join(f"w{n}" for n in range(12))
    small = [
        "sft", "data.train_files=[store:exports/sft.jsonl]", "data.train_batch_size=4", "trainer.total_epochs=1",
        "trainer.val_before_train=false", "trainer.loggers=[jsonl]",
    ]  # fmt: skip
    tiny = ["model.path=tiny", "model.hidden=16", "model.layers=1", f"model.vocabulary=[{words}]"]
    environ = {"FATHOM_RUNTIME_STORE_URL": url}
    assert main([*small, *tiny, f"trainer.output={tmp_path / 'one' / 'first'}"], environ) == 0
    assert "files kept under training/first/" in capsys.readouterr().out
    after = [*small, "model.path=store:training/first/model", f"trainer.output={tmp_path / 'two' / 'second'}"]
    assert main(after, environ) == 0
    kept = {stored.key for stored in asyncio.run(open_store(url).list("training/second/"))}
    # The second job's model and settings are kept under its own name.
    assert {"training/second/model/config.json", "training/second/config.yaml"} <= kept
    assert not [key for key in kept if "/brought/" in key]
    # The pod of the first job is gone, and its job comes again: nothing is left to do.
    capsys.readouterr()
    assert main([*small, *tiny, f"trainer.output={tmp_path / 'three' / 'first'}"], environ) == 0
    # All steps were done by the first pod, so the third does none.
    assert '"step"' not in capsys.readouterr().out
