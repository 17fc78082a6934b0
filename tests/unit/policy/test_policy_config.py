"""Settings: discriminated by engine, closed to unknown keys, readable from the environment."""

import json

import pytest

from fathom.core.config import ConfigError, load
from fathom.services.policy.config import Config, OpenAIModel, RulesModel, TransformersModel


def test_defaults_serve_without_a_key() -> None:
    config = Config()
    assert isinstance(config.models["rules"], RulesModel)
    assert isinstance(config.models["smollm2"], TransformersModel)
    assert config.default_model == "rules"


def test_models_come_from_the_environment() -> None:
    models = {"deepseek": {"engine": "openai", "model": "deepseek-chat", "base_url": "http://x/v1", "api_key_env": ""}}
    environ = {"FATHOM_POLICY_MODELS": json.dumps(models), "FATHOM_POLICY_DEFAULT_MODEL": "deepseek"}
    config = load(Config, "policy", environ=environ)
    assert isinstance(config.models["deepseek"], OpenAIModel)


@pytest.mark.parametrize(
    "overrides",
    [
        {"default_model": "none"},
        {"models": {"m": {"engine": "unknown"}}},
        {"models": {"m": {"engine": "rules", "surprise": 1}}},
        {"models": {"m": {"engine": "openai", "base_url": "http://x"}}},
        {"models": {"m": {"engine": "rules", "running": 0}}},
    ],
)
def test_wrong_settings_are_refused(overrides: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        load(Config, "policy", environ={}, overrides=overrides)
