"""Extension of vLLM's worker process: log-probabilities at the sampling temperature.

vLLM returns them either at temperature 1 ("raw") or after top-k, top-p and grammars ("processed"). A trainer recomputes
those of the full distribution at the sampling temperature, so neither fits. vLLM's worker imports this module and uses
the class below as its extension; written for vLLM 0.32.
"""

from __future__ import annotations

from typing import Any


class TemperedLogProbs:
    """Mixin whose methods ``collective_rpc`` can call on every worker."""

    model_runner: Any

    def temper_log_probs(self) -> str:
        """Patch this worker to compute tempered log-probabilities; return the class name of the patched sampler."""
        runner = self.model_runner
        sampler = runner.sampler
        tempered = Tempered(sampler, sampler.forward, runner, runner._get_prompt_logprobs_dict)
        # On the instances, since vLLM makes them itself and offers no hook. The sampler calls the first from within the
        # second, which knows the temperatures.
        sampler.compute_logprobs = tempered.compute
        sampler.forward = tempered.forward
        runner._get_prompt_logprobs_dict = tempered.of_prompts
        return type(sampler).__name__


class Tempered:
    """Log-probabilities of logits divided by the temperature of their request; 0 counts as 1."""

    def __init__(self, sampler: Any, forward: Any, runner: Any, of_prompts: Any) -> None:
        self._log_probs = type(sampler).compute_logprobs  # a static method, as is: logits to log-softmax in float32
        self._forward, self._runner, self._of_prompts = forward, runner, of_prompts
        self._temperature: Any = None
        """Temperature of the current rows: a tensor [rows, 1], a number, or None for 1."""

    def compute(self, logits: Any) -> Any:
        if self._temperature is None:
            return self._log_probs(logits)
        return self._log_probs(logits.float() / self._temperature)

    def forward(self, logits: Any, sampling_metadata: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the sampler with the temperatures of its rows set."""
        import torch

        temperature = sampling_metadata.temperature
        if temperature is not None:
            # vLLM takes anything below this for greedy.
            temperature = torch.where(temperature < 1e-5, 1.0, temperature).unsqueeze(1)
        self._temperature = temperature
        try:
            return self._forward(logits, sampling_metadata, *args, **kwargs)
        finally:
            self._temperature = None

    def of_prompts(self, hidden_states: Any, num_scheduled_tokens: Any) -> Any:
        """Compute prompt log-probabilities one request at a time, because each has its own temperature."""
        wanted: dict[str, Any] = self._runner.num_prompt_logprobs
        found: dict[str, Any] = {}
        left: dict[str, Any] = {}
        for request_id, count in list(wanted.items()):
            self._runner.num_prompt_logprobs = one = {request_id: count}
            self._temperature = self._runner.requests[request_id].sampling_params.temperature or None
            try:
                found |= self._of_prompts(hidden_states, num_scheduled_tokens)
            finally:
                self._temperature = None
            left |= one  # the runner removes a request that is through
        wanted.clear()
        wanted |= left
        self._runner.num_prompt_logprobs = wanted
        return found
