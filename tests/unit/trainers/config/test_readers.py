"""No dead settings: each one is read where the table says, every preset's by its source, and all others are refused."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.core.config import ConfigError
from fathom.trainers.config.readers import READERS, check_settings_are_read, list_settings
from fathom.trainers.config.tree import TrainConfig, merge_layers
from fathom.trainers.jobs.registry import ALGORITHMS, BUILT_IN_TASK, FOLDER, load_settings

ROOT = Path(__file__).parents[4]
IN_PROCESS = FOLDER / "search_r1" / "config" / "in_process.yaml"
EXAMPLES = sorted((ROOT / "examples" / "train").glob("*.yaml"))
# Settings whose attribute is not their name: a keyword of Python, and one that verl calls otherwise.
RENAMED = {"lambda": "lambda_"}
DATA = ["data.train_files=[rows.parquet]"]
KNOWN = list_settings(TrainConfig().model_dump(mode="json", by_alias=True))
UNREAD = ["data.filter_overlong_prompts", "data.return_raw_chat", "data.truncation"]


def read_attributes(module: str) -> set[str]:
    """Every attribute that a module reads."""
    tree = ast.parse((FOLDER / module).read_text(encoding="utf-8"))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


@pytest.mark.parametrize("module", sorted({reader.module for reader in READERS}))
def test_what_a_module_is_said_to_read_it_reads(module: str) -> None:
    found = read_attributes(module)
    for reader in (one for one in READERS if one.module == module):
        for setting in reader.settings:
            name = setting.rpartition(".")[2]
            assert RENAMED.get(name, name) in found, f"{module} does not read {setting}"


def test_the_table_has_every_setting_and_no_other() -> None:
    listed = {setting for reader in READERS for setting in reader.settings}
    assert sorted(set(KNOWN) - listed) == UNREAD, "read by nobody, and refused below"
    assert listed <= set(KNOWN)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_setting_of_a_preset_is_read_by_its_source(name: str) -> None:
    given = merge_layers([ALGORITHMS[name].defaults])
    check_settings_are_read(name, load_settings(name, [], DATA), given)


def test_presets_that_lie_over_others_are_read_too() -> None:
    check_settings_are_read("search_r1", load_settings("search_r1", [IN_PROCESS], DATA), merge_layers([IN_PROCESS]))
    reasoner = FOLDER / "config" / "presets" / "imitate_reasoner.yaml"
    load_settings("sft", [reasoner], DATA)


def test_of_the_built_in_task_each_algorithm_takes_what_it_reads() -> None:
    task, names = list_settings(merge_layers([BUILT_IN_TASK])), ("ppo", "grpo", "rloo", "prime", "brpo", "search_r1")
    used = set[str]()
    for name in names:
        config = load_settings(name, [], [])
        for setting in task:
            given = merge_layers([], [f"{setting}=1"])
            try:
                check_settings_are_read(name, config, given)
            except ConfigError:
                continue
            used.add(setting)
    assert used == set(task), "no setting of it is for nobody"
    assert load_settings("ppo", [], []).critic.optim.lr == 2e-3
    assert load_settings("grpo", [], []).critic == TrainConfig().critic


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_set_nothing_in_vain(example: Path) -> None:
    assert load_settings(example.stem, [example], []).trainer.output != TrainConfig().trainer.output


@pytest.mark.parametrize(
    ("name", "override", "why"),
    [
        ("search_r1", "retriever.topk=1", "rollout.source in_process"),
        ("search_r1", "rollout.max_obs_length=1", "rollout.source in_process"),
        ("search_r1", "rollout.max_start_length=1", "rollout.source in_process"),
        ("search_r1", "algorithm.no_think_rl=true", "rollout.source in_process"),
        ("grpo", "data.max_prompt_length=1", "rollout.source in_process"),
        ("grpo", "data.truncation=left", "no part of a training reads it"),
        ("grpo", "data.filter_overlong_prompts=false", "no part of a training reads it"),
        ("grpo", "data.return_raw_chat=true", "no part of a training reads it"),
        ("grpo", "rollout.staleness=4", "rollout.mode async"),
        ("grpo", "critic.optim.lr=0.1", "adv_estimator gae"),
        ("grpo", "reward_model.beta_train=0.5", "prime"),
        ("ppo", "algorithm.kl_target=0.2", "algorithm.kl_ctrl adaptive"),
        ("grpo", "reward.format_score=0.5", "reward.manager search_r1"),
        ("grpo", "rollout.effort=deep", "a protocol other than search_r1"),
        ("dpo", "rollout.n=8", "RL"),
        ("sft", "imitation.beta=0.2", "dpo"),
        ("grpo", "algorithm.gamma=0.9", "adv_estimator gae or reinforce"),
        ("prime", "algorithm.gamma=0.9", "adv_estimator gae or reinforce"),
        ("rloo", "algorithm.lam=0.9", "adv_estimator gae"),
        ("reinforce_pp", "algorithm.lam=0.9", "adv_estimator gae"),
        ("ppo", "algorithm.norm_adv_by_std_in_grpo=false", "adv_estimator grpo"),
        ("brpo", "reward.grader=numeric", "except brpo and interpreter"),
        ("interpreter", "reward.grader=numeric", "except brpo and interpreter"),
        ("interpreter", "rollout.final_turn=false", "with protocol search_r1"),
        ("grpo", "reward.timeout_s=5", "reward.manager prime"),
    ],
)
def test_what_would_not_be_read_is_refused_by_name(name: str, override: str, why: str) -> None:
    setting = override.partition("=")[0]
    with pytest.raises(ConfigError, match=f"{setting}: is not read by {name}.*{why}") as refused:
        load_settings(name, [], [*DATA, override])
    assert refused.value.metadata["field"] == setting


def test_an_effort_takes_the_place_of_the_limits() -> None:
    effort = [*DATA, "rollout.protocol=research", "rollout.effort=quick"]
    assert load_settings("grpo", [], effort).rollout.effort == "quick"
    with pytest.raises(ConfigError, match=r"rollout\.max_turns: is not read by grpo.*without an effort"):
        load_settings("grpo", [], [*effort, "rollout.max_turns=9"])


def test_the_settings_that_a_run_has_written_can_be_given_again(tmp_path: Path) -> None:
    """They have every setting, most of them as they are anyway."""
    config = load_settings("grpo", [], [*DATA, "actor.optim.lr=0.1"])
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert load_settings("grpo", [tmp_path / "config.yaml"], []) == config


def test_the_page_of_settings_is_the_tables() -> None:
    made = subprocess.run([sys.executable, "docs/settings.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "settings.md").read_text() == made.stdout, "run: make settings"
