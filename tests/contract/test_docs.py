"""The documentation and the tree: paths and links that exist, a map with every folder, a reference with every RPC."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from fathom.transport.rpc.contract import DOMAINS, contract

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("charts", "deploy", "docs", "examples", "libs", "locks", "protos", "services", "tests", "trainers")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "services/*/README.md", "trainers/**/README.md", "examples/**/README.md")
    for path in ROOT.glob(pattern)
    if path.relative_to(ROOT).parts[:2] != ("docs", "reference") and path.name != "CHANGELOG.md"
)
# Letters that paths are made of, with `*`, `<name>` and `{a,b}` as placeholders, and at least one slash.
PATH = re.compile(r"[\w.<>{},*-]+(?:/[\w.<>{},*-]*)+")


def load_reference() -> ModuleType:
    """Return docs/reference.py, which lies in no package."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse_page(text: str) -> Iterator[Token]:
    """Yield the blocks of a page and what stands in their lines."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def find_paths(text: str) -> set[str]:
    """Return what stands in backticks and looks like a path of this repository."""
    codes = {token.content for token in parse_page(text) if token.type == "code_inline"}
    return {code for code in codes if PATH.fullmatch(code) and code.split("/")[0] in ROOMS}


def expand_path(path: str) -> list[str]:
    """Return the patterns that a path with `<name>` and `{a,b}` stands for."""
    parts = re.split(r"\{([^}]*)\}", re.sub(r"<\w+>", "*", path))
    return ["".join(choice) for choice in product(*(p.split(",") if i % 2 else [p] for i, p in enumerate(parts)))]


def find_missing_paths(text: str, root: Path) -> list[str]:
    """Return the paths that a page names and ``root`` does not have."""
    return sorted(
        path for path in find_paths(text) for pattern in expand_path(path) if not any(root.glob(pattern.rstrip("/")))
    )


def find_anchors(text: str) -> set[str]:
    """Return the anchors that GitHub and mkdocs give to the headings of a page."""
    tokens = list(parse_page(text))
    seen: Counter[str] = Counter()
    found = set()
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            words = "".join(part.content for part in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def find_links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield the links of a page with their files and anchors; links to other hosts are left out."""
    for token in parse_page(page.read_text()):
        href = str(token.attrGet("href") or "")
        if token.type == "link_open" and not re.match(r"[a-z]+:", href):
            name, _, anchor = href.partition("#")
            yield href, (page.parent / name).resolve() if name else page, anchor


def find_broken_links(page: Path, generated: set[Path]) -> list[str]:
    """Return the links of a page that lead to no file, or to no heading in it."""
    broken = []
    for href, target, anchor in find_links(page):
        if target in generated and not anchor:
            continue
        if not target.exists() or (anchor and anchor not in find_anchors(target.read_text())):
            broken.append(href)
    return broken


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    assert not find_missing_paths((ROOT / page).read_text(), ROOT)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    generated = {ROOT / "docs" / "reference" / name for name in load_reference().page_names()}
    assert not find_broken_links(ROOT / page, generated)


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_every_link_of_the_site_stays_in_it(page: str) -> None:
    """mkdocs, which is strict, builds no site whose pages lead to files of the repository alone."""
    assert not [href for href, target, _ in find_links(ROOT / page) if ROOT / "docs" not in target.parents]


@pytest.mark.parametrize("page", PAGES)
def test_every_benchmark_that_a_page_names_exists(page: str) -> None:
    """A figure whose command is gone can never be measured again."""
    named = set(re.findall(r"python -m tests\.bench (\w+)", (ROOT / page).read_text())) - {"NAME"}
    known = {path.stem for path in (ROOT / "tests" / "bench").rglob("*.py") if "async def run(" in path.read_text()}
    assert named <= known, named - known


def find_missing_tests(text: str, root: Path) -> list[str]:
    """Return the tests, as ``tests/file.py::function``, that a page names in backticks and ``root`` does not have."""
    codes = {token.content for token in parse_page(text) if token.type == "code_inline"}
    named = [code.split("::") for code in sorted(codes) if re.fullmatch(r"tests/[\w/]+\.py::\w+", code)]
    return [
        f"{file}::{function}"
        for file, function in named
        if not (root / file).is_file() or f"def {function}(" not in (root / file).read_text()
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_exists(page: str) -> None:
    assert not find_missing_tests((ROOT / page).read_text(), ROOT)


def test_a_missing_test_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_one() -> None: ...\n")
    page = "`tests/test_a.py::test_one` `tests/test_a.py::test_two` `tests/test_b.py::test_one` `x::y`"
    assert find_missing_tests(page, tmp_path) == ["tests/test_a.py::test_two", "tests/test_b.py::test_one"]


def test_a_missing_path_and_a_broken_link_are_found(tmp_path: Path) -> None:
    (tmp_path / "services" / "memory").mkdir(parents=True)
    (tmp_path / "services" / "memory" / "engine.py").touch()
    page = tmp_path / "page.md"
    page.write_text(
        "# Two words\n\n`services/<name>/engine.py` `services/memory/{engine,gone}.py` `services/none/` `a/b` `x`\n\n"
        "[a](#two-words) [b](#three) [c](gone.md) [d](page.md#two-words) [e](https://example.com/x) `[f](gone.md)`\n"
    )
    assert find_missing_paths(page.read_text(), tmp_path) == ["services/memory/{engine,gone}.py", "services/none/"]
    assert find_broken_links(page, set()) == ["#three", "gone.md"]


def find_folders() -> Iterator[str]:
    """Yield the folders that the map must have: those with code, two levels below each room."""
    for pattern in ("libs/fathom/*", "libs/fathom/*/*", "services/*", "services/*/*", "trainers/*"):
        for path in sorted(ROOT.glob(pattern)):
            relative = path.relative_to(ROOT).as_posix()
            linked = any(parent.is_symlink() for parent in (path, path.parent))
            has_code = path.is_dir() and any(file.name != "__init__.py" for file in path.rglob("*.py"))
            if has_code and not linked and not relative.startswith("libs/fathom/api/"):
                yield relative


def test_the_map_has_every_folder() -> None:
    shown = find_paths((ROOT / "ARCHITECTURE.md").read_text())
    assert not [folder for folder in find_folders() if f"{folder}/" not in shown]


def test_the_site_shows_every_page() -> None:
    """A page that the navigation lacks is built and never found."""
    shown: list[str] = []
    waiting = [yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            shown.append(item)
        else:
            waiting += item.values() if isinstance(item, dict) else item
    written = [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")]
    generated = [f"reference/{name}" for name in load_reference().page_names()]
    assert sorted(shown) == sorted([*written, *generated])


def test_the_glossary_explains_at_least_sixty_terms_once() -> None:
    glossary = (ROOT / "CONTRIBUTING.md").read_text().partition("## Glossary")[2]
    terms = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", glossary, re.MULTILINE)[1:]
    assert len(terms) >= 60
    assert len(set(terms)) == len(terms)


def test_the_reference_has_every_rpc_with_its_comment_and_every_client(tmp_path: Path) -> None:
    load_reference().main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(load_reference().page_names())
    clients = (tmp_path / "clients.md").read_text()
    for domain in DOMAINS:
        page = (tmp_path / f"{domain}.md").read_text()
        assert f"## {domain.capitalize()}Client" in clients
        for name in contract(domain).methods:
            assert re.search(rf"^\| `{name}` \| `[\w ]+` \| `[\w ]+` \| \w.* \|$", page, re.MULTILINE), name
