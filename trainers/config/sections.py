"""Settings sections of a training run. Names follow verl where it has them; lengths are in tokens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from fathom.core.config import Settings


class DataConfig(Settings):
    """Prompt data, and filtering of groups."""

    train_files: tuple[Path, ...] = ()
    """Parquet files in the schema of ``trainers.data.records``; empty trains on a small built-in task."""
    val_files: tuple[Path, ...] = ()
    """Parquet files for validation."""
    held_files: tuple[Path, ...] = ()
    """Questions of evaluations, as JSON Lines or a line each; a training whose rows hold one is refused.

    A row holds a question that it has whole, or with 70 % of its runs of five words.
    """
    prompt_key: str = "prompt"
    """Column holding the chat."""
    max_prompt_length: int = Field(default=1024, ge=1)
    """Maximum prompt length."""
    max_response_length: int = Field(default=512, ge=1)
    """Length from which a response counts as cut off, in metrics and in PRIME's filter, all turns together.

    What bounds an episode are ``rollout.max_turns`` and ``rollout.max_tokens``.
    """
    train_batch_size: int = Field(default=64, ge=1)
    """Prompts per step."""
    val_batch_size: int | None = Field(default=None, ge=1)
    """Prompts per validation batch; None is all of them."""
    shuffle: bool = True
    """Shuffle prompts in an order determined by ``seed``."""
    seed: int = 7
    """Seed of that order."""
    truncation: Literal["error", "left", "right"] = "error"
    """Of verl's files; nothing here reads it: the planner refuses a prompt that does not fit its window."""
    filter_overlong_prompts: bool = True
    """Of verl's files; nothing here reads it, see ``truncation``."""
    return_raw_chat: bool = False
    """Of verl's files; nothing here reads it: prompts are always messages."""
    oversample_factor: float = Field(default=1.0, ge=1)
    """Prompts drawn per prompt trained on (PRIME: 4.0)."""
    filter_accuracy: bool = False
    """Prefer groups whose mean outcome lies within the bounds below."""
    accuracy_lower_bound: float = Field(default=0.2, ge=0, le=1)
    """Lower bound, inclusive."""
    accuracy_upper_bound: float = Field(default=0.8, ge=0, le=1)
    """Upper bound, inclusive."""
    filter_truncate: bool = False
    """Prefer groups without a truncated response."""
    refill_draws: int = Field(default=0, ge=0)
    """Further draws of prompts in a step, at most, to replace groups whose scores are all equal (DAPO's dynamic
    sampling). What is still missing then is filled with such groups; 0 trains on every group.
    """
    stable_sort: bool = True
    """Keep the order of equally ranked groups; False matches the public PRIME recipe, whose order is undefined."""


class ModelConfig(Settings):
    """The model to train."""

    path: str = "tiny"
    """A folder with safetensors and tokenizer, "smollm2", or "tiny"."""
    cache: Path = Field(default_factory=lambda: Path(os.environ.get("FATHOM_LOCAL_HOME", ".fathom")) / "models")
    """Folder into which packaged models are unpacked; an image with unpacked models points FATHOM_LOCAL_HOME there."""
    name: str = "tiny"
    """Name under which the policy service serves the model."""
    hidden: int = Field(default=64, ge=8)
    """Width of the tiny model."""
    layers: int = Field(default=2, ge=1)
    """Number of layers of the tiny model."""
    window: int = Field(default=256, ge=32)
    """Context length of the tiny model."""
    vocabulary: tuple[str, ...] = ()
    """Words known to the tiny model."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the forward pass; parameters and optimiser stay float32."""
    enable_gradient_checkpointing: bool = False
    """Recompute activations in the backward pass."""
    lora_rank: int = Field(default=0, ge=0)
    """Rank of the LoRA adapters; 0 trains all parameters."""
    lora_alpha: float = Field(default=16.0, gt=0)
    """LoRA alpha: adapters are scaled by alpha / rank."""
    lora_targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    """Modules that get an adapter."""
    lora_publish: Literal["merged", "adapter"] = "merged"
    """Publish whole weights with the adapter merged, or after the first time the adapter alone, which is a version of
    its own; policy's engine adds it to the weights that it has (vLLM where its ``lora_rank`` allows it).
    """


