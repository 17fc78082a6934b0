"""Images as folders, and pods on them. Building needs root, buildah and minutes, so it is asked for by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VOLUMES = ("/tmp", "/var/cache/fathom", "/var/lib/fathom")


@dataclass(frozen=True)
class Image:
    """A built image whose files lie under ``root``."""

    name: str
    root: Path
    config: dict[str, Any] = field(repr=False)
    size: int

    @property
    def env(self) -> dict[str, str]:
        return dict(item.split("=", 1) for item in self.config["Env"])

    def pod(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a command as a pod of the restricted profile would, without any network."""
        user = self.config["User"].partition(":")[0]
        given = json.dumps({"volumes": VOLUMES, "env": self.env | env})
        # Nothing may stay behind when a test is ended: with the first process of a namespace all others go.
        isolate = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
        step = [*isolate, sys.executable, str(HERE / "pod.py"), str(self.root), user, given, *command]
        return subprocess.run(step, capture_output=True, text=True, timeout=300, check=False)


def run_command(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def mount(name: str) -> Iterator[Image]:
    listed = json.loads(run_command("buildah", "inspect", "--type", "image", name))
    # Never from a registry: an image of the same name there is not the one that was just built.
    container = run_command("buildah", "from", "--pull-never", name)
    try:
        root = Path(run_command("buildah", "mount", container))
        size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        yield Image(name, root, listed["OCIv1"]["config"], size)
    finally:
        run_command("buildah", "rm", container)


def list_wanted() -> list[str]:
    """Return the targets that are built and tried, which FATHOM_TEST_IMAGES names, e.g. ``sandbox,core``."""
    return [name for name in os.environ.get("FATHOM_TEST_IMAGES", "").split(",") if name]


@pytest.fixture(scope="session")
def image() -> Iterator[Callable[[str], Image]]:
    """Builds a target with ``deploy/images.py`` and mounts it; what the builder needs comes from the environment."""
    with ExitStack() as stack:
        known: dict[str, Image] = {}

        def get(target: str) -> Image:
            if target not in list_wanted():
                pytest.skip(f"FATHOM_TEST_IMAGES does not name {target}; building it takes minutes and a base image")
            for program in ("buildah", "unshare"):
                assert shutil.which(program), f"FATHOM_TEST_IMAGES is set, but there is no {program}"
            if target not in known:
                step = [sys.executable, str(ROOT / "deploy" / "images.py"), target]
                done = subprocess.run(step, env={**os.environ, "BUILDER": "buildah"}, capture_output=True, text=True)
                assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
                print(done.stdout.splitlines()[-1])
                name = done.stdout.splitlines()[-1].partition(": ")[0]
                known[target] = stack.enter_context(mount(f"localhost/{name}"))
            return known[target]

        yield get
