"""The figures of a source tree, on small trees made for the purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.house import copies, imports, names
from tests.bench.house.figures import measure
from tests.bench.house.source import PRODUCT, Search, Source, read_sources
from tests.bench.house.table import print_table

REQUIREMENT_TEST = "test_" + "sr17_once"  # in two parts, for this file is counted too
RETRY = """
async def call(work):
    for attempt in range(3):
        try:
            return await work()
        except OSError:
            await asyncio.sleep(attempt)
"""


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def make_source(text: str, path: str = "libs/fathom/a.py") -> Source:
    return Source(path, text)


def test_generated_stubs_links_and_caches_are_left_out(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        {
            "libs/fathom/core/call.py": "",
            "libs/fathom/api/planner/v1/planner_pb2.py": "",
            "libs/fathom/core/__pycache__/old.py": "",
            "services/memory/engine.py": "",
        },
    )
    (root / "libs/fathom/services").symlink_to("../../services")
    assert [source.path for source in read_sources(root, PRODUCT)] == [
        "libs/fathom/core/call.py",
        "services/memory/engine.py",
    ]


def test_figures_of_a_small_tree(tmp_path: Path) -> None:
    body = "\n".join(f"    x{i} = {i}" for i in range(61))
    root = write_tree(
        tmp_path,
        {
            "libs/fathom/cli/up.py": "def start() -> None:\n    from fathom.services.memory import engine\n",
            "services/memory/engine.py": f'def told():\n    """Returns all."""  # why\n\ndef long():\n{body}\n',
            "tests/unit/test_a.py": f"def {REQUIREMENT_TEST}():\n    pass\n",
        },
    )
    report = measure(root)
    assert report.places["imports from libs upwards"] == ["libs/fathom/cli/up.py:2 fathom.services.memory.engine"]
    assert report.places["participle names, product"] == ["services/memory/engine.py:1 told"]
    assert report.places["functions over 60 lines, product"] == ["services/memory/engine.py:4 long: 62 lines"]
    assert report.places["requirement ids, tests"] == [f"tests/unit/test_a.py:1 def {REQUIREMENT_TEST}():"]
    [docstring] = report.places["docstrings not imperative (D401)"]
    assert docstring.startswith("services/memory/engine.py:2 ")
    assert report.figures["files, product"] == 2
    assert report.figures["lines with a comment per 100, product"] == pytest.approx(100 / 67)
    assert report.figures["complexity over 15 (C901)"] == 0


def test_the_older_layout_has_the_same_module_names() -> None:
    older = make_source("from services.memory.config import Config\n", "services/memory/server.py")
    assert older.module == "fathom.services.memory.server"
    assert [name for name, _ in imports.find_imports(older)] == ["fathom.services.memory.config.Config"]


def test_circles_are_found_among_modules_and_among_siblings_but_not_with_the_parent() -> None:
    sources = [
        make_source("import fathom.b.two", "libs/fathom/a/one.py"),
        make_source("def later():\n    from fathom.a import other\n", "libs/fathom/b/two.py"),
        make_source("", "libs/fathom/a/other.py"),
        make_source("from fathom.top import x", "libs/fathom/a/user.py"),
        make_source("import fathom.a.user", "libs/fathom/top.py"),
    ]
    graph = imports.build_graph(sources)
    assert imports.find_circles(graph) == [["fathom.a.user", "fathom.top"]]
    assert imports.find_package_circles(graph) == [["fathom.a", "fathom.b"]]


def test_imports_for_the_type_checker_alone_make_no_circle() -> None:
    source = make_source("if TYPE_CHECKING:\n    from fathom.b import two\nimport os\n")
    assert [name for name, _ in imports.find_imports(source)] == ["os"]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("told", True), ("_checked", True), ("need", False), ("parse_told", False), ("read", False), ("red", False)],
)
def test_bare_participles_are_told_from_verbs(name: str, is_one: bool) -> None:
    assert names.is_participle(name) is is_one


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ('"""What is kept."""', True),
        ('class A:\n    has_all: bool\n    """Whether all were read."""', True),
        ('def f() -> bool:\n    """Return whether all were read."""', False),
        ('"""Whole files."""\nx = "What is kept."', False),
    ],
)
def test_docstrings_that_begin_as_questions_are_found_wherever_they_stand(text: str, is_one: bool) -> None:
    assert bool(list(names.find_noun_clauses(make_source(text)))) is is_one


def test_directives_to_tools_are_no_comments() -> None:
    source = make_source("x = 1  # noqa: E501\ny = 2  # seconds\n# why\n")
    assert source.comments == {2: False, 3: True}


def test_broad_excepts_and_long_patterns_want_a_comment() -> None:
    long = "a" * 61
    bare = make_source(f'import re\nP = re.compile("{long}")\ntry:\n    x()\nexcept Exception:\n    pass\n')
    said = make_source(
        f'import re\n# what\nP = re.compile("{long}")\ntry:\n    x()\nexcept (OSError, Exception):  # why\n    pass\n'
    )
    for find in (names.find_unexplained_excepts, names.find_unexplained_patterns):
        assert len(list(find(bare))) == 1
        assert not list(find(said))


def test_a_loop_that_waits_and_tries_again_is_a_retry_and_one_that_gives_up_is_none() -> None:
    assert list(copies.find_retries(make_source(RETRY))) == ["libs/fathom/a.py:2 call"]
    assert not list(copies.find_retries(make_source(RETRY.replace("await asyncio.sleep(attempt)", "raise"))))
    assert list(copies.find_retries(make_source("from tenacity import retry\n"))) == ["libs/fathom/a.py:1 kept library"]


def test_a_pause_that_has_no_error_to_wait_for_makes_no_retry() -> None:
    poll = RETRY.replace("            return await work()\n", "            await work()\n")
    behind = RETRY.replace(
        "            await asyncio.sleep(attempt)", "            pass\n        await asyncio.sleep(attempt)"
    )
    assert list(copies.find_retries(make_source(behind))), "reached after an error alone, for a success returns"
    both = behind.replace("            return await work()\n", "            await work()\n")
    assert not list(copies.find_retries(make_source(both))), "by the clock: it pauses after a success too"
    assert list(copies.find_retries(make_source(poll))), "a pause in the handler belongs to the error"
    full = RETRY.replace("OSError", "BlockingIOError")
    assert not list(copies.find_retries(make_source(full))), "waits for room in a buffer"


def test_a_loop_that_asks_the_primitive_for_its_pause_is_no_copy_of_it() -> None:
    asking = RETRY.replace("sleep(attempt)", "sleep(retries.next_delay_s(error))")
    assert not list(copies.find_retries(make_source(asking)))
    home = "class Retries:\n    def next_delay_s(self, error):\n        return 1\n" + asking
    assert list(copies.find_retries(make_source(home))), "where the primitive is defined, its own loop counts"


def test_tasks_kept_to_be_cancelled_and_checks_of_a_token_are_no_copies() -> None:
    cancelled = """
