"""Test what trainers tokenise by themselves: no prompt of a data set and no observation makes a control token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fathom.trainers.batch import DataProto
from fathom.trainers.data.dataset import RLHFDataset
from fathom.trainers.data.records import Record, write
from fathom.trainers.search_r1 import LLMGenerationManager
from fathom.trainers.search_r1.rollouts import SearchR1Rollouts
from tests.unit.protocol.tokenizer_families import MARKS, list_controls, list_marks, make_tokenizer
from tests.unit.trainers.search_r1.scripts import settings


def open_tokenizer(name: str) -> tuple[Any, str]:
    """A family's tokenizer, and a text with all of its marks."""
    tokenizer = make_tokenizer("byte_level", name)
    # Padding is found by the mask, so that any id may serve.
    tokenizer.pad_token = list_marks(MARKS[name])[-1]
    return tokenizer, "".join([*list_marks(MARKS[name]), *MARKS[name].loose])


def list_attended(tokenizer: Any, ids: Any, mask: Any) -> list[str]:
    return list_controls(tokenizer, ids[mask.bool()].tolist())


@pytest.mark.parametrize("name", MARKS)
def test_a_prompt_of_a_data_set_stays_text(name: str, tmp_path: Path) -> None:
    tokenizer, marks = open_tokenizer(name)
    found = []
    for text in ("x", marks):
        path = tmp_path / f"{len(found)}.parquet"
        write([Record("toy", (("user", text),), "comparison", ("1",), "train", 0, "toy-0", text)], path)
        item = RLHFDataset(path, tokenizer, max_prompt_length=2_000)[0]
        found.append(list_attended(tokenizer, item["input_ids"], item["attention_mask"]))
    assert found[0], "the template's own marks are tokens"
    assert found[0] == found[1]


@pytest.mark.parametrize("name", MARKS)
def test_a_prompt_of_search_r1s_own_loop_stays_text(name: str) -> None:
    tokenizer, marks = open_tokenizer(name)
    # Prompts are tokenised before any worker is asked.
    worker: Any = None
    rollouts = SearchR1Rollouts(worker, tokenizer, settings())
    found = []
    for text in ("x", marks):
        chat = [[{"role": "user", "content": text}]]
        rows = rollouts.tokenize(DataProto.from_dict({}, {"prompt": chat, "uid": ["0"]}))
        found.append(list_attended(tokenizer, rows.tensor("input_ids")[0], rows.tensor("attention_mask")[0]))
    assert found[0], "the template's own marks are tokens"
    assert found[0] == found[1]


@pytest.mark.parametrize("limit", [4_000, 40], ids=["whole", "cut"])
@pytest.mark.parametrize("name", MARKS)
def test_an_observation_stays_text(name: str, limit: int) -> None:
    tokenizer, marks = open_tokenizer(name)
    worker: Any = None
    manager = LLMGenerationManager(tokenizer, worker, settings(max_obs_length=limit))
    found = manager._process_next_obs([f"\n\n<information>{marks}</information>\n\n"])
    assert found.ids.shape[1] > 0
    assert list_attended(tokenizer, found.ids[0], found.mask[0]) == []
