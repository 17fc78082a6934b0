"""The value of a step is shown with the series, or all the values, that it is taken from."""

from __future__ import annotations

import pytest

from fathom.domain.programs.origins import find_ranking, list_courses


@pytest.mark.parametrize(
    ("code", "courses"),
    [
        ("f.minus(f.ret(f.within(s1, P)), f.ret(f.within(s2, P)))", ["f.within(s1, P)", "f.within(s2, P)"]),
        ("f.minimum(f.between(s1, _1, f.end(P)))", ["f.between(s1, _1, f.end(P))"]),
        ("f.rank(f.vol(f.each(s1, s2), 'day'))", ["f.each(s1, s2)"]),
        ("f.pct(_1, _2)", []),
        ("f.at(s1, P)", []),
    ],
)
def test_the_course_of_a_step_is_what_its_measure_takes(code: str, courses: list[str]) -> None:
    assert list_courses(code) == courses


@pytest.mark.parametrize(
    ("code", "ranking"),
    [
        ("f.top(f.ret(f.each(s1, s2)), 1)", "f.rank(f.ret(f.each(s1, s2)))"),
        ("f.item(f.rank(f.vol(f.each(s1, s2))), 0)", "f.rank(f.vol(f.each(s1, s2)))"),
        # Days of a series, and no names.
        ("f.top(f.within(s1, P), 3)", ""),
        ("f.bottom(f.minus(s1, s2), 3)", ""),
        ("f.ret(s1)", ""),
    ],
)
def test_the_best_of_several_is_taken_from_all_of_them_by_size(code: str, ranking: str) -> None:
    assert find_ranking(code) == ranking
