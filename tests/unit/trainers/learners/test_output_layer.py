"""The output layer's own backward pass: exact gradients, the same however tokens are cut; adapters; bfloat16."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fathom.core.errors import InvalidField
from fathom.trainers.learners import output_layer
from fathom.trainers.learners.models import load_model
from fathom.trainers.learners.output_layer import token_scores
from fathom.trainers.learners.workers import ActorWorker
from tests.unit.trainers.learners.test_learners import batch, run_steps, settings


# One chunk that holds everything, and 33 cells: chunks of three rows of eleven, the last one not full.
@pytest.mark.parametrize("cells", [1 << 20, 33])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_gradients_are_exact_and_scores_those_of_all_logits(
    cells: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "CHUNK_CELLS", cells)
    generator = torch.Generator().manual_seed(1)
    hidden, weight = (
        torch.randn(rows, 5, dtype=torch.float64, generator=generator).requires_grad_()
        for rows in (7, 11)
        # Double precision, since gradcheck compares with finite differences.
    )
    targets = torch.randint(0, 11, (7,), generator=generator)
    found = token_scores(hidden, weight, targets, temperature, entropy=True)
    logs = torch.log_softmax(hidden @ weight.t() / temperature, dim=-1)
    assert torch.allclose(found.log_probs, logs[torch.arange(7), targets])
    assert torch.allclose(found.entropy, -(logs.exp() * logs).sum(dim=-1))
    for entropy in (True, False):
        assert torch.autograd.gradcheck(
            lambda states, rows, entropy=entropy: token_scores(states, rows, targets, temperature, entropy=entropy),
            (hidden, weight),
        )
    # A micro-batch in which nothing is trained still goes through, with no row.
    assert not token_scores(hidden[:0], weight, targets[:0], temperature).log_probs.numel()


def test_bfloat16_is_near_and_keeps_its_parameters_in_float32() -> None:
    workers = [ActorWorker(settings(f"model.dtype={dtype}")) for dtype in ("float32", "bfloat16")]
    exact, near = (worker.compute_log_prob(batch()).tensor("old_log_probs") for worker in workers)
    assert near.dtype == torch.float32
    # bfloat16 has eight bits of mantissa: log-probabilities of some -2 are off by a few hundredths.
    assert 0 < float((exact - near).abs().max()) < 0.05
    run_steps(workers[1], 1)
    # A learning rate of 1e-6 would be lost in bfloat16 weights: the optimiser's copy must stay float32.
    assert {parameter.dtype for parameter in workers[1].learner.model.parameters()} == {torch.float32}


def test_adapters_alone_are_trained_and_leave_merged_and_apart(tmp_path: Path) -> None:
    config = settings("model.lora_rank=2", "actor.optim.lr=0.05")
    worker, plain = ActorWorker(config), load_model(settings().model, config.trainer.seed)
    names = {name for name, value in worker.learner.model.named_parameters() if value.requires_grad}
    assert names
    assert all(".lora_" in name for name in names)
    run_steps(worker, 2)
    worker.export(tmp_path / "merged")
    worker.export_adapter(tmp_path / "adapter")
    merged = ActorWorker(settings(f"model.path={tmp_path / 'merged'}"))
    wanted, found = (one.compute_log_prob(batch()).tensor("old_log_probs") for one in (worker, merged))
    # What is served after merging and what was trained with adapters beside the weights are one model.
    assert torch.allclose(wanted, found, atol=1e-5)
    before, after = plain.state_dict(), merged.learner.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    # The adapters' targets and nothing else: embeddings, norms and the output layer are untouched.
    assert {name.split(".")[-2] for name in changed} == {"q_proj", "k_proj", "v_proj", "o_proj"}

    from peft import PeftModel

    # What PEFT reads from the adapter is what was trained.
    witness = PeftModel.from_pretrained(plain, str(tmp_path / "adapter")).merge_and_unload().state_dict()
    assert all(torch.allclose(witness[name], after[name], atol=1e-6) for name in after)
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["r"] == 2
    assert load_file(tmp_path / "adapter" / "adapter_model.safetensors")


def test_what_cannot_be_adapted_is_named(tmp_path: Path) -> None:
    # The output layer is read by parts, past PEFT's wrapper; the other name is a typing mistake.
    for target in ("lm_head", "no_such_layer"):
        with pytest.raises(InvalidField, match=r"model\.lora_targets"):
            ActorWorker(settings("model.lora_rank=2", f"model.lora_targets=[{target}]"))
    with pytest.raises(InvalidField, match=r"model\.lora_rank"):
        ActorWorker(settings()).export_adapter(tmp_path)
