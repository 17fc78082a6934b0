"""Starts Search-R1's own retrieval server, its file unchanged, on a machine without a GPU and on a port of loopback.

What such a machine needs is changed around it: moving to the GPU and half precision do nothing, and its call of
uvicorn, which has the address in the code, gets another one. ``python -m
tests.bench.retrieval.upstream_server FILE CORPUS INDEX MODEL_DIR PORT``, with the package ``datasets`` on the path.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
import uvicorn

from fathom.domain.encoders.weights import MINILM, folder_of

TOPK = 3


def main(file: str, corpus: str, index: str, models: str, port: str) -> None:
    """Run the file as ``python FILE`` would."""
    serve = uvicorn.run
    folder = str(folder_of(MINILM, Path(models)))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", pad_token="[PAD]")

    def stay(self: Any, *_: Any, **__: Any) -> Any:
        return self

    for kind in (torch.Tensor, torch.nn.Module):
        setattr(kind, "cuda", stay)  # noqa: B010 - mypy refuses to assign a method
    setattr(torch.nn.Module, "half", stay)  # noqa: B010 - as above
    # The package of the weights has no configuration of a tokenizer, only the tokenizer.
    setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: tokenizer)  # noqa: B010 - as above
    setattr(uvicorn, "run", lambda app, **_: serve(app, host="127.0.0.1", port=int(port), log_level="warning"))  # noqa: B010
    words = ["--index_path", index, "--corpus_path", corpus, "--topk", str(TOPK), "--retriever_name", "minilm"]
    sys.argv = [file, *words, "--retriever_model", folder]
    runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
