"""Encoders over HTTP: OpenAI-compatible ``/v1/embeddings`` and ``/embed`` of text-embeddings-inference (TEI).

Live endpoints were not tried: the tests serve both contracts locally.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from fathom.core.config import ConfigError, Settings
from fathom.core.errors import CorruptData, InvalidField
from fathom.domain.encoders.base import Kind
from fathom.transport.http import BlockingClient, HttpPolicy, MalformedAnswer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RemoteEncoderConfig(Settings):
    """Address of a remote encoder and the conventions of its model."""

    url: str
    """``http://host/v1`` of an OpenAI-compatible endpoint, ``http://host`` of TEI."""
    model: str = ""
    """The model's name; required by an OpenAI-compatible endpoint."""
    dim: int = Field(default=0, ge=0)
    """Length of its vectors; 0 asks the endpoint once."""
    api_key_env: str = ""
    """Environment variable that holds the key; "" sends none."""
    query_prefix: str = ""
    """Prepended to each query, e.g. ``query: `` for E5."""
    passage_prefix: str = ""
    """Prepended to each passage, e.g. ``passage: `` for E5."""
    batch: int = Field(default=32, ge=1)
    """Texts per request; 32 is TEI's default maximum."""
    concurrency: int = Field(default=4, ge=1)
    """Maximum concurrent requests."""
    timeout_s: float = Field(default=60.0, gt=0)
    """Maximum duration of a request including retries, in seconds."""


class NamedRemoteConfig(RemoteEncoderConfig):
    """A remote encoder that is selected by name."""

    kind: Literal["openai", "tei"]
    """API of the endpoint: ``/v1/embeddings`` or TEI's ``/embed``."""


class WrongDimension(CorruptData):
    """The endpoint's vectors do not have the length that the index needs."""

    def __init__(self, encoder: str, got: int, wanted: int) -> None:
        super().__init__(f"vectors of {encoder}", f"have {got} numbers, not {wanted}")
        self.got, self.wanted = got, wanted


