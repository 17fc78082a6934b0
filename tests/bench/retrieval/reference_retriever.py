"""The behaviour of Search-R1's retrieval server, re-created: the baseline of ``tests.bench.retrieval.retrieval``.

A FastAPI application with a synchronous handler; each request tokenises, pads and encodes its queries with the model
as transformers runs it, searches the flat index and looks up its documents in a list, in one of the threads that
FastAPI has for such handlers. Nothing is shared between requests, nothing is cached, FAISS and PyTorch keep their own
settings. Weights and index are those of the contender. With ``own`` the contender's encoder stands in the same server.

``python -m tests.bench.retrieval.reference_retriever CORPUS INDEX MODEL MODEL_DIR PORT upstream|own``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
import transformers
import uvicorn
from fastapi import FastAPI
from numpy.typing import NDArray
from pydantic import BaseModel

from fathom.domain.encoders.choose import Encoders
from fathom.domain.encoders.weights import MINILM, folder_of

MAX_TOKENS = 256
Encode = Callable[[list[str]], NDArray[np.float32]]


class QueryRequest(BaseModel):
    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def upstream(model_dir: Path) -> Encode:
    """Queries → unit vectors, by the model's mean over tokens, one padded batch."""
    folder = str(folder_of(MINILM, model_dir))
    model: Any = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokenizer: Any = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", pad_token="[PAD]")

    @torch.no_grad()
    def encode(queries: list[str]) -> NDArray[np.float32]:
        inputs = tokenizer(queries, max_length=MAX_TOKENS, padding=True, truncation=True, return_tensors="pt")
        states, mask = model(**inputs, return_dict=True).last_hidden_state, inputs["attention_mask"]
        pooled = states.masked_fill(~mask[..., None].bool(), 0.0).sum(dim=1) / mask.sum(dim=1)[..., None]
        vectors: NDArray[np.float32] = torch.nn.functional.normalize(pooled, dim=-1).numpy()
        return np.ascontiguousarray(vectors, dtype=np.float32)

    return encode


def create(corpus_path: Path, index_path: Path, encode: Encode) -> FastAPI:
    with corpus_path.open(encoding="utf-8") as file:
        corpus = [json.loads(line) for line in file]
    index: Any = faiss.read_index(str(index_path))
    app = FastAPI()

    @app.post("/retrieve")
    def retrieve(request: QueryRequest) -> dict[str, Any]:
        scores, ids = index.search(encode(request.queries), request.topk or 3)
        result = [
            [{"document": corpus[at], "score": float(score)} for at, score in zip(row, found, strict=True)]
            for row, found in zip(ids, scores, strict=True)
        ]
        return {"result": result}

    return app


if __name__ == "__main__":
    corpus_name, index_name, model_name, models, port, whose = sys.argv[1:]
    ours = Encoders(Path(models))(model_name)
    chosen = upstream(Path(models)) if whose == "upstream" else lambda queries: ours.encode(queries, "query")
    application = create(Path(corpus_name), Path(index_name), chosen)
    uvicorn.run(application, port=int(port), log_level="warning")
