"""Converted models that came with an image are read there, and nothing is written beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from fathom.domain.smollm2 import smollm2_folder
from fathom.services.policy import engine as engine_module
from fathom.services.policy.config import Config, ModelConfig, TransformersModel
from fathom.services.policy.engine import Engine
from fathom.trainers.config.sections import ModelConfig as TrainedModel
from fathom.transport.store import open_store


@pytest.mark.parametrize("given", [True, False])
async def test_models_are_opened_where_the_image_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    models, cache = tmp_path / "models", tmp_path / "cache"
    asked = []

    def opening(name: str, settings: ModelConfig, folder: Path) -> object:
        asked.append(folder)
        raise FileNotFoundError(str(folder))

    monkeypatch.setattr(engine_module, "open_backend", opening)
    config = Config(models={"m": TransformersModel()}, default_model="m", cache_dir=cache)
    config = config.model_copy(update={"models_dir": models if given else None})
    engine = Engine(config, open_store("memory://"), structlog.get_logger())
    with pytest.raises(Exception, match=r"models|cache"):
        await engine.start()
    assert set(asked) == {models if given else cache}
    await engine.close()


def test_a_converted_model_is_only_read(tmp_path: Path) -> None:
    folder = tmp_path / "smollm2"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    folder.chmod(0o555)
    tmp_path.chmod(0o555)
    try:
        assert smollm2_folder(tmp_path) == folder
        assert [path.name for path in tmp_path.rglob("*")] == ["smollm2", "config.json"]
    finally:
        tmp_path.chmod(0o755)


def test_trainers_look_where_the_image_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FATHOM_LOCAL_HOME", "/opt/fathom")
    assert TrainedModel().cache == Path("/opt/fathom/models")
    monkeypatch.delenv("FATHOM_LOCAL_HOME")
    assert TrainedModel().cache == Path(".fathom/models")
