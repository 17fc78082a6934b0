"""The sections of a training's settings. Names are verl's where it has them; lengths are in tokens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from fathom.config import Settings


class DataConfig(Settings):
    """Prompts and how groups are filtered."""

    train_files: tuple[Path, ...] = ()
    """Parquet files of SR33's schema; empty where a loop brings its own tasks."""
    val_files: tuple[Path, ...] = ()
    """The same for validation."""
    prompt_key: str = "prompt"
    """Column that holds the chat."""
    max_prompt_length: int = Field(default=1024, ge=1)
    """Longest prompt."""
    max_response_length: int = Field(default=512, ge=1)
    """Longest response, all turns together."""
    train_batch_size: int = Field(default=64, ge=1)
    """Prompts per step."""
    val_batch_size: int | None = Field(default=None, ge=1)
    """Prompts per validation batch; None is all of them."""
    shuffle: bool = True
    """Draw prompts in an order that ``seed`` decides."""
    seed: int = 7
    """Seed of that order."""
    truncation: Literal["error", "left", "right"] = "error"
    """What happens to a prompt that is too long and is not filtered."""
    filter_overlong_prompts: bool = True
    """Leave too long prompts out."""
    return_raw_chat: bool = False
    """Give the messages beside their ids."""
    oversample_factor: float = Field(default=1.0, ge=1)
    """Prompts drawn per prompt trained on (PRIME: 4.0)."""
    filter_accuracy: bool = False
    """Prefer groups whose mean outcome lies within the bounds."""
    accuracy_lower_bound: float = Field(default=0.2, ge=0, le=1)
    """Inclusive."""
    accuracy_upper_bound: float = Field(default=0.8, ge=0, le=1)
    """Inclusive."""
    filter_truncate: bool = False
    """Prefer groups without a truncated response."""
    stable_sort: bool = True
    """Groups of one kind keep their order; False is the recipe's parity, where any order may come out."""


class ModelConfig(Settings):
    """The model to train."""

    path: str = "tiny"
    """A folder of safetensors with its tokenizer, "smollm2", or "tiny"."""
    cache: Path = Field(default_factory=lambda: Path(os.environ.get("FATHOM_LOCAL_HOME", ".fathom")) / "models")
    """Where a model that comes as a package is unpacked; an image that has it unpacked says so in FATHOM_LOCAL_HOME."""
    name: str = "tiny"
    """Name under which policy serves it."""
    hidden: int = Field(default=64, ge=8)
    """Width of the tiny model."""
    layers: int = Field(default=2, ge=1)
    """Its layers."""
    window: int = Field(default=256, ge=32)
    """Its positions."""
    vocabulary: tuple[str, ...] = ()
    """Its words."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the forward pass; parameters and optimiser stay float32."""
    enable_gradient_checkpointing: bool = False
    """Recompute activations in the backward pass."""
    lora_rank: int = Field(default=0, ge=0)
    """0 trains all parameters."""
    lora_alpha: float = Field(default=16.0, gt=0)
    """Scale of the adapter is alpha / rank."""
    lora_targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    """Modules that get an adapter."""


