"""Weights of a learner on this machine: taken from its memory, by the store otherwise, whoever dies or starts again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from fathom.core.errors import NotFound
from fathom.services.policy.config import Config, RulesModel
from fathom.services.policy.engine import Engine
from fathom.transport.store import StoredObject, open_store
from tests.integration.policy.weights.models import tiny_model

IDS = [0, 1, 2, 3, 4, 5]


class Learner:
    """A learner's process, and what it says of each version."""

    def __init__(self, root: Path, folders: list[Path], kind: str) -> None:
        self.folders = folders
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.integration.policy.weights.learner", (root / "store").as_uri(),
                str(root / "meeting"), kind,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.carrier = ""

    def publish(self, version: int) -> StoredObject:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{version} {self.folders[version % len(self.folders)]}\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        self.carrier = said["carrier"]
        return StoredObject(**said["manifest"])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Versions that differ in their weights."""
    root = tmp_path_factory.mktemp("tiny")
    return [tiny_model(root / str(seed), seed) for seed in (1, 2, 3)]


@pytest.fixture
def learner(tmp_path: Path, folders: list[Path], request: pytest.FixtureRequest) -> Iterator[Learner]:
    made = Learner(tmp_path, folders, getattr(request, "param", "whole"))
    yield made
    made.kill()


@asynccontextmanager
async def serve(root: Path, meeting: str = "meeting") -> AsyncIterator[Engine]:
    """Start policy over the store of ``root``."""
    config = Config(
        models={"rules": RulesModel()}, cache_dir=root / "cache", shared_memory_dir=root / meeting, fetch_budget_s=0
    )
    engine = Engine(config, open_store((root / "store").as_uri()), structlog.get_logger())
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


async def score(engine: Engine) -> tuple[list[float], int]:
    """Log-probabilities, which tell one version's weights from another's, and the version's number."""
    [scores], version = await engine.score("small", [IDS], 1.0)
    return scores, version


def remove_files(root: Path) -> None:
    """Remove all weights from the store; manifests stay."""
    for path in (root / "store").rglob("*"):
        if path.is_file() and "manifest-" not in path.name:
            path.unlink()


async def test_policy_takes_weights_from_memory_and_keeps_them_when_the_learner_is_killed(
    learner: Learner, tmp_path: Path
) -> None:
    async with serve(tmp_path) as engine:
        await engine.load_weights("small", learner.publish(1), 1)
        first = await score(engine)
        second = learner.publish(2)
        assert learner.carrier == "shared memory"
        remove_files(tmp_path)
        await engine.load_weights("small", second, 2)
        scores, version = await score(engine)
        assert (version, first[1]) == (2, 1)
        assert scores != first[0]
        learner.kill()
        assert (await score(engine))[0] == scores
        again = Learner(tmp_path, learner.folders, "whole")
        try:
            await engine.load_weights("small", again.publish(3), 3)
            assert (await score(engine))[1] == 3
        finally:
            again.kill()


@pytest.mark.parametrize("learner", ["ahead"], indirect=True)
async def test_a_learner_that_dies_before_the_store_has_a_version_changes_nothing(
    learner: Learner, tmp_path: Path
) -> None:
    async with serve(tmp_path) as engine:
        await engine.load_weights("small", learner.publish(1), 1)
        served = await score(engine)
        learner.kill()
        other = Learner(tmp_path, learner.folders, "ahead")
        lost = other.publish(2)
        other.kill()
        with pytest.raises(NotFound, match=r"weights/small/2/"):
            await engine.load_weights("small", lost, 2)
        assert await score(engine) == served
        third = Learner(tmp_path, learner.folders, "whole")
        try:
            await engine.load_weights("small", third.publish(3), 3)
        finally:
            third.kill()
        assert (await score(engine))[1] == 3


async def test_a_policy_that_starts_again_takes_them_from_memory_or_from_the_store(
    learner: Learner, tmp_path: Path
) -> None:
    ref = learner.publish(1)
    async with serve(tmp_path) as engine:
        await engine.load_weights("small", ref, 1)
        served = await score(engine)
    # The links of the policy before are of no use to anybody.
    async with serve(tmp_path) as engine:
        await engine.load_weights("small", ref, 1)
        assert await score(engine) == served
    assert not list((tmp_path / "cache" / "weights").glob("small/1-*")), "nothing was downloaded so far"
    learner.kill()
    async with serve(tmp_path) as engine:
        await engine.load_weights("small", ref, 1)
        assert await score(engine) == served
    assert list((tmp_path / "cache" / "weights").glob("small/1-*"))


async def test_a_policy_on_another_machine_is_served_by_the_store_and_the_learner_says_so(
    learner: Learner, tmp_path: Path
) -> None:
    async with serve(tmp_path, "elsewhere") as engine:
        await engine.load_weights("small", learner.publish(1), 1)
        first = await score(engine)
        await engine.load_weights("small", learner.publish(2), 2)
        assert learner.carrier.startswith("object store: policy has not taken the last version from")
        assert await score(engine) != first
