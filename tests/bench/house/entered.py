"""Count what one question and one training step enter: calls, files and functions of ours, operations on the stores.

Profiles (``sys.setprofile``, in all threads) of a local stack with its services in one process; policy, the sandbox's
supervisor and the kernels are processes of their own and not counted. A coroutine counts as a call each time that it is
resumed. Tasks of the idle stack that happen to run meanwhile are in the figures, and how many episodes end together
depends on the machine's load: the step of one commit varied by 7 %. The step is one of GRPO on a tiny model, with its
publication and its rollouts: 128 episodes of one turn and six of a validation. Its calls are given by layer, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

from tests.bench.house import ROOT

PROBE = Path(__file__).with_name("probe.py")
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
STEP = ("trainer.total_training_steps=1", "rollout.publish_timeout_s=300")
LONGEST_S = 600


def profile_question(root: Path) -> dict[str, float]:
    """Answer one question with the code below ``root``, on the data of this tree, and return what it entered."""
    return run_probe(root, "question", QUESTION)


def profile_step(root: Path) -> dict[str, float]:
    """Take one training step with the code below ``root`` and return what it entered."""
    config = root / "examples" / "train" / "grpo.yaml"
    return run_probe(root, "step", "grpo", "--config", str(config), *STEP)


def run_probe(root: Path, what: str, *arguments: str) -> dict[str, float]:
    """Run ``probe.py`` in a process and a home of its own; raise ``RuntimeError`` with its last words if it fails."""
    with tempfile.TemporaryDirectory(prefix="house-", dir=ROOT / ".fathom") as folder:
        home = Path(folder) / "home"
        home.mkdir()
        # No episode of the step asks for an encoder. With one, datafetch encodes the names of all series in a thread at
        # its start, of which the more falls into the step the slower the machine is: 100 to 240 calls per episode.
        for name in ("data", "models") if what == "question" else ("data",):
            if (ROOT / ".fathom" / name).is_dir():
                (home / name).symlink_to(ROOT / ".fathom" / name)
        python = make_interpreter(Path(folder) / "venv", root)
        command = [str(python), str(PROBE), what, str(root), str(home), *arguments]
        if what == "step":
            command.append(f"trainer.output={folder}/training")
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=LONGEST_S)
        if done.returncode:
            raise RuntimeError(f"the {what} of {root} failed:\n{done.stderr[-4000:]}")
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures


def make_interpreter(folder: Path, root: Path) -> Path:
    """Return the Python of a new environment with the packages of this one and Fathom's code from ``root``.

    The paths stand in the environment, since processes of the sandbox drop ``PYTHONPATH``. Packages are added as a plain
    path, so that the links of this environment to this tree are not followed.
    """
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    lines = (root / "libs", root, sysconfig.get_path("purelib"))
    (packages / "tree.pth").write_text("".join(f"{line}\n" for line in lines))
    for program in Path(sys.executable).parent.glob("nats-server*"):
        (folder / "bin" / program.name).symlink_to(program)
    return folder / "bin" / "python"
