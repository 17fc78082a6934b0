"""Supervised warm start: a model imitates conversations, with loss on what the assistant says alone.

Loss = -sum(mask * log p) / N, N the target tokens of the whole mini-batch. Masks come from spans made while
rendering, never from a search in decoded text. Source: specs of reinforcement learning, 4.1.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fathom.errors import InvalidField

Message = Mapping[str, str]


def rendered(tokenizer: Any, messages: Sequence[Message]) -> tuple[list[int], list[int]]:
    """(ids, mask) of a conversation; the mask is 1 on each assistant's words with the end of its turn.

    What an assistant's message begins with according to its key ``given`` is context: it is not imitated.

    Raises ``InvalidField("chat_template")`` when a longer conversation does not begin as a shorter one,
    ``InvalidField("given")`` for one that is not how the message's ids begin, and ``InvalidField("messages")``
    without an assistant message.
    """
    ids: list[int] = []
    mask: list[int] = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = chat_ids(tokenizer, messages[:number], opened=True)
        whole = chat_ids(tokenizer, messages[: number + 1], opened=False)
        if before[: len(ids)] != ids or whole[: len(before)] != before:
            raise InvalidField("chat_template", "rewrites what came before")
        start = list(tokenizer.encode(message.get("given", ""), add_special_tokens=False))
        if whole[len(before) : len(before) + len(start)] != start:
            raise InvalidField("given", f"{message['given']!r} is not how the message's ids begin")
        context = len(before) + len(start)
        mask += [0] * (context - len(ids)) + [1] * (len(whole) - context)
        ids = whole
    if not any(mask):
        raise InvalidField("messages", "have no assistant's words")
    return ids, mask


def chat_ids(tokenizer: Any, messages: Sequence[Message], *, opened: bool) -> list[int]:
    """Ids of the rendered messages, with the assistant's turn ``opened`` or not."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=opened)
    return list(tokenizer.encode(text, add_special_tokens=False))


def imitation_loss(model: Any, rows: Sequence[tuple[list[int], list[int]]], pad: int) -> Tensor:
    """Scalar: mean negative log-likelihood in nats per target token of the rows, (ids, mask) each.

    Rows of like length share a pass; the mean is over all of them.
    """
    ordered = sorted(rows, key=lambda row: len(row[0]))
    halves = (ordered[: len(rows) // 2], ordered[len(rows) // 2 :])
    sums = torch.stack([pass_loss(model, half, pad) for half in halves if half])
    return sums.sum() / sum(sum(mask) for _, mask in rows)


def pass_loss(model: Any, rows: Sequence[tuple[list[int], list[int]]], pad: int) -> Tensor:
    """Scalar: negative log-likelihood in nats of the rows' target tokens together."""
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([[*row, *([pad] * (width - len(row)))] for row, _ in rows])
    attention = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row, _ in rows])
    mask = torch.tensor([[*row, *([0] * (width - len(row)))] for _, row in rows])[:, 1:]
    logits = model(input_ids=ids, attention_mask=attention).logits[:, :-1].float()
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    return (losses * mask).sum()


def imitate(
    model: Any,
    tokenizer: Any,
    conversations: Sequence[Sequence[Message]],
    *,
    steps: int,
    batch: int = 32,
    lr: float = 3e-3,
    seed: int = 7,
) -> float:
    """Trains ``model`` in place for ``steps`` steps of AdamW with a linear decay; gives the last loss."""
    rows = [rendered(tokenizer, messages) for messages in conversations]
    chooser = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    last = float("nan")
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * (1.0 - step / steps)
        loss = imitation_loss(model, chooser.sample(rows, min(batch, len(rows))), int(tokenizer.pad_token_id))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last = float(loss.detach())
    return last
