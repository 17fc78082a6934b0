"""Readers of each setting: one that the chosen algorithm and source do not read is refused by name.

A setting that is taken and ignored looks like one that has been tried. The table names the module that reads it; a test
looks it up there, and ``docs/settings.md`` is generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.core.config import ConfigError
from fathom.trainers.config.tree import TrainConfig

FROM_FILES = ("sft", "dpo")
NOBODY = "nobody"
Applies = Callable[[str, TrainConfig], bool]


@dataclass(frozen=True)
class Reader:
    """A module below ``trainers`` that reads settings, when ``applies``; ``when`` says so in words."""

    module: str
    settings: tuple[str, ...]
    when: str = ""
    applies: Applies = lambda name, config: True


def plays(name: str, config: TrainConfig) -> bool:
    """Return whether episodes are played or replayed, which SFT and DPO do without."""
    return name not in FROM_FILES


def asks_planner(name: str, config: TrainConfig) -> bool:
    """Return whether the planner plays the episodes, or has played those that are replayed.

    A replay is started with the settings of the training that was recorded: they are no mistake there.
    """
    return plays(name, config) and config.rollout.source == "planner"


def plays_in_process(name: str, config: TrainConfig) -> bool:
    return plays(name, config) and config.rollout.source == "in_process"


def plays_unfiltered(name: str, config: TrainConfig) -> bool:
    """Return whether a step trains on the groups as drawn, not on those that PRIME's own filter prefers."""
    return plays(name, config) and name != "prime"


def has_planner_grade(name: str, config: TrainConfig) -> bool:
    """Return whether the planner has episodes graded while it plays them."""
    is_graded_later = name in ("brpo", "interpreter") or config.reward.manager != "service"
    return asks_planner(name, config) and not is_graded_later


def is_ahead(name: str, config: TrainConfig) -> bool:
    return plays(name, config) and config.rollout.mode == "async"


def has_critic(name: str, config: TrainConfig) -> bool:
    return plays(name, config) and config.algorithm.adv_estimator == "gae" and name != "prime"


def is_named(*names: str) -> Applies:
    return lambda name, config: name in names


def trains_on_ray(name: str, config: TrainConfig) -> bool:
    return plays(name, config) and (config.trainer.use_ray or config.trainer.world_size > 1)


def penalises_kl(name: str, config: TrainConfig) -> bool:
    return plays(name, config) and config.algorithm.use_kl_in_reward


def weighs_samples(name: str, config: TrainConfig) -> bool:
    return plays(name, config) and config.rollout.importance_cap is not None and not config.algorithm.bypass_mode


def estimates(name: str, config: TrainConfig) -> bool:
    """Return whether ``algorithm.adv_estimator`` alone makes advantages of rewards."""
    by_components = name == "interpreter" and config.interpreter.normalise == "components"
    return plays(name, config) and name not in ("prime", "brpo") and not by_components


def below(section: str, names: str) -> tuple[str, ...]:
    return tuple(f"{section}.{name}" for name in names.split())


