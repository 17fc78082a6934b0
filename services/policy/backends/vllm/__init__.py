"""The ``vllm`` backend: vLLM's AsyncLLM, on GPUs or with its CPU build."""
