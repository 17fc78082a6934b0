"""Checkpoints in the object store: whole or not there, the newest kept, what is corrupt is said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import CorruptData, DependencyFailed, InvalidField, NotFound
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.transport.store import open_store


def folder_with(root: Path, text: str) -> Path:
    (root / text / "actor").mkdir(parents=True)
    (root / text / "actor" / "rank-00000.pt").write_text(text)
    return root / text


def checkpoints(root: Path, keep: int = 2) -> StoreCheckpoints:
    return StoreCheckpoints(open_store(f"file://{root / 'store'}"), "toy", keep)


def test_the_newest_comes_back_with_its_state(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path)
    assert kept.load(tmp_path / "none") is None
    for step in (9, 10, 11):
        kept.save(step, folder_with(tmp_path, f"at-{step}"), {"step": step, "kl_coef": 0.5})
    found = kept.load(tmp_path / "back")
    assert found == {"step": 11, "kl_coef": 0.5}
    assert (tmp_path / "back" / "actor" / "rank-00000.pt").read_text() == "at-11"
    assert kept.load(tmp_path / "named", "10") == {"step": 10, "kl_coef": 0.5}
    with pytest.raises(NotFound, match="9"):
        kept.load(tmp_path / "gone", "9")
    with pytest.raises(InvalidField, match="resume_path"):
        kept.load(tmp_path / "gone", "../9")


def test_what_has_no_manifest_is_no_checkpoint(tmp_path: Path) -> None:
    """A process that is killed while it saves leaves files behind, and the checkpoint before is found."""
    kept = checkpoints(tmp_path)
    kept.save(1, folder_with(tmp_path, "one"), {"step": 1})
    store = kept.store
    asyncio.run(store.put("checkpoints/toy/00000002/actor/rank-00000.pt", b"half"))
    assert kept.load(tmp_path / "back") == {"step": 1}


def test_a_changed_file_is_corrupt(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path)
    kept.save(1, folder_with(tmp_path, "one"), {"step": 1})
    asyncio.run(kept.store.put("checkpoints/toy/00000001/actor/rank-00000.pt", b"other"))
    with pytest.raises(CorruptData):
        kept.load(tmp_path / "back")


class FailingStore:
    """A store that is gone when the manifest of a step is to be written."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> Any:
        if key.endswith("/manifest.json"):
            raise DependencyFailed("object store", "gone")
        return await self.inner.put(key, data, content_type)


def test_a_step_saved_again_and_broken_off_leaves_the_one_before_as_the_newest(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path)
    kept.save(1, folder_with(tmp_path, "one"), {"step": 1})
    kept.save(2, folder_with(tmp_path, "two"), {"step": 2})
    failing: Any = FailingStore(kept.store)
    broken = StoreCheckpoints(failing, "toy", 2)
    with pytest.raises(DependencyFailed):
        broken.save(2, folder_with(tmp_path, "again"), {"step": 2})
    assert kept.load(tmp_path / "back") == {"step": 1}
