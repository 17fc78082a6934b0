"""Sampled rows of a batch with the numbers of every token, for the report's sample view."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from fathom.domain.training_report.samples import cut
from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import outcomes
from fathom.trainers.objectives.mismatch import FIRST_PASS

MAX_PIECES = 6
"""Tokens that may share one character: four bytes in UTF-8, with room for a byte-order mark's neighbours."""
REPLACEMENT = "\ufffd"


def describe_sample(batch: DataProto, tokenizer: Any, step: int, count: int) -> bytes:
    """Return ``count`` telling rows of a step's batch as JSON; call when its advantages are known."""
    rows = [describe_row(batch, place, why, tokenizer) for place, why in choose_rows(batch, count).items()]
    return json.dumps({"format": 1, "step": step, "rows": rows}, ensure_ascii=False).encode()


def choose_rows(batch: DataProto, count: int) -> dict[int, list[str]]:
    """Return up to ``count`` rows with the reasons for which they are shown.

    Those of the highest and lowest reward come first, then where sampler and learner differ most, then the longest.
    """
    rewards, mask = outcomes(batch, reward_field(batch)), batch.tensor("response_mask").bool()
    wanted = [("highest reward", int(rewards.argmax())), ("lowest reward", int(rewards.argmin()))]
    if has_differences(batch):
        gaps = (batch.tensor("old_log_probs") - batch.tensor("rollout_log_probs")).abs()
        wanted.append(("largest difference", int(torch.where(mask, gaps, 0.0).amax(dim=-1).argmax())))
    wanted.append(("longest", int(mask.sum(dim=-1).argmax())))
    # Of a larger number the others in order, so that a whole group can be looked at.
    wanted += [("", place) for place in range(min(count, len(batch)))]
    chosen: dict[int, list[str]] = {}
    for why, place in wanted:
        if place in chosen or len(chosen) < count:
            chosen.setdefault(place, []).extend([why] if why else [])
    return chosen


def has_differences(batch: DataProto) -> bool:
    """Return whether the learner's log-probabilities are its own, and not a copy of the sampler's (bypass mode)."""
    if "rollout_log_probs" not in batch or "old_log_probs" not in batch:
        return False
    return not batch.meta_info.get(FIRST_PASS)


def reward_field(batch: DataProto) -> str:
    return "token_level_scores" if "token_level_scores" in batch else "token_level_rewards"


def describe_row(batch: DataProto, place: int, why: Sequence[str], tokenizer: Any) -> dict[str, Any]:
    """Return one row: its prompt and response by token, long ones without their middle."""
    width = batch.tensor("responses").shape[1]
    attention = batch.tensor("attention_mask")[place].bool()
    mask = batch.tensor("response_mask")[place][attention[-width:]]
    prompt = batch.tensor("prompts")[place][attention[:-width]].tolist()
    response = batch.tensor("responses")[place][attention[-width:]].tolist()

    def values(name: str) -> list[float] | None:
        if name not in batch:
            return None
        found = batch.tensor(name)[place][attention[-width:]].tolist()
        # Differences of log-probabilities are taken on the page: fewer digits would make small ones 0.
        return [float(f"{value:.7g}") for value in cut(found)[0]]

    arrays = batch.non_tensor_batch
    described: dict[str, Any] = {
        "why": list(why),
        "uid": str(arrays["uid"][place]) if "uid" in arrays else "",
        "reward": float(outcomes(batch[[place]], reward_field(batch))[0]),
        "components": {
            name.removeprefix("reward/"): float(column[place])
            for name, column in arrays.items()
            if name.startswith("reward/")
        },
        "prompt_tokens": len(prompt),
        "response_tokens": len(response),
        "trained_tokens": int(mask.sum()),
        "prompt": describe_tokens(prompt, tokenizer),
        "response": describe_tokens(response, tokenizer)
        | {
            "mask": cut(mask.tolist())[0],
            "advantage": values("advantages"),
            "rollout": values("rollout_log_probs") or values("old_log_probs"),
            "learner": values("old_log_probs") if has_differences(batch) else None,
        },
    }
    return described | {name: int(arrays[name][place]) for name in ("version_min", "version_max") if name in arrays}


def describe_tokens(ids: Sequence[int], tokenizer: Any) -> dict[str, Any]:
    """Return ids and texts of tokens, without their middle when there are many."""
    shown, left_out = cut(ids)
    return {"ids": shown, "text": split_text(shown, tokenizer), "cut": left_out}


def split_text(ids: Sequence[int], tokenizer: Any) -> list[str]:
    """Return the text of each token; where several make one character, the first has it and the others have ""."""
    texts = list(tokenizer.batch_decode([[token] for token in ids], skip_special_tokens=False))
    for start, text in enumerate(texts):
        if REPLACEMENT not in text:
            continue
        # A Chinese character is often two or three tokens, of which none alone is text.
        for end in range(start + 2, min(len(ids), start + MAX_PIECES) + 1):
            whole = tokenizer.decode(list(ids[start:end]), skip_special_tokens=False)
            if REPLACEMENT not in whole:
                texts[start:end] = [whole, *[""] * (end - start - 1)]
                break
    return texts


def sample_steps(names: Iterable[str]) -> list[int]:
    """Return the steps of sample files by name, ascending."""
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return sorted(int(stem) for stem in stems if stem.isdigit())
