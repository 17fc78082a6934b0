"""One truth of which version serves whom: followed by every replica, over restarts, failures and rivals."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog

from fathom.core.call import Call, Lane, calling
from fathom.core.errors import (
    Conflict,
    CorruptData,
    DependencyFailed,
    FailedPrecondition,
    InvalidField,
    NotFound,
    NotReady,
    VersionMismatch,
)
from fathom.domain.chat.messages import Completion, Message, Role, Sampling
from fathom.domain.weights.manifest import publish
from fathom.domain.weights.serving import Serving, key_of
from fathom.services.policy.config import Config, RulesModel, TransformersModel
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request, State
from fathom.services.policy.serving.model_versions import ModelVersions
from fathom.transport.bus import Bus, open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import SERVING, weights_subject
from fathom.transport.store.base import StoredObject
from fathom.transport.store.memory import MemoryStore
from tests.integration.policy.weights.models import tiny_model
from tests.support.waiting import eventually

LIMIT_S = 20.0
KEY = key_of("tiny")


class FlakyStore(MemoryStore):
    """A store that can be out of reach."""

    down = False

    async def get(self, key: str, checksum: str | None = None) -> bytes:
        if self.down:
            raise DependencyFailed("store", "is out of reach")
        return await super().get(key, checksum)


class Fleet:
    """Replicas of policy on one bus and one store."""

    def __init__(self, root: Path, store: FlakyStore, open_one: Callable[[], Awaitable[Bus]]) -> None:
        self.root, self.store, self._open_one = root, store, open_one
        self.engines: list[Engine] = []
        self.refs: list[StoredObject] = []

    async def replica(self, **settings: Any) -> Engine:
        fields: dict[str, Any] = {"models": {"rules": RulesModel()}, "ready_wait_s": 5.0, **settings}
        config = Config(
            **fields,
            # A folder each, as pods have: with a shared one a replica could find what it never downloaded.
            cache_dir=self.root / f"cache-{len(self.engines)}",
            trained=TransformersModel(threads=1),
        )
        engine = Engine(config, self.store, structlog.get_logger(), await self._open_one())
        await engine.start()
        self.engines.append(engine)
        return engine

    async def keys(self) -> Any:
        return (await self._open_one()).bucket(SERVING)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three versions of one model."""
    root = tmp_path_factory.mktemp("tiny")
    return [tiny_model(root / str(seed), seed) for seed in (1, 2, 3)]