OPTIM = "lr weight_decay betas lr_scheduler_type lr_warmup_steps lr_warmup_steps_ratio min_lr_ratio grad_clip"
BATCHING = "use_dynamic_bsz ppo_max_token_len_per_gpu"
READERS: tuple[Reader, ...] = (
    Reader("jobs/launch.py", below("data", "train_files val_files prompt_key shuffle seed"), "RL", plays),
    Reader("jobs/launch.py", ("data.held_files",)),
    Reader("algorithms/sft.py", below("data", "shuffle seed train_batch_size"), "sft, dpo", is_named(*FROM_FILES)),
    Reader("algorithms/sft.py", below("data", "train_files val_files"), "sft", is_named("sft")),
    Reader("algorithms/dpo.py", below("data", "train_files val_files"), "dpo", is_named("dpo")),
    Reader("algorithms/algorithm.py", below("data", "train_batch_size max_response_length"), "RL except prime",
           plays_unfiltered),
    Reader("algorithms/validation.py", below("data", "val_batch_size"), "RL", plays),
    Reader("search_r1/generation_config.py", below("data", "max_prompt_length")
           + below("rollout", "max_start_length max_obs_length") + ("algorithm.no_think_rl",)
           + below("retriever", "url topk"), "rollout.source in_process", plays_in_process),
    Reader("prime/prime_ray_trainer.py", below("data", "train_batch_size max_response_length"
           " oversample_factor filter_accuracy accuracy_lower_bound"
           " accuracy_upper_bound filter_truncate stable_sort") + below("algorithm", "reward_dpo_coef reward_gt_coef")
           + below("reward_model", "enable update"), "prime", is_named("prime")),
    Reader("prime/prime_dp_rm.py", below("reward_model", "loss_type bon_reduction beta_train lambda prime_use_gt"
           " prime_granularity include_last_token prime_norm norm_scope mini_batch_size micro_batch_size_per_gpu"
           " use_dynamic_bsz max_token_len_per_gpu") + below("reward_model.optim", "lr weight_decay betas grad_clip"),
           "prime", is_named("prime")),
    Reader("learners/stepping.py", below("reward_model.optim", "lr_scheduler_type lr_warmup_steps"
           " lr_warmup_steps_ratio min_lr_ratio"), "prime", is_named("prime")),
    Reader("prime/prime_fsdp_workers.py", below("reward_model",
           "path ref_path ref_type ulysses_sequence_parallel_size"), "prime", is_named("prime")),
    Reader("learners/models.py", below("model", "path cache hidden layers window vocabulary lora_rank lora_alpha"
           " enable_gradient_checkpointing")),
    Reader("learners/networks.py", below("model", "dtype") + below("trainer", "strategy")),
    Reader("learners/lora.py", below("model", "lora_targets"), "model.lora_rank above 0",
           lambda name, config: config.model.lora_rank > 0),
    Reader("algorithms/ppo.py", ("model.lora_publish",), "model.lora_rank above 0, rollout.source planner",
           lambda name, config: asks_planner(name, config) and config.model.lora_rank > 0),
    Reader("algorithms/sft.py", ("model.lora_publish",), "sft, dpo with model.lora_rank above 0",
           lambda name, config: name in FROM_FILES and config.model.lora_rank > 0),
    Reader("jobs/launch.py", ("model.name",)),
    Reader("algorithms/ppo.py", (*below("rollout", "n temperature top_p"), "algorithm.state_masking"), "RL", plays),
    Reader("algorithms/validation.py", ("rollout.val_temperature",), "RL", plays),
    Reader("jobs/launch.py", below("rollout", "source replay"), "RL", plays),
    Reader("rollouts/source.py", below("rollout", "mode"), "RL", plays),
    Reader("rollouts/requests.py", below("rollout", "protocol stop system_prompt"),
           "rollout.source planner", asks_planner),
    Reader("rollouts/requests.py", below("rollout", "final_turn instruction_file invalid_action_file"),
           "rollout.source planner with protocol search_r1",
           lambda name, config: asks_planner(name, config) and config.rollout.protocol == "search_r1"),
    Reader("search_r1/generation_config.py", ("rollout.invalid_action_file",), "rollout.source in_process",
           plays_in_process),
    Reader("rollouts/requests.py", below("rollout", "max_turns max_tokens"), "rollout.source planner without an effort",
           lambda name, config: asks_planner(name, config) and not config.rollout.effort),
    Reader("rollouts/requests.py", ("rollout.effort",), "rollout.source planner with a protocol other than search_r1",
           lambda name, config: asks_planner(name, config) and config.rollout.protocol != "search_r1"),
    Reader("rollouts/requests.py", below("reward", "grader parameters"),
           "rollout.source planner and reward.manager service, except brpo and interpreter", has_planner_grade),
    Reader("algorithms/code_interpreter.py", ("reward.timeout_s",), "interpreter", is_named("interpreter")),
    Reader("search_r1/generation_config.py", below("rollout", "max_turns max_tokens"), "rollout.source in_process",
           plays_in_process),
    # Its own loop has one protocol: the settings' check refuses the others.
    Reader("config/tree.py", ("rollout.protocol",), "rollout.source in_process", plays_in_process),
    Reader("rollouts/requests.py", ("rollout.tools",), "rollout.protocol research",
           lambda name, config: asks_planner(name, config) and config.rollout.protocol == "research"),
    Reader("rollouts/source.py", below("rollout", "timeout_s attempts concurrency episodes_per_s transport"),
           "rollout.source planner", asks_planner),
    Reader("jobs/launch.py", below("rollout", "publish_lanes publish_timeout_s record weights_transport"),
           "rollout.source planner", asks_planner),
    Reader("jobs/launch.py", below("rollout", "shared_memory_gb shared_memory_dir"),
           "rollout.weights_transport other than store",
           lambda name, config: asks_planner(name, config) and config.rollout.weights_transport != "store"),
    Reader("rollouts/source.py", below("rollout", "staleness ahead group_versions max_restarts"),
           "rollout.mode async", is_ahead),
    Reader("objectives/old_policy.py", ("algorithm.bypass_mode",), "RL", plays),
    Reader("objectives/old_policy.py", ("algorithm.old_log_probs",), "algorithm.bypass_mode false",
           lambda name, config: plays(name, config) and not config.algorithm.bypass_mode),
    Reader("objectives/old_policy.py", ("rollout.importance_cap",), "algorithm.bypass_mode false",
           lambda name, config: plays(name, config) and not config.algorithm.bypass_mode),
    Reader("objectives/old_policy.py", below("rollout", "importance_floor importance_level importance_mode"),
           "rollout.importance_cap and algorithm.bypass_mode false", weighs_samples),
    Reader("learners/stepping.py", below("actor.optim", OPTIM)),
    Reader("learners/forward.py", below("actor", f"ppo_micro_batch_size_per_gpu {BATCHING}"), "all but dpo",
           lambda name, config: name != "dpo"),
    # A pass of DPO has whole pairs, by number.
    Reader("algorithms/dpo.py", ("actor.ppo_micro_batch_size_per_gpu",), "dpo", is_named("dpo")),
    Reader("learners/networks.py", ("actor.use_remove_padding",)),
    Reader("learners/stepping.py", ("actor.ppo_mini_batch_size",), "RL", plays),
    Reader("config/learning.py", ("actor.ulysses_sequence_parallel_size",), "RL", plays),
    Reader("learners/actor.py", below("actor", "ppo_epochs"), "RL", plays),
    Reader("objectives/terms.py", below("actor", "loss_mode ratio_level clip_ratio_low clip_ratio_high entropy_coeff"
           " use_kl_loss loss_agg_mode"), "RL", plays),
    Reader("objectives/terms.py", ("actor.clip_ratio_c",), "actor.loss_mode clip",
           lambda name, config: plays(name, config) and config.actor.loss_mode == "clip"),
    Reader("objectives/terms.py", below("actor", "kl_loss_coef kl_loss_type kl_loss_weighted"), "actor.use_kl_loss",
           lambda name, config: plays(name, config) and config.actor.use_kl_loss),
    Reader("learners/actor.py", ("actor.loss_scale_factor",), "actor.loss_agg_mode seq-mean-token-sum-norm",
           lambda name, config: plays(name, config) and config.actor.loss_agg_mode == "seq-mean-token-sum-norm"),
    Reader("learners/stepping.py", (*below("critic.optim", OPTIM), "critic.ppo_mini_batch_size"),
           "adv_estimator gae", has_critic),
    Reader("config/learning.py", ("critic.ulysses_sequence_parallel_size",), "adv_estimator gae", has_critic),
    Reader("learners/forward.py", below("critic", f"ppo_micro_batch_size_per_gpu {BATCHING}"), "adv_estimator gae",
           has_critic),
    Reader("learners/networks.py", ("critic.use_remove_padding",), "adv_estimator gae", has_critic),
    Reader("learners/critic.py", below("critic", "ppo_epochs cliprange_value loss_agg_mode"), "adv_estimator gae",
           has_critic),
    Reader("algorithms/algorithm.py", ("trainer.critic_warmup",), "adv_estimator gae", has_critic),
    Reader("jobs/assembly.py", ("reward.manager",), "RL", plays),
    Reader("jobs/assembly.py", below("reward", "grader parameters timeout_s num_examine"), "reward.manager prime",
           lambda name, config: plays(name, config) and config.reward.manager == "prime"),
    Reader("jobs/assembly.py", below("reward", "format_score parity_answer_extraction num_examine"),
           "reward.manager search_r1",
           lambda name, config: plays(name, config) and config.reward.manager == "search_r1"),
    Reader("algorithms/algorithm.py", ("algorithm.adv_estimator",), "RL", plays),
    Reader("algorithms/algorithm.py", ("algorithm.use_kl_in_reward",), "RL except prime", plays_unfiltered),
    # Which refuses it: KL has no place in its rewards.
    Reader("prime/prime_ray_trainer.py", ("algorithm.use_kl_in_reward",), "prime", is_named("prime")),
    # The call has one value for all estimators: what the chosen one does not use is as good as unread.
    Reader("algorithms/algorithm.py", ("algorithm.gamma",), "adv_estimator gae or reinforce",
           lambda name, config: estimates(name, config) and config.algorithm.adv_estimator in ("gae", "reinforce")),
    Reader("algorithms/algorithm.py", ("algorithm.lam",), "adv_estimator gae",
           lambda name, config: estimates(name, config) and config.algorithm.adv_estimator == "gae"),
    Reader("algorithms/algorithm.py", ("algorithm.norm_adv_by_std_in_grpo",), "adv_estimator grpo",
           lambda name, config: estimates(name, config) and config.algorithm.adv_estimator == "grpo"),
    Reader("algorithms/algorithm.py", ("algorithm.whiten_advantages",), "adv_estimator grpo, rloo or reinforce",
           lambda name, config: estimates(name, config) and config.algorithm.adv_estimator not in ("gae", "gdpo")),
    Reader("algorithms/algorithm.py", below("algorithm", "gdpo_components gdpo_weights"), "adv_estimator gdpo",
           lambda name, config: estimates(name, config) and config.algorithm.adv_estimator == "gdpo"),
    # PRIME chooses groups by a filter of its own, and its rewards are weighted with the advantages.
    Reader("algorithms/algorithm.py", ("data.refill_draws", "algorithm.overlong_share"), "RL except prime",
           plays_unfiltered),
    Reader("algorithms/algorithm.py", ("algorithm.overlong_penalty",), "algorithm.overlong_share above 0",
           lambda name, config: plays(name, config) and name != "prime" and config.algorithm.overlong_share > 0),
    Reader("algorithms/algorithm.py", ("algorithm.kl_penalty",), "algorithm.use_kl_in_reward", penalises_kl),
    Reader("objectives/kl.py", below("algorithm", "kl_ctrl kl_coef"), "algorithm.use_kl_in_reward", penalises_kl),
    Reader("objectives/kl.py", below("algorithm", "kl_target kl_horizon"), "algorithm.kl_ctrl adaptive",
           lambda name, config: penalises_kl(name, config) and config.algorithm.kl_ctrl == "adaptive"),
    Reader("algorithms/sft.py", below("trainer", "total_epochs total_training_steps test_freq val_before_train"
           " save_freq"), "sft, dpo", is_named(*FROM_FILES)),
    Reader("algorithms/sft.py", below("trainer", "seed device"), "sft", is_named("sft")),
    Reader("algorithms/dpo.py", below("trainer", "seed device"), "dpo", is_named("dpo")),
    Reader("algorithms/ppo.py", below("trainer", "total_epochs total_training_steps test_freq val_before_train"
           " save_freq seed"), "RL", plays),
    Reader("learners/workers.py", ("trainer.device",), "RL", plays),
    Reader("jobs/launch.py", below("trainer", "keep_checkpoints loggers output")),
    Reader("jobs/launch.py", ("trainer.samples",), "RL", plays),
    Reader("checkpoints.py", below("trainer", "resume_mode resume_path")),
    Reader("jobs/identity.py", ("trainer.resume_changed",)),
    Reader("jobs/assembly.py", below("trainer", "world_size use_ray"), "RL", plays),
    Reader("learners/networks.py", ("trainer.cpu_offload",), "strategy fsdp2 on several ranks or Ray",
           lambda name, config: trains_on_ray(name, config) and config.trainer.strategy == "fsdp2"),
    Reader("learners/networks.py", ("actor.tensor_parallel_size",), "strategy fsdp2 on several ranks or Ray",
           lambda name, config: trains_on_ray(name, config) and config.trainer.strategy == "fsdp2"),
    Reader("learners/networks.py", ("critic.tensor_parallel_size",), "adv_estimator gae, strategy fsdp2",
           lambda name, config: has_critic(name, config) and config.trainer.strategy == "fsdp2"),
    Reader("jobs/launch.py", ("trainer.learner_restarts",), "several ranks or Ray, resume_mode auto",
           lambda name, config: trains_on_ray(name, config) and config.trainer.resume_mode == "auto"),
    Reader("jobs/assembly.py", ("trainer.colocate_roles",), "several ranks or Ray", trains_on_ray),
    Reader("learners/ranks/groups.py", below("trainer", "schedule_timeout_s collective_timeout_s"),
           "several ranks or Ray", trains_on_ray),
    Reader("monitor/collapse.py", below("collapse", "enable window patience entropy_floor entropy_ceiling kl_ceiling"
           " length_share invalid_ceiling reward_share"), "RL", plays),
    Reader("algorithms/code_interpreter.py", below("interpreter", "style_weight length_weight hack_weight task_weight"
           " answer_grader cost_per_call normalise length_share"), "interpreter", is_named("interpreter")),
    Reader("data/sequences.py", below("imitation", "max_length truncation"), "sft, dpo", is_named(*FROM_FILES)),
    Reader("algorithms/dpo.py", below("imitation", "beta loss_type label_smoothing sft_weight"), "dpo",
           is_named("dpo")),
    Reader("algorithms/brpo.py", below("brpo", "references style votes tie skew max_failed timeout_s"), "brpo",
           is_named("brpo")),
)  # fmt: skip