class RolloutConfig(Settings):
    """Rollout requests to the planner."""

    n: int = Field(default=4, ge=1, le=64)
    """Episodes per prompt."""
    source: Literal["planner", "in_process"] = "planner"
    """Player of the episodes: the planner service, or Search-R1's own loop over a copy of the model in this process and
    over ``retriever``. The latter reads prompts as the data have them, so these must hold the instruction.
    """
    protocol: Literal["search_r1", "research", "workflow", "auto"] = "search_r1"
    """Search-R1's tags, production's agent with its tools, its fixed workflow, or the one to which production would
    route each question.
    """
    effort: Literal["", "quick", "standard", "deep"] = ""
    """Production's limits of rounds, tokens, time and window, and its thought; "" takes ``max_turns`` and
    ``max_tokens`` instead.
    """
    mode: Literal["sync", "async"] = "sync"
    """Synchronous steps, or an asynchronous queue with bounded staleness."""
    transport: Literal["stream", "queue"] = "stream"
    """One stream per request, or the planner's durable queue, whose tasks any planner replica can play to the end."""
    staleness: int = Field(default=0, ge=0)
    """Maximum age of a trained sample in policy versions; 0 is on-policy."""
    ahead: int = Field(default=0, ge=0)
    """Async: batches of prompts under way before their step; 0 takes ``staleness``. One more keeps the places busy
    while long groups end, at the price of more groups begun anew."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature; log-probabilities use the same."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling; 1 disables it."""
    max_tokens: int = Field(default=512, ge=1)
    """Maximum length of one turn's completion; an ``effort`` sets it otherwise."""
    max_turns: int = Field(default=2, ge=1)
    """Maximum rounds with tools; Search-R1 adds a final one without. An ``effort`` sets it otherwise."""
    max_start_length: int = Field(default=2048, ge=1)
    """Search-R1: length of the prompt kept."""
    max_obs_length: int = Field(default=500, ge=1)
    """Maximum length of an observation."""
    tools: tuple[str, ...] = ()
    """Tools of the research protocol; empty means all."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Time limit for the rollouts of one step, in seconds."""
    val_temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature of validation; 0 is greedy."""
    importance_cap: float | None = Field(default=None, gt=0)
    """Upper bound of the rollout importance weight; None disables it."""
    importance_floor: float = Field(default=0.0, ge=0)
    """Lower bound of that weight."""
    importance_level: Literal["token", "sequence"] = "token"
    """Weight of each token, or the product over a row's trained tokens for all of them."""
    importance_mode: Literal["truncate", "mask"] = "truncate"
    """Move a weight outside the bounds to the nearer one (TIS), or leave it out (MIS; with both bounds IcePop)."""
    group_versions: Literal["single", "weighted"] = "single"
    """Async: restart groups sampled by several versions, or train on them with importance weights."""
    max_restarts: int = Field(default=4, ge=0)
    """Async: number of restarts of a stale group before the step waits for it."""
    concurrency: int = Field(default=0, ge=0)
    """Maximum episodes in flight; 0 leaves it to the planner."""
    episodes_per_s: float = Field(default=0.0, ge=0)
    """Maximum rate of episode starts per second; 0 is unlimited."""
    attempts: int = Field(default=5, ge=1)
    """Consecutive attempts without progress before a rollout fails, and at least a minute without any."""
    final_turn: bool = True
    """Search-R1: add a final round without search after ``max_turns``."""
    stop: tuple[str, ...] = ()
    """Strings that end a completion; empty uses the protocol's own."""
    system_prompt: str = ""
    """Search-R1: replaces the protocol's instruction."""
    instruction_file: Path | None = None
    """Search-R1: text file that replaces the first message, with {question} in the place of the question, so that a
    checkpoint of elsewhere is shown what it was trained with.
    """
    invalid_action_file: Path | None = None
    """Search-R1: text file that replaces what the model is told after a text without an action."""
    publish_lanes: tuple[Literal["interactive", "evaluation", "training"], ...] = ()
    """Lanes that new weights serve; empty means all."""
    publish_timeout_s: float = Field(default=600.0, gt=0)
    """Time limit for the policy service to serve new weights, in seconds."""
    weights_transport: Literal["auto", "shared_memory", "store"] = "auto"
    """Way of new weights to policy: from memory that its machine shares with the first rank, where it takes them from
    there, and by the object store otherwise; always from memory, or else fail; or by the store alone.
    """
    shared_memory_gb: float = Field(default=8.0, gt=0, allow_inf_nan=False)
    """Memory for these weights, in GiB: the version that serves and the one being published."""
    shared_memory_dir: Path | None = None
    """Folder where policy looks for them, its ``shared_memory_dir``; None is ``fathom-<user id>`` in the temporary
    folder.
    """
    record: bool = True
    """Record each batch in the output folder, for replay."""
    replay: Path | None = None
    """Folder of recorded batches to train on instead of sampling new episodes."""


class RetrieverConfig(Settings):
    """Search of ``rollout.source=in_process``; the planner's rollouts have their own."""

    url: str | None = None
    """Full URL of the retrieval service's POST /retrieve."""
    topk: int = Field(default=3, ge=1)
    """Passages per search."""


