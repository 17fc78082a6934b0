"""Page tokens: opaque, bound to their list, and accepted only as they were written."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField
from fathom.core.paging import page_of_list, page_size, read_token, write_token


@given(st.text(max_size=20), st.text(max_size=20), st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_token_reads_as_it_was_written(of: str, name: str, position: int) -> None:
    token = write_token(of, name, position)
    assert read_token(token, of, (str, int)) == (name, position)
    # A token of another list, or with another kind of key, is as good as a forged one.
    for other, kinds in ((f"{of}x", (str, int)), (of, (int, str)), (of, (str,))):
        with pytest.raises(InvalidField) as refused:
            read_token(token, other, kinds)
        assert refused.value.field == "page_token"


@pytest.mark.parametrize(
    "token",
    [
        # No base64, base64 of no JSON, a number, very long, no UTF-8, other spacing than ours, brackets without an end.
        "%%%", "bm90", "-1", "a" * 10_000, base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        base64.urlsafe_b64encode(b'["list",  5]').decode(), base64.urlsafe_b64encode(b"[" * 10_000).decode(),
    ],
)  # fmt: skip
def test_a_token_that_was_not_written_here_is_refused(token: str) -> None:
    with pytest.raises(InvalidField):
        read_token(token, "list", (int,))


def test_pages_cover_a_list_once_also_when_it_grows_meanwhile() -> None:
    names, token, seen = [f"n{number:02}" for number in range(7)], "", list[str]()
    while True:
        page, token = page_of_list(names, "names", 3, token)
        seen += page
        if not token:
            break
        # New names come in front of everything already read: by offset a page would repeat some.
        names.insert(0, f"new{len(names)}")
    assert seen == [f"n{number:02}" for number in range(7)]


def test_a_page_size_out_of_range_and_a_token_of_a_name_that_is_gone_are_refused() -> None:
    assert page_size(0) == 100
    for size in (-1, 1_001):
        with pytest.raises(InvalidField) as refused:
            page_size(size)
        assert refused.value.field == "page_size"
    with pytest.raises(InvalidField):
        # A name that was deleted between two pages.
        page_of_list(["a", "b"], "names", 1, write_token("names", "c"))
