"""verl's own classes with the configuration in ``examples/verl``, against a real stack.

Skipped where verl is not installed; ``examples/verl/README.md`` says how it is, beside the packages of this repository.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fathom.clients import Clients
from fathom.clients.environment import open_session
from fathom.core.errors import NotReady
from fathom.services.local import Endpoints
from tests.integration.stack.harnesses.test_environment import serving

pytest.importorskip("verl", reason="verl is not installed: examples/verl/README.md")

from omegaconf import OmegaConf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

# verl uses what Ray and others call deprecated.
with warnings.catch_warnings(action="ignore"):
    from verl.experimental.agent_loop import agent_loop as peer
    from verl.tools.tool_registry import load_all_tools
    from verl.utils.dataset.rl_dataset import RLHFDataset
    from verl.workers.rollout.replica import TokenOutput

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
Stack = tuple[Endpoints, Clients]
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "verl"
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of bytes with the marks of ChatML."""
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words = [*marks, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.add_special_tokens(marks)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=marks[0], eos_token=marks[2], chat_template=TEMPLATE
    )


def write_call(name: str, **arguments: Any) -> str:
    return "<tool_call>" + json.dumps({"name": name, "arguments": {"intent": "to see", **arguments}}) + "</tool_call>"


class Sampler:
    """Stands for verl's rollout servers: says of each prompt what its script has next, when all others are as far."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, scripts: Sequence[Sequence[str]]) -> None:
        self._tokenizer, self._scripts = tokenizer, scripts
        self._places: dict[str, tuple[int, int]] = {}
        self._together = asyncio.Barrier(len(scripts))
        self._before: dict[int, Callable[[], Awaitable[None]]] = {}
        self.prompts: dict[int, list[str]] = {number: [] for number in range(len(scripts))}

    def before(self, completion: int, act: Callable[[], Awaitable[None]]) -> None:
        """Do something once, before a completion, counted from 0, is returned for the first time."""
        self._before[completion] = act

    async def generate(self, request_id: str, prompt_ids: list[int], **_: Any) -> TokenOutput:
        script, said = self._places.get(request_id, (-1, 0))
        prompt = self._tokenizer.decode(prompt_ids)
        if script < 0:
            script = next(number for number in self.prompts if f"question {number}?" in prompt)
        self.prompts[script].append(prompt)  # type: ignore[arg-type]
        self._places[request_id] = script, said + 1
        await self._together.wait()
        if said in self._before:
            await self._before.pop(said)()
        ids = self._tokenizer.encode(self._scripts[script][said] + "<|im_end|>", add_special_tokens=False)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


def make_worker(url: str, sampler: Sampler, tokenizer: PreTrainedTokenizerFast, tools: Path) -> peer.AgentLoopWorker:
    """Return verl's worker of agent loops with the shipped configuration, without its Ray actors."""
    multi_turn = {
        "max_user_turns": 8, "max_assistant_turns": 8, "max_parallel_calls": 4, "max_tool_response_length": 4_000,
        "tool_response_truncate_side": "right", "format": "hermes",
    }  # fmt: skip
    rollout = {
        "prompt_length": 65_536, "response_length": 65_536, "full_determinism": False, "multi_turn": multi_turn,
    }  # fmt: skip
    worker: peer.AgentLoopWorker = object.__new__(peer.AgentLoopWorker)
    worker.config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    worker.llm_client, worker.tokenizer, worker.processor, worker.hf_model_type = sampler, tokenizer, None, None
    worker.dataset_cls, worker.tools = RLHFDataset, load_all_tools(str(tools), None)
    for loop in OmegaConf.load(EXAMPLE / "agent_loops.yaml"):
        peer._agent_loop_registry[loop.name] = loop

    async def take(output: peer.AgentLoopOutput, *_: Any, **__: Any) -> peer.AgentLoopOutput:
        return output

    worker._agent_loop_postprocess = take
    return worker