@pytest.fixture(params=["memory", "nats"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path, folders: list[Path]) -> AsyncIterator[Fleet]:
    store = FlakyStore()
    async with AsyncExitStack() as stack:
        nats = request.param == "nats"
        server = await stack.enter_async_context(NatsServer(tmp_path / "jetstream")) if nats else None
        # In memory the bus is the connection itself; over NATS each replica has its own, as processes have.
        one = None if server else await open_bus("memory://", store)

        async def open_one() -> Bus:
            if server is None:
                assert one is not None
                return one
            bus = await open_bus(server.url, store)
            stack.push_async_callback(bus.close)
            await bus.declare()
            return bus

        made = Fleet(tmp_path, store, open_one)
        made.refs = [await publish(store, folder, "tiny", index + 1) for index, folder in enumerate(folders)]
        yield made
        for engine in made.engines:
            await engine.close()


async def ask(engine: Engine, lane: Lane = Lane.INTERACTIVE, text: str = "hello", **fields: Any) -> Completion:
    request = Request("", "tiny", (Message(Role.USER, text),), sampling=Sampling(max_tokens=4, seed=1), **fields)
    with calling(Call.new(lane=lane)):
        items = [item async for item in engine.generate(request, lambda: LIMIT_S)]
    assert isinstance(items[-1], Completion)
    return items[-1]


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    await eventually(check, within_s=LIMIT_S)


async def until_serves(engine: Engine, version: int, lane: Lane = Lane.INTERACTIVE) -> None:
    async def serves() -> bool:
        try:
            return (await ask(engine, lane)).version_min == version
        except (NotFound, NotReady):
            return False

    await until(serves)


async def until_detail(engine: Engine, text: str) -> None:
    async def has_detail() -> bool:
        return text in engine.get_model("tiny").detail

    await until(has_detail)


async def test_every_replica_follows_and_goes_back(fleet: Fleet) -> None:
    first, second = await fleet.replica(), await fleet.replica()
    await first.load_weights("tiny", fleet.refs[0], 1)
    await until_serves(second, 1)
    loaded = await second.load_weights("tiny", fleet.refs[1], 2)
    assert (loaded.previous_version, loaded.model.policy_version) == (1, 2)
    await until_serves(first, 2)
    same = [await ask(engine) for engine in (first, second)]
    # The same seed on both: what differs could only be the weights.
    assert same[0].sampled_token_ids == same[1].sampled_token_ids
    back = await first.load_weights("tiny", None, 1)  # by its number alone
    assert (back.previous_version, back.model.policy_version) == (2, 1)
    await until_serves(second, 1)
    with pytest.raises(VersionMismatch):
        await ask(second, policy_version=2)


async def test_a_version_that_another_replica_serves_already_is_waited_for(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer's request for it may meet the replica that has not heard yet; one for no version ends there."""
    first, late = await fleet.replica(), await fleet.replica()
    await first.load_weights("tiny", fleet.refs[0], 1)
    await until_serves(late, 1)

    async def deaf(line: ModelVersions) -> None:
        return None

    monkeypatch.setattr(late._reconciler, "_converge", deaf)
    await first.load_weights("tiny", fleet.refs[1], 2)
    with pytest.raises(NotReady, match="about to be served"):
        await ask(late, policy_version=2)
    for engine in (first, late):
        # Nobody has announced version 3: waiting for it would be waiting for nothing.
        with pytest.raises(VersionMismatch, match="not 3"):
            await ask(engine, policy_version=3)
    with pytest.raises(VersionMismatch, match="serves version 2, not 1"):
        await ask(first, policy_version=1)


async def test_a_restart_comes_back_to_what_was_served(fleet: Fleet) -> None:
    before = await fleet.replica()
    await before.load_weights("tiny", fleet.refs[1], 2)
    said = await ask(before)
    await before.close()
    after = await fleet.replica()
    again = await ask(after)  # ready means: at the version that was served
    assert (again.version_min, again.sampled_token_ids) == (2, said.sampled_token_ids)
    assert [(item.lane, item.version, item.percent) for item in after.get_model("tiny").lanes] == [
        (lane, 2, 100) for lane in Lane
    ]


async def test_a_restart_without_the_store_is_not_ready_and_then_is(fleet: Fleet) -> None:
    before = await fleet.replica()
    await before.load_weights("tiny", fleet.refs[1], 2)
    await before.close()
    fleet.store.down = True
    after = await fleet.replica(ready_wait_s=0.1)
    with pytest.raises(NotReady) as told:
        await ask(after)
    assert told.value.retry_after_s
    assert after.get_model("tiny").state is State.WARMING
    # A model that needs no weights serves while another one waits for its own.
    assert after.get_model("rules").state is State.READY
    fleet.store.down = False
    await until_serves(after, 2)


async def test_lanes_and_a_canary_share(fleet: Fleet) -> None:
    first, second = await fleet.replica(), await fleet.replica()
    await first.load_weights("tiny", fleet.refs[0], 1)
    await first.load_weights("tiny", fleet.refs[2], 3, [Lane.TRAINING])
    await first.load_weights("tiny", fleet.refs[1], 2, [Lane.INTERACTIVE], 30)
    for engine in (first, second):
        await until_serves(engine, 3, Lane.TRAINING)
        await until_serves(engine, 1, Lane.EVALUATION)

    async def has_canary() -> bool:
        return any(item.percent == 30 for item in second.get_model("tiny").lanes)

    await until(has_canary)
    answers = {f"question {index}": await ask(first, text=f"question {index}") for index in range(60)}
    counts = Counter(answer.version_min for answer in answers.values())
    assert set(counts) == {1, 2}
    # Thirty percent of sixty conversations are 18, with a standard deviation of 3.5: four of them to either side.
    assert 6 <= counts[2] <= 32
    for text, answer in list(answers.items())[:10]:  # the same conversation, the same version, in any replica
        assert (await ask(second, text=text)).version_min == answer.version_min
    assert (await ask(second, policy_version=3)).version_min == 3  # served in another lane
    with pytest.raises(InvalidField, match="percent"):
        await first.load_weights("tiny", fleet.refs[1], 2, [Lane.INTERACTIVE], 101)
    promoted = await first.load_weights("tiny", fleet.refs[1], 2)
    assert promoted.model.policy_version == 2
    for lane in Lane:
        await until_serves(second, 2, lane)


async def test_a_lane_that_nothing_serves_says_so(fleet: Fleet) -> None:
    engine = await fleet.replica()
    await engine.load_weights("tiny", fleet.refs[0], 1, [Lane.TRAINING])
    assert (await ask(engine, Lane.TRAINING)).version_min == 1
    with pytest.raises(FailedPrecondition, match="interactive"):
        await ask(engine)
    # A share of nothing: there is no version that the other ninety percent would get.
    with pytest.raises(InvalidField, match="percent"):
        await engine.load_weights("tiny", fleet.refs[1], 2, [Lane.INTERACTIVE], 10)


async def test_versions_that_do_not_exist(fleet: Fleet) -> None:
    engine = await fleet.replica()
    await engine.load_weights("tiny", fleet.refs[0], 1)
    with pytest.raises(NotFound) as told:
        await engine.load_weights("tiny", None, 9)
    # Published and not served: it can be named without its reference.
    assert "3" in told.value.nearest
    with pytest.raises(NotFound):
        await engine.load_weights("unheard", None, 1)
    with pytest.raises(NotFound):
        engine.get_model("unheard")
    assert (await ask(engine)).version_min == 1


async def test_garbage_in_the_truth_changes_nothing_and_is_mended(fleet: Fleet) -> None:
    engine, keys = await fleet.replica(), await fleet.keys()
    await engine.load_weights("tiny", fleet.refs[0], 1)
    # Keys that name no model must not stop the watch, which goes over all of them.
    for key in ("nonsense", "model", "model.a=b"):
        await keys.put(key, b"x")
    await keys.put(KEY, b"\xff garbage")
    await until_detail(engine, "is no serving entry")
    assert engine.get_model("tiny").state is State.READY
    assert (await ask(engine)).version_min == 1
    await engine.load_weights("tiny", fleet.refs[1], 2)
    assert (await ask(engine)).version_min == 2
    assert "is no serving entry" not in engine.get_model("tiny").detail


async def test_a_truth_that_points_nowhere_is_waited_for(fleet: Fleet, folders: list[Path]) -> None:
    engine, keys = await fleet.replica(), await fleet.keys()
    await engine.load_weights("tiny", fleet.refs[0], 1)
    elsewhere = MemoryStore()
    ref = await publish(elsewhere, folders[1], "tiny", 7)
    entry = await keys.get(KEY)
    # Written past every replica, as an operator's restored bucket would be.
    wanted = Serving.from_json(entry.value, KEY).with_version(7, ref, (), 100)
    await keys.put(KEY, wanted.to_json())
    await until_detail(engine, "no object")
    assert (await ask(engine)).version_min == 1
    for stored in await elsewhere.list("weights/"):  # it arrives, as it does in a store that replicates
        await fleet.store.put(stored.key, await elsewhere.get(stored.key))
    await until_serves(engine, 7)
    assert engine.get_model("tiny").detail == "Causal language model in this process."


async def test_corrupt_weights_in_the_truth_keep_the_old_version(
    fleet: Fleet, folders: list[Path], tmp_path: Path
) -> None:
    engine, keys = await fleet.replica(), await fleet.keys()
    await engine.load_weights("tiny", fleet.refs[0], 1)
    # Weights of one width with the configuration of another: whole files, right checksums, and no model.
    broken = await asyncio.to_thread(tiny_model, tmp_path / "broken", 5, 64)
    (broken / "config.json").write_bytes((folders[0] / "config.json").read_bytes())
    ref = await publish(fleet.store, broken, "tiny", 8)
    with pytest.raises(CorruptData):
        await engine.load_weights("tiny", ref, 8)
    entry = await keys.get(KEY)
    assert [share.version for share in Serving.from_json(entry.value, KEY).shares().values()] == [1]
    await keys.put(KEY, Serving("tiny", {}).with_version(8, ref, (), 100).to_json())
    await until_detail(engine, "cannot be")
    assert (await ask(engine)).version_min == 1


async def test_the_store_is_asked_again_within_the_budget(fleet: Fleet) -> None:
    engine = await fleet.replica(fetch_budget_s=5.0)
    await engine.load_weights("tiny", fleet.refs[0], 1)
    original = fleet.store.get
    seen: list[str] = []

    async def fails_thrice(key: str, sha256: str | None = None) -> bytes:
        # Only the large file fails: the manifest has been read, so that the download is under way.
        if key.endswith("model.safetensors") and len(seen) < 3:
            seen.append(key)
            raise DependencyFailed("store", "is out of reach")
        return await original(key, sha256)

    fleet.store.get = fails_thrice  # type: ignore[method-assign]
    await engine.load_weights("tiny", fleet.refs[2], 3)
    assert len(seen) == 3
    assert (await ask(engine)).version_min == 3


async def test_a_store_that_stays_away_changes_nothing(fleet: Fleet) -> None:
    engine, keys = await fleet.replica(fetch_budget_s=0.2), await fleet.keys()
    await engine.load_weights("tiny", fleet.refs[0], 1)
    before = await keys.get(KEY)
    fleet.store.down = True
    with pytest.raises(DependencyFailed):
        await engine.load_weights("tiny", fleet.refs[1], 2)
    fleet.store.down = False
    assert await keys.get(KEY) == before
    assert (await ask(engine)).version_min == 1


async def test_a_store_that_is_down_while_a_version_is_announced(fleet: Fleet) -> None:
    first, second = await fleet.replica(), await fleet.replica()
    await first.load_weights("tiny", fleet.refs[0], 1)
    await until_serves(second, 1)
    keys = await fleet.keys()
    fleet.store.down = True
    entry = await keys.get(KEY)
    wanted = Serving.from_json(entry.value, KEY).with_version(2, fleet.refs[1], (), 100)
    await keys.put(KEY, wanted.to_json())
    for engine in (first, second):
        await until_detail(engine, "out of reach")
        assert (await ask(engine)).version_min == 1
        with pytest.raises(NotReady):  # it may pass: whoever asked for this version asks again
            await ask(engine, policy_version=2)
    fleet.store.down = False
    for engine in (first, second):
        await until_serves(engine, 2)


async def test_announced_weights_are_fetched_ahead(fleet: Fleet, tmp_path: Path) -> None:
    first, second = await fleet.replica(), await fleet.replica()
    await first.load_weights("tiny", fleet.refs[0], 1)
    await until_serves(second, 1)
    bus = await fleet._open_one()
    # An announcement that cannot be read costs the fetching ahead of one version, never the subscription.
    await bus.publish(weights_subject("tiny"), b"garbage", message_id="g")
    await first.load_weights("tiny", fleet.refs[1], 2, [Lane.TRAINING])
    cached = tmp_path / "cache-1" / "weights" / "tiny" / f"2-{fleet.refs[1].sha256[:12]}"

    async def there() -> bool:
        return cached.is_dir()

    await until(there)
    assert (await ask(second)).version_min == 1, "fetched, and served only when its lane is asked for"


async def test_rivals_for_the_same_lanes_and_for_different_ones(fleet: Fleet) -> None:
    first, second = await fleet.replica(), await fleet.replica()
    await first.load_weights("tiny", fleet.refs[0], 1)
    await until_serves(second, 1)
    results = await asyncio.gather(
        first.load_weights("tiny", fleet.refs[1], 2),
        second.load_weights("tiny", fleet.refs[2], 3),
        return_exceptions=True,
    )
    # Either may win, and both may when one comes after the other; a loser learns it by a conflict.
    assert all(not isinstance(result, BaseException) or isinstance(result, Conflict) for result in results)
    keys = await fleet.keys()
    entry = await keys.get(KEY)
    [winner] = {share.version for share in Serving.from_json(entry.value, KEY).shares().values()}
    assert winner in (2, 3)
    for engine in (first, second):
        await until_serves(engine, winner)
    await asyncio.gather(
        # Different lanes of one entry: whoever writes second reads again and keeps the other's lane.
        first.load_weights("tiny", fleet.refs[1], 2, [Lane.TRAINING]),
        second.load_weights("tiny", fleet.refs[2], 3, [Lane.EVALUATION]),
    )
    for engine in (first, second):
        await until_serves(engine, 2, Lane.TRAINING)
        await until_serves(engine, 3, Lane.EVALUATION)


async def test_of_two_that_read_the_same_truth_one_is_told(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await fleet.replica(), await fleet.replica()
    await first.load_weights("tiny", fleet.refs[0], 1)
    await until_serves(second, 1)
    line = first._models["tiny"]
    original, met = line.stage, asyncio.Event()

    async def slowly(*args: Any) -> Any:
        plan = await original(*args)
        # The rival comes once, between the reading and the writing of the same entry.
        if not met.is_set():
            met.set()
            await second.load_weights("tiny", fleet.refs[2], 3)
        return plan

    monkeypatch.setattr(line, "stage", slowly)
    with pytest.raises(Conflict, match="at the same time"):
        await first.load_weights("tiny", fleet.refs[1], 2)
    for engine in (first, second):
        await until_serves(engine, 3)


async def test_a_swap_that_fails_takes_back_the_truth(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that load in place can fail after the truth was written."""
    engine, keys = await fleet.replica(), await fleet.keys()
    await engine.load_weights("tiny", fleet.refs[0], 1)
    line = engine._models["tiny"]

    async def fails(plan: Any) -> None:
        raise CorruptData("weights", "do not fit after all")

    with monkeypatch.context() as patched:
        patched.setattr(line, "commit", fails)
        with pytest.raises(CorruptData):
            await engine.load_weights("tiny", fleet.refs[1], 2)
    entry = await keys.get(KEY)
    assert {share.version for share in Serving.from_json(entry.value, KEY).shares().values()} == {1}
    await until_serves(engine, 1)


async def test_a_withdrawn_model_answers_nobody_and_may_come_back(fleet: Fleet) -> None:
    engine, keys = await fleet.replica(), await fleet.keys()
    await engine.load_weights("tiny", fleet.refs[0], 1)
    await keys.delete(KEY)

    async def withdrawn() -> bool:
        try:
            await ask(engine)
        except FailedPrecondition:
            return True
        return False

    await until(withdrawn)
    assert engine.get_model("tiny").state is State.FAILED
    await engine.load_weights("tiny", fleet.refs[0], 1)
    assert (await ask(engine)).version_min == 1


async def test_a_configured_model_goes_back_to_itself(fleet: Fleet, folders: list[Path]) -> None:
    model = TransformersModel(folder=folders[0], threads=1)
    engine = await fleet.replica(models={"rules": RulesModel(), "tiny": model})
    await until_serves(engine, 0)
    base = await ask(engine)
    await engine.load_weights("tiny", fleet.refs[1], 2, [Lane.TRAINING])
    assert (await ask(engine, Lane.TRAINING)).version_min == 2
    assert (await ask(engine)).sampled_token_ids == base.sampled_token_ids
    await engine.load_weights("tiny", fleet.refs[1], 2)
    assert (await ask(engine)).version_min == 2
    await engine.load_weights("tiny", None, 0)
    again = await ask(engine)
    assert (again.version_min, again.sampled_token_ids) == (0, base.sampled_token_ids)


async def test_a_generation_that_runs_ends_on_its_version_in_every_kind_of_change(fleet: Fleet) -> None:
    engine = await fleet.replica()
    await engine.load_weights("tiny", fleet.refs[0], 1)
    sampling = Sampling(temperature=1.0, max_tokens=150, seed=4)
    running = [
        engine.generate(Request(f"r{index}", "tiny", (Message(Role.USER, "hello"),), sampling=sampling), lambda: None)
        for index in range(2)
    ]
    for generation in running:
        await anext(generation)
    await engine.load_weights("tiny", fleet.refs[2], 3, [Lane.TRAINING])  # another version beside it
    await engine.load_weights("tiny", fleet.refs[1], 2)  # both replaced
    for generation in running:
        last = [item async for item in generation][-1]
        assert isinstance(last, Completion)
        assert (last.version_min, last.version_max) == (1, 1)
    assert (await ask(engine)).version_min == 2
