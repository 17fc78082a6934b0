"""Test what analysts expect in a cell at every level: statistics, matplotlib, Excel, pools, every kind of display."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fathom.services.planner.tools.figures import read_png_title
from fathom.services.sandbox.ipc.frames import HTML, JSON, PNG, SVG, TABLE
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Display, Event, Status
from fathom.services.sandbox.supervisor.session import Session
from tests.integration.sandbox.conftest import join_output, make_engine, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Imports of seconds on this machine must not be a question of time on another.
PATIENCE_MS = 900_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient_engine(walls: str) -> AsyncIterator[Engine]:
    engine = make_engine(
        walls=walls, min_isolation=walls, max_sessions=2, spares=1, cell_wall_ms=PATIENCE_MS, cpu_ms=PATIENCE_MS
    )
    await engine.start()
    yield engine
    await engine.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def warm_session(patient_engine: Engine) -> AsyncIterator[Session]:
    """A session that has imported pyplot, which takes a second."""
    session = await patient_engine.create()
    _, outcome = await run(session, "import matplotlib.pyplot as plt")
    assert outcome.status is Status.OK, outcome.traceback
    yield session
    await patient_engine.close_session(session.id)


def list_displays(events: list[Event]) -> list[str]:
    return [event.media_type for event in events if isinstance(event, Display)]


async def test_a_new_session_has_imported_none_of_the_large_libraries(patient_engine: Engine) -> None:
    session = await patient_engine.create()
    code = "import sys\n[name for name in ('matplotlib', 'scipy', 'statsmodels', 'openpyxl') if name in sys.modules]"
    assert (await run(session, code))[1].result == "[]"
    await patient_engine.close_session(session.id)


async def test_statistics_excel_and_the_finance_library(warm_session: Session) -> None:
    code = """
import finance, scipy.stats, statsmodels.api as sm
from scipy.optimize import brentq
line = np.arange(20.0)
fit = sm.OLS(2 * line + 1, sm.add_constant(line)).fit()
print(fit.params.round(6).tolist(), round(scipy.stats.norm.ppf(0.975), 4), round(brentq(lambda x: x * x - 2, 0, 2), 4))
frame = pd.DataFrame({'a': [1, 2]})
frame.to_excel('table.xlsx', index=False)
print(pd.read_excel('table.xlsx').equals(frame), frame.to_markdown(index=False).splitlines()[-1])
print(finance.__doc__ is not None)
"""
    events, outcome = await run(warm_session, code)
    assert outcome.status is Status.OK, outcome.traceback
    assert join_output(events) == "[1.0, 2.0] 1.96 1.4142\nTrue |   2 |\nTrue\n"
    # Its text is for the model, its table for the page.
    events, outcome = await run(warm_session, "fit.summary()")
    assert (list_displays(events), "OLS Regression Results" in outcome.result) == ([HTML], True)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("plt.plot([1, 2])", 1),
        ("plt.plot([1, 2]);", 1),
        ("plt.plot([1, 2])\nplt.show()", 1),
        ("for n in range(3):\n    plt.plot([1, n])\n    plt.show()", 3),
        ("figure, axes = plt.subplots()\naxes.plot([1, 2])\nfigure", 1),
        ("import matplotlib\nmatplotlib.use('Agg')\nplt.plot([1, 2])\nplt.savefig('a.png')\nplt.show()", 1),
        ("%matplotlib inline\npd.Series([1, 2]).plot()", 1),
        ("plt.plot([1, 2])\nplt.close()", 0),
        ("plt.figure();", 0),
    ],
)
async def test_a_figure_of_matplotlib_is_shown_without_being_asked_for(
    warm_session: Session, code: str, count: int
) -> None:
    events, outcome = await run(warm_session, code)
    assert (outcome.status, list_displays(events)) == (Status.OK, [PNG] * count), outcome.traceback
    assert "<Figure" not in outcome.result + join_output(events)
    # Nothing stays open for the next cell.
    assert list_displays((await run(warm_session, "1 + 1"))[0]) == []


async def test_a_figure_brings_its_title(warm_session: Session) -> None:
    events, _ = await run(warm_session, "plt.plot([1, 2])\nplt.title('Prices, 价格')\nNone")
    shown = [event for event in events if isinstance(event, Display)]
    assert [read_png_title(display.data) for display in shown] == ["Prices, 价格"]


async def test_a_figure_that_cannot_be_drawn_is_the_cells_error(warm_session: Session) -> None:
    events, outcome = await run(warm_session, "plt.plot([1, 2])\nplt.title(r'$\\badmath{$')\nNone")
    assert (outcome.status, outcome.error_name, list_displays(events)) == (Status.ERROR, "ValueError", [])
    events, outcome = await run(warm_session, "plt.plot([1, 2])\n1 / 0")
    assert (outcome.error_name, list_displays(events)) == ("ZeroDivisionError", [])
    assert list_displays((await run(warm_session, "plt.plot([1, 2])"))[0]) == [PNG]


async def test_every_kind_of_display_travels_and_has_a_text(warm_session: Session) -> None:
    code = """
from IPython.display import HTML, JSON, SVG, Latex, Markdown, display
display(SVG('<svg xmlns="http://www.w3.org/2000/svg"><rect width="3" height="3"/></svg>'))
display(JSON({'a': [1, '价']}))
display(Markdown('# head'), Latex('$x$'))
display(HTML('<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table><script>no()</script>'))
display(pd.DataFrame({'b': [1]}).style.highlight_max())
"""
    events, outcome = await run(warm_session, code)
    assert outcome.status is Status.OK, outcome.traceback
    assert list_displays(events) == [SVG, JSON, HTML, TABLE]
    assert join_output(events) == '{"a": [1, "价"]}\n# head\n$x$\n1 2\n3\n   b\n0  1\n'


async def test_pools_work_or_say_why_not(warm_session: Session, walls: str) -> None:
    code = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
def square(x): return x * x
with ThreadPoolExecutor(2) as pool: print(list(pool.map(square, [1, 2])))
child = multiprocessing.Process(target=square, args=(1,))
child.start(); child.join(); print(child.exitcode)
"""
    events, outcome = await run(warm_session, code)
    assert (outcome.status, join_output(events)) == (Status.OK, "[1, 4]\n0\n"), outcome.traceback
    pools = (
        "with multiprocessing.Pool(2) as pool: print(pool.map(square, [3]))",
        "with ProcessPoolExecutor(2) as pool: print(list(pool.map(square, [3])))",
    )
    for code in pools:
        events, outcome = await run(warm_session, code)
        if walls == "namespace":
            assert (outcome.status, join_output(events)) == (Status.OK, "[9]\n"), outcome.traceback
        else:
            said = outcome.traceback.strip().splitlines()[-1]
            assert said.startswith("Process pools need /dev/shm, which this level of isolation does not have")


async def test_the_folder_for_temporary_files(warm_session: Session, walls: str) -> None:
    code = "import os, tempfile\nprint(os.path.isdir('/tmp'), tempfile.gettempdir() == os.environ['TMPDIR'] == os.getcwd())"
    assert join_output((await run(warm_session, code))[0]) == "True True\n"
    _, outcome = await run(warm_session, "open('/tmp/a.txt', 'w').write('x')")
    if walls == "namespace":
        assert outcome.result == "1"
    else:
        said = outcome.traceback.strip().splitlines()[-1]
        assert said.startswith("/tmp is not writable at this level of isolation: use the working folder")