class RemoteEncoder:
    """Encodes over HTTP; thread-safe. Created by ``openai_encoder`` and ``tei_encoder``."""

    def __init__(
        self, name: str, config: RemoteEncoderConfig, ask: Callable[[BlockingClient, list[str]], list[Any]]
    ) -> None:
        """Create the encoder; ``ask`` sends one batch and returns its vectors in order.

        Raises ``ConfigError`` when the required key is missing.
        """
        self.name, self._config, self._ask, self._dim = name, config, ask, config.dim
        headers = {"authorization": f"Bearer {key_of(config)}"} if config.api_key_env else {}
        # Vectors as JSON text take some ten bytes per number: 1,000 texts of 4,096 numbers are 40 MB.
        policy = HttpPolicy(
            concurrency=config.concurrency, read_s=config.timeout_s, body_bytes=128 << 20, json_bytes=512 << 20
        )
        self._client = BlockingClient(name, policy, headers, config.timeout_s)

    @property
    def dim(self) -> int:
        """Length of a vector; asks the endpoint once when it is not configured, and raises as ``encode`` does."""
        if not self._dim:
            self._dim = int(self.encode(["dimension"], "query").shape[1])
        return self._dim

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return vectors [texts, dim], float32, of Euclidean length 1, in order.

        Raises ``InvalidField`` for an empty text, ``WrongDimension``, ``CorruptData`` for vectors that are not finite
        or have no length, and the errors of ``fathom.transport.http.HttpClient.request``.
        """
        import numpy as np

        prefix = self._config.query_prefix if kind == "query" else self._config.passage_prefix
        # Endpoints answer an empty text each in their own way: with an error, or with a vector of zeros.
        empty = next((index for index, text in enumerate(texts) if not text.strip()), None)
        if empty is not None:
            raise InvalidField(f"texts[{empty}]", "is empty")
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        whole = [prefix + text for text in texts]
        batches = [whole[start : start + self._config.batch] for start in range(0, len(whole), self._config.batch)]
        parts = self._all(batches)
        return np.concatenate(parts)

    def _all(self, batches: Sequence[list[str]]) -> list[NDArray[np.float32]]:
        if len(batches) == 1:
            return [self._batch(batches[0])]
        with ThreadPoolExecutor(min(self._config.concurrency, len(batches))) as pool:
            # Each in a copy of the context: the current call's deadline holds there as well.
            futures = [pool.submit(copy_context().run, self._batch, batch) for batch in batches]
            try:
                return [future.result() for future in futures]
            # KeyboardInterrupt and cancellation too: batches that have not begun must not be sent after it.
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _batch(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = self._ask(self._client, texts)
        if len(vectors) != len(texts):
            raise MalformedAnswer(self.name, f"{len(vectors)} vectors for {len(texts)} texts")
        return normalize_vectors(vectors, self._dim, self.name)


def normalize_vectors(vectors: Sequence[Any], dim: int, name: str) -> NDArray[np.float32]:
    """Normalise vectors to [n, dim] of length 1; ``dim`` 0 accepts any length, as long as all agree.

    Raises as ``RemoteEncoder.encode``.
    """
    import numpy as np

    lengths = {len(vector) if isinstance(vector, list) else -1 for vector in vectors}
    if -1 in lengths:
        raise MalformedAnswer(name, "a vector is no list of numbers")
    wrong = lengths - ({dim} if dim else {max(lengths)})
    if wrong or lengths == {0}:
        raise WrongDimension(name, min(wrong or lengths), dim or max(lengths))
    try:
        # In 64 bits until they are normalised: squares of large numbers must not overflow.
        matrix = np.asarray(vectors, np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise MalformedAnswer(name, "a vector holds something other than numbers") from error
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    if matrix.ndim != 2 or not np.isfinite(norms).all() or not (norms > 0).all():
        raise CorruptData(f"vectors of {name}", "some are not finite or have no length")
    unit: NDArray[np.float32] = (matrix / norms).astype(np.float32)
    return unit


def openai_encoder(config: RemoteEncoderConfig) -> RemoteEncoder:
    """Return an encoder at an OpenAI-compatible endpoint; raise ``ConfigError`` without a model's name."""
    if not config.model:
        raise ConfigError("model: an OpenAI-compatible endpoint needs the model's name", metadata={"field": "model"})
    url = config.url.rstrip("/") + "/embeddings"
    name = f"openai:{config.model}"

    def ask(client: BlockingClient, texts: list[str]) -> list[Any]:
        answer = client.post(url, {"model": config.model, "input": texts, "encoding_format": "float"})
        rows = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise MalformedAnswer(name, "has no list data of objects")
        # The API allows the rows in any order, each with its index.
        order = [row.get("index", place) for place, row in enumerate(rows)]
        if sorted(order, key=str) != sorted(range(len(rows)), key=str):
            raise MalformedAnswer(name, "its indexes are not 0 to n - 1")
        placed = dict(zip(order, rows, strict=True))
        return [placed[index].get("embedding") for index in range(len(rows))]

    return RemoteEncoder(name, config, ask)


def tei_encoder(config: RemoteEncoderConfig) -> RemoteEncoder:
    """Return an encoder at a TEI server; texts beyond its model's window are truncated there."""
    url = config.url.rstrip("/") + "/embed"
    name = f"tei:{config.model or config.url}"

    def ask(client: BlockingClient, texts: list[str]) -> list[Any]:
        answer = client.post(url, {"inputs": texts, "normalize": True, "truncate": True})
        if not isinstance(answer, list):
            raise MalformedAnswer(name, f"is {type(answer).__name__}, not a list of vectors")
        return answer

    return RemoteEncoder(name, config, ask)


def key_of(config: RemoteEncoderConfig) -> str:
    key = os.environ.get(config.api_key_env, "").strip()
    if not key:
        raise ConfigError(
            f"api_key_env: environment variable {config.api_key_env} is not set", metadata={"field": "api_key_env"}
        )
    return key
