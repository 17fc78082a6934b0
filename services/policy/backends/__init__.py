"""Inference engines behind one interface (``services.policy.model.Backend``), imported lazily."""

from __future__ import annotations

from pathlib import Path

from services.policy.config import ModelConfig, OpenAIModel, RulesModel, VllmModel
from services.policy.model import Backend


def open_backend(name: str, config: ModelConfig, cache_dir: Path) -> Backend:
    """Create the backend of a model without loading it; raise ``MissingExtra`` when its packages are not installed."""
    if isinstance(config, RulesModel):
        from services.policy.backends.rules.backend import RulesBackend

        return RulesBackend(name, config)
    if isinstance(config, OpenAIModel):
        from services.policy.backends.openai import OpenAIBackend

        return OpenAIBackend(name, config)
    if isinstance(config, VllmModel):
        from services.policy.backends.vllm.backend import VllmBackend

        return VllmBackend(name, config, cache_dir)
    from services.policy.backends.transformers.backend import TransformersBackend

    return TransformersBackend(name, config, cache_dir)
