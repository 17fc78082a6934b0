"""Recall is counted right, and the baseline finds what shares words."""

from __future__ import annotations

from tests.bench.datafetch.datafetch_pairs import Bigrams, grams, recall
from tests.golden.datafetch.schema import Pair

PAIRS = [Pair(text="jobs", lang="en", ids=["a", "b"]), Pair(text="工作", lang="zh", ids=["c"])]


async def test_recall_counts_the_first_right_id() -> None:
    async def matcher(text: str, k: int) -> list[str]:
        return ["x", "b", "a"] if text == "jobs" else [*map(str, range(20)), "c"]

    assert await recall(matcher, PAIRS) == {
        "en": {1: 0.0, 5: 1.0, 20: 1.0},
        "zh": {1: 0.0, 5: 0.0, 20: 0.0},
        "fitted": {1: 0.0, 5: 0.5, 20: 0.5},
        "all": {1: 0.0, 5: 0.5, 20: 0.5},
    }


async def test_bigrams_rank_by_shared_words() -> None:
    matcher = Bigrams({"rate": "Unemployment Rate 失业率", "level": "Unemployment Level 失业人数", "gdp": "output"})
    assert await matcher.match("rate of unemployment", 2) == ["rate", "level"]
    assert await matcher.match("失业人数", 1) == ["level"]
    assert await matcher.match("nothing alike", 5) == []
    assert grams("GDP 增长率") == ["gdp", "增长", "长率"]
