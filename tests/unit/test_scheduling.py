"""Long files begin at once and on both sides, so that the workers of the tests end together."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

from tests.conftest import pytest_xdist_make_scheduler
from tests.scheduling import BothEnds

FILES = [f"tests/test_{place}.py" for place in range(8)]
TESTS = [f"{file}::test_{place}" for file in FILES for place in range(3)]


class Worker:
    """A worker of pytest-xdist by what the scheduler asks of it."""

    shutting_down = False
    gateway = SimpleNamespace(id="worker")

    def __init__(self) -> None:
        self.queue: list[int] = []

    def send_runtest_some(self, indexes: Sequence[int]) -> None:
        self.queue.extend(indexes)

    def shutdown(self) -> None:
        self.shutting_down = True


def start(count: int) -> tuple[Any, list[Any]]:
    """Return the scheduler of so many workers, each of which has its first files."""
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(
        getvalue=lambda name: [f"{count}*popen"], getoption={"dist": "loadfile"}.get, option=option
    )
    scheduler = pytest_xdist_make_scheduler(config, Producer("tests", enabled=False))
    assert isinstance(scheduler, BothEnds)
    workers: list[Any] = [Worker() for _ in range(count)]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, TESTS)
    scheduler.schedule()
    return scheduler, workers


def finish(scheduler: BothEnds, workers: list[Any]) -> list[list[str]]:
    """Let the workers run their tests in turn, one each, and return the files of each."""
    done = [0] * len(workers)
    while any(done[place] < len(worker.queue) for place, worker in enumerate(workers)):
        for place, worker in enumerate(workers):
            if done[place] < len(worker.queue):
                scheduler.mark_test_complete(worker, worker.queue[done[place]])
                done[place] += 1
    return [list(dict.fromkeys(TESTS[index].split("::")[0] for index in worker.queue)) for worker in workers]


@pytest.mark.parametrize(("workers", "from_the_end"), [(2, 1), (3, 1), (4, 2)])
def test_half_of_the_workers_take_files_from_the_end_until_all_meet(workers: int, from_the_end: int) -> None:
    taken = finish(*start(workers))
    forward, backward = taken[:-from_the_end], taken[-from_the_end:]
    assert [files[0] for files in forward] == FILES[: len(forward)]
    assert [files[0] for files in backward] == FILES[: -len(backward) - 1 : -1]
    assert all(files == sorted(files) for files in forward)
    assert all(files == sorted(files, reverse=True) for files in backward)
    assert sorted(file for files in taken for file in files) == FILES


def test_a_single_worker_keeps_the_order() -> None:
    assert finish(*start(1)) == [FILES]


def test_files_of_a_worker_that_is_gone_are_run_by_the_others() -> None:
    scheduler, workers = start(3)
    assert scheduler.remove_node(workers.pop()) == f"{FILES[-1]}::test_0"
    assert set().union(*finish(scheduler, workers)) == set(FILES)


def test_other_ways_to_distribute_tests_stay() -> None:
    config: Any = SimpleNamespace(getoption={"dist": "load"}.get)
    assert pytest_xdist_make_scheduler(config, Producer("tests", enabled=False)) is None