class Calls:
    def begin(self, key):
        if key in self._tasks:
            self._tasks[key].cancel()
        self._tasks[key] = asyncio.create_task(self._answer(key))
"""
    assert not list(copies.find_single_flights(make_source(cancelled)))
    named = """
class Flight:
    async def get(self, key):
        known = self._tasks.get(key)
        if known is None:
            known = self._tasks[key] = asyncio.create_task(self._load(key))
        return await asyncio.shield(known)
"""
    assert list(copies.find_single_flights(make_source(named)))
    checked = (
        'def page(token, ids):\n    if token and len(ids) != 1:\n        raise InvalidField("page_token", "one id")\n'
    )
    assert not list(copies.find_page_tokens(make_source(checked)))
    oldest = "def remember(ids, key):\n    ids[key] = None\n    ids.popitem(last=False)\n"
    assert not list(copies.find_lru(make_source(oldest))), "drops the oldest, with no order by use"


def test_a_task_stored_by_key_and_looked_up_is_a_single_flight() -> None:
    flight = """
class Flight:
    def get(self, key):
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._load(key))
        return self._running[key]
"""
    assert list(copies.find_single_flights(make_source(flight))) == ["libs/fathom/a.py:2 Flight"]
    assert not list(
        copies.find_single_flights(make_source(flight.replace("asyncio.create_task(self._load(key))", "1")))
    )


@pytest.mark.parametrize(
    ("find", "text"),
    [
        (copies.find_lru, "class Cache:\n    def get(self, key):\n        self._entries.move_to_end(key)\n"),
        (copies.find_page_tokens, 'def page(token):\n    b64decode(token)\n    raise InvalidField("page_token", "")\n'),
        (copies.find_numerals, 'DIGITS = "一二三四五六七八九"\n'),
        (copies.find_months, 'MONTHS = "january|february|march|april|may|june|july|august"\n'),
        (copies.find_scripts, 'HAN = re.compile("[一-鿿]")\n'),
        (copies.find_stop_words, 'STOP = {"the", "of", "and", "in", "is", "for", "to", "on", "a"}\n'),
    ],
)
def test_each_shape_of_a_copy_is_found_and_its_mention_in_a_docstring_is_not(find: Search, text: str) -> None:
    assert len(list(find(make_source(text)))) == 1
    assert not list(find(make_source(f"'''{text}'''\n")))


def test_trees_stand_side_by_side_and_a_figure_that_one_lacks_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    print_table({"before": {"lines": 1200, "share": 0.5}, "after": {"lines": 900}})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["before", "after"], ["lines", "1,200", "900"], ["share", "0.50", "-"]]


def test_a_folder_without_a_product_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none of the folders"):
        measure(tmp_path)
