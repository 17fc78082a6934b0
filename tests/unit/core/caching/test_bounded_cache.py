"""The bounded cache: what it holds, and for how long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fathom.core.cache import BoundedCache
from tests.support.clock import Clock


def test_the_entry_used_longest_ago_makes_room() -> None:
    cache = BoundedCache[str, int](max_entries=2, max_bytes=100, ttl_s=10)
    cache.put("a", 1, 1)
    cache.put("b", 2, 1)
    assert cache.get("a") == 1
    cache.put("c", 3, 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_value_over_the_bound_is_refused_and_costs_nothing_else() -> None:
    cache = BoundedCache[str, int](max_entries=9, max_bytes=100, ttl_s=10)
    cache.put("a", 1, 60)
    # One over the bound; it must not drive out what is there and then not fit.
    assert not cache.put("b", 2, 101)
    assert (cache.get("a"), cache.get("b"), cache.size_bytes) == (1, None, 60)


def test_what_has_expired_is_gone_whatever_is_asked_for_and_however_lately_it_was_used() -> None:
    clock = Clock(0.0)
    cache = BoundedCache[str, int](max_entries=9, max_bytes=100, ttl_s=10, clock=clock)
    cache.put("a", 1, 60)
    clock.now = 9.0
    # Used at 9, which refreshes its order and not its age.
    assert cache.get("a") == 1
    cache.put("b", 2, 10)
    clock.now = 10.0
    assert cache.get("other") is None
    # Only b is left: 10 bytes.
    assert (len(cache), cache.size_bytes) == (1, 10)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 40), st.integers(0, 4))))
# Small bounds, so that random steps reach them: four entries of up to 40 in 60 bytes.
def test_the_bounds_hold_after_every_step(steps: list[tuple[int, int, int]]) -> None:
    clock, sizes = Clock(0.0), dict[int, int]()
    cache = BoundedCache[int, int](max_entries=4, max_bytes=60, ttl_s=8, clock=clock)
    for key, size, pause in steps:
        clock.now += pause
        cache.put(key, size, size)
        sizes[key] = size
        # Reading reorders, so the model of what is held is taken from the cache itself and checked by its sums.
        held = [key for key in sizes if cache.get(key) is not None]
        assert cache.size_bytes == sum(sizes[key] for key in held) <= 60
        assert len(cache) == len(held) <= 4
