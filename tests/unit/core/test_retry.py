"""Retries: which errors, how often, how long apart, and never past the deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from fathom.core.errors import Conflict, DependencyFailed, FathomError, Internal, NotFound, Overloaded
from fathom.core.retry import Retries, RetryPolicy, always, retry, retry_blocking, run_round

QUICK = RetryPolicy(attempts=3, first_delay_s=0.001, max_delay_s=0.002)


class Flaky:
    """Raises the given errors in turn, then returns."""

    def __init__(self, *errors: FathomError) -> None:
        self._errors, self.calls = list(errors), 0

    def __call__(self) -> str:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return "done"

    async def run(self) -> str:
        return self()


def down() -> DependencyFailed:
    return DependencyFailed("vendor", "is down")


async def test_a_transient_error_is_retried() -> None:
    flaky = Flaky(down(), down())
    assert await retry(flaky.run, QUICK) == "done"
    assert flaky.calls == 3


async def test_the_last_error_is_raised_when_the_attempts_are_spent() -> None:
    last = down()
    # A fourth would follow; three attempts are all.
    flaky = Flaky(down(), down(), last, down())
    with pytest.raises(DependencyFailed) as raised:
        await retry(flaky.run, QUICK)
    assert raised.value is last
    assert flaky.calls == 3


async def test_an_error_that_a_retry_repeats_is_raised_at_once() -> None:
    # Asking again for what is not there gives the same answer.
    flaky = Flaky(NotFound("object", "x"))
    with pytest.raises(NotFound):
        await retry(flaky.run, QUICK)
    assert flaky.calls == 1


async def test_the_caller_may_say_which_errors_are_retried() -> None:
    flaky = Flaky(Conflict("written meanwhile"))
    assert await retry(flaky.run, QUICK, is_retryable=always) == "done"


async def test_no_pause_outlasts_the_deadline() -> None:
    # The server asks for a minute, and only half of one is left.
    flaky = Flaky(Overloaded("busy", retry_after_s=60.0))
    with pytest.raises(Overloaded):
        await retry(flaky.run, QUICK, deadline=time.monotonic() + 30.0)
    assert flaky.calls == 1


def test_a_thread_waits_as_long_as_the_server_asks() -> None:
    pauses: list[float] = []
    flaky = Flaky(Overloaded("busy", retry_after_s=5.0), down())
    assert retry_blocking(flaky, QUICK, sleep=pauses.append) == "done"
    # The server's own wish comes before our backoff.
    assert pauses[0] == 5.0
    # The second failure has no wish: backoff, in thousandths of a second here.
    assert 0.0 < pauses[1] <= 0.002


def test_pauses_double_up_to_the_maximum() -> None:
    policy = RetryPolicy(attempts=None, first_delay_s=1.0, max_delay_s=8.0)
    # 5,000 doublings would overflow a float; from a point on the exponent stands still.
    for attempt, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 8.0), (5_000, 8.0)):
        # Jitter takes off at most a quarter.
        assert 0.75 * longest <= policy.delay_s(attempt) <= longest


def test_progress_gives_all_attempts_back() -> None:
    retries = Retries(QUICK)
    # Two of three attempts each time; without the reset the second round would end in an error.
    for _ in range(4):
        retries.next_delay_s(down())
        retries.next_delay_s(down())
        retries.reset()
    spend: Callable[[], float] = lambda: retries.next_delay_s(down())  # noqa: E731
    spend(), spend()
    with pytest.raises(DependencyFailed):
        spend()


def test_without_a_number_of_attempts_retries_never_end() -> None:
    retries = Retries(RetryPolicy(attempts=None, first_delay_s=0.5, max_delay_s=1.0))
    assert all(retries.next_delay_s(down()) <= 1.0 for _ in range(2_000))


async def test_a_round_that_fails_is_reported_by_its_error_or_as_a_defect() -> None:
    reported: list[FathomError] = []

    async def fail() -> str:
        raise ValueError("a defect")

    away = DependencyFailed("store", "is away")
    assert await run_round(fail, reported.append) is None
    assert await run_round(Flaky(away).run, reported.append) is None
    assert await run_round(Flaky().run, reported.append) == "done"
    assert [(type(error), error.message) for error in reported] == [
        (Internal, "ValueError: a defect"), (DependencyFailed, away.message),
    ]  # fmt: skip
