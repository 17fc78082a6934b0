"""Imports of modules in a process that is refused all packages but some, as a machine or an image lacks them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import importlib, json, sys
from importlib.metadata import packages_distributions
from packaging.utils import canonicalize_name

allowed, names, is_inside_free = json.loads(sys.argv[1])
owners = packages_distributions()

class Refuse:
    def find_spec(self, name, path=None, target=None):
        found = {canonicalize_name(owner) for owner in owners.get(name.partition(".")[0], ())}
        if not found or found & set(allowed):
            return None
        caller = sys._getframe(1)
        while caller and "importlib" in caller.f_code.co_filename:
            caller = caller.f_back
        if is_inside_free and caller and "site-packages" in caller.f_code.co_filename:
            return None
        raise ModuleNotFoundError(f"{name} is in {found}, which is lacking there", name=name)

sys.meta_path.insert(0, Refuse())
for name in names:
    importlib.import_module(name)
"""


def import_within(packages: Iterable[str], modules: Sequence[str], *, is_inside_free: bool = False) -> str:
    """Import modules with some packages alone, by canonical name; return what went wrong, "" for nothing.

    With ``is_inside_free`` only our own imports are refused: what a package uses where it is there is its own affair.
    """
    asked = json.dumps([[*packages, "fathom", "packaging"], list(modules), is_inside_free])
    places = os.pathsep.join([str(ROOT), str(ROOT / "libs")])
    command = [sys.executable, "-c", SCRIPT, asked]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": places}, check=False
    )
    return done.stderr[-3000:] if done.returncode else ""
