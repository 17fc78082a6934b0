"""Questions that the reference policy composes: enough intents of the shipped seeds, names of the catalogue, levels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fathom.services.datafetch.catalog.layer import LIBRARY, iter_entity_names, load
from fathom.services.policy.backends.rules.composing import judge_difficulty, list_names, load_parts
from fathom.trainers.commands import query_files
from fathom.trainers.data.queries.difficulty import rate_all
from fathom.trainers.data.queries.intents import expand
from fathom.trainers.data.queries.record import read_queries
from tests.unit.trainers.data.stages.peers import make_rules

SEEDS = Path(__file__).parents[5] / "examples" / "queries" / "seeds.txt"


async def test_the_shipped_seeds_grow_to_rated_noisy_shares(tmp_path: Path) -> None:
    seeds, asker = read_queries(SEEDS), make_rules()
    done = await expand(seeds, asker, tmp_path / "new.jsonl", each=5, intents=150)
    found = read_queries(tmp_path / "new.jsonl")
    assert (done.dropped, done.intents) == (0, len(found))
    assert done.intents >= 150
    # Each intent once, with a question of its own and the seed that it is from.
    assert len({query.intent for query in found}) == len({query.text for query in found}) == len(found)
    assert {query.parent for query in found} <= {seed.id for seed in seeds}
    assert {query.language for query in found} == {"en", "zh"}

    query_files.drop_duplicates(tmp_path / "new.jsonl", tmp_path / "once.jsonl", 0.8)
    once = read_queries(tmp_path / "once.jsonl")
    assert len(once) >= 140
    assert await rate_all(once, asker, tmp_path / "rated.jsonl") == 0
    rated = read_queries(tmp_path / "rated.jsonl")
    assert all(query.rationale for query in rated)
    query_files.add_noise_to_file(tmp_path / "rated.jsonl", tmp_path / "noisy.jsonl", ["slip"], 0.3, 7, only=False)
    query_files.sample_file(tmp_path / "noisy.jsonl", tmp_path / "sample.jsonl", 100, 7)
    counts = Counter(query.difficulty for query in read_queries(tmp_path / "sample.jsonl"))
    assert counts == {"easy": 60, "medium": 30, "hard": 10}


async def test_more_rounds_find_further_intents(tmp_path: Path) -> None:
    done = await expand(read_queries(SEEDS), make_rules(), tmp_path / "new.jsonl", each=5, intents=300)
    assert done.intents >= 300


@pytest.mark.parametrize("kind", sorted(load_parts()["kinds"]))
def test_subjects_and_measures_are_of_the_catalogue(kind: str) -> None:
    layer = load([(LIBRARY, LIBRARY)])
    known = {name.casefold() for name, _ in (*layer.iter_names(), *iter_entity_names(layer.entities.values()))}
    for language in ("en", "zh"):
        assert [one for one in list_names(kind, language) if one.casefold().removeprefix("the ") not in known] == []


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("What was the closing price of Merck in 2017?", "easy"),
        ("默沙东2017年的收盘价是多少？", "easy"),
        ("Compare the gross margins of Merck and Pfizer and explain the difference.", "medium"),
        ("比较默沙东和辉瑞的毛利率，并解释差异。", "medium"),
        ("Which bank stocks should an investor pick now?", "hard"),
        ("预测未来两年的油价。", "hard"),
    ],
)
def test_a_question_is_as_hard_as_the_form_that_it_is_like(text: str, level: str) -> None:
    assert judge_difficulty({"Question": text})["difficulty"] == level


def test_a_question_like_no_form_is_medium() -> None:
    assert judge_difficulty({"Question": "Zzz qqq"})["difficulty"] == "medium"