async def play(worker: peer.AgentLoopWorker, number: int) -> peer.AgentLoopOutput:
    trajectory = {"step": 0, "sample_index": number, "rollout_n": 0, "validate": False}
    prompt = [{"role": "user", "content": f"question {number}?"}]
    output: peer.AgentLoopOutput = await worker._run_agent_loop(
        {}, trajectory, agent_name="fathom_agent", raw_prompt=prompt, trace=False
    )
    return output


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set what the shipped configuration reads from the environment."""
    monkeypatch.syspath_prepend(str(EXAMPLE))

    def set_environment(url: str) -> None:
        monkeypatch.setenv("FATHOM_MCP_URL", url)
        monkeypatch.setenv("FATHOM_MCP_TOKEN", "s3cret")

    return set_environment


def script_of(number: int) -> list[str]:
    """Return what a model says that keeps a number and a table in its session, and looks at both later."""
    return [
        write_call("python", code=f"kept = {number}"),
        '<tool_call>{"name": "python", "arguments": [1]}</tool_call>',
        write_call("data", question="Apple closing price in 2020"),
        write_call("python", code="print('kept', kept, 'rows', len(sheet_1) > 200, 'more', 'sheet_2' in globals())"),
        "It is so.",
    ]


async def test_each_trajectory_of_verl_has_a_session_of_its_own(stack: Stack, configure: Any) -> None:
    endpoints, _ = stack
    tokenizer = build_tokenizer()
    sampler = Sampler(tokenizer, [script_of(number) for number in range(3)])
    async with asyncio.timeout(600), serving(endpoints) as url:
        configure(url)
        worker = await asyncio.to_thread(make_worker, url, sampler, tokenizer, EXAMPLE / "tools.yaml")
        outputs = await asyncio.gather(*(play(worker, number) for number in range(3)))
    for number, output in enumerate(outputs):
        # All have set their own number before any looked at it.
        assert f"kept {number} rows True more False" in sampler.prompts[number][-1]
        assert "arguments: must be an object" in sampler.prompts[number][-1]
        assert len(output.response_ids) == len(output.response_mask)
        sampled = [one for one, counts in zip(output.response_ids, output.response_mask, strict=True) if counts]
        assert tokenizer.decode(sampled).count("<tool_call>") == 4, "what the tools said is not trained on"
        # The model is shown the server's own description, nested fields included.
        assert '"intent"' in sampler.prompts[number][0]
        assert '"properties"' in sampler.prompts[number][0].partition('"name": "data"')[2]


async def test_a_trajectory_that_has_lost_its_session_is_begun_anew(stack: Stack, configure: Any) -> None:
    endpoints, _ = stack
    tokenizer = build_tokenizer()
    sampler = Sampler(tokenizer, [[write_call("python", code="kept = 1"), write_call("python", code="kept"), "Yes."]])
    async with asyncio.timeout(600), serving(endpoints, "--sessions", "1") as url:
        configure(url)
        worker = await asyncio.to_thread(make_worker, url, sampler, tokenizer, EXAMPLE / "tools.yaml")

        async def take_its_place() -> None:
            async with open_session(url, "s3cret", 60.0) as other:
                await other.list_tools()

        sampler.before(1, take_its_place)
        output = await play(worker, 0)
    prompts = sampler.prompts[0]
    assert len(prompts) == 2 + 3, "two of the first attempt, and a whole second one"
    assert prompts[2] == prompts[0]
    assert "Error" not in "".join(prompts), "the model is told nothing of it"
    assert tokenizer.decode(output.response_ids).count("<tool_call>") == 2


async def test_a_trajectory_that_was_played_outlives_its_server(stack: Stack, configure: Any) -> None:
    endpoints, _ = stack
    tokenizer = build_tokenizer()
    sampler = Sampler(tokenizer, [[write_call("python", code="1 + 1"), "Two."]])
    last, ended = asyncio.Event(), asyncio.Event()

    async def lose_the_server() -> None:
        last.set()
        await ended.wait()

    sampler.before(1, lose_the_server)
    async with asyncio.timeout(600):
        async with serving(endpoints) as url:
            configure(url)
            worker = await asyncio.to_thread(make_worker, url, sampler, tokenizer, EXAMPLE / "tools.yaml")
            playing = asyncio.create_task(play(worker, 0))
            await asyncio.wait({playing, waiting := asyncio.create_task(last.wait())}, return_when="FIRST_COMPLETED")
            waiting.cancel()
        ended.set()
        output = await playing
    assert tokenizer.decode(output.response_ids).endswith("Two.<|im_end|>")
    assert len(sampler.prompts[0]) == 2


async def test_a_failure_of_the_services_is_no_observation_of_verls_model(
    stack: Stack, configure: Any, tmp_path: Path
) -> None:
    endpoints, _ = stack
    tokenizer = build_tokenizer()
    sampler = Sampler(tokenizer, [[write_call("python", code="1"), "It is so."]])
    text = (EXAMPLE / "tools.yaml").read_text().replace("type: native,", "type: native, patience_s: 0,")
    (tmp_path / "tools.yaml").write_text(text)
    async with asyncio.timeout(600), serving(endpoints) as url:
        configure(url)
        worker = await asyncio.to_thread(make_worker, url, sampler, tokenizer, tmp_path / "tools.yaml")
    # The server is gone.
    with pytest.raises(NotReady, match="no tools at"):
        await play(worker, 0)
    assert sampler.prompts[0] == []
