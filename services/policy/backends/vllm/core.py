"""Adapter of vLLM's engine, and the only module that uses its API. Written for vLLM 0.32."""

from __future__ import annotations

import importlib
import json
import os
import re
import typing
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.core.errors import CorruptData, DependencyFailed, FathomError, Internal, InvalidField
from fathom.domain.chat.messages import Sampling
from fathom.services.policy.config import VllmModel
from fathom.services.policy.model import Occupancy

if TYPE_CHECKING:
    from fathom.services.policy.backends.vllm.adapter import Adapter

WORKER = "fathom.services.policy.backends.vllm.worker.TemperedLogProbs"
GIB = 1 << 30
# A generation ends on the adapter with which it began: that of the version before is in use beside the newest. One that
# lasts longer has its adapter loaded again from those kept, since its folder may be gone by then.
ADAPTERS_IN_USE, ADAPTERS_KEPT = 2, 4
# Parameters that are named alike here and in vLLM, so that an error of vLLM can name the request's field.
SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "seed")
# vLLM refuses a schema by a plain ValueError; its text alone says that the schema is meant.
GRAMMAR = re.compile("grammar|schema|structured", re.IGNORECASE)
# Its CPU build would pin a thread to every core and starve its neighbours; nothing is ever downloaded.
ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # A forked child would hold locks of threads that it does not have, gRPC's among them.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


@dataclass(frozen=True)
class Tokens:
    """Output of one engine step: ids with log-probabilities, and the weight versions once the completion has ended."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    finish: str | None
    cached: int
    versions: tuple[int, ...] = ()


class Gauge:
    """Latest scheduler statistics of an engine, recorded by vLLM at every step."""

    def __init__(self) -> None:
        self.occupancy = Occupancy()

    def logger(self, room: int) -> type:
        """Return a stat logger class for vLLM; ``room`` is the cache's size in tokens where vLLM does not report it."""
        gauge, base = self, importlib.import_module("vllm.v1.metrics.loggers").StatLoggerBase

        class Logger(base):  # type: ignore[misc, valid-type]
            def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
                cache = vllm_config.cache_config
                self._room = (cache.num_gpu_blocks or 0) * (cache.block_size or 0) or room

            def record(self, scheduler_stats: Any = None, *args: Any, **kwargs: Any) -> None:
                if scheduler_stats is not None:
                    share = float(scheduler_stats.kv_cache_usage)
                    gauge.occupancy = Occupancy(
                        scheduler_stats.num_running_reqs,
                        scheduler_stats.num_waiting_reqs,
                        round(share * self._room),
                        share,
                    )

            def log_engine_initialized(self) -> None:
                """Do nothing."""

        return Logger


