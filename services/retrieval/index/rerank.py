"""Rerankers: a query and texts in, one score per text out. Used only when a request asks for it.

``CrossEncoder`` runs a local model by transformers; ``TeiReranker`` calls ``/rerank`` of a text-embeddings-inference
server, whose live access was not tried.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from fathom.core.errors import CorruptData, InvalidField, MissingExtra, NotFound
from fathom.domain.encoders.loading import LOADING
from fathom.transport.http import BlockingClient, HttpPolicy, MalformedAnswer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@runtime_checkable
class Reranker(Protocol):
    """Scores in the calling thread; thread-safe."""

    @property
    def name(self) -> str:
        """Return the name recorded with results."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return scores [texts]; higher is better. Scores are comparable within one query only.

        Raises ``InvalidField`` for an empty query, ``CorruptData`` for scores that are not finite.
        """
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


def rank_texts(reranker: Reranker, query: str, texts: Sequence[str], limit: int) -> list[tuple[int, float]]:
    """Return index and score of the ``limit`` best texts, best first; equal scores keep their order."""
    scores = reranker.score(query, texts)
    order = sorted(range(len(texts)), key=lambda index: -float(scores[index]))
    return [(index, float(scores[index])) for index in order[:limit]]


class CrossEncoder:
    """A transformers sequence classifier from a folder; one logit, or two of which the second is relevance."""

    def __init__(self, model: Path, batch: int = 16, window: int = 512, device: str = "cpu") -> None:
        """Load the model without downloading; raise ``NotFound``, ``MissingExtra`` and ``CorruptData``."""
        if not model.is_dir():
            raise NotFound("reranker model", str(model))
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtra("transformers", "rerank") from error
        self._batch, self._window, self._device = batch, window, device
        self._torch = torch
        self._lock = threading.Lock()
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model, local_files_only=True)
            classifiers = transformers.AutoModelForSequenceClassification
            with LOADING:
                loaded: Any = classifiers.from_pretrained(model, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise CorruptData(str(model), f"is no model that transformers can load: {error}") from error
        if loaded.config.num_labels not in (1, 2):
            raise CorruptData(str(model), f"has {loaded.config.num_labels} labels, not 1 or 2")
        self._model = loaded.to(
            device=device, dtype=torch.float16 if device.startswith("cuda") else torch.float32
        ).eval()
        self.name = f"cross-encoder:{model.name}"

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return logits as scores, see ``Reranker``. Texts beyond the window are cut, the query never."""
        import numpy as np

        check_not_empty("query", query)
        scores = np.empty(len(texts), np.float32)
        # Texts of like length together: little is padded.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(order), self._batch):
            chosen = order[start : start + self._batch]
            scores[chosen] = self._score_batch(query, [texts[index] for index in chosen])
        return check_finite(scores, self.name)

    def close(self) -> None:
        """Do nothing: a model in memory has no connections."""

    def _score_batch(self, query: str, texts: list[str]) -> Any:
        # A fast tokenizer keeps padding and truncation as state: two threads would disturb each other.
        with self._lock:
            batch = self._tokenizer(
                [query] * len(texts),
                texts,
                padding=True,
                truncation="only_second",
                max_length=self._window,
                return_tensors="pt",
            )
        with self._torch.inference_mode():
            logits = self._model(**batch.to(self._device)).logits.float()
        # Of two logits the difference orders as the probability of relevance does.
        relevance = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        return relevance.cpu().numpy()


class TeiReranker:
    """Client of ``/rerank`` of a TEI server."""

    def __init__(self, url: str, name: str = "", batch: int = 32, timeout_s: float = 30.0) -> None:
        """Create the client without connecting."""
        self.name = name or f"tei-rerank:{url}"
        self._url, self._batch = url.rstrip("/") + "/rerank", batch
        self._client = BlockingClient(self.name, HttpPolicy(read_s=timeout_s), timeout_s=timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return raw scores, see ``Reranker``; raise the errors of ``HttpClient.request`` too."""
        import numpy as np

        check_not_empty("query", query)
        # NaN until scored, so that a text the server left out cannot pass as a score of 0.
        scores = np.full(len(texts), np.nan, np.float32)
        for start in range(0, len(texts), self._batch):
            part = list(texts[start : start + self._batch])
            body = {"query": query, "texts": part, "raw_scores": True, "truncate": True, "return_text": False}
            for index, score in read_pairs(self._client.post(self._url, body), len(part), self.name):
                scores[start + index] = score
        return check_finite(scores, self.name)


def read_pairs(answer: Any, count: int, name: str) -> list[tuple[int, float]]:
    """Return index and score of each text; raise ``MalformedAnswer`` unless each occurs once."""
    try:
        found = [(int(row["index"]), float(row["score"])) for row in answer]
    except (TypeError, KeyError, ValueError) as error:
        raise MalformedAnswer(name, "is no list of index and score") from error
    if sorted(index for index, _ in found) != list(range(count)):
        raise MalformedAnswer(name, f"does not score each of the {count} texts once")
    return found


def check_not_empty(field: str, text: str) -> None:
    if not text.strip():
        raise InvalidField(field, "is empty")


def check_finite(scores: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    import numpy as np

    if not np.isfinite(scores).all():
        raise CorruptData(f"scores of {name}", "some are not finite")
    return scores
