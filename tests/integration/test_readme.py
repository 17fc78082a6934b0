"""README against the program: its transcript comes from a real run, and its commands are run as they stand.

``FATHOM_UPDATE_GOLDEN=1`` writes the transcript of this machine's run into README.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.stack.conftest import prepare

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BEGIN, END = "<!-- transcript of make run: begin -->\n```\n", "```\n<!-- transcript of make run: end -->"
PAGE = "page http://"
COMMAND_S = 110.0

# Commands that end by themselves and print this, run word for word beside a running stack.
AS_THEY_STAND: Mapping[str, str] = {
    'fathom ask "What was the unemployment rate in 2020?"': "unemployment",
    'fathom ask "比较苹果和微软2015年到2020年的最大回撤"': "-38.5",
    """fathom call retrieval Search '{"queries": ["maximum drawdown"], "top_k": 3}'""": "Maximum drawdown",
    "fathom call planner ListTools": "search",
    "fathom runs list": "run_",
    "fathom review queue": "comparison",
    "fathom prompt lint": "",
    "fathom eval set33 --check": "0 problems",
    "fathom eval rewrite": "95 %",
    "fathom doctor": "SERVING",
    "python examples/grpc_client.py": '"snapshot"',
    "python examples/newcomer/ask_folder.py": "'right': ",
    "fathom data synth --target tasks": "",
    "fathom identity keys identity": "identity/public.pem",
}
# Commands that are run with something more or less, and why.
WITH_CHANGES: Mapping[str, tuple[str, str]] = {
    'fathom ask --table prices.csv "What is the maximum drawdown of my prices?"': (
        "sh -c 'echo date,price > prices.csv; for day in 10 11 12; do echo 2020-01-$day,$day >> prices.csv; done;"
        ' fathom ask --table prices.csv "What is the maximum drawdown of my prices?"\'',
        "the file is the reader's own",
    ),
    'fathom ask --with folder "What is the hurdle rate for new plants?"': (
        "sh -c 'mkdir -p folder; echo The hurdle rate for new plants is 11.5 percent. > folder/policy.txt;"
        ' fathom ask --with folder "What is the hurdle rate for new plants?"\'',
        "the folder is the reader's own",
    ),
    "fathom columns folder --to columns.yaml": (
        'sh -c \'mkdir -p own; printf "date,price\\n2020-01-02,10\\n2020-01-03,11\\n" > own/prices.csv;'
        " fathom columns own --to columns.yaml'",
        "the folder is the reader's own",
    ),
    'fathom data fetch AAPL MSFT --years 2015-2023 --agent "Name name@example.com"': (
        "fathom data fetch --help",
        "asks the SEC; tests/unit/datafetch/filling fetches from a recorded exchange",
    ),
    "fathom train grpo --config examples/train/grpo.yaml": (
        "fathom train grpo --config examples/train/grpo.yaml trainer.total_training_steps=1 trainer.val_before_train=false"
        " data.train_batch_size=2 rollout.n=2 actor.ppo_mini_batch_size=2 trainer.output=trained model.name=readme",
        "one small step instead of all",
    ),
    "fathom data convert nq_open --source DIR --target nq": ("fathom data convert --help", "DIR stands for a data set"),
    "fathom export sft --target sft.jsonl --model tiny": ("fathom export sft --help", "needs episodes that succeeded"),
    "fathom export sft --production --target users.jsonl --model tiny": (
        "fathom export sft --help",
        "needs runs whose users consented; tests/integration/stack/training/test_exports.py has some",
    ),
    "fathom shadow compare tiny@12 tiny@11": (
        "fathom shadow compare --help",
        "needs two versions of weights; tests/integration/stack/training/test_shadow.py compares one with itself",
    ),
    "fathom eval set33 --model rules": (
        "fathom eval set33 --model rules --item financial-07",
        "one question instead of all",
    ),
    "fathom eval public tatqa --model rules": (
        "fathom eval public --help",
        "needs a public set; tests/integration/stack/evaluation/test_eval_public.py asks one",
    ),
    "fathom eval hallucination smollm2 tuned": (
        "fathom eval hallucination --help",
        "needs an aligned model; tests/integration/policy/endpoints/test_eval_hallucination.py compares two",
    ),
    "fathom prompt plans v1 v2 --model rules": (
        "fathom prompt plans v1 v2 --model rules --limit 2",
        "two questions instead of all",
    ),
    "fathom shadow watch": (
        "fathom shadow watch --help",
        "goes on until it decides; tests/integration/stack/training/test_shadow_live.py compares two versions",
    ),
    "fathom data compress --source sft.jsonl --target short.jsonl --model tiny": (
        "fathom data compress --help",
        "needs what the command before wrote; tests/integration/stack/training/test_exports.py runs both",
    ),
    "fathom train sft 'data.train_files=[sft.jsonl]'": ("fathom train --help", "test_warm_start.py trains by it"),
    'fathom schedule add "How did Apple do this year?" --every week --at 08:00': (
        "fathom schedule add --help",
        "wants the port of make run; tests/unit/gateway/schedules/test_schedule_commands.py adds one",
    ),
    "fathom branch RUN --at 2": ("fathom branch --help", "RUN stands for a run; runs/test_recordings.py branches one"),
    "python examples/openai_client.py": (
        "python -c 'import ast; print(ast.parse(open(\"examples/openai_client.py\").read()))'",
        "wants the port of make run; tests/integration/stack/test_openai.py runs it",
    ),
    "fathom mcp serve": ("fathom mcp serve --help", "serves until it is stopped; test_mcp.py talks to it"),
    "fathom doctor --cluster --namespace fathom": ("fathom doctor --help", "needs a cluster; tests/unit/cluster"),
    "fathom train grpo --on-cluster --namespace fathom 'data.train_files=[store:prompts/train.parquet]'": (
        "fathom train --help",
        "needs a cluster; tests/unit/cluster submits to an API server of the tests",
    ),
}
# Commands of other programs, with the test that runs them.
ELSEWHERE: Mapping[str, str] = {
    "pip install .": "tests/contract/test_slim_client.py runs a client on these packages alone",
    "pip install '.[cli]'": "make release-check installs the wheel with its extras",
    "make run": "CI runs make demo, which is the same without staying up",
    "make test": "this is it",
    "make images": "tests/images, where a builder is installed",
    "helm install fathom charts/fathom -n fathom -f charts/fathom/ci/first-try.yaml --wait --timeout 15m": (
        "tests/chart/install/test_readme_lines.py renders it"
    ),
    "helm test fathom -n fathom": "tests/integration/cluster",
    "fathom report": "tests/unit/training_report",
}


def read_commands() -> list[str]:
    """Return the commands of README's code blocks, without their comments."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    shown = [block for language, block in blocks if not language]
    lines = [re.split(r"\s{2,}#", line)[0].strip() for block in shown for line in block.splitlines()]
    return [line for line in lines if re.match(r"(fathom|python|make|helm|uv|pip) ", line)]


