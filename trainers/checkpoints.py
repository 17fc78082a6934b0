"""Checkpoints in the object store; the manifest is written last, so that a checkpoint is complete or absent.

Keys: ``checkpoints/<training>/<step>/<file>``, written by the learners' ranks from where they run, and
``manifest.json`` beside them, written by the driver, with the checksum of each file and the loop's state.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import Conflict, CorruptData, InvalidField, NotFound
from fathom.trainers.config.sections import TrainerConfig
from fathom.trainers.interfaces import Checkpoint, Checkpoints
from fathom.trainers.store_files import StoredFiles, StoredFolder, StoreFolder, check_uploaded
from fathom.transport.store import ObjectStore, StoredObject

MANIFEST = "manifest.json"
FORMAT = 2
"""Format 1 had one pickled file per rank, which no other number of ranks could read."""
# Keys sort as text: with leading zeros they sort by step.
DIGITS = 8


def restore_checkpoint(
    checkpoints: Checkpoints, trainer: TrainerConfig, identity: Mapping[str, Any], read: Callable[[StoredFolder], None]
) -> Mapping[str, Any] | None:
    """Load the configured checkpoint: call ``read`` with its files and return its state; None to start from scratch.

    Raises ``Conflict`` for a checkpoint with another ``identity``.
    """
    if trainer.resume_mode == "disable":
        return None
    found = checkpoints.load(trainer.resume_path if trainer.resume_mode == "resume_path" else None)
    if found is None:
        return None
    state = found.state
    # Output folders of two trainings may share a name, and so their checkpoints.
    for what, own in identity.items():
        if state.get(what, own) != own:
            raise Conflict(
                f"the checkpoint of step {state['step']} is of the {what} {state[what]!r}, not {own!r}:"
                " choose another trainer.output, or trainer.resume_mode=disable",
                metadata={"field": "trainer.output"},
            )
    read(found.folder)
    return state


@dataclass(frozen=True)
class StoreCheckpoints:
    """The newest ``keep`` checkpoints of one training; ``call`` runs a coroutine from the training thread.

    ``url`` is that of ``store``: ranks open it by themselves.
    """

    store: ObjectStore
    url: str
    training: str
    keep: int = 3
    call: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run

    def save(self, step: int, write: Callable[[StoreFolder], StoredFiles], state: Mapping[str, Any]) -> None:
        """Save what ``write`` uploads into a folder, and ``state``, as the checkpoint of ``step``.

        Then deletes the oldest ones. Raises ``CorruptData`` when nothing was uploaded, and ``InvalidField`` when the
        files are not in this store.
        """
        # A step that is done again: until it is whole once more, the checkpoint before it is the newest.
        self.call(self.store.delete(self._manifest(step)))
        files = write(StoreFolder(self.url, self._prefix(step)))
        self.call(self._save(step, files, state))

    def load(self, name: str | None = None) -> Checkpoint | None:
        """Return the newest checkpoint, or that of step ``name``; None when there is none.

        Raises ``NotFound`` for a step without a checkpoint, ``InvalidField`` for a name that is not a step,
        ``CorruptData`` for a manifest without files, and ``Conflict`` for one of an earlier format.
        """
        found: Checkpoint | None = self.call(self._load(name))
        return found

    async def _save(self, step: int, files: StoredFiles, state: Mapping[str, Any]) -> None:
        if not files:
            raise CorruptData(self._manifest(step), "would list no files: no learner has written one")
        await check_uploaded(self.store, files)
        listed = {name: stored.to_json() for name, stored in files.items()}
        # Written last, it makes the checkpoint exist: a kill at any moment before leaves files that no reader looks at.
        manifest = json.dumps({"format": FORMAT, "step": step, "state": dict(state), "files": listed}, indent=2)
        await self.store.put(self._manifest(step), manifest.encode(), "application/json")
        # Deleted last: were the process killed during the upload, the older checkpoints would still be there.
        for old in (await self._steps())[: -self.keep]:
            await self._drop(old)

    async def _load(self, name: str | None) -> Checkpoint | None:
        steps = await self._steps()
        if name is not None and not name.isdigit():
            raise InvalidField("trainer.resume_path", f"{name!r} is no step; there are {steps}")
        if name is not None and int(name) not in steps:
            raise NotFound("checkpoint", name, [str(step) for step in steps])
        if not steps:
            return None
        key = self._manifest(steps[-1] if name is None else int(name))
        manifest = json.loads(await self.store.get(key))
        if manifest.get("format") != FORMAT:
            raise Conflict(
                f"{key} is of an earlier format, not {FORMAT}: finish that training with the version it began with,"
                " or start over with trainer.resume_mode=disable",
                metadata={"field": "trainer.resume_mode"},
            )
        if not manifest["files"]:
            raise CorruptData(key, "lists no files: nothing of the learners was saved")
        files = StoredFiles({file: StoredObject(**stored) for file, stored in manifest["files"].items()})
        return Checkpoint(StoredFolder(self.url, files), manifest["state"])

    async def _steps(self) -> list[int]:
        """Return the steps of complete checkpoints, oldest first."""
        stored = await self.store.keys(f"checkpoints/{self.training}/")
        found = [key.split("/")[-2] for key in stored if key.endswith(f"/{MANIFEST}")]
        return sorted(int(step) for step in found if step.isdigit())

    async def _drop(self, step: int) -> None:
        """Delete a checkpoint."""
        await self.store.delete(self._manifest(step))
        # The manifest is already gone, so a partly deleted checkpoint no longer counts as one.
        for key in await self.store.keys(self._prefix(step) + "/"):
            await self.store.delete(key)

    def _prefix(self, step: int) -> str:
        return f"checkpoints/{self.training}/{step:0{DIGITS}d}"

    def _manifest(self, step: int) -> str:
        return f"{self._prefix(step)}/{MANIFEST}"
