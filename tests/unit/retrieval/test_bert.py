"""BERT in PyTorch alone gives what the library's BERT gives with the same weights."""

from __future__ import annotations

import torch
from transformers import BertConfig, BertModel

from fathom.domain.encoders.bert import Bert, BertShape
from fathom.domain.encoders.loading import LOADING


def test_states_are_those_of_the_library() -> None:
    torch.manual_seed(7)
    shape = BertShape(32, 2, 4, 64, 40, 2, 1e-12)
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=40, type_vocab_size=2, layer_norm_eps=1e-12,
    )  # fmt: skip
    with LOADING:
        theirs = BertModel(config, add_pooling_layer=False).eval()
    ours = Bert(shape, theirs.embeddings.word_embeddings).eval()
    ours.load_state_dict(theirs.state_dict(), strict=False)
    ids, mask = torch.randint(1, 50, (3, 12)), torch.ones(3, 12, dtype=torch.long)
    mask[1, 7:] = 0
    with torch.inference_mode():
        found, expected = (model(input_ids=ids, attention_mask=mask).last_hidden_state for model in (ours, theirs))
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=0)