@dataclass(frozen=True)
class Started:
    """A stack as ``make run`` starts it, with what it printed until the page was up."""

    folder: Path
    environ: Mapping[str, str]
    transcript: str


@pytest.fixture(scope="module")
def readme_stack(tmp_path_factory: pytest.TempPathFactory, tables_dir: Path, corpus_dir: Path) -> Iterator[Started]:
    """Ask README's question by ``fathom up``, in a folder of its own; stop the stack by Ctrl-C's signal."""
    folder = tmp_path_factory.mktemp("readme")
    prepare(folder / ".fathom", tables_dir, corpus_dir)
    (folder / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}
    question = re.search(r"^QUESTION \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert question is not None
    command = ["fathom", "up", "--home", ".fathom", "--port", "0", "--ask", question[1]]
    process = subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(PAGE):
                break
        assert lines[-1].startswith(PAGE), "".join(lines)
        yield Started(folder, environ, "".join(lines))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0


def shorten(transcript: str) -> str:
    """Return what README shows of a run: from the page's address on, without the preview of the table.

    Names of runs, ports and times, which differ from run to run, are made alike.
    """
    text = transcript[transcript.index("  gateway ") :]
    text = re.sub(r"(table sheet_\d+ [^\n]*\n)(?:[^\n]+\n)+", r"\1", text)
    text = re.sub(r"run_[0-9a-f]+_[0-9a-f]+", "run_01a2041c6ff6_1eda3c7540c39559", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", text)
    text = re.sub(r"\b\d+ ms$", "120 ms", text, flags=re.MULTILINE)
    text = re.sub(r"\d+\.\d s of sampling", "0.6 s of sampling", text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n"


@pytest.mark.slow
def test_the_transcript_is_that_of_a_real_run(readme_stack: Started) -> None:
    readme = README.read_text()
    before, rest = readme.split(BEGIN)
    shown, after = rest.split(END)
    real = shorten(readme_stack.transcript)
    if os.environ.get("FATHOM_UPDATE_GOLDEN") == "1":
        README.write_text(f"{before}{BEGIN}{real}{END}{after}")
    else:
        assert shown == real, "the program says something else now: read it, then FATHOM_UPDATE_GOLDEN=1"


def test_every_command_of_the_readme_is_accounted_for() -> None:
    listed = {*AS_THEY_STAND, *WITH_CHANGES, *ELSEWHERE}
    assert set(read_commands()) == listed


@pytest.mark.slow
@pytest.mark.parametrize("command", [*AS_THEY_STAND, *WITH_CHANGES])
def test_a_command_of_the_readme_works(readme_stack: Started, command: str) -> None:
    wanted = AS_THEY_STAND.get(command, "")
    text = command if command in AS_THEY_STAND else WITH_CHANGES[command][0]
    done = subprocess.run(
        shlex.split(text),
        cwd=readme_stack.folder, env=dict(readme_stack.environ), capture_output=True, text=True, timeout=COMMAND_S * 2,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert wanted in done.stdout
