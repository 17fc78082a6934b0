"""Small tokenizers in the manner of common model families: their splitting, and the marks of their turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # noqa: F401 - before transformers, which looks for it
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789<>|[]/~_ \n▁｜.:问{}\"'"


@dataclass(frozen=True)
class Family:
    """Marks of one family: what opens a turn of a role and what ends it, further special tokens, and loose ones."""

    opening: str
    ending: str
    special: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    """Added tokens that are not flagged as special, as ``<tool_call>`` is in Qwen's files."""


MARKS: Mapping[str, Family] = {
    "qwen": Family("<|im_start|>{role}\n", "<|im_end|>\n", ("<|endoftext|>",), ("<think>", "</think>", "<tool_call>")),
    "llama3": Family("<|start_header_id|>{role}<|end_header_id|>\n", "<|eot_id|>", ("<|python_tag|>",)),
    "llama2": Family("<s>[INST] {role} ", " [/INST]</s>", ("[INST]", "[/INST]", "<<SYS>>")),
    "kimi": Family("<|im_{role}|>{role}<|im_middle|>", "<|im_end|>", ("[BOS]", "[EOS]", "[EOT]")),
    "glm": Family("<|{role}|>\n", "", ("[gMASK]", "<sop>", "<eop>", "<|observation|>")),
    "minimax": Family("]~b]{role}\n", "[e~[\n", ("]~!b[", "]!p~[")),
    "deepseek": Family("<｜{role}｜>", "<｜end▁of▁sentence｜>", ("<｜tool▁calls▁begin｜>",)),
    "gemma": Family("<start_of_turn>{role}\n", "<end_of_turn>\n", ("<image>", "<unused0>", "[PAD]", "[CLS]", "[SEP]")),
    "phi": Family("<|{role}|>\n", "<|end|>\n", ("<|assistant|>", "<|user|>", "<|system|>", "<|tool|>")),
}
ROLES = ("system", "user", "assistant", "tool")


def list_marks(family: Family) -> list[str]:
    """All special tokens of a family, those of its turns included."""
    turns = [family.opening.format(role=role) for role in ROLES]
    pieces = [piece for text in (*turns, family.ending) for piece in split_marks(text)]
    return list(dict.fromkeys([*pieces, *family.special]))


def split_marks(text: str) -> list[str]:
    """The marks of a turn's opening or end: what stands between brackets."""
    found, start = [], None
    for place, char in enumerate(text):
        if start is None and char in "<[]":
            start = place
        elif start is not None and char in ">][" and place > start:
            # "]~b]" and "[e~[" open and close with one kind of bracket.
            found.append(text[start : place + 1])
            start = None
    return [mark for mark in found if len(mark) > 2]


def byte_level(family: Family) -> Any:
    """As GPT-2, Qwen and Llama 3: bytes and merges, specials outside the vocabulary."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("<", "|"), ("|", ">"), ("i", "m"), ("e", "n"), ("en", "d")]
    words = [*alphabet, *("".join(pair) for pair in merges)]
    core = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in list_marks(family)])
    core.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in family.loose])
    return core


def sentence_pieces(family: Family) -> Any:
    """As T5: a unigram model whose vocabulary spells the specials itself, blanks as "▁" before each word."""
    marks = list_marks(family)
    pieces = [("<unk>", 0.0), *((mark, -1.0) for mark in marks), *((char, -5.0) for char in LETTERS)]
    core = Tokenizer(models.Unigram([*pieces, ("▁the", -3.0), ("im", -4.0)], unk_id=0))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    core.decoder = decoders.Metaspace(prepend_scheme="first")
    core.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in ("<unk>", *marks)])
    core.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in family.loose])
    return core


def byte_fallback(family: Family) -> Any:
    """As Llama 2: merges over characters, "▁" put before the text by the normaliser, unknown bytes by name."""
    marks = list_marks(family)
    words = ["<unk>", *marks, *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS, "th", "the"]
    vocabulary = {word: place for place, word in enumerate(dict.fromkeys(words))}
    core = Tokenizer(
        models.BPE(vocabulary, [("t", "h"), ("th", "e")], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    core.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in ("<unk>", *marks)])
    core.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in family.loose])
    return core


def folding(family: Family) -> Any:
    """A model whose normaliser makes marks out of other characters, e.g. "＜" into "<"; its marks swallow blanks."""
    core = byte_level(family)
    core.normalizer = normalizers.NFKC()
    core.add_special_tokens([AddedToken("<|swallows|>", special=True, normalized=True, lstrip=True, rstrip=True)])
    return core


KINDS: Mapping[str, Callable[[Family], Any]] = {
    "byte_level": byte_level,
    "sentence_pieces": sentence_pieces,
    "byte_fallback": byte_fallback,
    "folding": folding,
}


def make_tokenizer(kind: str, name: str) -> Any:
    """A fast tokenizer of this kind with the marks and the template of a family."""
    family = MARKS[name]
    core = KINDS[kind](family)
    fast: Any = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>" if core.token_to_id("<unk>") is not None else None
    )
    opening = "".join(
        f"{{% if message['role'] == '{role}' %}}{family.opening.format(role=role)}{{% endif %}}" for role in ROLES
    )
    first = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    fast.chat_template = (
        f"{first}{{% for message in messages %}}{opening}{{{{ message['content'] }}}}{family.ending}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{family.opening.format(role='assistant')}{{% endif %}}"
    )
    return fast


def list_controls(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The control tokens among ids, in order."""
    added = tokenizer.backend_tokenizer.get_added_tokens_decoder()
    return [added[number].content for number in ids if number in added and added[number].content != "<unk>"]