def check_settings_are_read(
    name: str, config: TrainConfig, given: Mapping[str, Any], without: TrainConfig | None = None
) -> None:
    """Raise ``ConfigError`` naming the first given setting that this training would not read, and what would.

    A value that is the same in ``without``, the settings without those given, changes nothing and is let through: the
    effective settings that a run has written can be given again.
    """
    now, before = config.model_dump(by_alias=True), (without.model_dump(by_alias=True) if without else {})
    for setting in list_settings(given):
        if without is not None and find_value(now, setting) == find_value(before, setting):
            continue
        readers = [one for one in READERS if setting in one.settings]
        if any(one.applies(name, config) for one in readers):
            continue
        conditions = sorted({one.when for one in readers})
        why = f"it is read with {' or '.join(conditions)}" if conditions else "no part of a training reads it"
        raise ConfigError(
            f"{setting}: is not read by {name} with rollout.source {config.rollout.source}; {why}. Leave it out",
            metadata={"field": setting},
        )


def find_value(tree: Mapping[str, Any], setting: str) -> Any:
    """Return the value of a dotted name."""
    value: Any = tree
    for part in setting.split("."):
        value = value[part]
    return value


def drop_unread(name: str, config: TrainConfig, settings: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the settings without those that this training would not read."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        where = f"{path}{key}"
        if isinstance(value, Mapping) and where not in MAPPINGS:
            if some := drop_unread(name, config, value, f"{where}."):
                found[key] = some
        elif any(where in one.settings and one.applies(name, config) for one in READERS):
            found[key] = value
    return found


MAPPINGS = frozenset({"reward.parameters"})
"""Settings that are mappings themselves."""


def list_settings(tree: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the dotted names of a tree's settings."""
    found: list[str] = []
    for key, value in tree.items():
        where = f"{path}{key}"
        nested = isinstance(value, Mapping) and where not in MAPPINGS
        found += list_settings(value, f"{where}.") if nested else [where]
    return found


def format_table(defaults: Mapping[str, Any], presets: Sequence[str], values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the Markdown table of all settings: default, each preset's value, who reads it and when."""
    lines = [f"| setting | default | presets | read by | when |\n|{'---|' * 5}"]
    for setting, default in defaults.items():
        given = ", ".join(f"{preset}: `{values[preset][setting]}`" for preset in presets if setting in values[preset])
        readers = [one for one in READERS if setting in one.settings]
        modules = ", ".join(dict.fromkeys(f"`{one.module}`" for one in readers)) or NOBODY
        when = "; ".join(dict.fromkeys(one.when or "always" for one in readers)) or "refused"
        lines.append(f"| `{setting}` | `{default}` | {given} | {modules} | {when} |")
    return "\n".join(lines) + "\n"
