"""No door takes more memory for a crafted file than one and a half times what it declares."""

from __future__ import annotations

import pytest

from tests.bench.bombs.bombs import GOAL, measure_door
from tests.bench.bombs.doors import DOORS
from tests.bench.bombs.files import BOMBS

# Of the doors that decode in a child process one file each: the others of theirs take minutes together.
IN_CHILDREN = {
    "PutFrame": "arrow, 512 batches",
    "ImportTable": "xlsx, 600 MB of rows",
    "Ingest": "html, 150,000 deep",
    "web page": "page, 59,000 deep",
}


def test_every_file_has_a_door() -> None:
    assert {bomb.door for bomb in BOMBS.values()} == set(DOORS)
    assert all(BOMBS[name].door == door for door, name in IN_CHILDREN.items())
    assert len(BOMBS) >= 40


@pytest.mark.parametrize("door", DOORS)
async def test_a_door_keeps_to_what_it_declares(door: str) -> None:
    results = await measure_door(door, {IN_CHILDREN[door]} if door in IN_CHILDREN else BOMBS)
    assert results
    assert {result.name: result.share for result in results if result.share > GOAL} == {}
