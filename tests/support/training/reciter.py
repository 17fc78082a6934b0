"""A language model that says given texts, made without training: for what is around a model, with exact ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken
from transformers import LlamaConfig, LlamaForCausalLM

WINDOW = 16_384
# Of a follower over all other tokens: none of them is ever sampled at a temperature of 1.
SURE = 100.0


def add_speeches(tokenizer: Any, speeches: Sequence[str]) -> None:
    """Make each text one token, so that the model says it at once."""
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in speeches])


def write_reciter(folder: Path, tokenizer: Any, speeches: Mapping[str, Sequence[str]]) -> None:
    """Write a model that says one of some texts in each turn, each as likely as the others, and ends its turn.

    ``speeches`` has the texts by how the prompt ends; the last token of such an end decides. The tokenizer has a chat
    template, and each text as one token. The model has a layer that adds nothing: what follows a token is written into
    embeddings and output weights.
    """
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8 * -(-(len(speeches) + 1) // 8), intermediate_size=8,
        num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=WINDOW,
        tie_word_embeddings=False, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    network = LlamaForCausalLM(config)
    layer, embeddings, output = network.model.layers[0], network.model.embed_tokens, network.lm_head
    with torch.no_grad():
        # Nothing of the layer reaches the output, so that a prompt of any length costs hardly more than its reading.
        for matrix in (layer.self_attn.o_proj, layer.mlp.down_proj, embeddings, output):
            matrix.weight.zero_()
        output.weight[tokenizer.eos_token_id, 0] = SURE
        for place, (end, texts) in enumerate(speeches.items(), 1):
            spoken = tokenizer.convert_tokens_to_ids(list(texts))
            embeddings.weight[tokenizer.encode(end, add_special_tokens=False)[-1], place] = 1.0
            output.weight[spoken, place] = SURE
            # Whatever was said, the turn is over: place 0 leads to the end.
            embeddings.weight[spoken, 0] = 1.0
    network.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
