"""Test that what is remembered between questions has a limit in bytes."""

from __future__ import annotations

import random
import tracemalloc

from fathom.domain.programs.language import TOKENS
from fathom.services.datafetch.catalog.pinyin import split_syllables
from fathom.services.datafetch.programs.search import index_tokens

CHARACTERS = [chr(code) for code in range(0x4E00, 0x5A00)]


def test_syllables_of_many_questions_take_little_memory() -> None:
    drawn = random.Random(3)
    split_syllables("".join(CHARACTERS[:20]))
    split_syllables.cache_clear()
    tracemalloc.start()
    try:
        for _ in range(6_000):
            split_syllables("".join(drawn.choices(CHARACTERS, k=20)))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3_000_000


def test_places_of_tokens_of_many_questions_take_little_memory() -> None:
    drawn = random.Random(3)
    index_tokens.cache_clear()
    tracemalloc.start()
    try:
        for _ in range(1_500):
            index_tokens(frozenset(drawn.sample(TOKENS, 60)))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3_000_000