class RolloutConfig(Settings):
    """What planner is asked for."""

    n: int = Field(default=4, ge=1, le=64)
    """Episodes per prompt."""
    protocol: Literal["search_r1", "research"] = "search_r1"
    """Tags, or production's agent with its tools."""
    mode: Literal["sync", "async"] = "sync"
    """A barrier per step, or a queue with bounded staleness."""
    transport: Literal["stream", "queue"] = "stream"
    """One stream per request, or planner's durable queue, whose tasks any planner takes and plays to the end."""
    staleness: int = Field(default=0, ge=0)
    """Most versions that a trained sample may be behind; 0 is on-policy."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling; log-probabilities are taken at the same."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus; 1 is off."""
    max_tokens: int = Field(default=512, ge=1)
    """Longest completion of one turn."""
    max_turns: int = Field(default=2, ge=1)
    """Rounds with tools; Search-R1 adds a last one without."""
    max_start_length: int = Field(default=2048, ge=1)
    """Search-R1: what is kept of the prompt."""
    max_obs_length: int = Field(default=500, ge=1)
    """Longest observation."""
    tools: tuple[str, ...] = ()
    """Tools of the research protocol; empty is all."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Longest rollout of one step in seconds."""
    val_temperature: float = Field(default=0.0, ge=0)
    """0 is greedy."""
    importance_cap: float | None = Field(default=None, gt=0)
    """Truncation of the rollout importance weight; None leaves it off."""
    group_versions: Literal["single", "weighted"] = "single"
    """Async: groups of several versions are begun anew, or trained on with importance weights."""
    max_restarts: int = Field(default=4, ge=0)
    """Async: how often a group that got too old is begun anew before the step waits for it."""
    concurrency: int = Field(default=0, ge=0)
    """Episodes in flight at once; 0 leaves it to planner."""
    episodes_per_s: float = Field(default=0.0, ge=0)
    """Episodes that are begun per second at most; 0 sets no limit."""
    attempts: int = Field(default=5, ge=1)
    """Attempts without progress before a rollout counts as failed."""
    final_turn: bool = True
    """Search-R1: a last round without search after ``max_turns``."""
    stop: tuple[str, ...] = ()
    """Strings that end a completion; empty is the protocol's own."""
    system_prompt: str = ""
    """Search-R1: instead of the protocol's instruction."""
    publish_lanes: tuple[Literal["interactive", "evaluation", "training"], ...] = ()
    """Lanes that new weights serve; empty is all."""
    publish_timeout_s: float = Field(default=120.0, gt=0)
    """How long policy may take to serve new weights."""
    record: bool = True
    """Keep each batch under the output folder, to be trained on again."""
    replay: Path | None = None
    """Folder of such records: train on these instead of new episodes."""


class RetrieverConfig(Settings):
    """Search of ``trainers.search_r1``'s own rollout loop; planner's rollouts have their own."""

    url: str | None = None
    """POST /retrieve of retrieval, the whole URL."""
    topk: int = Field(default=3, ge=1)
    """Passages per search."""


class RewardConfig(Settings):
    """How an episode is graded by the reward service."""

    manager: Literal["service", "prime", "search_r1"] = "service"
    """The service's graders while episodes are played; or, of episodes that come ungraded, PRIME's pool of verifiers
    or Search-R1's exact match, which read what was written between answer tags."""
    grader: str = "search_r1"
    """Its name; "own" takes each prompt's own, from its ``extra_info``."""
    parameters: dict[str, float] = Field(default_factory=dict)
    """Parameters of the grader."""
    format_score: float = Field(default=0.0, ge=0, le=1)
    """Reward of a wrong but well-formed answer, by the manager ``search_r1``."""
    parity_answer_extraction: bool = False
    """Manager ``search_r1``: read answers from prompt and response together, as the original does. Then a response
    without an answer is scored as if it had given the instruction's example."""
    num_examine: int = Field(default=0, ge=0)
    """Samples per data source that are printed."""
    timeout_s: float = Field(default=60.0, gt=0)
    """Longest grading of a batch in seconds."""


class AlgorithmConfig(Settings):
    """Advantages and KL in the reward."""

    adv_estimator: Literal["gae", "grpo", "rloo"] = "grpo"
    """How rewards become advantages."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount per model token."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """GAE's lambda."""
    norm_adv_by_std_in_grpo: bool = True
    """False is Dr. GRPO."""
    use_kl_in_reward: bool = False
    """Subtract KL from token rewards."""
    kl_penalty: Literal["kl", "abs", "mse", "low_var_kl"] = "kl"
    """Its estimator."""
    kl_ctrl: Literal["fixed", "adaptive"] = "fixed"
    """Its controller."""
    kl_coef: float = Field(default=0.001, ge=0)
    """Its first coefficient."""
    kl_target: float = Field(default=0.1, gt=0)
    """What the adaptive one aims at."""
    kl_horizon: float = Field(default=10_000, gt=0)
    """How slowly it moves, in rows."""
    reward_dpo_coef: float = Field(default=5.0, ge=0)
    """Weight of the implicit rewards (PRIME)."""
    reward_gt_coef: float = Field(default=5.0, ge=0)
    """Weight of the outcome (PRIME)."""
    bypass_mode: bool = False
    """Take the rollout's own log-probabilities for the old ones: for episodes that span versions. No pass is made to
    recompute them; ``mismatch/*`` then comes from the update's first pass, of the rows of its first mini-batch. What
    sampler and learner disagree on counts as a change of policy here: a learner of ``model.dtype: bfloat16`` beside a
    sampler in float32 has tokens outside the clip range before any step. A training with more than 2 % of them is
    warned: take float32, or ``bypass_mode: false`` with ``rollout.importance_cap``."""
    no_think_rl: bool = False
    """Search-R1: keep only the action's text."""
    state_masking: bool = True
    """No loss on observation tokens; False is for the ablation."""


