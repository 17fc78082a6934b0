"""Tiny random models for whoever serves or measures weights; needs torch, transformers and tokenizers alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_model(folder: Path, seed: int, hidden: int = 32) -> Path:
    """Write a random Llama of two layers with a byte tokenizer, so that most of what it says is no valid text."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={sign: index for index, sign in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    fast: Any = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(str(folder))
    torch.manual_seed(seed)
    config: Any = LlamaConfig(
        vocab_size=258,
        hidden_size=hidden,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=257,
        bos_token_id=256,
    )
    LlamaForCausalLM(config).save_pretrained(str(folder))
    return folder
