"""The preset by which a model that does not reason imitates one that does; it lies over SFT's own."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.domain.grading.graders import GRADERS
from fathom.trainers.config import load_config

PRESETS = Path(str(resources.files("fathom.trainers.config").joinpath("presets")))


def test_the_preset_lies_over_sft() -> None:
    plain, short = (
        load_config([PRESETS / "sft.yaml"]),
        load_config([PRESETS / "sft.yaml", PRESETS / "imitate_reasoner.yaml"]),
    )
    assert (short.imitation.truncation, short.imitation.max_length) == ("drop", 2048)
    assert short.actor.optim.lr < plain.actor.optim.lr
    assert short.trainer.total_epochs == 1
    assert short.model == plain.model, "which model learns is SFT's to say"
    assert short.actor.ppo_micro_batch_size_per_gpu == plain.actor.ppo_micro_batch_size_per_gpu
    assert load_config([PRESETS / "dpo.yaml"]).imitation.beta == 0.1


def test_what_its_comment_says_can_be_typed() -> None:
    """Commands and options that it names exist, and so does the grader."""
    text = (PRESETS / "imitate_reasoner.yaml").read_text()
    commands = [line.strip("# ") for line in text.splitlines() if line.startswith("#   fathom")]
    assert len(commands) == 3
    for command in commands:
        words = command.split()[1:]
        name = words[: 2 if words[0] == "data" else 1]
        shown = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
        for option in re.findall(r"--[a-z-]+", command):
            assert option in shown, (command, option)
    assert "short_thinking" in GRADERS
