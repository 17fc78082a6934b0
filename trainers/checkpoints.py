"""Checkpoints in the object store; the manifest is written last, so that a checkpoint is complete or absent.

Keys: ``checkpoints/<training>/<step>/<file>`` and ``checkpoints/<training>/<step>/manifest.json``, which lists each
file with its checksum and holds the loop's state.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.core.errors import Conflict, InvalidField, NotFound
from fathom.trainers.config.sections import TrainerConfig
from fathom.trainers.interfaces import Checkpoints
from fathom.transport.store import ObjectStore

MANIFEST = "manifest.json"
# Keys sort as text: with leading zeros they sort by step.
DIGITS = 8


def save_checkpoint(
    checkpoints: Checkpoints, step: int, write: Callable[[Path], None], state: Mapping[str, Any]
) -> None:
    """Save the files that ``write`` puts into a folder, and the loop's state, as the checkpoint of ``step``."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        checkpoints.save(step, Path(name), state)


def restore_checkpoint(
    checkpoints: Checkpoints, trainer: TrainerConfig, identity: Mapping[str, Any], read: Callable[[Path], None]
) -> Mapping[str, Any] | None:
    """Load the configured checkpoint: call ``read`` with its folder and return its state; None to start from scratch.

    Raises ``Conflict`` for a checkpoint with another ``identity``.
    """
    if trainer.resume_mode == "disable":
        return None
    with tempfile.TemporaryDirectory() as name:
        state = checkpoints.load(Path(name), trainer.resume_path if trainer.resume_mode == "resume_path" else None)
        if state is None:
            return None
        # Output folders of two trainings may share a name, and so their checkpoints.
        for what, own in identity.items():
            if state.get(what, own) != own:
                raise Conflict(
                    f"the checkpoint of step {state['step']} is of the {what} {state[what]!r}, not {own!r}:"
                    " choose another trainer.output, or trainer.resume_mode=disable",
                    metadata={"field": "trainer.output"},
                )
        read(Path(name))
    return state


@dataclass(frozen=True)
class StoreCheckpoints:
    """The newest ``keep`` checkpoints of one training; ``call`` runs a coroutine from the training thread."""

    store: ObjectStore
    training: str
    keep: int = 3
    call: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run

    def save(self, step: int, folder: Path, state: Mapping[str, Any]) -> None:
        """Save the folder's files and ``state`` as the checkpoint of ``step``, then delete the oldest ones."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        self.call(self._save(step, {path.relative_to(folder).as_posix(): path for path in paths}, state))

    def load(self, folder: Path, name: str | None = None) -> Mapping[str, Any] | None:
        """Download the newest checkpoint, or that of step ``name``, into the folder and return its state.

        Returns None when there is none. Raises ``NotFound`` for a step without a checkpoint, ``InvalidField`` for a
        name that is not a step, and ``CorruptData`` for a file whose checksum differs.
        """
        state: Mapping[str, Any] | None = self.call(self._load(folder, name))
        return state

    async def _save(self, step: int, paths: Mapping[str, Path], state: Mapping[str, Any]) -> None:
        # A step that is done again: until it is whole once more, the checkpoint before it is the newest.
        await self.store.delete(f"{self._prefix(step)}{MANIFEST}")
        files = {}
        # One file at a time: all shards of a large model together need not fit into memory.
        for name, path in paths.items():
            data = await asyncio.to_thread(path.read_bytes)
            files[name] = (await self.store.put(f"{self._prefix(step)}{name}", data)).sha256
        # Written last, it makes the checkpoint exist: a kill at any moment before leaves files that no reader looks at.
        manifest = json.dumps({"step": step, "state": dict(state), "files": files}, indent=2)
        await self.store.put(f"{self._prefix(step)}{MANIFEST}", manifest.encode(), "application/json")
        # Deleted last: were the process killed during the upload, the older checkpoints would still be there.
        for old in (await self._steps())[: -self.keep]:
            await self._drop(old)

    async def _load(self, folder: Path, name: str | None) -> Mapping[str, Any] | None:
        steps = await self._steps()
        if name is not None and not name.isdigit():
            raise InvalidField("trainer.resume_path", f"{name!r} is no step; there are {steps}")
        if name is not None and int(name) not in steps:
            raise NotFound("checkpoint", name, [str(step) for step in steps])
        if not steps:
            return None
        prefix = self._prefix(steps[-1] if name is None else int(name))
        manifest = json.loads(await self.store.get(f"{prefix}{MANIFEST}"))
        for file, sha256 in manifest["files"].items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            # Read against the checksum: a truncated shard would otherwise load as other weights or fail far from the
            # cause.
            path.write_bytes(await self.store.get(f"{prefix}{file}", sha256))
        state: Mapping[str, Any] = manifest["state"]
        return state

    async def _steps(self) -> list[int]:
        """Return the steps of complete checkpoints, oldest first."""
        stored = await self.store.list(f"checkpoints/{self.training}/")
        return sorted(int(item.key.split("/")[-2]) for item in stored if item.key.endswith(f"/{MANIFEST}"))

    async def _drop(self, step: int) -> None:
        """Delete a checkpoint."""
        prefix = self._prefix(step)
        await self.store.delete(f"{prefix}{MANIFEST}")
        # The manifest is already gone, so a partly deleted checkpoint no longer counts as one.
        for item in await self.store.list(prefix):
            await self.store.delete(item.key)

    def _prefix(self, step: int) -> str:
        return f"checkpoints/{self.training}/{step:0{DIGITS}d}/"