class Core:
    """One running engine. Methods raise ``FathomError``; ``DependencyFailed`` once the engine's process has died."""

    def __init__(self, llm: Any, gauge: Gauge) -> None:
        self._llm, self._gauge = llm, gauge
        self._errors: Any = importlib.import_module("vllm.v1.engine.exceptions")
        self._refused: Any = importlib.import_module("vllm.exceptions").VLLMClientError
        self._params: Any = importlib.import_module("vllm.sampling_params")

    @classmethod
    def start(cls, config: VllmModel, folder: Path, window: int) -> Core:
        """Start the engine; raise ``CorruptData`` when vLLM cannot serve the folder.

        Blocks for half a minute or more.
        """
        for name, value in {**ENVIRONMENT, "OMP_NUM_THREADS": str(config.threads)}.items():
            # Before vLLM is imported, which reads them; what the operator has set wins.
            os.environ.setdefault(name, value)
        engine_args: Any = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
        engine: Any = importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM
        gauge = Gauge()
        try:
            arguments = engine_args(**build_arguments(config, folder, window))
            llm = engine.from_engine_args(arguments, stat_loggers=[gauge.logger(config.running * window)])
        except Exception as error:  # vLLM raises what its parts raise
            raise CorruptData(str(folder), f"vllm cannot serve it: {type(error).__name__}: {error}") from error
        return cls(llm, gauge)

    async def prepare(self, version: int) -> None:
        """Install tempered log-probabilities and the version; call once, in the event loop that will generate."""
        await self._llm.collective_rpc("temper_log_probs")
        await self._llm.update_weight_version(str(version))

    @property
    def is_dead(self) -> bool:
        return bool(self._llm.errored)

    @property
    def occupancy(self) -> Occupancy:
        # Statistics come with each step, so they are old in an idle engine; the count of requests is exact.
        counted: int = self._llm.get_num_unfinished_requests()
        seen = self._gauge.occupancy
        running = max(0, counted - seen.waiting)
        return Occupancy(running, seen.waiting if counted else 0, seen.cache_tokens, seen.cache_share)

    async def generate(
        self,
        request_id: str,
        prompt: Sequence[int],
        sampling: Sampling,
        seed: int,
        end_ids: Sequence[int],
        schema: str,
        adapter: Adapter | None = None,
    ) -> AsyncGenerator[Tokens, None]:
        """Yield ids as they are sampled, with the adapter added; ``sampling.max_tokens`` must be set.

        Closing the generator aborts the request.
        """
        try:
            params = self._sampling(sampling, seed, end_ids, schema)
            given, lora = {"prompt_token_ids": list(prompt)}, to_lora_request(adapter)
            async with aclosing(self._llm.generate(given, params, request_id, lora_request=lora)) as outputs:
                async for output in outputs:
                    yield to_tokens(output)
        except FathomError:
            raise
        except Exception as error:  # vLLM raises what its parts raise
            raise self._translate_error(error) from error

    def _sampling(self, sampling: Sampling, seed: int, end_ids: Sequence[int], schema: str) -> Any:
        structured = None
        if schema:
            structured = self._params.StructuredOutputsParams(json=schema)
        return self._params.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=sampling.max_tokens,
            seed=seed,
            stop_token_ids=list(end_ids),
            # 0 asks for the sampled id's own log-probability, None for none.
            logprobs=0,
            # Text and stop strings are ours (``TextStream``), so that all engines cut alike.
            detokenize=False,
            structured_outputs=structured,
            output_kind=self._params.RequestOutputKind.DELTA,
        )

    async def score(
        self, request_id: str, ids: Sequence[int], temperature: float, adapter: Adapter | None = None
    ) -> list[float]:
        """Return log-probabilities in nats of ids by one forward pass; 0.0 for the first."""
        try:
            params = self._params.SamplingParams(
                temperature=temperature, max_tokens=1, prompt_logprobs=0, detokenize=False,
                skip_reading_prefix_cache=True,
            )  # fmt: skip
            given, lora = {"prompt_token_ids": list(ids)}, to_lora_request(adapter)
            async with aclosing(self._llm.generate(given, params, request_id, lora_request=lora)) as outputs:
                async for output in outputs:
                    # The prefix cache is skipped above: cached tokens are not computed and would have no
                    # log-probabilities.
                    found = output.prompt_logprobs
        except Exception as error:  # vLLM raises what its parts raise
            raise self._translate_error(error) from error
        return [0.0, *(float(row[token].logprob) for token, row in zip(ids[1:], found[1:], strict=True))]

    async def reload(self, folder: Path, version: int, mode: str) -> None:
        """Replace the weights.

        Running generations finish first (``mode`` "wait") or continue with the new ones ("keep").
        """
        try:
            await self._llm.pause_generation(mode=mode, clear_cache=mode != "keep")
            try:
                await self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
                await self._llm.update_weight_version(str(version))
                # What was computed with the old weights must not be the prefix of what the new ones sample.
                await self._llm.reset_prefix_cache(reset_running_requests=True)
            # Also after a failed load: the backend restarts the engine, and until then a paused one would hang its
            # callers.
            finally:
                await self._llm.resume_generation()
        except Exception as error:  # vLLM raises what its parts raise
            raise self._translate_error(error) from error

    async def add_adapter(self, adapter: Adapter) -> None:
        """Load an adapter beside those that are used; running generations go on with theirs."""
        try:
            if not await self._llm.add_lora(to_lora_request(adapter)):
                raise Internal(f"vllm has not taken the adapter {adapter.name}")
        except FathomError:
            raise
        except Exception as error:  # vLLM raises what its parts raise
            raise self._translate_error(error) from error

    def _translate_error(self, error: Exception) -> FathomError:
        if isinstance(error, self._errors.EngineDeadError):
            return DependencyFailed("vllm", "the engine's process died")
        if isinstance(error, ValueError | self._refused):
            named = getattr(error, "parameter", None)
            field = f"sampling.{named}" if named in SAMPLING else "sampling"
            if GRAMMAR.search(str(error)):
                field = "response_schema_json"
            return InvalidField(field, f"vllm refuses it: {error}")
        return Internal(f"sampling failed: {type(error).__name__}: {error}")

    def stop(self) -> None:
        self._llm.shutdown()


