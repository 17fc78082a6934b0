"""Test what code may count on inside the walls, at every level: figures, temporary files, tables of types."""

from __future__ import annotations

import pytest

from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Display, Status
from fathom.services.sandbox.supervisor.host.procfs import read_process
from tests.integration.sandbox.conftest import join_output, make_engine, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIGURE = """
import plotly.express as px
px.line(pd.DataFrame({'date': pd.date_range('2020-01-01', periods=9), 'value': range(9)}), x='date', y='value')
"""


async def test_a_figure_is_drawn_and_is_no_text(walled_engine: Engine) -> None:
    session = await walled_engine.create()
    for code in (FIGURE, f"{FIGURE.strip()}.show()"):
        events, outcome = await run(session, code)
        assert [event.media_type for event in events if isinstance(event, Display)] == [
            "application/vnd.plotly.v1+json"
        ]
        assert (outcome.status, outcome.result, join_output(events)) == (Status.OK, "", "")
    await walled_engine.close_session(session.id)


async def test_the_first_figure_of_a_session_imports_nothing_more(walled_engine: Engine) -> None:
    session = await walled_engine.create()
    _, outcome = await run(session, f"import sys\nbefore = set(sys.modules)\n{FIGURE}\nlen(set(sys.modules) - before)")
    # What python imports for a cell's own text, not the four hundred modules of plotly's first figure.
    assert int(outcome.result) < 20
    await walled_engine.close_session(session.id)


async def test_temporary_files_have_a_folder(walled_engine: Engine) -> None:
    session = await walled_engine.create()
    code = "import tempfile\nwith tempfile.NamedTemporaryFile(suffix='.csv') as file: print(file.write(b'x'))"
    events, outcome = await run(session, code)
    assert (outcome.status, join_output(events)) == (Status.OK, "1\n"), outcome.traceback
    await walled_engine.close_session(session.id)


async def test_types_of_files_can_be_guessed(walled_engine: Engine) -> None:
    """Writers of Excel files read every table of types that the machine has."""
    session = await walled_engine.create()
    _, outcome = await run(session, "import mimetypes\nmimetypes.init()\nmimetypes.guess_type('a.png')[0]")
    assert (outcome.status, outcome.result) == (Status.OK, "'image/png'"), outcome.traceback
    await walled_engine.close_session(session.id)


async def test_the_home_and_tmp_share_one_quota() -> None:
    engine = make_engine(spares=0, scratch_bytes=4 << 20)
    await engine.start()
    session = await engine.create()
    await run(session, "open('/tmp/x', 'wb').write(b'x' * (3 << 20))")
    _, outcome = await run(session, "with open('y', 'wb') as file: file.write(b'y' * (2 << 20))")
    assert (outcome.status, outcome.error_name) == (Status.ERROR, "OSError")
    await engine.close()


async def test_services_of_different_sizes_leave_each_others_sessions_alone() -> None:
    """The end of a session without a process namespace kills all that its user runs."""
    first = make_engine(walls="landlock", min_isolation="landlock", max_sessions=3, spares=0)
    second = make_engine(walls="landlock", min_isolation="landlock", max_sessions=5, spares=1, uid_base=61_186)
    await first.start()
    await second.start()
    ours = [await first.create() for _ in range(3)]
    theirs = [await second.create() for _ in range(4)]
    for session in ours:
        await first.close_session(session.id)
    for session in theirs:
        assert (await run(session, "1 + 1"))[1].result == "2"
        assert read_process(session.worker.pid) is not None
    await first.close()
    await second.close()