class RewardConfig(Settings):
    """Grading of episodes."""

    manager: Literal["service", "prime", "search_r1"] = "service"
    """"service": the reward service grades during rollouts. Otherwise episodes arrive ungraded and are scored by
    PRIME's pool of verifiers, or by Search-R1's exact match on the text between answer tags.
    """
    grader: str = "search_r1"
    """Name of the grader; "own" uses the one named in each prompt's ``extra_info``."""
    parameters: dict[str, float] = Field(default_factory=dict)
    """Parameters of the grader."""
    format_score: float = Field(default=0.0, ge=0, le=1)
    """Manager ``search_r1``: reward of a wrong but well-formed answer."""
    parity_answer_extraction: bool = False
    """Manager ``search_r1``: extract answers from prompt and response together, as the original does. Then a response
    without an answer is scored as if it had given the instruction's example.
    """
    num_examine: int = Field(default=0, ge=0)
    """Number of samples printed per data source."""
    timeout_s: float = Field(default=60.0, gt=0)
    """Time limit for grading a batch, in seconds."""


class AlgorithmConfig(Settings):
    """Advantage estimation, and KL in the reward."""

    adv_estimator: Literal["gae", "grpo", "rloo", "reinforce", "gdpo"] = "grpo"
    """Advantage estimator: with a critic, against the group's mean, leave-one-out, the discounted return itself, or
    against the group's mean for each reward component.
    """
    whiten_advantages: bool = False
    """Normalise over all tokens of the batch at the end: with ``reinforce`` this is REINFORCE++, with ``grpo`` and
    without ``norm_adv_by_std_in_grpo`` its baseline form. ``gae`` and ``gdpo`` always do so.
    """
    gdpo_components: tuple[str, ...] = ()
    """Names of the reward components of ``gdpo``, as the grader gives them."""
    gdpo_weights: tuple[float, ...] = ()
    """Weight of each of them after normalisation; empty weighs all alike."""
    overlong_share: float = Field(default=0.0, ge=0, le=1)
    """Share of ``data.max_response_length``, at its end, over which the punishment of an episode's length grows (DAPO);
    0 disables it. Only what the model wrote counts, over all rows of an episode.
    """
    overlong_penalty: float = Field(default=1.0, gt=0)
    """Punishment at ``data.max_response_length`` and beyond."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount per model token."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """GAE's lambda."""
    norm_adv_by_std_in_grpo: bool = True
    """Divide GRPO advantages by the group's standard deviation; False is Dr. GRPO."""
    use_kl_in_reward: bool = False
    """Subtract a KL penalty from token rewards."""
    kl_penalty: Literal["kl", "abs", "mse", "low_var_kl"] = "kl"
    """Estimator of that penalty."""
    kl_ctrl: Literal["fixed", "adaptive"] = "fixed"
    """Controller of its coefficient."""
    kl_coef: float = Field(default=0.001, ge=0)
    """Initial coefficient."""
    kl_target: float = Field(default=0.1, gt=0)
    """Target KL of the adaptive controller."""
    kl_horizon: float = Field(default=10_000, gt=0)
    """Horizon of the adaptive controller, in rows; larger is slower."""
    reward_dpo_coef: float = Field(default=5.0, ge=0)
    """Weight of the implicit rewards (PRIME)."""
    reward_gt_coef: float = Field(default=5.0, ge=0)
    """Weight of the outcome (PRIME)."""
    bypass_mode: bool = False
    """Use the rollout's log-probabilities as the old ones, for episodes that span policy versions. They are not
    recomputed;
    ``mismatch/*`` is then measured in the update's first pass, on the rows of its first mini-batch. Any disagreement
    between sampler and learner counts as a policy change here: with a learner of ``model.dtype: bfloat16`` and a
    sampler in float32, some tokens are outside the clip range before any step. A warning is given when more than 2 %
    are: use float32, or ``bypass_mode: false`` with ``rollout.importance_cap``.
    """
    old_log_probs: Literal["recomputed", "update"] = "recomputed"
    """Source of the policy's log-probabilities before its update: a forward pass of their own, or with
    ``update`` the update's own pass, before which nothing has changed. The same ratios for a quarter less work, where a
    step makes one update; ``mismatch/*`` is then measured in that pass, and ``actor/entropy`` is not.
    """
    no_think_rl: bool = False
    """Search-R1: keep only the action's text."""
    state_masking: bool = True
    """Mask observation tokens out of the loss; False is for the ablation."""


