"""Commands that documents show for a cluster, and what they would do, without one."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.chart.rendering import ROOT, TOOLS, Document

PROGRAMS = ("make", "kubectl", "fathom", "helm")
FLAGS = {"--wait": 0, "--timeout": 1}
"""Options of ``helm install`` that ``helm template`` does not know, with the number of their arguments."""


def read_lines(document: Path, heading: str) -> list[str]:
    """Return the commands of the first code block after a heading ("" for the document's first), without comments."""
    text = document.read_text().partition(heading)[2] if heading else document.read_text()
    fenced = re.search(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    indented = re.search(r"^((?: {4}.*\n)+)", text, re.MULTILINE)
    block = fenced or indented
    assert block is not None, f"{document} shows no commands"
    # Lines that go on, and several commands of one line, as a shell reads them.
    joined = re.sub(r"\s*\\\n\s*", " ", block[1])
    lines = [re.split(r"\s{2,}#", line.strip())[0].strip() for line in joined.splitlines()]
    return [part.strip() for line in lines for part in line.split(" && ") if part]


def expand(line: str) -> list[str]:
    """Return the words of a command as a shell would pass them."""
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    # The shell itself expands $(…): the secrets of README are random.
    shell = ["bash", "-euc", f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} {line}"]
    found: list[str] = json.loads(subprocess.run(shell, capture_output=True, text=True, check=True).stdout)
    return found


def run_here(words: Sequence[str], folder: Path) -> str:
    """Run a program of ours in the folder, without any cluster; return what it printed."""
    path = f"{TOOLS}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "KUBECONFIG": os.devnull}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
    return done.stdout


def preview_objects(lines: Sequence[str], folder: Path) -> dict[tuple[str, str], Document]:
    """Return what the kubectl lines would make, by kind and name; what they read from files is made on the way."""
    found: dict[tuple[str, str], Document] = {}
    for line in lines:
        words = expand(line)
        # Keys are files that the next line reads, so that they are really made.
        if words[0] == "fathom" and words[1] == "identity":
            run_here(words, folder)
        elif words[0] == "kubectl" and "create" in words:
            made: Document = json.loads(run_here([*words, "--dry-run=client", "-o", "json"], folder))
            found[made["kind"], made["metadata"]["name"]] = made
        elif words[:2] == ["kubectl", "label"]:
            _, _, kind, name, *labels = words
            there = found[kind.capitalize(), name]
            (folder / "object.json").write_text(json.dumps(there))
            label = ["kubectl", "label", "--local", "-f", "object.json", "-o", "json", *labels]
            found[there["kind"], name] = json.loads(run_here(label, folder))
    return found


def render_install(lines: Sequence[str], helm: str) -> tuple[Sequence[str], str]:
    """Return the words of the line that installs, and what Helm renders for it; raises ``AssertionError``."""
    (line,) = (line for line in lines if line.startswith("helm install"))
    words = expand(line)
    kept, skip = [], 0
    for word in words[2:]:
        skip = FLAGS.get(word, -1) + 1 if skip == 0 and word in FLAGS else skip
        if skip == 0:
            kept.append(word)
        else:
            skip -= 1
    return words, run_here([helm, "template", *kept], ROOT)


def value_of(words: Sequence[str], option: str) -> str:
    return words[list(words).index(option) + 1]


def find_missing(needs: Mapping[str, Sequence[str]], made: Mapping[tuple[str, str], Document]) -> list[str]:
    """Return the Secrets and keys that a release needs and nobody has made."""
    found = []
    for name, keys in needs.items():
        there = made.get(("Secret", name), {}).get("data", {})
        found += [f"{name}/{key}" for key in keys if not there.get(key)]
    return found
