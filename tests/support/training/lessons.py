"""Conversations rendered as rows for ``fathom.trainers.algorithms.sft``, and the warm start of a tiny model on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fathom.core.errors import InvalidField
from fathom.trainers.algorithms.sft import Imitation, ImitationTrainer
from fathom.trainers.config import TrainConfig
from fathom.trainers.data.sequences import Row

Message = Mapping[str, str]
BATCH, PASS_TOKENS = 32, 768
"""Rows per step, and tokens per micro-batch: conversations with searches are several times longer than guesses."""


def render_lesson(tokenizer: Any, name: str, messages: Sequence[Message]) -> Row:
    """Render a conversation with loss on each assistant message, including the token that ends its turn.

    An assistant message may begin with context, given in its key ``given``, which carries no loss. Masks are derived
    from message boundaries during rendering, not by searching decoded text.

    Raises ``InvalidField("chat_template")`` when a longer conversation does not begin with the shorter one's ids,
    ``InvalidField("given")`` when the message's ids do not begin with the context's, and ``InvalidField("messages")``
    without an assistant message.
    """
    ids: list[int] = []
    mask: list[int] = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = chat_ids(tokenizer, messages[:number], opened=True)
        whole = chat_ids(tokenizer, messages[: number + 1], opened=False)
        # Templates that drop earlier thoughts, or tokenizers that merge across the border, would shift every mask.
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
    return Row(name, tuple(ids), tuple(mask))


def chat_ids(tokenizer: Any, messages: Sequence[Message], *, opened: bool) -> list[int]:
    """Return the ids of the rendered messages, with the generation prompt when ``opened``."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=opened)
    return list(tokenizer.encode(text, add_special_tokens=False))


def warm_start(
    model: Any, tokenizer: Any, conversations: Sequence[Sequence[Message]], *, steps: int, seed: int, lr: float = 3e-3
) -> float:
    """Train ``model`` in place for ``steps`` steps with cosine decay from ``lr`` to 0; return the last loss in nats."""
    rows = [render_lesson(tokenizer, f"lesson-{number}", messages) for number, messages in enumerate(conversations)]
    size = min(BATCH, len(rows))
    # Rounded up: the last pass may be cut short by the number of steps, and must not be missing.
    epochs = -(-steps // (len(rows) // size))
    config = TrainConfig.model_validate(
        {
            "data": {"train_batch_size": size, "seed": seed},
            "actor": {
                "use_dynamic_bsz": True,
                "ppo_max_token_len_per_gpu": PASS_TOKENS,
                "optim": {"lr": lr, "lr_scheduler_type": "cosine"},
            },
            "trainer": {"total_training_steps": steps, "total_epochs": epochs, "test_freq": 0},
        }
    )
    return ImitationTrainer(config, model, Imitation(config, int(tokenizer.pad_token_id)), rows).fit()["train/loss"]
