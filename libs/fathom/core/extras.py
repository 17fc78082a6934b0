"""Extras by the modules that they bring, so that a missing module is reported with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import MappingProxyType

from fathom.core.errors import MissingExtra

# The smallest extra that brings a module, by the module's top-level name.
EXTRA_OF: Mapping[str, str] = MappingProxyType(
    {
        "nats": "bus", "minio": "s3", "urllib3": "s3", "typer": "cli", "rich": "cli", "yaml": "service",
        "structlog": "service", "prometheus_client": "service", "opentelemetry": "service", "uvloop": "service",
        "grpc_health": "service", "grpc_reflection": "service", "fastapi": "gateway", "sse_starlette": "gateway",
        "uvicorn": "gateway", "starlette": "retrieval", "duckdb": "data", "pandas": "data", "pyarrow": "data",
        "numpy": "data", "openpyxl": "data", "rapidfuzz": "data", "pypinyin": "data", "bm25s": "retrieval",
        "httpx": "retrieval", "trafilatura": "retrieval", "pypdf": "retrieval", "faiss": "dense", "torch": "torch",
        "transformers": "torch", "safetensors": "torch", "IPython": "sandbox", "nbformat": "sandbox",
        "jsonschema": "planner", "plotly": "gateway", "markdown_it": "gateway", "docx": "gateway",
        "pptx": "gateway", "dateutil": "gateway", "typst": "gateway", "manimgx_fonts_cjk": "gateway", "PIL": "gateway",
        "mcp": "mcp", "gguf": "policy", "llguidance": "policy",
        "math_verify": "math", "kubernetes": "cluster", "peft": "train", "detect_secrets": "train", "ray": "serve",
        "jwt": "service", "cryptography": "service", "sqlalchemy": "memory", "alembic": "memory", "psycopg": "postgres",
        "sqlglot": "data", "blake3": "weights", "pypdfium2": "ocr", "rapidocr": "ocr", "onnxruntime": "ocr",
    }
)  # fmt: skip


@contextmanager
def name_missing_extra(extra: str = "") -> Iterator[None]:
    """Raise ``MissingExtra`` in place of the import error of a module that an extra brings; other errors pass.

    It names ``extra``, by default the smallest one that brings the module.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRA_OF:
            raise
        raise MissingExtra(module, extra or EXTRA_OF[module]) from error


def require_modules(*modules: str) -> None:
    """Raise ``MissingExtra`` for the first of these modules that is not installed; load none of them."""
    for module in modules:
        if find_spec(module) is None:
            raise MissingExtra(module, EXTRA_OF[module])
