"""The one truth of which version serves which lane: read strictly, shared out steadily."""

import json
from collections import Counter
from typing import Any

import pytest

from fathom.core.call import Lane
from fathom.core.errors import CorruptData, InvalidField
from fathom.domain.weights.serving import Notice, Serving, key_of
from fathom.transport.store.base import StoredObject

ONE = StoredObject("weights/tiny/1/manifest-a.json", 10, "a" * 64, "application/json")
TWO = StoredObject("weights/tiny/2/manifest-b.json", 10, "b" * 64, "application/json")
EMPTY = Serving("tiny", {})


def test_an_entry_comes_back_as_it_was_written() -> None:
    entry = EMPTY.with_version(1, ONE, (), 100).with_version(2, TWO, [Lane.INTERACTIVE], 10)
    assert Serving.from_json(entry.to_json(), key_of("tiny")) == entry
    assert {share.version for share in entry.shares().values()} == {1, 2}
    assert [share.version for share in entry.lanes[Lane.TRAINING]] == [1]
    notice = Notice("tiny", 2, TWO)
    assert Notice.from_json(notice.to_json(), "s") == notice


def test_a_canary_gets_its_share_and_keeps_its_conversations() -> None:
    entry = EMPTY.with_version(1, ONE, (), 100).with_version(2, TWO, [Lane.INTERACTIVE], 10)
    chosen = [entry.choose(Lane.INTERACTIVE, f"conversation {index}") for index in range(5_000)]
    counts = Counter(share.version for share in chosen if share)
    assert 400 < counts[2] < 600
    assert chosen == [entry.choose(Lane.INTERACTIVE, f"conversation {index}") for index in range(5_000)]
    promoted = entry.with_version(2, TWO, [Lane.INTERACTIVE], 100)
    assert [share.version for share in promoted.lanes[Lane.INTERACTIVE]] == [2]
    withdrawn = entry.with_version(1, ONE, (), 100)
    assert list(withdrawn.shares()) == [f"1-{'a' * 12}"]


def test_a_lane_without_versions_gives_none_and_takes_no_canary() -> None:
    entry = EMPTY.with_version(1, ONE, [Lane.TRAINING], 100)
    assert entry.choose(Lane.INTERACTIVE, "x") is None
    with pytest.raises(InvalidField, match="percent"):
        entry.with_version(2, TWO, [Lane.INTERACTIVE], 10)
    for percent in (0, 101):
        with pytest.raises(InvalidField, match="percent"):
            entry.with_version(2, TWO, (), percent)


SHARE = {"version": 1, "percent": 100, "manifest": {"key": "k", "size_bytes": 1, "sha256": "0" * 64}}


@pytest.mark.parametrize(
    "entry",
    [
        "garbage",
        [],
        {"format": 2},
        {"lanes": {"nowhere": [SHARE]}},
        {"lanes": {"training": []}},
        {"lanes": {"training": [SHARE, SHARE]}},
        {"lanes": {"training": [{**SHARE, "percent": 50}]}},
        {"lanes": {"training": [{**SHARE, "version": 0}]}},
        {"lanes": {"training": [{**SHARE, "version": "1"}]}},
        {"lanes": {"training": [{**SHARE, "version": True}]}},
        {"lanes": {"training": [{"version": 1, "percent": 100}]}},
        {"lanes": {"training": [{**SHARE, "manifest": {"key": "k", "size_bytes": 1, "sha256": "zz"}}]}},
        {"lanes": {"training": [{**SHARE, "manifest": "k"}]}},
        {"lanes": [SHARE]},
        {"model": "../x"},
        {"model": "other"},
    ],
)
def test_garbage_is_corrupt_data(entry: Any) -> None:
    good = {"format": 1, "model": "tiny", "lanes": {"training": [SHARE]}}
    data = json.dumps({**good, **entry} if isinstance(entry, dict) else entry).encode()
    with pytest.raises(CorruptData, match=r"model\.tiny"):
        Serving.from_json(data, key_of("tiny"))


@pytest.mark.parametrize("data", [b"", b"[]", b'{"model": "a"}', b'{"model": "a", "version": 0, "manifest": {}}'])
def test_a_garbled_notice_is_corrupt_data(data: bytes) -> None:
    with pytest.raises(CorruptData):
        Notice.from_json(data, "fathom.weights.a")
