"""The engine ``reading`` on an adapter that ``fathom train sft`` wrote: its program is the adapter's, not the base's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.domain.chat.messages import Completion, Message, Role, ToolSpec
from fathom.domain.programs.asking import read_program
from fathom.domain.programs.grammar import check_program
from fathom.services.policy.backends.reading.backend import ReadingBackend, make_request
from fathom.services.policy.config import Config, ReadingModel
from fathom.services.policy.model import Request
from tests.integration.policy.weights.models import tiny_model

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("llguidance")

QUESTION = "Gold in 2011?"
PROGRAM = 'ret(within(series("Gold"), "2011"))'
DATA = ToolSpec("data", "data", '{"type": "object", "properties": {"question": {}, "program": {}}}')
PYTHON = ToolSpec("python", "python", '{"type": "object"}')
FINISH = ToolSpec("finish", "finish", '{"type": "object", "properties": {"reading": {"type": "object"}}}')


def make_base(folder: Path) -> Path:
    """Write a random model whose output layer, which adapters leave alone, is large enough to be sure of a token."""
    from safetensors.torch import load_file, save_file

    tiny_model(folder, 1, hidden=64)
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] *= 20
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_rows(base: Path, target: Path) -> Path:
    """Write the row of the question: what a served model is asked, and the program, on which alone it learns."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(base))
    messages = [{"role": one.role.value, "content": one.content} for one in make_request(QUESTION, 64).messages]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    asked, said = (tokenizer.encode(part, add_special_tokens=False) for part in (text, f"{PROGRAM}<|im_end|>"))
    row = {"id": "gold", "token_ids": asked + said, "loss_mask": [0] * len(asked) + [1] * len(said)}
    target.write_text(json.dumps(row) + "\n")
    return target


def train(base: Path, rows: Path, output: Path, steps: int) -> Path:
    """Train by the command, as the example does, and return the folder of the adapter."""
    targets = "[q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj]"
    done = CliRunner().invoke(app, [
        "train", "sft", "--home", str(output / "home"), f"model.path={base}", "model.lora_rank=16", "model.lora_alpha=32",
        f"model.lora_targets={targets}", "model.lora_publish=adapter", f"data.train_files=[{rows}]",
        "data.train_batch_size=1", "actor.ppo_micro_batch_size_per_gpu=1", "actor.optim.lr=0.02",
        "actor.optim.lr_scheduler_type=constant", f"trainer.output={output}", f"trainer.total_epochs={steps}",
        "trainer.save_freq=0", "trainer.val_before_train=false",
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    return output / "adapter"


async def read(base: Path, adapter: Path | None, row: dict[str, Any], folder: Path) -> tuple[str, float]:
    """Return the program that the engine gives its data tool, "" for none, and its model's score of the right one."""
    network = {"folder": base, "adapter": adapter, "threads": 1}
    # Whatever is a program is taken, however unsure the model is of it.
    models = {"rules": {"engine": "rules"}, "reader": {"engine": "reading", "network": network, "confidence": 0.0}}
    settings = Config.model_validate({"models": models}).models["reader"]
    assert isinstance(settings, ReadingModel)
    backend = ReadingBackend("reader", settings, folder)
    await backend.load()
    request = Request("r", "reader", (Message(Role.USER, QUESTION),), tools=(DATA, PYTHON, FINISH))
    done = [item async for item in backend.generate(request)][-1]
    assert isinstance(done, Completion)
    (scores,), _ = await backend._network.score([row["token_ids"]], 1.0)
    await backend.close()
    count = sum(row["loss_mask"])
    return json.loads(done.tool_calls[0].arguments_json).get("program", ""), sum(scores[-count:]) / count


@pytest.mark.usefixtures("one_thread")
def test_an_adapter_of_the_training_reads_in_place_of_its_base(tmp_path: Path) -> None:
    base, cache = make_base(tmp_path / "base"), tmp_path / "cache"
    rows = write_rows(base, tmp_path / "rows.jsonl")
    row = json.loads(rows.read_text())
    untaught, before = asyncio.run(read(base, None, row, cache))
    adapter = train(base, rows, tmp_path / "training", 40)
    taught, after = asyncio.run(read(base, adapter, row, cache))
    assert after > before + 1, "per token, in nats: the program that it was taught"
    assert taught, "and writes a program, which goes to the data tool"
    assert taught != untaught
    check_program(read_program(taught), QUESTION)
