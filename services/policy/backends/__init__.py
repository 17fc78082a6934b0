"""Inference engines behind one interface (``fathom.services.policy.model.Backend``), imported lazily."""

from __future__ import annotations

from pathlib import Path

from fathom.services.policy.config import ModelConfig, OpenAIModel, ReadingModel, RulesModel, VllmModel
from fathom.services.policy.model import Backend


def open_backend(name: str, config: ModelConfig, cache_dir: Path) -> Backend:
    """Create the backend of a model without loading it; raise ``MissingExtra`` when its packages are not installed."""
    # Each import brings the engine's libraries, of which an installation usually has one; so only the wanted one is
    # made.
    # Before the rules, of whose settings it has all.
    if isinstance(config, ReadingModel):
        from fathom.services.policy.backends.reading.backend import ReadingBackend

        return ReadingBackend(name, config, cache_dir)
    if isinstance(config, RulesModel):
        from fathom.services.policy.backends.rules.backend import RulesBackend

        return RulesBackend(name, config, cache_dir)
    if isinstance(config, OpenAIModel):
        from fathom.services.policy.backends.openai.backend import OpenAIBackend

        return OpenAIBackend(name, config)
    if isinstance(config, VllmModel):
        from fathom.services.policy.backends.vllm.backend import VllmBackend

        return VllmBackend(name, config, cache_dir)
    from fathom.services.policy.backends.transformers.backend import TransformersBackend

    return TransformersBackend(name, config, cache_dir)
