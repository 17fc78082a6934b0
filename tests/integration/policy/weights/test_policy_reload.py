"""New weights beside old ones: exactly what the file says, memory used again, what samples never touched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import CorruptData
from fathom.domain.chat.messages import Completion, Message, Role, Sampling
from fathom.services.policy.backends.transformers.backend import TransformersBackend
from fathom.services.policy.config import TransformersModel
from fathom.services.policy.model import Request
from tests.integration.policy.weights.models import tiny_model
from tests.support.waiting import wait_until

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("tiny")
    return [tiny_model(root / str(seed), seed) for seed in (1, 2, 3, 4)]


def reloader() -> Any:
    from fathom.services.policy.backends.transformers.loading import load_folder
    from fathom.services.policy.backends.transformers.reload import Reloader

    return Reloader(lambda folder: load_folder(folder, 512), lambda: Path("unused"))


def tensors(network: Any) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def test_every_version_is_what_its_file_says(folders: list[Path]) -> None:
    from fathom.services.policy.backends.transformers.loading import load_folder

    made = reloader()
    loaded = made.load(folders[0])
    # Back to the first at the end: nothing of the versions between may be left in the memory that is used again.
    for folder in (*folders[1:], folders[0]):
        before = tensors(loaded.network)
        after = made.load(folder, loaded)
        reference = load_folder(folder, 512)
        assert all(
            torch.equal(after.network.state_dict()[name], value) for name, value in tensors(reference.network).items()
        )
        assert all(torch.equal(loaded.network.state_dict()[name], value) for name, value in before.items())
        assert not after.network.training
        assert after.tokenizer is loaded.tokenizer
        # Equal tensors are not enough: buffers that no file has, as those of rotary positions, count in the output too.
        ids = torch.tensor([[1, 2, 3]])
        with torch.inference_mode():
            assert torch.equal(after.network(ids).logits, reference.network(ids).logits)
        loaded = after


def test_memory_of_a_version_that_nobody_uses_is_used_again(folders: list[Path]) -> None:
    made = reloader()
    first = made.load(folders[0])
    place = first.network.lm_head.weight.data_ptr()
    second = made.load(folders[1], first)
    third = made.load(folders[2], second)  # the first still samples: it keeps its memory
    assert third.network.lm_head.weight.data_ptr() != place
    # The last reference, as when its last sample has ended.
    del first
    fourth = made.load(folders[3], third)
    assert fourth.network.lm_head.weight.data_ptr() == place


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    paths = []
    for seed in (1, 2):
        folder = tiny_model(tmp_path / str(seed), seed)
        (folder / "model.safetensors").unlink()
        torch.manual_seed(seed)
        config: Any = LlamaConfig.from_pretrained(str(folder))
        # Tied weights stand once in the file and twice in the network: filling them one by one would untie them.
        config.tie_word_embeddings = True
        network = LlamaForCausalLM(config)
        assert network.lm_head.weight is network.model.embed_tokens.weight
        network.save_pretrained(str(folder))
        paths.append(folder)
    made = reloader()
    first = made.load(paths[0])
    assert first.network.lm_head.weight is first.network.model.embed_tokens.weight
    second = made.load(paths[1], first)
    assert second.network.lm_head.weight is second.network.model.embed_tokens.weight
    assert not torch.equal(first.network.lm_head.weight, second.network.lm_head.weight)


def rewritten(source: Path, target: Path, change: Any) -> Path:
    """A copy of a model folder with other tensors."""
    import shutil

    from safetensors.torch import load_file, save_file

    shutil.copytree(source, target)
    path = target / "model.safetensors"
    save_file(change(load_file(str(path))), str(path), metadata={"format": "pt"})
    return target


NAME = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        # Each is found before the first tensor is written, else the version that serves would be half another one.
        (lambda all: {**all, NAME: all[NAME][:, :-1].contiguous()}, NAME),
        (lambda all: {**all, NAME: all[NAME].to(torch.int32)}, "I32"),
        (lambda all: {**all, "surprise": torch.zeros(2)}, "surprise"),
        (lambda all: {name: value for name, value in all.items() if name != NAME}, NAME),
    ],
    ids=["shape", "dtype", "unknown", "missing"],
)
def test_what_does_not_fit_is_told_and_nothing_has_changed(
    folders: list[Path], tmp_path: Path, change: Any, told: str
) -> None:
    made = reloader()
    loaded = made.load(folders[0])
    before = tensors(loaded.network)
    with pytest.raises(CorruptData, match=told):
        made.load(rewritten(folders[1], tmp_path / "x", change), loaded)
    assert all(torch.equal(loaded.network.state_dict()[name], value) for name, value in before.items())
    # What was refused must not keep the next good version out.
    made.load(folders[1], loaded)


def test_bfloat16_files_are_read_as_they_are_rounded(folders: list[Path], tmp_path: Path) -> None:
    folder = rewritten(folders[1], tmp_path / "x", lambda all: {name: value.bfloat16() for name, value in all.items()})
    made = reloader()
    after = made.load(folder, made.load(folders[0]))
    weight = after.network.lm_head.weight
    assert weight.dtype is torch.float32
    assert torch.equal(weight, weight.bfloat16().float())


def test_another_tokenizer_is_not_taken_for_the_same(folders: list[Path], tmp_path: Path) -> None:
    folder = rewritten(folders[1], tmp_path / "x", lambda all: all)
    # The same vocabulary with another template renders other prompts, so that comparing vocabularies is not enough.
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    made = reloader()
    first = made.load(folders[0])
    after = made.load(folder, first)
    message = [Message(Role.USER, "hi")]
    assert after.tokenizer.render(message, (), False) == "hi"
    assert first.tokenizer.render(message, (), False) != "hi"


async def test_sampling_goes_on_while_a_version_is_read(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The reading waits for a token of the generation: if it held sampling up, neither would ever end."""
    from fathom.services.policy.backends.transformers import reload

    backend = TransformersBackend("tiny", TransformersModel(folder=folders[0], threads=1), Path("unused"))
    await backend.load()
    loop, tokens = asyncio.get_running_loop(), 0
    waited: list[int] = []
    original = reload.build_twin

    def slow(*args: Any) -> Any:
        begun = tokens
        # Five tokens sampled while the reading stands still: one could have been under way already.
        wait_until(lambda: tokens >= begun + 5)
        waited.append(tokens - begun)
        return original(*args)

    monkeypatch.setattr(reload, "build_twin", slow)
    request = Request("r", "tiny", (Message(Role.USER, "x"),), sampling=Sampling(temperature=1, max_tokens=300, seed=1))
    loading: asyncio.Task[None] | None = None
    ends: list[Completion] = []
    # One reply may be over before a busy machine has begun to read: then the next one is sampled meanwhile.
    while loading is None or not loading.done():
        async for item in backend.generate(request):
            tokens += 1
            if loading is None:
                loading = loop.create_task(backend.load_weights(folders[1], 2))
            if isinstance(item, Completion):
                ends.append(item)
    await loading
    assert waited
    assert waited[0] >= 5
    assert (ends[0].version_min, backend.version) == (0, 2)
    await backend.close()
