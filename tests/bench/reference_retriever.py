"""The behaviour of Search-R1's retrieval server, re-created: the baseline of ``tests.bench.retrieval``.

A FastAPI application with a synchronous handler; each request encodes its queries, searches the flat index and looks
up its documents in a list, in one of the threads that FastAPI has for such handlers. Nothing is shared between
requests, nothing is cached, FAISS keeps its own settings. Encoder and index are those of the contender.

``python -m tests.bench.reference_retriever CORPUS INDEX MODEL MODEL_DIR PORT``
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import faiss
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from fathom.encoders.choose import Encoders


class QueryRequest(BaseModel):
    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def create(corpus_path: Path, index_path: Path, model: str, model_dir: Path) -> FastAPI:
    with corpus_path.open(encoding="utf-8") as file:
        corpus = [json.loads(line) for line in file]
    index: Any = faiss.read_index(str(index_path))
    encoder = Encoders(model_dir)(model)
    app = FastAPI()

    @app.post("/retrieve")
    def retrieve(request: QueryRequest) -> dict[str, Any]:
        vectors = encoder.encode(request.queries, "query")
        scores, ids = index.search(vectors, request.topk or 3)
        result = [
            [{"document": corpus[at], "score": float(score)} for at, score in zip(row, found, strict=True)]
            for row, found in zip(ids, scores, strict=True)
        ]
        return {"result": result}

    return app


if __name__ == "__main__":
    corpus_name, index_name, model_name, models, port = sys.argv[1:]
    application = create(Path(corpus_name), Path(index_name), model_name, Path(models))
    uvicorn.run(application, port=int(port), log_level="warning")
