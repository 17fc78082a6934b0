"""The build of the page: once for the same sources, anywhere that this user can write, and with a clear end without npm."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from deploy import web
from deploy.install import SetupError
from fathom.services.gateway.page import find_page

# Stands for Node: says its version, and builds a page when it is asked to run Vite.
NODE = """#!/bin/sh
[ "$1" = --version ] && { echo "$VERSION"; exit; }
echo "node $*" >>"$CALLS"
for argument in "$@"; do target=$argument; done
mkdir -p "$target" && cat src/app.ts >"$target/index.html"
"""
NPM = """#!/bin/sh
echo "npm $*" >>"$CALLS"
mkdir -p node_modules
"""


class Shop:
    """A checkout's page sources in a folder with a space in its name, with doubles of Node and npm on the PATH."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.sources, self.built = folder / "a checkout" / "web", folder / "a checkout" / "static"
        (self.sources / "src").mkdir(parents=True)
        (self.sources / "package-lock.json").write_text("{}")
        self.change("first")
        self._calls, tools = folder / "calls", folder / "tools"
        self._calls.touch()
        tools.mkdir()
        for name, text in (("node", NODE), ("npm", NPM)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        patch.setattr(web, "WEB", self.sources)
        patch.setattr(web, "BUILT", self.built)
        patch.setenv("PATH", str(tools), prepend=os.pathsep)
        patch.setenv("CALLS", str(self._calls))
        patch.setenv("VERSION", "v22.12.0")

    def change(self, text: str) -> None:
        (self.sources / "src" / "app.ts").write_text(text)

    def take_calls(self) -> list[str]:
        """Return what was run since the last time, by its first two words."""
        lines = self._calls.read_text().splitlines()
        self._calls.write_text("")
        return [Path(line).parts[-1].split(" --")[0] if line.startswith("node") else line for line in lines]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)


def test_the_page_is_built_once_for_the_same_sources(shop: Shop) -> None:
    assert web.build_page()
    assert (shop.built / "index.html").read_text() == "first"
    assert len(shop.take_calls()) == 2
    # A clone or a checkout of another branch and back gives files new times.
    os.utime(shop.sources / "src" / "app.ts", (1, 1))
    (shop.sources / "node_modules" / "made").touch()
    assert not web.build_page()
    assert shop.take_calls() == []


def test_changed_sources_replace_the_page_without_new_packages(shop: Shop) -> None:
    web.build_page()
    (shop.built / "left-over.js").touch()
    shop.take_calls()
    shop.change("second")
    assert web.build_page()
    assert [path.name for path in sorted(shop.built.iterdir())] == ["index.html", web.STAMP]
    assert (shop.built / "index.html").read_text() == "second"
    assert not [call for call in shop.take_calls() if call.startswith("npm")]
    (shop.sources / "package-lock.json").write_text('{"lockfileVersion": 3}')
    assert web.build_page()
    assert [call for call in shop.take_calls() if call.startswith("npm")] == ["npm ci"]


def test_a_failed_build_leaves_the_old_page_and_is_tried_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    web.build_page()
    shop.change("second")
    with monkeypatch.context() as patch:
        patch.setattr(web, "explain_failure", lambda *_: SetupError("broken", "mend it"))
        (shop.sources / "src").rename(shop.sources / "away")
        with pytest.raises(SetupError, match="broken"):
            web.build_page()
    assert (shop.built / "index.html").read_text() == "first"
    (shop.sources / "away").rename(shop.sources / "src")
    assert web.build_page()
    assert (shop.built / "index.html").read_text() == "second"


def test_a_checkout_that_is_read_only_gets_its_page_in_the_environment(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = tmp_path / "environment" / "share" / "fathom"
    with monkeypatch.context() as patch:
        # The tests may run as root, who can write everything.
        patch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(shop.sources.parent))
        assert web.build_page(spare)
        assert not web.build_page(spare)
    assert not shop.built.exists()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    assert (find_page() / "index.html").read_text() == "first"
    # Once the checkout can be written, an old page must not hide the new one.
    shop.change("second")
    assert web.build_page(spare)
    assert find_page() != spare / "page"


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("v20.18.9", False), ("v20.19.0\n", True), ("v21.9.0", False), ("v22.11.0", False), ("v22.12.0", True),
     ("v24.1.0", True), ("v100.0.0", True), ("", False)],
)  # fmt: skip
def test_an_old_node_is_not_taken(shop: Shop, monkeypatch: pytest.MonkeyPatch, version: str, is_enough: bool) -> None:
    monkeypatch.setenv("VERSION", version)
    assert bool(web.find_node(shop.sources)) == is_enough


def test_the_versions_of_node_are_those_of_the_package() -> None:
    wanted = json.loads((web.WEB / "package.json").read_text())["engines"]["node"]
    assert wanted == "^20.19.0 || >=22.12.0"
    assert web.OLDEST_NODES == ((20, 19), (22, 12))


def test_a_registry_out_of_reach_is_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    node = web.find_node(web.WEB)
    assert node is not None
    sources = tmp_path / "web"
    sources.mkdir()
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(web.WEB / name, sources)
    monkeypatch.setattr(web, "find_node", lambda folder: node)
    monkeypatch.setattr(web, "WEB", sources)
    monkeypatch.setattr(web, "BUILT", tmp_path / "static")
    with socket.socket() as closed:  # bound and not listening: nobody else gets this port meanwhile
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NPM_CONFIG_FETCH_RETRIES", "0")
        assert web.main([]) == 1
    said = capfd.readouterr().err
    assert "the npm registry cannot be reached, and the page cannot be built without its packages" in said
    assert "NPM_CONFIG_REGISTRY" in said
    assert not (tmp_path / "static").exists()


def test_the_lock_names_no_host_and_every_package_has_a_checksum() -> None:
    packages = json.loads((web.WEB / "package-lock.json").read_text())["packages"]
    assert packages
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert not name or package["integrity"].startswith("sha512-"), name


def test_a_failure_of_the_disk_or_of_a_certificate_has_its_own_remedy() -> None:
    assert "make room" in web.explain_failure("npm ci", "npm error code ENOSPC", 1).remedy
    assert (
        "cafile"
        in web.explain_failure("npm ci", "UNABLE_TO_VERIFY_LEAF: unable to verify the first certificate", 1).remedy
    )
    assert "status 7" in str(web.explain_failure("vite build", "cannot resolve ./network error", 7))
