"""Models written as ``store:KEY``, fetched on the node that needs them.

Each node keeps one copy below its temporary folder, which ranks of the node share.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fathom.core.errors import InvalidField, NotFound
from fathom.core.ids import sha256
from fathom.trainers.config import TrainConfig
from fathom.trainers.store_files import StoredFiles, StoredFolder, with_store
from fathom.transport.store import ObjectStore

SCHEME = "store:"
WEIGHTS = (".safetensors", ".bin", ".pt")


def fetch_models(config: TrainConfig, url: str, *, weights: bool = True) -> TrainConfig:
    """Return settings in which the models of ``store:`` keys are folders of this node, downloaded unless they are here.

    Without ``weights`` only the small files are fetched, which a tokenizer needs. Call outside any event loop. Raises
    ``NotFound`` for a key without objects, and ``InvalidField`` naming the setting when there is no store.
    """
    model, reward = config.model, config.reward_model
    found = {
        "model.path": model.path,
        "reward_model.path": reward.path or "",
        "reward_model.ref_path": reward.ref_path or "",
    }
    local = {
        name: str(fetch_model(place.removeprefix(SCHEME), url, name, weights=weights))
        for name, place in found.items()
        if place.startswith(SCHEME)
    }
    if not local:
        return config
    reward_paths = {name: local.get(f"reward_model.{name}", getattr(reward, name)) for name in ("path", "ref_path")}
    return config.model_copy(
        update={
            "model": model.model_copy(update={"path": local.get("model.path", model.path)}),
            "reward_model": reward.model_copy(update=reward_paths),
        }
    )


def fetch_model(key: str, url: str, setting: str, *, weights: bool = True) -> Path:
    """Download the objects below ``key`` into this node's folder for them, once, and return it."""
    if not url:
        raise InvalidField(setting, f"is {SCHEME}{key}, and there is no store to fetch it from")

    async def list_files(store: ObjectStore) -> StoredFiles:
        found = await store.list(f"{key}/")
        return StoredFiles({one.key.removeprefix(f"{key}/"): one for one in found})

    files = asyncio.run(with_store(url, list_files))
    if not files:
        raise NotFound("object", f"{SCHEME}{key}")
    if not weights:
        files = StoredFiles({name: one for name, one in files.items() if not name.endswith(WEIGHTS)})
    # Named by content: a model that is stored anew under the same key is another folder.
    content = json.dumps({name: one.checksum for name, one in files.items()}, sort_keys=True)
    target = own_folder() / sha256(content.encode())[:32]
    with only_one(target):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent) as partial:
                StoredFolder(url, files).fetch_all(Path(partial) / "model")
                # Appears whole or not at all: a killed download leaves a temporary folder behind.
                (Path(partial) / "model").rename(target)
    return target


def own_folder() -> Path:
    """Return this user's folder for models below the temporary folder of the node; raises ``InvalidField``."""
    folder = Path(tempfile.gettempdir()) / f"fathom-models-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # The name can be foreseen: on a shared machine somebody else could have put a model there.
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise InvalidField("model.path", f"{folder}, where models of the store are kept, belongs to somebody else")
    return folder


@contextmanager
def only_one(target: Path) -> Iterator[None]:
    """Let one process of this node at a time work on ``target``; the others wait."""
    with target.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
