"""Checkpoints in the object store: whole or not there, the newest kept, what is corrupt is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import Conflict, CorruptData, DependencyFailed, InvalidField, NotFound
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.store_files import StoredFiles, StoreFolder
from fathom.transport.store import open_store


def writes(root: Path, text: str) -> Callable[[StoreFolder], StoredFiles]:
    """A learner that uploads one file."""
    (root / text / "actor").mkdir(parents=True, exist_ok=True)
    (root / text / "actor" / "shard").write_text(text)
    return lambda target: target.upload(root / text)


def checkpoints(root: Path, keep: int = 2) -> StoreCheckpoints:
    url = f"file://{root / 'store'}"
    return StoreCheckpoints(open_store(url), url, "toy", keep)


def test_the_newest_comes_back_with_its_state(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path)
    assert kept.load() is None
    for step in (9, 10, 11):
        kept.save(step, writes(tmp_path, f"at-{step}"), {"step": step, "kl_coef": 0.5})
    found = kept.load()
    assert found is not None
    assert found.state == {"step": 11, "kl_coef": 0.5}
    found.folder.part("actor").fetch("shard", tmp_path / "back")
    assert (tmp_path / "back" / "shard").read_text() == "at-11"
    named = kept.load("10")
    assert named is not None
    assert named.state == {"step": 10, "kl_coef": 0.5}
    with pytest.raises(NotFound, match="9"):
        kept.load("9")
    with pytest.raises(InvalidField, match="resume_path"):
        kept.load("../9")
    with pytest.raises(CorruptData, match=r"critic.*has no files; there are .*actor/shard"):
        found.folder.part("critic")


def test_what_has_no_manifest_is_no_checkpoint(tmp_path: Path) -> None:
    """A process that is killed while it saves leaves files behind, and the checkpoint before is found."""
    kept = checkpoints(tmp_path)
    kept.save(1, writes(tmp_path, "one"), {"step": 1})
    asyncio.run(kept.store.put("checkpoints/toy/00000002/actor/shard", b"half"))
    assert newest(kept) == {"step": 1}


def test_a_changed_file_is_corrupt(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path)
    kept.save(1, writes(tmp_path, "one"), {"step": 1})
    asyncio.run(kept.store.put("checkpoints/toy/00000001/actor/shard", b"other"))
    found = kept.load()
    assert found is not None
    with pytest.raises(CorruptData):
        found.folder.fetch_all(tmp_path / "back")


def test_a_checkpoint_without_files_is_refused_by_name(tmp_path: Path) -> None:
    """Neither saved nor, from a version that did save it, resumed: its learners would begin anew in its name."""
    kept, key = checkpoints(tmp_path), "checkpoints/toy/00000002/manifest.json"
    kept.save(1, writes(tmp_path, "one"), {"step": 1})
    with pytest.raises(CorruptData, match=f"{key}.*no files"):
        kept.save(2, lambda target: StoredFiles(), {"step": 2})
    assert newest(kept) == {"step": 1}
    empty = {"format": 2, "step": 2, "state": {"step": 2}, "files": {}}
    asyncio.run(kept.store.put(key, json.dumps(empty).encode()))
    with pytest.raises(CorruptData, match=f"{key}.*no files"):
        kept.load()


def test_files_in_another_store_are_no_checkpoint(tmp_path: Path) -> None:
    """The rank of another node, given a folder for a store, wrote to its own disk."""
    kept = checkpoints(tmp_path)
    elsewhere = StoreFolder(f"file://{tmp_path / 'other-disk'}", "checkpoints/toy/00000001")
    with pytest.raises(InvalidField, match=r"store_url.*actor/shard.*all of them reach"):
        kept.save(1, lambda target: writes(tmp_path, "one")(elsewhere), {"step": 1})
    assert kept.load() is None


def test_an_earlier_format_is_refused(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path)
    old = {"step": 1, "state": {"step": 1}, "files": {"actor/rank-00000.pt": "0" * 64}}
    asyncio.run(kept.store.put("checkpoints/toy/00000001/manifest.json", json.dumps(old).encode()))
    with pytest.raises(Conflict, match="earlier format"):
        kept.load()


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
    kept.save(1, writes(tmp_path, "one"), {"step": 1})
    kept.save(2, writes(tmp_path, "two"), {"step": 2})
    failing: Any = FailingStore(kept.store)
    broken = StoreCheckpoints(failing, kept.url, "toy", 2)
    with pytest.raises(DependencyFailed):
        broken.save(2, writes(tmp_path, "again"), {"step": 2})
    assert newest(kept) == {"step": 1}


def newest(kept: StoreCheckpoints) -> Any:
    found = kept.load()
    return found.state if found else None