class TrainerConfig(Settings):
    """The loop: how long, what is kept, where it runs."""

    total_epochs: int = Field(default=1, ge=1)
    """Passes over the prompts."""
    total_training_steps: int | None = Field(default=None, ge=1)
    """Cap on steps; None leaves it to the epochs."""
    critic_warmup: int = Field(default=0, ge=0)
    """First steps in which only the critic learns."""
    test_freq: int = Field(default=10, ge=0)
    """Steps between validations; 0 validates at the end."""
    val_before_train: bool = True
    """Validate the start too."""
    save_freq: int = Field(default=20, ge=0)
    """Steps between checkpoints; 0 saves at the end."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """How many stay."""
    resume_mode: Literal["disable", "auto", "resume_path"] = "auto"
    """Go on from the latest, from ``resume_path``, or not."""
    resume_path: str | None = Field(default=None, coerce_numbers_to_str=True)
    """Step of the checkpoint to go on from."""
    world_size: int = Field(default=1, ge=1)
    """Ranks of each learner; 1 runs in this process unless ``use_ray``."""
    use_ray: bool = False
    """Learners are Ray actors."""
    schedule_timeout_s: float = Field(default=120.0, gt=0)
    """How long Ray may take to place them."""
    collective_timeout_s: float = Field(default=1800.0, gt=0)
    """How long a rank may wait for the others."""
    strategy: Literal["fsdp2", "replicate"] = "fsdp2"
    """Several ranks divide parameters, gradients and moments among them, or each has a copy."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where learners run."""
    seed: int = 7
    """Seed of weights, order and sampling."""
    loggers: tuple[Literal["console", "jsonl", "tensorboard", "mlflow"], ...] = ("console", "jsonl")
    """Where metrics go."""
    output: Path = Path(".fathom/training/run")
    """Folder of settings, metrics and the report."""

    @model_validator(mode="after")
    def path_is_given(self) -> Self:
        if self.resume_mode == "resume_path" and not self.resume_path:
            raise ValueError("resume_mode: resume_path needs resume_path")
        return self


class CollapseConfig(Settings):
    """When a training counts as collapsed; each bound is on the mean of ``window`` steps, None leaves it out."""

    enable: bool = True
    """Watch; what is not finite ends a training in any case."""
    window: int = Field(default=5, ge=1)
    """Steps that a mean is taken over."""
    patience: int = Field(default=5, ge=1)
    """Consecutive suspicious steps that end the training."""
    entropy_floor: float | None = Field(default=None, ge=0)
    """Nats per token; a policy that has learnt a short answer may well be certain, so it is off by default."""
    entropy_ceiling: float | None = Field(default=8.0, gt=0)
    """Nats per token; near the logarithm of the vocabulary's size it is noise."""
    kl_ceiling: float | None = Field(default=2.0, gt=0)
    """Nats per token."""
    length_share: float | None = Field(default=0.1, gt=0, lt=1)
    """Responses shorter than this share of their first length."""
    invalid_ceiling: float | None = Field(default=0.9, gt=0, le=1)
    """Share of rounds without a valid action, once it has been lower."""
    reward_share: float | None = Field(default=0.3, gt=0, lt=1)
    """Reward below this share of its best."""


class InterpreterConfig(Settings):
    """GRPO of the code interpreter: rewards of the cells that an episode ran (rows T02 to T07)."""

    style_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of functional style."""
    length_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of the functions' length."""
    hack_weight: float = Field(default=0.5, ge=0, le=1)
    """What a cell with a hack flag loses."""
    task_weight: float = Field(default=0.5, ge=0)
    """Weight of the answer's score, for tasks that have an answer."""
    answer_grader: str = "number"
    """Grader of that score."""
    cost_per_call: float = Field(default=0.01, ge=0)
    """What each cell costs."""
    normalise: Literal["total", "components"] = "total"
    """Compare episodes by their whole reward (GRPO), or each component by itself (GDPO)."""
    length_share: float = Field(default=0.5, gt=0, lt=1)
    """Code shorter than this share of its first length, while the reward rises, ends the training (T07)."""
