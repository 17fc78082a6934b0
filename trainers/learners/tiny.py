"""A tiny random Hugging Face model, built without downloads, for tests and for training on a laptop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<unk>", "<|start|>", "<|end|>", "system", "user", "assistant", "tool")
# Append-only: what a longer conversation renders begins with what a shorter one did.
TEMPLATE = (
    "{% for message in messages %}<|start|> {{ message['role'] }} {{ message['content'] }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|start|> assistant {% endif %}"
)


def build_model(vocabulary: Sequence[str], hidden: int, layers: int, seed: int, window: int = 256) -> LlamaForCausalLM:
    """Build a Llama with ``layers`` layers, width ``hidden`` and ``window`` positions, initialised from ``seed``."""
    size = len(SPECIAL) + len(vocabulary)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=window,
        tie_word_embeddings=False,
        bos_token_id=SPECIAL.index("<|start|>"),
        eos_token_id=SPECIAL.index("<|end|>"),
        pad_token_id=SPECIAL.index("<pad>"),
    )
    # Seeding must not affect the caller's random state.
    generator_state = torch.get_rng_state()
    try:
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)
    finally:
        torch.set_rng_state(generator_state)


def build_tokenizer(vocabulary: Sequence[str]) -> PreTrainedTokenizerFast:
    """Build a word-level tokenizer that splits at whitespace, so that a tag is one token."""
    words = {word: number for number, word in enumerate([*SPECIAL, *vocabulary])}
    # One word, one token: an answer in its tags is three tokens, which random sampling does find.
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<|start|>",
        eos_token="<|end|>",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write config, weights and tokenizer."""
    model.config.save_pretrained(folder)
    tensors = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
