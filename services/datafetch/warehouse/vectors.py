"""Precomputation of the embeddings of the bundled names.

Run ``python -m fathom.services.datafetch.warehouse.vectors --tables … --models …``. Meant for images whose models
folder is read-only later: the service finds the vectors there by the hash of the texts.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine


async def encode(config: Config) -> None:
    """Compute and cache the embeddings.

    Raises what ``Engine.start`` does, and ``DependencyFailed`` or ``MissingExtra`` without the encoder.
    """
    engine = Engine(config)
    await engine.start()
    try:
        await engine.encode_library()
    finally:
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Encodes the names of the bundled library.")
    parser.add_argument("--tables", type=Path, default=Config().data_dir)
    parser.add_argument("--models", type=Path, default=Config().models_dir)
    given = parser.parse_args()
    # "on" fails without the weights, where "auto" would build an image without vectors in silence.
    asyncio.run(encode(Config(data_dir=given.tables, models_dir=given.models, embedding="on")))


if __name__ == "__main__":
    main()
