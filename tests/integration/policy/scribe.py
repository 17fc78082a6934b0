"""A tiny language model, made in seconds: it recites four answers, sings for ever, and babbles when it is heated.

Its tokenizer is byte-level with merges, so that decoding what was sampled and encoding it again often gives other ids;
one of its tokens ends a tag and begins the text after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CALL = '<tool_call>\n{"name": "search", "arguments": {"query": "fox"}}\n</tool_call>'
ANSWERS = {
    "short": "Yes, the fox is red.<|im_end|>",
    "call": f"{CALL}<|im_end|>",
    "tag": "<think>the fox?</think><search>fox den</search>.in the hen<|im_end|>",
    "count": "one two three four five six seven eight nine ten<|im_end|>",
    "sing": "la " * 40,
}
MERGES = (
    ("t", "h"), ("th", "e"), ("o", "n"), ("i", "n"), ("e", "n"), ("a", "n"), ("f", "o"), ("fo", "x"), ("<", "/"),
    (">", "."), ("l", "a"), ("Ġ", "t"), ("e", "r"), ("a", "r"), ("s", "e"), ("ar", "c"), ("x", "Ġ"), ("o", "u"),
)  # fmt: skip
WINDOW = 768


def scribe(folder: Path, seed: int = 1, lines: dict[str, str] | None = None) -> Path:
    """Trains the model and saves it as a Hugging Face folder; about five seconds on one core."""
    import torch

    tokenizer = fast_tokenizer()
    tokenizer.save_pretrained(str(folder))
    torch.manual_seed(seed)
    network = make_untrained(len(tokenizer))
    train(network, tokenizer, lines or ANSWERS)
    network.save_pretrained(str(folder))
    return folder


def fast_tokenizer() -> Any:
    """256 bytes, the merges, two turn markers; ChatML."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in MERGES)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(MERGES)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    fast: Any = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
    fast.chat_template = TEMPLATE
    return fast


def make_untrained(size: int, hidden: int = 128) -> Any:
    """Make a Llama of two layers, whose heads are as wide as every engine's kernels want them."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings: Any = {
        "vocab_size": size,
        "hidden_size": hidden,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": WINDOW,
        "eos_token_id": size - 1,
        "pad_token_id": size - 1,
        "bos_token_id": size - 2,
    }
    return LlamaForCausalLM(LlamaConfig(**settings))


def train(network: Any, tokenizer: Any, lines: dict[str, str]) -> None:
    """Learns the answers by heart, with and without a system message in front."""
    import torch

    rows = [
        [*tokenizer.encode(render_opening(prompt, system)), *tokenizer.encode(answer)]
        for prompt, answer in lines.items()
        for system in (None, "Be brief.")
    ]
    width = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    kept = torch.tensor([[1.0] * len(row) + [0.0] * (width - len(row)) for row in rows])[:, 1:]
    optimizer = torch.optim.AdamW(network.parameters(), lr=4e-3, weight_decay=0.0)
    for _ in range(400):
        logits = network(ids[:, :-1]).logits
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        loss = (losses * kept).sum() / kept.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.02:
            break


def render_opening(prompt: str, system: str | None) -> str:
    before = "" if system is None else f"<|im_start|>system\n{system}<|im_end|>\n"
    return f"{before}<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
