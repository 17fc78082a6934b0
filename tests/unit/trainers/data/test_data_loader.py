"""Prompts as ids, batches as DataProto, and a position that is found again exactly."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from fathom.core.errors import Conflict, InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.data.dataset import RLHFDataset, collate_fn
from fathom.trainers.data.loader import PromptLoader, loader_batch_size
from fathom.trainers.data.records import Record, write
from fathom.trainers.learners import tiny

WORDS = ["larger", "of", "and", *map(str, range(40))]


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return tiny.build_tokenizer(WORDS)


def prompts(path: Path, count: int, *, start: int = 0) -> Path:
    """Row n asks "larger of n and 0": seven ids in the chat; every tenth has four more."""
    records = []
    for n in range(start, start + count):
        text = f"larger of {n} and 0" + (" and 0 and 0" if n % 10 == 9 else "")
        records.append(Record("toy", (("user", text),), "comparison", (str(n),), "train", n, f"toy-{n}", text))
    write(records, path)
    return path


def numbers(batch: Any) -> list[int]:
    """The rows of a batch by their answers."""
    return [int(row["ground_truth"]["target"][0]) for row in batch["reward_model"]]


def test_a_prompt_is_left_padded_with_its_positions(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    data = RLHFDataset(prompts(tmp_path / "a.parquet", 3), tokenizer, max_prompt_length=14)
    item = data[2]
    ids = tokenizer("<|start|> user larger of 2 and 0 <|end|> <|start|> assistant", add_special_tokens=False)[
        "input_ids"
    ]
    assert len(ids) == 10
    assert item["input_ids"].tolist() == [0] * 4 + ids
    assert item["attention_mask"].tolist() == [0] * 4 + [1] * 10
    assert item["position_ids"].tolist() == [0] * 4 + list(range(10))
    assert item["raw_prompt_ids"] == ids
    assert {item[name].dtype for name in ("input_ids", "attention_mask", "position_ids")} == {torch.int64}
    assert (item["data_source"], item["extra_info"]["question"]) == ("toy", "larger of 2 and 0")
    assert "raw_prompt" not in item


def test_files_are_read_one_behind_the_other(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    files = [prompts(tmp_path / "a.parquet", 3), prompts(tmp_path / "b.parquet", 2, start=20)]
    data = RLHFDataset(files, tokenizer, return_raw_chat=True)
    assert numbers({"reward_model": [data[n]["reward_model"] for n in range(5)]}) == [0, 1, 2, 20, 21]
    assert data[3]["raw_prompt"] == [{"role": "user", "content": "larger of 20 and 0"}]


def test_long_prompts_are_filtered_refused_or_cut(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    path = prompts(tmp_path / "a.parquet", 10)
    filtered = RLHFDataset(path, tokenizer, max_prompt_length=10)
    assert (len(filtered), filtered.total) == (9, 10)
    strict = RLHFDataset(path, tokenizer, max_prompt_length=10, filter_prompts=False)
    with pytest.raises(InvalidField, match="toy-9 has 14 tokens"):
        strict[9]
    whole = strict[0]["raw_prompt_ids"]
    assert len(whole) == 10
    left = RLHFDataset(path, tokenizer, max_prompt_length=10, filter_prompts=False, truncation="left")[9]
    right = RLHFDataset(path, tokenizer, max_prompt_length=10, filter_prompts=False, truncation="right")[9]
    assert left["raw_prompt_ids"][-2:] == whole[-2:], "the generation prompt is kept"
    assert right["raw_prompt_ids"][:4] == whole[:4]
    assert left["attention_mask"].sum() == right["attention_mask"].sum() == 10
    with pytest.raises(InvalidField, match="none of 10 prompts"):
        RLHFDataset(path, tokenizer, max_prompt_length=5)


def test_wrong_settings_are_named(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    path = prompts(tmp_path / "a.parquet", 2)
    with pytest.raises(InvalidField, match="truncation"):
        RLHFDataset(path, tokenizer, truncation="middle")  # type: ignore[arg-type]
    with pytest.raises(InvalidField, match="parquet_files"):
        RLHFDataset([], tokenizer)
    tokenizer.pad_token = tokenizer.eos_token = None
    with pytest.raises(InvalidField, match="tokenizer"):
        RLHFDataset(path, tokenizer)


def test_a_tokenizer_without_a_template_gets_the_bare_text(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.chat_template = None
    item = RLHFDataset(prompts(tmp_path / "a.parquet", 1), tokenizer)[0]
    assert tokenizer.decode(item["raw_prompt_ids"]) == "larger of 0 and 0"


def test_collate_keeps_tensors_and_the_rest_apart() -> None:
    batch = collate_fn(
        [
            {"ids": torch.tensor([1, 2]), "acc": torch.tensor(1.0), "who": "a", "list": [1, 2]},
            {"ids": torch.tensor([3, 4]), "acc": torch.tensor(0.0), "who": "b", "list": [3]},
        ]
    )
    assert batch["ids"].tolist() == [[1, 2], [3, 4]]
    assert batch["acc"].shape == (2,)
    assert isinstance(batch["who"], np.ndarray)
    assert batch["who"].dtype == batch["list"].dtype == np.dtype(object)
    assert batch["list"].tolist() == [[1, 2], [3]]
    data = DataProto.from_single_dict(batch)
    assert (set(data.batch), set(data.non_tensor_batch)) == ({"ids", "acc"}, {"who", "list"})


def test_collate_names_what_does_not_fit() -> None:
    with pytest.raises(InvalidField, match="b: is not in every item"):
        collate_fn([{"a": 1, "b": 2}, {"a": 1}])
    with pytest.raises(InvalidField, match=r"a: has shapes"):
        collate_fn([{"a": torch.zeros(1)}, {"a": torch.zeros(2)}])
    with pytest.raises(InvalidField, match="items"):
        collate_fn([])


def loader(folder: Path, tokenizer: PreTrainedTokenizerFast, **settings: Any) -> PromptLoader:
    path = folder / "p.parquet"
    data = RLHFDataset(path if path.exists() else prompts(path, 23), tokenizer, max_prompt_length=16)
    return PromptLoader(data, 5, **settings)


def test_an_epoch_is_whole_batches_of_different_rows(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    source = loader(tmp_path, tokenizer, seed=3)
    epochs = [[numbers(batch) for batch in source] for _ in range(2)]
    assert [[len(rows) for rows in epoch] for epoch in epochs] == [[5] * 4] * 2
    for epoch in epochs:
        assert len(set(itertools.chain(*epoch))) == 20
    assert epochs[0] != epochs[1]
    again = loader(tmp_path, tokenizer, seed=3)
    assert [numbers(batch) for batch in again] == epochs[0]
    assert [numbers(batch) for batch in loader(tmp_path, tokenizer, seed=4)] != epochs[0]
    straight = loader(tmp_path, tokenizer, shuffle=False, drop_last=False)
    assert list(itertools.chain(*[numbers(batch) for batch in straight])) == list(range(23))


def test_batches_become_data_protos(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    source = loader(tmp_path, tokenizer)
    protos = [*source.protos(), *source.protos()]
    assert [proto.meta_info for proto in protos] == [
        {"epoch": epoch, "batch": number} for epoch in range(2) for number in range(4)
    ]
    first = protos[0]
    first.require("input_ids", "attention_mask", "position_ids")
    assert first.batch["input_ids"].shape == (5, 16)
    assert first.array("data_source").tolist() == ["toy"] * 5


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [1, 3, 4, 6, 8])
def test_a_saved_position_is_found_again(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, taken: int, workers: int
) -> None:
    """Also at the end of an epoch (4, 8 of 4 batches each), and when workers have read ahead."""
    straight = loader(tmp_path, tokenizer)
    wanted = [numbers(batch) for _ in range(3) for batch in straight]
    source = loader(tmp_path, tokenizer, num_workers=workers)
    seen: list[list[int]] = []
    while len(seen) < taken:
        for batch in source:
            seen.append(numbers(batch))
            if len(seen) == taken:
                break
    state = source.state_dict()
    assert (state["epoch"], state["position"]) == divmod(taken, 4)
    resumed = loader(tmp_path, tokenizer)
    resumed.load_state_dict(state)
    while resumed.epoch < 3:
        seen += [numbers(batch) for batch in resumed]
    assert seen == wanted


def test_taking_a_batch_leaves_the_trainers_random_state_alone(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    """Else a resumed training, which begins to iterate once more, would sample differently from there on."""
    source = loader(tmp_path, tokenizer)
    before = torch.get_rng_state()
    next(iter(source))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_position_in_other_data_is_refused(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    source = loader(tmp_path, tokenizer)
    state = source.state_dict()
    with pytest.raises(Conflict, match="seed was 7 and is 8"):
        loader(tmp_path, tokenizer, seed=8).load_state_dict(state)
    other = RLHFDataset(prompts(tmp_path / "q.parquet", 23, start=1), tokenizer, max_prompt_length=16)
    with pytest.raises(Conflict, match="fingerprint"):
        PromptLoader(other, 5).load_state_dict(state)
    with pytest.raises(InvalidField, match="batch 4 of epoch 0"):
        source.load_state_dict({**state, "position": 4})


def test_too_few_prompts_for_a_batch(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    data = RLHFDataset(prompts(tmp_path / "a.parquet", 4), tokenizer)
    with pytest.raises(InvalidField, match="5 prompts per step, but there are 4"):
        PromptLoader(data, 5)


@pytest.mark.filterwarnings("error")
def test_oversampling_multiplies_the_batch() -> None:
    assert loader_batch_size(8, 4.0) == 32
    assert loader_batch_size(10, 1.1) == 11, "11.000000000000002 is a whole number"


def test_a_batch_that_is_no_whole_number_is_rounded_down_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"5 x data.oversample_factor 1.5 is 7.5: 7 prompts"):
        assert loader_batch_size(5, 1.5) == 7
