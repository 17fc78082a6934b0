"""A folder store on a disk that is really full: refused by type, nothing torn, and usable again with room."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.core.errors import DependencyFailed
from fathom.transport.store.folder import FolderStore

UNSHARE = shutil.which("unshare")
# A namespace of its own: the mount is gone with the process, whatever becomes of it.
MOUNT = 'mount -t tmpfs -o size=512k tmpfs "$1" && exec "$2" -m tests.unit.store.test_full_disk "$1"'


def run_on_small_disk(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(UNSHARE), "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", str(folder), sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(UNSHARE is None, reason="no unshare on this machine")
def test_a_full_disk_is_a_transient_failure_that_tears_nothing(tmp_path: Path) -> None:
    done = run_on_small_disk(tmp_path)
    if "Operation not permitted" in done.stderr or "unshare failed" in done.stderr:
        pytest.skip("mount namespaces are not allowed here")
    assert (done.returncode, done.stdout) == (0, "as it should be\n"), done.stderr


async def fill(folder: Path) -> None:
    """Fill the disk below a store, see what it says, and go on with room; runs in the namespace."""
    store, data, stored = FolderStore(folder / "store"), os.urandom(60_000), 5
    for number in range(stored):
        await store.put(f"objects/{number}", data)
    with pytest.raises(DependencyFailed, match="No space left") as refused:
        await store.put("objects/large", os.urandom(400_000))
    assert refused.value.transient, "a run waits for room"
    assert await store.keys("") == sorted(f"objects/{number}" for number in range(stored))
    assert await store.get("objects/0") == data
    leftovers = [path.name for path in (folder / "store").rglob("*") if path.name.endswith(".tmp")]
    assert not leftovers, leftovers
    # What is there is never replaced by half of something.
    with pytest.raises(DependencyFailed):
        await store.put("objects/0", os.urandom(240_000))
    assert await store.get("objects/0") == data
    await store.delete("objects/1")
    await store.put("objects/new", data)
    assert await store.get("objects/new") == data
    print("as it should be")


if __name__ == "__main__":
    asyncio.run(fill(Path(sys.argv[1])))
