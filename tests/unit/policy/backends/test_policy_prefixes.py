"""Kept prefixes and growing caches, against plain tensors; drawing against its frequencies."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.policy.backends.transformers.cache import (
    BLOCK,
    GrowingLayer,
    Layers,
    PrefixStore,
    build_cache,
    empty_cache,
    list_layers,
    select_rows,
    stack_caches,
)
from fathom.services.policy.backends.transformers.sampling import draw, pick


def layers(ids: list[int]) -> Layers:
    """Keys that are the ids themselves, values that are their negatives; one layer, one head."""
    keys = torch.tensor(ids, dtype=torch.float32).reshape(1, 1, -1, 1)
    return [(keys, -keys)]


def read_layer(cache: object) -> list[float]:
    found = list_layers(cache)
    return found[0][0].flatten().tolist() if found else []


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=12), st.lists(st.integers(0, 2)))
def test_the_longest_known_beginning_is_found(known: list[list[int]], wanted: list[int]) -> None:
    store = PrefixStore(1000)
    for ids in known:
        store.put(ids, layers(ids))
    wanted = [*wanted, 9]
    length, cache = store.longest(wanted)
    best = max((common(ids, wanted) for ids in known), default=0)
    assert length == best
    assert read_layer(cache) == wanted[:best]
    # Of what begins another nothing is kept twice.
    distinct = [ids for ids in known if not any(other != ids and other[: len(ids)] == ids for other in known)]
    assert store.tokens == sum(map(len, {tuple(ids) for ids in distinct}))


def common(one: list[int], other: list[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_at_least_one_id_is_left_to_compute() -> None:
    store = PrefixStore(10)
    store.put([1, 2, 3], layers([1, 2, 3]))
    assert store.longest([1, 2, 3])[0] == 2


def test_what_was_not_used_for_longest_goes_first() -> None:
    store = PrefixStore(6)
    for start in (10, 20):
        store.put([start, start + 1, start + 2], layers([start, start + 1, start + 2]))
    assert store.longest([10, 11, 99])[0] == 2
    store.put([30, 31], layers([30, 31]))
    assert store.tokens <= 6
    assert store.longest([20, 21, 99])[0] == 0
    assert store.longest([10, 11, 99])[0] == 2
    store.put(list(range(100)), layers(list(range(100))))  # larger than the whole room: not kept, nothing lost
    assert store.longest([30, 31, 99])[0] == 2


def test_a_growing_layer_holds_what_concatenation_would() -> None:
    torch.manual_seed(0)
    layer, plain = GrowingLayer(), torch.empty(2, 3, 0, 4)
    for columns in (5, 1, 1, BLOCK, 1, 2 * BLOCK, 1):
        new = torch.randn(2, 3, columns, 4)
        plain = torch.cat([plain, new], dim=2)
        keys, values = layer.update(new, -new)
        assert torch.equal(keys, plain)
        assert torch.equal(values, -plain)
        assert layer.get_seq_length() == plain.shape[2]


def test_a_shared_prefix_is_never_written() -> None:
    store = PrefixStore(100)
    store.put([1, 2, 3, 4], layers([1, 2, 3, 4]))
    for end in (7.0, 8.0):
        length, cache = store.longest([1, 2, 3, 5])
        cache.update(torch.full((1, 1, 1, 1), end), torch.full((1, 1, 1, 1), end), 0)
        assert read_layer(cache) == [1, 2, 3, end]
        assert length == 3
    assert read_layer(store.longest([1, 2, 3, 4, 5])[1]) == [1, 2, 3, 4]


def test_rows_are_stacked_at_their_right_end_and_selected_again() -> None:
    both = stack_caches([build_cache(layers([1, 2, 3])), build_cache(layers([7]))], 4)
    assert list_layers(both)[0][0][:, 0, :, 0].tolist() == [[0, 1, 2, 3], [0, 0, 0, 7]]
    assert read_layer(select_rows(both, torch.tensor([0]), 1)) == [1, 2, 3]
    assert list_layers(empty_cache()) == []


def test_draws_have_the_frequencies_of_the_weights() -> None:
    source = torch.Generator().manual_seed(1)
    weights = torch.tensor([0.0, 0.1, 0.0, 0.6, 0.3, 0.0])
    counts = Counter(pick(weights, source) for _ in range(4000))
    assert set(counts) == {1, 3, 4}
    for index in counts:
        assert counts[index] / 4000 == pytest.approx(float(weights[index]), abs=0.03)


@pytest.mark.parametrize(("top_k", "top_p", "kept"), [(2, 1.0, {3, 4}), (0, 0.55, {3}), (0, 0.95, {3, 4, 1})])
def test_a_cut_distribution_gives_only_what_is_left(top_k: int, top_p: float, kept: set[int]) -> None:
    source = torch.Generator().manual_seed(2)
    log_probs = torch.tensor([1e-9, 0.1, 1e-9, 0.6, 0.3]).log()
    assert {draw(log_probs, top_k, top_p, source) for _ in range(400)} == kept
