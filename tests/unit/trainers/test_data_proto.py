"""DataProto: fields and groups stay together under every operation; what does not fit is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto


def groups(count: int, size: int) -> DataProto:
    """``count`` groups of ``size`` rows; each cell tells its row."""
    rows = torch.arange(count * size)
    return DataProto.from_dict(
        {"responses": rows.unsqueeze(1).repeat(1, 3), "acc": rows.float()},
        {"uid": [f"g{row // size}" for row in rows.tolist()], "index": rows.tolist()},
        {"n": size},
    )


def rows_of(data: DataProto) -> list[int]:
    """The original rows, after a check that every field still tells the same ones."""
    tensor = data.batch["responses"][:, 0].tolist()
    assert tensor == data.non_tensor_batch["index"].tolist() == [int(value) for value in data.batch["acc"]]
    return tensor


sizes = st.integers(1, 5)


@given(sizes, sizes, st.randoms())
def test_any_chain_of_operations_keeps_a_rows_fields_together(count: int, size: int, random: Any) -> None:
    data = groups(count, size)
    order = list(range(len(data)))
    random.shuffle(order)
    shuffled = data.reorder(order)
    assert rows_of(shuffled) == order
    assert rows_of(DataProto.concat(shuffled.split(2))) == order
    back = shuffled.reorder(sorted(range(len(order)), key=order.__getitem__))
    assert rows_of(back) == list(range(len(data)))
    back.require_groups(size)
    assert rows_of(back[torch.tensor(order) % 2 == 0]) == [row for row in range(len(data)) if order[row] % 2 == 0]


@given(sizes, st.integers(1, 4))
def test_interleaved_repetition_makes_groups(count: int, times: int) -> None:
    data = groups(count, 1)
    data.repeat(times).require_groups(times)
    assert rows_of(data.repeat(times)) == [row for row in range(count) for _ in range(times)]
    assert rows_of(data.repeat(times, interleave=False)) == list(range(count)) * times


def test_union_keeps_both_sides_and_refuses_what_differs() -> None:
    data = groups(2, 2)
    other = DataProto.from_dict({"values": torch.zeros(4, 3), "acc": data.batch["acc"]}, meta_info={"t": 1})
    both = data.union(other)
    assert sorted(name for name, _ in both.columns()) == ["acc", "index", "responses", "uid", "values"]
    assert both.meta_info == {"n": 2, "t": 1}
    with pytest.raises(InvalidField, match="acc"):
        data.union(DataProto.from_dict({"acc": torch.ones(4)}))
    with pytest.raises(InvalidField, match=r"meta_info\.n"):
        data.union(DataProto({}, {}, {"n": 3}))
    with pytest.raises(InvalidField, match="uid"):
        data.union(DataProto.from_dict({}, {"uid": ["x"] * 4}))


def test_select_pop_and_rename_name_what_is_missing() -> None:
    data = groups(2, 1)
    taken, rest = data.pop(["acc", "uid"])
    assert {name for name, _ in taken.columns()} == {"acc", "uid"}
    assert {name for name, _ in rest.columns()} == {"responses", "index"}
    assert "scores" in data.rename({"acc": "scores"})
    for wrong in ({"nothing": "x"}, {"acc": "responses"}):
        with pytest.raises(InvalidField):
            data.rename(wrong)
    with pytest.raises(InvalidField, match="rm_scores"):
        data.select(["rm_scores"])
    with pytest.raises(InvalidField, match="rm_scores"):
        data.tensor("rm_scores")
    with pytest.raises(InvalidField, match="ground_truth"):
        data.array("ground_truth")


def fitting() -> dict[str, torch.Tensor]:
    return {
        "prompts": torch.zeros(2, 3, dtype=torch.int64),
        "responses": torch.zeros(2, 4, dtype=torch.int64),
        "input_ids": torch.zeros(2, 7, dtype=torch.int64),
        "attention_mask": torch.ones(2, 7, dtype=torch.int64),
        "rm_scores": torch.zeros(2, 4),
        "acc": torch.zeros(2),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rm_scores", torch.zeros(2, 3)),
        ("rm_scores", torch.zeros(2, 4, dtype=torch.float64)),
        ("acc", torch.zeros(2, 1)),
        ("acc", torch.zeros(2, dtype=torch.int64)),
        ("attention_mask", torch.ones(2, 7)),
        ("attention_mask", torch.ones(2, 6, dtype=torch.int64)),
        ("prompts", torch.zeros(3, dtype=torch.int64)[:2]),
    ],
)
def test_the_schema_names_the_field_that_does_not_fit(name: str, value: torch.Tensor) -> None:
    DataProto.from_dict(fitting()).require(*fitting())
    with pytest.raises(InvalidField) as caught:
        DataProto.from_dict(fitting() | {name: value}).require(name)
    assert caught.value.field == name


def test_widths_must_add_up_and_rows_agree() -> None:
    wide = {"input_ids": torch.zeros(2, 8, dtype=torch.int64), "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
    with pytest.raises(InvalidField, match="input_ids"):
        DataProto.from_dict(fitting() | wide).require("input_ids")
    with pytest.raises(InvalidField, match="acc: has 3 rows"):
        DataProto.from_dict(fitting() | {"acc": torch.zeros(3)})
    with pytest.raises(InvalidField, match="scalar"):
        DataProto.from_dict({"acc": torch.tensor(1.0)})
    with pytest.raises(InvalidField, match="values"):
        DataProto.from_dict(fitting()).require("values")


@pytest.mark.parametrize("uids", [["a", "b", "a", "b"], ["a", "a", "a", "a"], ["a", "a", "b"]])
def test_groups_that_are_torn_or_mixed_are_refused(uids: list[str]) -> None:
    with pytest.raises(InvalidField, match="uid"):
        DataProto.from_dict({}, {"uid": uids}).require_groups(2)


def test_parts_that_do_not_divide_are_refused() -> None:
    data = groups(3, 1)
    assert [len(part) for part in data.split(2)] == [2, 1]
    assert [len(part) for part in data.chunk(3)] == [1, 1, 1]
    for call in (
        lambda: data.chunk(2), lambda: data.split(0), lambda: data.repeat(0), lambda: data.reorder([0, 0, 1]),
        lambda: DataProto.concat([]), lambda: DataProto.concat([data, data.select(["acc"])]),
    ):  # fmt: skip
        with pytest.raises(InvalidField):
            call()
    assert len(DataProto()) == 0


def test_a_list_per_row_stays_a_list() -> None:
    data = DataProto.from_single_dict({"acc": torch.zeros(2), "targets": [["a"], ["b", "c"]]}, {"t": 1})
    assert data.non_tensor_batch["targets"].tolist() == [["a"], ["b", "c"]]
    assert data[[1]].non_tensor_batch["targets"][0] == ["b", "c"]
    assert data.with_meta(t=2).meta_info == {"t": 2}
    assert data.with_tensors(acc=torch.ones(2)).batch["acc"].tolist() == [1.0, 1.0]
    assert data.batch["acc"].tolist() == [0.0, 0.0]
    assert data.to("cpu").batch.keys() == {"acc"}
