"""Cells of one session do not reach into each other: by values that hang, or by threads that outlive their cell."""

from __future__ import annotations

import pytest

from fathom.core.errors import DependencyFailed
from fathom.services.sandbox.supervisor import session as session_module
from fathom.services.sandbox.supervisor.events import Display, Status
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import join_output, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

HANG = "def hang(*args, **options):\n    while True: pass\n"
CLASSES = {
    "shape": "class A:\n    shape = property(hang)",
    "length": "class A:\n    __len__ = hang",
    "list": "class A(list):\n    __len__ = hang",
    "frame": "class A(pd.DataFrame):\n    shape = property(hang)",
    "name of the class": "class Meta(type):\n    __name__ = property(hang)\nclass A(metaclass=Meta): pass",
}


@pytest.mark.parametrize("kind", CLASSES)
async def test_a_value_that_cannot_be_described_costs_no_other_cell_anything(lasting: Session, kind: str) -> None:
    _, outcome = await run(lasting, f"{HANG}{CLASSES[kind]}\nvalue = A()")
    assert outcome.status is Status.OK, outcome.cause
    assert (await run(lasting, "kept = [1, 2]\n1 + 1"))[1].result == "2"
    listed = {variable.name: variable for variable in await lasting.list_variables()}
    assert (listed["value"].type, listed["value"].shape, listed["kept"].shape) == ("A", "", "2")
    await run(lasting, "del value")


@pytest.mark.parametrize("method", ["__repr__", "_repr_html_", "_repr_png_", "_repr_mimebundle_"])
async def test_a_value_that_cannot_be_shown_costs_its_own_cells_time(lasting: Session, method: str) -> None:
    await run(lasting, f"{HANG}kept = 1\nclass A:\n    {method} = hang")
    _, outcome = await run(lasting, "A()", wall_ms=500)
    assert (outcome.status, outcome.session_lost) == (Status.TIMEOUT, False)
    assert (await run(lasting, "kept"))[1].result == "1"


async def test_a_worker_that_hangs_between_cells_is_interrupted_and_not_lost(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not even a known class is safe from a cell that replaces what others need.
    await run(session, f"{HANG}frame = pd.DataFrame({{'a': [1]}})")
    _, outcome = await run(session, "pd.Index.__len__ = pd.RangeIndex.__len__ = hang", wall_ms=500)
    assert (outcome.status, outcome.session_lost) == (Status.TIMEOUT, False)
    monkeypatch.setattr(session_module, "EXCHANGE_S", 0.5)
    with pytest.raises(DependencyFailed, match="variables were not listed: KeyboardInterrupt"):
        await session.list_variables()
    assert not session.lost_cause


async def test_a_cell_that_replaces_a_shape_costs_no_other_cell_anything(lasting: Session) -> None:
    await run(lasting, f"{HANG}old = pd.DataFrame.shape\nframe = pd.DataFrame({{'a': [1]}})")
    assert (await run(lasting, "pd.DataFrame.shape = property(hang)"))[1].status is Status.OK
    assert (await run(lasting, "pd.DataFrame.shape = old\nlen(frame)"))[1].result == "1"


async def test_a_thread_that_outlives_its_cell_writes_nothing_into_the_next(lasting: Session) -> None:
    begin = """
import threading
from IPython.display import HTML, display
go = threading.Event()
def speak():
    go.wait()
    print('late')
    display(HTML('<b>late</b>'))
thread = threading.Thread(target=speak)
thread.start()
"""
    assert (await run(lasting, begin))[1].status is Status.OK
    events, outcome = await run(lasting, "go.set(); thread.join(); print('mine'); display(HTML('<b>mine</b>'))")
    assert outcome.status is Status.OK, outcome.traceback
    assert [event.data for event in events if isinstance(event, Display)] == [b"<b>mine</b>"]
    assert "late" not in join_output(events)


async def test_a_thread_that_goes_on_displaying_does_not_end_its_session(lasting: Session) -> None:
    begin = """
import threading, time
from IPython.display import HTML, display
stop = threading.Event()
def speak():
    while not stop.wait(0.001):
        display(HTML('<b>late</b>'))
thread = threading.Thread(target=speak)
thread.start()
"""
    await run(lasting, begin)
    for _ in range(3):
        events, outcome = await run(lasting, "time.sleep(0.02)\n1 + 1")
        assert (outcome.result, [event for event in events if isinstance(event, Display)]) == ("2", [])
    assert (await run(lasting, "stop.set(); thread.join(); thread.is_alive()"))[1].result == "False"


async def test_a_log_handler_of_an_earlier_cell_still_writes(lasting: Session) -> None:
    await run(lasting, "import logging\nlogging.basicConfig(level='INFO', force=True)")
    events, _ = await run(lasting, "logging.info('hello')")
    assert join_output(events, "stderr") == "INFO:root:hello\n"