def build_arguments(config: VllmModel, folder: Path, window: int) -> dict[str, Any]:
    """Return the arguments of vLLM's engine."""
    structured: Any = importlib.import_module("vllm.config").StructuredOutputsConfig
    on_gpu = bool(importlib.import_module("torch").cuda.is_available())
    arguments: dict[str, Any] = {
        "model": str(folder),
        "dtype": config.dtype if config.dtype != "auto" or on_gpu else "float32",
        "max_model_len": window,
        "max_num_seqs": config.running,
        "enforce_eager": config.eager if config.eager is not None else not on_gpu,
        "enable_prefix_caching": True,
        "tensor_parallel_size": config.tensor_parallel,
        "gpu_memory_utilization": config.gpu_share,
        # Before top-k and top-p; the worker's extension divides by the temperature.
        "logprobs_mode": "raw_logprobs",
        "worker_extension_cls": WORKER,
        # With free whitespace a small model may indent until its tokens are spent.
        "structured_outputs_config": structured(backend="guidance", disable_any_whitespace=True),
        "generation_config": "vllm",  # the folder's own defaults would change what a request asks for
    }
    if not on_gpu:
        # The CPU build cannot rewind a seeded request's generator, which it does after a prompt's first chunk:
        # prompts are computed whole.
        arguments |= {"enable_chunked_prefill": False, "max_num_batched_tokens": max(window, 2048)}
    if config.lora_rank:
        ranks = typing.get_args(importlib.import_module("vllm.config.lora").MaxLoRARanks)
        arguments |= {
            "enable_lora": True,
            "max_lora_rank": min(rank for rank in ranks if rank >= config.lora_rank),
            "max_loras": ADAPTERS_IN_USE,
            "max_cpu_loras": ADAPTERS_KEPT,
        }
    if config.kv_cache_gb is not None or not on_gpu:
        arguments["kv_cache_memory_bytes"] = int((config.kv_cache_gb or 1.0) * GIB)
    return arguments


def to_lora_request(adapter: Adapter | None) -> Any:
    """Return what vLLM calls an adapter; None for none."""
    if adapter is None:
        return None
    return importlib.import_module("vllm.lora.request").LoRARequest(adapter.name, adapter.number, str(adapter.folder))


def to_tokens(output: Any) -> Tokens:
    [sample] = output.outputs
    ids = tuple(sample.token_ids)
    log_probs = tuple(float(row[token].logprob) for token, row in zip(ids, sample.logprobs or (), strict=True))
    versions = tuple(int(span.version) for span in sample.weight_versions or () if span.version.isdecimal())
    return Tokens(ids, log_probs, sample.finish_reason, output.num_cached_tokens or 0, versions)


def read_end_ids(folder: Path) -> frozenset[int]:
    """Return the token ids that end a turn, from the generation configuration or else the model configuration."""
    # The first lists all ends of a turn; config.json of a chat model often has only the end of a text.
    for name in ("generation_config.json", "config.json"):
        try:
            listed = json.loads((folder / name).read_text(encoding="utf-8")).get("eos_token_id")
        except (OSError, ValueError):
            continue
        if listed is not None:
            return frozenset(int(item) for item in (listed if isinstance(listed, list) else [listed]))
    return frozenset()
