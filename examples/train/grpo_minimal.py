"""GRPO on one page: prompts, rollouts, rewards, advantages, loss, optimiser step, publish.

    python examples/train/grpo_minimal.py --steps 160

A tiny random transformer learns which of two digits is larger, without services, downloads or a GPU. ``fathom train
grpo`` is the same with the planner's episodes, checkpoints and distributed learners around it.
"""

from __future__ import annotations

import argparse
import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fathom.domain.grading.tags import last_answer
from fathom.trainers.batch import DataProto
from fathom.trainers.data.comparison import comparison_tasks, records, vocabulary
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.learners import tiny
from fathom.trainers.objectives.advantages import broadcast, group_advantages
from fathom.trainers.objectives.policy_loss import Totals, token_log_probs
from fathom.trainers.objectives.terms import LossInput, LossTerm, clipped_objective, entropy_bonus
from fathom.trainers.search_r1.sampler import ModelSampler

PROMPTS, GROUP, EPOCHS, MAX_TOKENS = 8, 16, 2, 4
# What an algorithm's hook ``loss`` returns; a function of your own may take either's place. Without a bonus for entropy
# so small a policy settles on the tags before it has seen a right digit.
BONUS = LossTerm(partial(entropy_bonus, weight=0.05), needs_entropy=True)
LOSS = (LossTerm(partial(clipped_objective, clip_low=0.2, clip_high=0.28)), BONUS)
# A wrong answer in its tags is worth a little: at first nearly no sample is right, and equal rewards teach nothing.
PARTIAL_CREDIT = 0.1


def sample(sampler: ModelSampler, tokenizer: Any, prompts: DataProto, seed: int) -> DataProto:
    """Play ``GROUP`` episodes per prompt; return prompts and responses side by side, ``input_ids`` [B, P + T]."""
    chats = list(prompts.repeat(GROUP).array("prompt"))
    text = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
    given = tokenizer(text, padding=True, padding_side="left", add_special_tokens=False, return_tensors="pt")
    ids, attention = given["input_ids"], given["attention_mask"]
    start = DataProto({"input_ids": ids, "attention_mask": attention, "position_ids": positions(attention)})
    found = sampler.generate_sequences(start.with_meta(max_tokens=MAX_TOKENS, seed=seed))
    ids = torch.cat([ids, found.tensor("responses")], dim=1)
    attention = torch.cat([attention, found.tensor("response_mask")], dim=1)
    return found.with_tensors(input_ids=ids, attention_mask=attention, position_ids=positions(attention))


def positions(attention: Tensor) -> Tensor:
    """Number the tokens of each row from 0, skipping the padding on the left."""
    return (attention.cumsum(dim=1) - 1).clamp(min=0)


def grade(batch: DataProto, prompts: DataProto, tokenizer: Any) -> Tensor:
    """Return the reward of each episode, [prompts, GROUP]."""
    rewards = []
    for row, ids in enumerate(batch.tensor("responses")):
        answer = last_answer(tokenizer.decode(ids[batch.tensor("response_mask")[row].bool()]))
        references = prompts.array("reward_model")[row // GROUP]["ground_truth"]["target"]
        rewards.append(0.0 if answer is None else max(PARTIAL_CREDIT, float(answer.strip() in references)))
    return torch.tensor(rewards).view(-1, GROUP)


def log_probs_of(model: Any, batch: DataProto) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies of the response tokens, both [B, T]."""
    logits = model(**{name: batch.tensor(name) for name in ("input_ids", "attention_mask", "position_ids")}).logits
    width = batch.tensor("responses").shape[1]
    log_probs, entropy = token_log_probs(logits, batch.tensor("input_ids"), temperature=1.0)
    return log_probs[:, -width:], entropy[:, -width:]


def train(steps: int, seed: int = 7, lr: float = 1e-3) -> tuple[Any, list[dict[str, float]]]:
    """Train for ``steps`` steps; return the model, and loss and mean reward of each step."""
    tasks = comparison_tasks()
    tokenizer = tiny.build_tokenizer(vocabulary(tasks))
    model = tiny.build_model(vocabulary(tasks), hidden=64, layers=2, seed=seed)
    sampler, optimizer = ModelSampler(copy.deepcopy(model), tokenizer), torch.optim.AdamW(model.parameters(), lr=lr)
    data, metrics = Prompts(records(tasks, "train"), seed=seed), []
    for step in range(steps):
        prompts = data.batch(step, PROMPTS)
        batch = sample(sampler, tokenizer, prompts, seed + step)
        rewards = grade(batch, prompts, tokenizer)
        mask, old = batch.tensor("response_mask"), batch.tensor("rollout_log_probs")
        batch = batch.with_tensors(advantages=broadcast(group_advantages(rewards), mask), old_log_probs=old)
        for _ in range(EPOCHS):
            given = LossInput(batch, *log_probs_of(model, batch), Totals.of(mask))
            loss = torch.stack([term(given)[0] for term in LOSS]).sum()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        sampler.load(lambda folder: tiny.save(model, tokenizer, folder))  # publish
        metrics.append({"loss": loss.item(), "reward": rewards.mean().item()})
    return model, metrics


if __name__ == "__main__":
    torch.set_num_threads(1)  # so small a model is slower on several
    parser = argparse.ArgumentParser(description="GRPO on a tiny model, in this process.")
    parser.add_argument("--steps", type=int, default=160)
    for number, one in enumerate(train(parser.parse_args().steps)[1], start=1):
        print(f"step {number:3d}  reward {one['reward']:.3f}  loss {one['loss']:+.4f}", flush=True)