class TrainerConfig(Settings):
    """The training loop: length, checkpoints, placement."""

    total_epochs: int = Field(default=1, ge=1)
    """Passes over the prompts."""
    total_training_steps: int | None = Field(default=None, ge=1)
    """Maximum number of steps; None is limited by the epochs only."""
    critic_warmup: int = Field(default=0, ge=0)
    """Number of initial steps in which only the critic is trained."""
    test_freq: int = Field(default=10, ge=0)
    """Steps between validations; 0 validates at the end only."""
    val_before_train: bool = True
    """Also validate before the first step."""
    save_freq: int = Field(default=20, ge=0)
    """Steps between checkpoints; 0 saves at the end only."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """Number of checkpoints retained."""
    resume_mode: Literal["disable", "auto", "resume_path"] = "auto"
    """Resume from the latest checkpoint, from ``resume_path``, or not at all."""
    resume_path: str | None = Field(default=None, coerce_numbers_to_str=True)
    """Step of the checkpoint to resume from."""
    resume_changed: bool = False
    """Go on from the checkpoint of a training with other settings, which is refused otherwise."""
    world_size: int = Field(default=1, ge=1)
    """Number of ranks of each learner; 1 runs in this process unless ``use_ray``."""
    use_ray: bool = False
    """Run learners as Ray actors."""
    colocate_roles: bool = True
    """Let all learners live on the same ranks, in which they take turns; False gives each role ranks of its own."""
    schedule_timeout_s: float = Field(default=120.0, gt=0)
    """Time limit for Ray to place the learners, in seconds."""
    learner_restarts: int = Field(default=3, ge=0)
    """Times that learners of which a rank has died are built anew, with the last checkpoint; ``resume_mode`` other than
    "auto" allows none.
    """
    collective_timeout_s: float = Field(default=1800.0, gt=0)
    """Time limit for a rank to wait for the others, in seconds."""
    strategy: Literal["fsdp2", "replicate"] = "fsdp2"
    """Shard parameters, gradients and moments over ranks, or replicate them."""
    cpu_offload: bool = False
    """Keep shards and moments in the memory of the CPU, where the optimiser then runs; layers come to the device while
    they are computed.
    """
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the learners."""
    seed: int = 7
    """Seed of weights, order and sampling."""
    loggers: tuple[Literal["console", "jsonl", "tensorboard", "mlflow", "wandb"], ...] = ("console", "jsonl")
    """Metric loggers; those of services write into ``output`` unless their own environment names one."""
    samples: int = Field(default=4, ge=0, le=16)
    """Rows of a step that the report shows token by token, of at most 64 steps of a training; 0 keeps none."""
    output: Path = Path(".fathom/training/run")
    """Folder for settings, metrics and the report."""

    @model_validator(mode="after")
    def path_is_given(self) -> Self:
        if self.resume_mode == "resume_path" and not self.resume_path:
            raise ValueError("resume_mode: resume_path needs resume_path")
        return self


class CollapseConfig(Settings):
    """Bounds of collapse detection; each applies to the mean of ``window`` steps, None disables it."""

    enable: bool = True
    """Check the bounds; a metric that is not finite ends a training in any case."""
    window: int = Field(default=5, ge=1)
    """Number of steps averaged."""
    patience: int = Field(default=5, ge=1)
    """Number of consecutive suspicious steps that ends the training."""
    entropy_floor: float | None = Field(default=None, ge=0)
    """Minimum entropy in nats per token.

    Off by default, since a policy that has learned a short answer may be certain.
    """
    entropy_ceiling: float | None = Field(default=8.0, gt=0)
    """Maximum entropy in nats per token; near the logarithm of the vocabulary size the policy is noise."""
    kl_ceiling: float | None = Field(default=2.0, gt=0)
    """Maximum KL in nats per token."""
    length_share: float | None = Field(default=0.1, gt=0, lt=1)
    """Minimum response length, as a share of its first value."""
    invalid_ceiling: float | None = Field(default=0.9, gt=0, le=1)
    """Maximum share of rounds without a valid action, once it has been lower."""
    reward_share: float | None = Field(default=0.3, gt=0, lt=1)
    """Minimum reward, as a share of its best value."""


class InterpreterConfig(Settings):
    """GRPO of the code interpreter: rewards for the cells that an episode ran."""

    style_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of functional style."""
    length_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of the functions' length."""
    hack_weight: float = Field(default=0.5, ge=0, le=1)
    """Penalty of a cell flagged as reward hacking."""
    task_weight: float = Field(default=0.5, ge=0)
    """Weight of the answer's score, for tasks that have an answer."""
    answer_grader: str = "number"
    """Grader of the answer."""
    cost_per_call: float = Field(default=0.01, ge=0)
    """Penalty per cell."""
    normalise: Literal["total", "components"] = "total"
    """Normalise the total reward within a group (GRPO), or each component separately (GDPO)."""
    length_share: float = Field(default=0.5, gt=0, lt=1)
    """End the training when code becomes shorter than this share of its first length while the reward rises."""
